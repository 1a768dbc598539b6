"""Resuming from a checkpoint with the checkpoint's weights, or not at all."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from posh_reward.errors import ConfigError
from posh_reward.training.checkpoints import newest_to_resume

if TYPE_CHECKING:
    import torch
    from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments

COMPARED = 16
"""How many tensors of a checkpoint are compared with the model's: enough to tell whether it was
loaded."""


def last_checkpoint(args: TrainingArguments) -> str | None:
    """Where to resume: the given path, for "latest" the newest checkpoint that can be, or None.

    Raises:
        ConfigError: there are checkpoints, but none has an optimizer.
    """
    resume: str | None = args.resume_from_checkpoint
    if resume != "latest":
        return resume
    newest = newest_to_resume(Path(args.output_dir))
    return None if newest is None else str(newest)


def load_weights(trainer: Trainer, checkpoint: str) -> None:
    """Loads a checkpoint's weights. Call it before ``trainer.train``, which may fail to.

    The trainer saves a Qwen2.5-VL under the hub's names (``visual...``) but looks for the current
    ones (``model.visual...``): it finds none, warns, and trains the untrained model on
    (transformers 5.23; QwenLM/Qwen3-VL#1763). ``from_pretrained`` knows both. Does nothing where
    DeepSpeed or FSDP reads its own files, or where there are only adapters.
    """
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled or not is_whole_model(checkpoint):
        return
    model: Any = trainer.model
    saved = type(model).from_pretrained(checkpoint, dtype=model.dtype)
    model.load_state_dict(saved.state_dict())
    logging.getLogger("transformers.trainer").addFilter(_is_not_about_names)


def is_whole_model(checkpoint: str) -> bool:
    """Whether a checkpoint has all of a model's weights, not just adapters or a partition."""
    folder = Path(checkpoint)
    return (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))


def _is_not_about_names(record: logging.LogRecord) -> bool:
    return "keys in the checkpoint model loaded" not in record.getMessage()


class RefuseLostWeights(TrainerCallback):  # type: ignore[misc]
    """Stops a run that was resumed from a checkpoint without the checkpoint's weights.

    For any script: ``trainer.add_callback(RefuseLostWeights())``. Where the names in a checkpoint
    are not the model's, transformers only warns; it goes on at the checkpoint's step, with its
    optimizer, and with whatever weights the model was made with.
    """

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **kwargs: Any,
    ) -> None:
        """Compares some of the checkpoint's tensors with the model's.

        Raises:
            ConfigError: they differ; on every rank.
        """
        checkpoint = _resumed(args, state)
        if checkpoint is None or model is None:
            return
        lost = lost_weights(model, checkpoint)
        if lost:
            raise ConfigError(
                f"resumed from {checkpoint.name} without its weights: {lost[0]!r} and "
                f"{len(lost) - 1} more of {COMPARED} compared are not in the model. Call "
                "posh_reward.training.resume.load_weights(trainer, checkpoint) before "
                "trainer.train(resume_from_checkpoint=checkpoint)"
            )


def _resumed(args: TrainingArguments, state: TrainerState) -> Path | None:
    """The checkpoint that this run was resumed from, if it was and holds a whole model."""
    if not state.global_step:
        return None
    given = args.resume_from_checkpoint
    folders = [Path(given)] if isinstance(given, str) else []
    folders.append(Path(args.output_dir) / f"checkpoint-{state.global_step}")
    if not any(folder.is_dir() for folder in folders):
        logging.getLogger(__name__).warning(
            "resumed at step %d from a folder that the settings do not name, so its weights cannot "
            "be compared with the model's: set resume_from_checkpoint in them",
            state.global_step,
        )
    return next((folder for folder in folders if is_whole_model(str(folder))), None)


def lost_weights(model: Any, checkpoint: Path) -> list[str]:
    """Of some of a checkpoint's tensors, the names of those whose values the model lacks.

    A tensor is looked for under every name in the model that ends like its own, so that a new
    prefix does not hide it. Parameters that are partitioned over ranks are not compared.
    """
    import torch

    own = {name: value for name, value in model.state_dict().items() if value.numel()}
    lost = []
    for name, saved in _some_tensors(checkpoint):
        there = [value for value in _namesakes(name, own) if value.shape == saved.shape]
        if own and not any(
            torch.equal(value.cpu().to(torch.float32), saved.to(torch.float32)) for value in there
        ):
            lost.append(name)
    return lost


def _namesakes(name: str, own: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """The model's tensors whose names share the longest ending with ``name``."""
    parts = name.split(".")
    for start in range(len(parts)):
        ending = ".".join(parts[start:])
        found = [v for key, v in own.items() if key == ending or key.endswith("." + ending)]
        if found:
            return found
    return []


def _some_tensors(checkpoint: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Up to ``COMPARED`` tensors, spread over a checkpoint."""
    from safetensors import safe_open

    index = checkpoint / "model.safetensors.index.json"
    if index.is_file():
        where = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    else:
        with safe_open(checkpoint / "model.safetensors", "pt") as file:
            where = dict.fromkeys(file.keys(), "model.safetensors")
    names = sorted(where)
    for name in names[:: max(len(names) // COMPARED, 1)][:COMPARED]:
        with safe_open(checkpoint / where[name], "pt") as file:
            yield name, file.get_tensor(name)
