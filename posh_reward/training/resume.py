"""Resuming from a checkpoint with the checkpoint's weights, or not at all."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from posh_reward.errors import ConfigError
from posh_reward.training import shards
from posh_reward.training.checkpoints import newest_to_resume
from posh_reward.training.processes import Processes
from posh_reward.training.stopping import of_all_ranks

if TYPE_CHECKING:
    import torch
    from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments

ADAPTER = ".default."  # a part of the names of adapters in a PEFT model that its file leaves out
SAMPLE = 16
"""Tensors of a checkpoint that are compared with the model's: enough to see that it was loaded."""


def last_checkpoint(args: TrainingArguments) -> str | None:
    """Return the checkpoint to resume from: a path, for "latest" the newest that can be, or None.

    Raises:
        ConfigError: there are checkpoints, but none has an optimizer.
    """
    resume: str | None = args.resume_from_checkpoint
    if resume != "latest":
        return resume
    newest = newest_to_resume(Path(args.output_dir))
    return None if newest is None else str(newest)


def load_weights(trainer: Trainer, checkpoint: str) -> None:
    """Load a checkpoint's weights, or make sure that ``trainer.train`` can. Call it before that.

    The trainer saves a Qwen2.5-VL under the hub's names (``visual...``) but looks for the current
    ones (``model.visual...``): it finds none, warns, and trains the untrained model on
    (transformers 5.23; QwenLM/Qwen3-VL#1763). ``from_pretrained`` knows both.

    DeepSpeed reads files of its own, under its own names, once the training begins. So under
    DeepSpeed nothing is loaded here, but those files must be there. Does nothing with FSDP, or
    where there are only adapters.

    Raises:
        ConfigError: a file is missing that DeepSpeed will read, or that the trainer saves next to
            DeepSpeed's; on every rank.
    """
    if trainer.is_deepspeed_enabled:
        _refuse_together(_incomplete(Path(checkpoint), Processes.of_this_run(trainer.args)))
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled or not is_whole_model(checkpoint):
        return
    model: Any = trainer.model
    # A second copy in memory for a moment; strict, so that a tensor that is missing is an error
    # here.
    saved = type(model).from_pretrained(checkpoint, dtype=model.dtype)
    model.load_state_dict(saved.state_dict())
    logging.getLogger("transformers.trainer").addFilter(_is_not_about_names)


def _is_not_about_names(record: logging.LogRecord) -> bool:
    # A function of the module: a logger takes the same filter only once.
    return "keys in the checkpoint model loaded" not in record.getMessage()


def _incomplete(checkpoint: Path, there: Processes) -> str | None:
    """Say why a checkpoint of DeepSpeed's cannot be resumed from; None if it can."""
    misfit = shards.misfit(checkpoint, there) if there.zero_stage else None
    if misfit is None and there.gathers_on_save and not files_of_tensors(checkpoint):
        return f"{checkpoint} has no weights: neither model.safetensors nor an adapter's"
    return misfit


def _refuse_together(complaint: str | None) -> None:
    """Raise ConfigError on every rank if one has a complaint; all of them have to call this."""
    complaints = [each for each in of_all_ranks(complaint) if each is not None]
    if complaints:
        raise ConfigError(complaints[0])


def is_whole_model(checkpoint: str) -> bool:
    """True if a checkpoint has all of a model's weights, not just adapters or a partition."""
    folder = Path(checkpoint)
    return (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))


class RefuseLostWeights(TrainerCallback):  # type: ignore[misc]
    """A refusal of runs that were resumed from a checkpoint without the checkpoint's weights.

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
        """Compare some of the checkpoint's tensors with the model's.

        Raises:
            ConfigError: they differ; on every rank.
        """
        if not state.global_step or model is None:
            return
        checkpoint = _checkpoint_of(args, state)
        lost = [] if checkpoint is None else lost_weights(model, checkpoint)
        _refuse_together(_about(lost, checkpoint, args) if checkpoint and lost else None)


def _checkpoint_of(args: TrainingArguments, state: TrainerState) -> Path | None:
    """Return the checkpoint that this run was resumed from, if it has tensors to compare."""
    setting = args.resume_from_checkpoint
    folders = [Path(setting)] if isinstance(setting, str) else []
    folders.append(Path(args.output_dir) / f"checkpoint-{state.global_step}")
    if not any(folder.is_dir() for folder in folders):
        logging.getLogger(__name__).warning(
            "resumed at step %d from a folder that the settings do not name, so its weights cannot "
            "be compared with the model's: set resume_from_checkpoint in them",
            state.global_step,
        )
    return next((folder for folder in folders if files_of_tensors(folder)), None)


def _about(lost: list[str], checkpoint: Path, args: TrainingArguments) -> str:
    if Processes.of_this_run(args).zero_stage:
        remedy = "DeepSpeed's files in it are those of another step or run: resume from another one"
    else:
        remedy = (
            "Call posh_reward.training.resume.load_weights(trainer, checkpoint) before "
            "trainer.train(resume_from_checkpoint=checkpoint)"
        )
    return (
        f"resumed from {checkpoint.name} without its weights: {lost[0]!r} and {len(lost) - 1} more "
        f"of {SAMPLE} compared are not in the model. {remedy}"
    )


def lost_weights(model: Any, checkpoint: Path) -> list[str]:
    """Name those of some of a checkpoint's tensors whose values the model lacks.

    A tensor is looked for under every name in the model that ends like its own, so that a new
    prefix does not hide it. Where DeepSpeed has spread a parameter over ranks, this rank's part is
    compared; what is empty for other reasons is not.
    """
    own = {
        name.replace(ADAPTER, "."): value
        for name, value in model.state_dict(keep_vars=True).items()
        if value.numel() or shards.is_partitioned(value)
    }
    return [
        name
        # Any namesake with these values will do: the question is only whether they were loaded at
        # all.
        for name, saved in _some_tensors(checkpoint)
        if own and not any(has_values(value, saved) for value in _namesakes(name, own))
    ]


def has_values(parameter: Any, tensor: torch.Tensor) -> bool:
    """True if a parameter has a tensor's shape and values, as far as they are on this rank."""
    import torch

    # Under ZeRO-3 a parameter is an empty tensor until a layer gathers it; its true shape is in
    # ``ds_shape``, and this rank's slice of the values in ``ds_tensor``.
    if getattr(parameter, "ds_shape", parameter.shape) != tensor.shape:
        return False
    own = parameter.detach()
    if shards.is_partitioned(parameter):
        own, tensor = shards.own_part(parameter, tensor)
    return torch.equal(own.cpu().to(torch.float32), tensor.to(torch.float32))


def _namesakes(name: str, own: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Return the model's tensors whose names share the longest ending with ``name``."""
    parts = name.split(".")
    for start in range(len(parts)):
        ending = ".".join(parts[start:])
        tensors = [v for key, v in own.items() if key == ending or key.endswith("." + ending)]
        if tensors:
            return tensors
    return []


def _some_tensors(checkpoint: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield up to ``SAMPLE`` tensors, spread over a checkpoint."""
    from safetensors import safe_open

    where = files_of_tensors(checkpoint)
    names = sorted(where)
    for name in names[:: max(len(names) // SAMPLE, 1)][:SAMPLE]:
        with safe_open(where[name], "pt") as file:
            yield name, file.get_tensor(name)


def files_of_tensors(checkpoint: Path) -> dict[str, Path]:
    """Map each tensor of a checkpoint's model or adapter to its file; empty with neither."""
    from safetensors import safe_open

    index = checkpoint / "model.safetensors.index.json"
    if index.is_file():
        files = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        return {name: checkpoint / file for name, file in files.items()}
    where: dict[str, Path] = {}
    for path in checkpoint.glob("*model.safetensors"):
        with safe_open(path, "pt") as file:
            where |= dict.fromkeys(file.keys(), path)
    return where
