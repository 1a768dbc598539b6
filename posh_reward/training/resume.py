"""Resuming from a whole checkpoint, with its weights, or not at all.

A kill may have truncated the newest checkpoint, or other processes written it; and where the names
in a checkpoint are not the model's, transformers only warns and trains on with whatever weights
the model was created with.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback, TrainerState

from posh_reward.errors import ConfigError
from posh_reward.models.hub import is_complete
from posh_reward.training.run_settings import Processes
from posh_reward.training.stopping import gather_from_ranks

if TYPE_CHECKING:
    import torch
    from transformers import Trainer, TrainerControl, TrainingArguments

logger = logging.getLogger(__name__)

MODEL_STATES, OPTIMIZER_STATES = "mp_rank_00_model_states.pt", "mp_rank_00_optim_states.pt"
"""Endings of the names of DeepSpeed's files (0.19)."""
ADAPTER_FILE = "adapter_model.safetensors"
ADAPTER_INFIX = ".default."  # in the names of adapters in a PEFT model, but not in its file
MAX_COMPARED_TENSORS = 16
"""Tensors of a checkpoint that are compared with the model's; enough to see that it was loaded."""


# Which checkpoint.


def last_checkpoint(args: TrainingArguments) -> str | None:
    """Return the checkpoint to resume from, if any; for "latest" the newest usable one.

    transformers' ``get_last_checkpoint`` takes the folder with the highest number, whatever is in
    it. Here a warning names each newer checkpoint that is skipped.
    """
    resume: str | None = args.resume_from_checkpoint
    if resume != "latest":
        if resume is not None:
            _check_named(Path(resume))
        return resume
    without_optimizer = None
    for _, checkpoint in reversed(numbered_checkpoints(Path(args.output_dir))):
        damage = _find_damage(checkpoint)
        if damage is None and _has_optimizer(checkpoint):
            return str(checkpoint)
        if damage is None:
            without_optimizer = checkpoint
        logger.warning("%s %s: not resumed from", checkpoint, damage or "has no optimizer")
    if without_optimizer is not None:
        raise _no_optimizer_error(without_optimizer)
    return None


def numbered_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """Return the steps and folders of a run's checkpoints, in their order."""
    numbered = []
    for path in folder.glob("checkpoint-*"):
        step = parse_checkpoint_step(path)
        if step is not None and path.is_dir():
            numbered.append((step, path))
    return sorted(numbered)


def parse_checkpoint_step(checkpoint: Path) -> int | None:
    """Return the step in the name of a checkpoint's folder; None of other names."""
    match = re.fullmatch(r"checkpoint-(\d+)", checkpoint.name)
    return int(match[1]) if match else None


def _check_named(checkpoint: Path) -> None:
    """Raise ConfigError unless a run can be resumed from a checkpoint that the user names."""
    latest = "name one of this run's (OUTPUT_DIR/checkpoint-N), or latest for its newest"
    if not checkpoint.is_dir():
        raise ConfigError(f"resume_from_checkpoint is {str(checkpoint)!r}, but no folder: {latest}")
    damage = _find_damage(checkpoint)
    if damage is not None:
        raise ConfigError(f"{checkpoint} {damage}, so it cannot be resumed from: {latest}")
    if not _has_optimizer(checkpoint):
        raise _no_optimizer_error(checkpoint)


def _no_optimizer_error(checkpoint: Path) -> ConfigError:
    return ConfigError(
        f"{checkpoint} has no optimizer, so a run resumed from it would not be the same "
        "run: train with save_only_model: false, or delete the checkpoints to start over"
    )


def _has_optimizer(checkpoint: Path) -> bool:
    saved = ("optimizer.pt", "optimizer.bin", "optimizer_*", "global_step*")
    return any(path for pattern in saved for path in checkpoint.glob(pattern))


def _find_damage(checkpoint: Path) -> str | None:
    """Describe what is missing or truncated; None if nothing is.

    ``trainer_state.json`` is written last (``Trainer._save_checkpoint``), so it suffices after a
    killed process. After a crash of the machine, a disk may have a later file but only part of an
    earlier one, so the others are checked too. Only their ends are read.
    """
    try:
        json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "was cut short (trainer_state.json)"
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file())
    for file in files:
        if not is_complete(file):
            return f"was cut short ({file.name})"
    # Without the scheduler transformers would silently start with a new optimizer, too.
    if (checkpoint / "optimizer.pt").is_file():
        for pattern in ("*model*.safetensors", "scheduler.pt"):
            if not any(checkpoint.glob(pattern)):
                return f"has no {pattern.replace('*', '')}"
    return None


def find_deepspeed_mismatch(checkpoint: Path, layout: Processes) -> str | None:
    """Return the reason why DeepSpeed cannot load a checkpoint in these processes, if any.

    Each process reads the files that the process of its rank wrote. Where one is missing, only its
    reader fails, in an assertion, and the others lose their connection to it.
    """
    if (checkpoint / "latest_universal").is_file():  # converted to load in any number of processes
        return None
    latest = checkpoint / "latest"
    if not latest.is_file():
        return f"{checkpoint} has no file 'latest', which names the folder of DeepSpeed's states"
    folder = checkpoint / latest.read_text(encoding="utf-8").strip()
    states = {file.name.removeprefix("bf16_") for file in folder.glob("*_states.pt")}
    ranks = [f"zero_pp_rank_{rank}_" for rank in range(layout.processes)]
    names = {rank + OPTIMIZER_STATES for rank in ranks}
    if layout.zero_stage == 3:
        names |= {rank + MODEL_STATES for rank in ranks}
    else:
        names.add(MODEL_STATES)
    if states == names:
        return None
    problem = "lacks" if names - states else "also has"
    file = min(names - states or states - names)
    return (
        f"{folder} {problem} {file}: DeepSpeed reads one file per process, and this run has "
        f"{layout.processes}. Resume with as many processes as saved it, or from another checkpoint"
    )


# Its weights.


def load_weights(trainer: Trainer, checkpoint: str) -> None:
    """Load a checkpoint's weights, or check that ``trainer.train`` can. Call it before that.

    The trainer saves a Qwen2.5-VL under the hub's names (``visual...``) but looks for the current
    ones (``model.visual...``): it finds none, warns, and continues with the untrained model
    (transformers 5.23; QwenLM/Qwen3-VL#1763). ``from_pretrained`` knows both.

    DeepSpeed reads its own files once training begins, so with DeepSpeed this only checks them.
    With FSDP it does nothing.

    Raises:
        ConfigError: a file is missing that DeepSpeed will read, or the model's weights next to
            them, or a tensor; on every rank.
    """
    folder = Path(checkpoint)
    if trainer.is_deepspeed_enabled:
        layout = Processes.of_this_run(trainer.args)
        problem = None
        if layout.zero_stage:
            problem = find_deepspeed_mismatch(folder, layout)
        if problem is None and layout.gathers_on_save and not files_of_tensors(folder):
            problem = f"{folder} has no weights: neither model.safetensors nor an adapter's"
        raise_on_all_ranks(problem)
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        return
    model: Any = trainer.model
    if (folder / ADAPTER_FILE).is_file():
        from peft import get_peft_model_state_dict

        # PEFT would keep the initial values of an adapter that the file lacks.
        _refuse_gaps(folder, set(get_peft_model_state_dict(model)) - set(files_of_tensors(folder)))
        trainer._load_from_checkpoint(checkpoint)
        return
    # A second copy in memory for a moment. transformers would fill a gap with random values.
    saved, info = type(model).from_pretrained(
        checkpoint, dtype=model.dtype, output_loading_info=True
    )
    _refuse_gaps(folder, info["missing_keys"])
    model.load_state_dict(saved.state_dict())
    trainer._load_from_checkpoint = _LoadedOnce(checkpoint, trainer._load_from_checkpoint)


@dataclass(frozen=True)
class _LoadedOnce:
    """``Trainer._load_from_checkpoint``, which leaves a checkpoint alone that is loaded already."""

    checkpoint: str
    load: Callable[..., None]

    def __call__(self, checkpoint: str, *args: Any) -> None:
        if checkpoint != self.checkpoint:
            self.load(checkpoint, *args)


def load_best_by_any_name(trainer: Trainer) -> None:
    """Let ``load_best_model_at_end`` load as ``load_weights`` does.

    transformers looks for the current names only, finds almost none, warns, and saves a model that
    never existed: the last weights with the few tensors whose names did not change.
    """
    load = trainer._load_best_model

    def load_by_any_name() -> None:
        if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
            load()
        else:
            load_best(trainer)

    trainer._load_best_model = load_by_any_name


def best_checkpoint(state: TrainerState, output: Path) -> Path | None:
    """Return the best checkpoint's folder, also if it is gone; None if no metric has chosen one.

    The state has its path, too, which is another one after the run's folder was moved, and is the
    only one if the run continues another folder's.
    """
    if state.best_global_step is None:
        return None
    own = output / f"checkpoint-{state.best_global_step}"
    recorded = Path(state.best_model_checkpoint or own)
    if own.is_dir() or recorded.name != own.name:
        return own
    return recorded


def load_best(trainer: Trainer) -> Path | None:
    """Load the best checkpoint, if a metric has chosen one, as ``load_weights`` does; return it.

    Raises:
        ConfigError: it is gone, or as ``load_weights``.
    """
    best = best_checkpoint(trainer.state, Path(trainer.args.output_dir))
    if best is not None:
        if not files_of_tensors(best):
            raise ConfigError(
                f"the best checkpoint, {best}, has no weights: keep it (save_total_limit of 2 or "
                "more), or train again"
            )
        load_weights(trainer, str(best))
    return best


def _refuse_gaps(checkpoint: Path, names: Collection[str]) -> None:
    """Raise ConfigError if a checkpoint lacks tensors of the model."""
    if names:
        raise ConfigError(
            f"{checkpoint} lacks {len(names)} of the model's tensors, such as {min(names)!r}: "
            "resume from another checkpoint"
        )


def raise_on_all_ranks(problem: str | None) -> None:
    """Raise ConfigError on every rank if one has a problem; every rank has to call this."""
    problems = [each for each in gather_from_ranks(problem) if each is not None]
    if problems:
        raise ConfigError(problems[0])


class RefuseLostWeights(TrainerCallback):  # type: ignore[misc]
    """Refuse a model that does not have the weights of the checkpoint that it was loaded from.

    For any script: ``trainer.add_callback(RefuseLostWeights())``.
    """

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **kwargs: Any,
    ) -> None:
        """Compare some of the checkpoint's tensors with the model's."""
        # DeepSpeed has its own files, and leaves a rank only a part of each parameter.
        if not state.global_step or model is None or Processes.of_this_run(args).zero_stage:
            return
        setting = args.resume_from_checkpoint
        folders = []
        if isinstance(setting, str):
            folders.append(Path(setting))
        folders.append(Path(args.output_dir) / f"checkpoint-{state.global_step}")
        if not any(folder.is_dir() for folder in folders):
            logger.warning(
                "resumed at step %d from a folder that the settings do not name, so its weights "
                "cannot be compared with the model's: set resume_from_checkpoint in the settings",
                state.global_step,
            )
        checkpoint = next((folder for folder in folders if files_of_tensors(folder)), None)
        begin = "trainer.train(resume_from_checkpoint=checkpoint)"
        remedy = f"load_weights(trainer, checkpoint) before {begin}"
        raise_on_all_ranks(_describe_lost_weights(model, checkpoint, "resumed from", remedy))

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **kwargs: Any,
    ) -> None:
        """Compare the model with the best checkpoint, if it is said to be loaded."""
        best = state.best_model_checkpoint
        sharded = model is None or Processes.of_this_run(args).zero_stage
        if not args.load_best_model_at_end or best is None or sharded:
            return
        remedy = "load_best_by_any_name(trainer) before trainer.train()"
        raise_on_all_ranks(
            _describe_lost_weights(model, Path(best), "the model is said to be", remedy)
        )


def _describe_lost_weights(
    model: Any, checkpoint: Path | None, claim: str, remedy: str
) -> str | None:
    """Describe which of a checkpoint's weights a model lacks, if it does."""
    if checkpoint is None:
        return None
    lost = find_lost_weights(model, checkpoint)
    if not lost:
        return None
    return (
        f"{claim} {checkpoint.name} without its weights: {lost[0]!r} and {len(lost) - 1} more of "
        f"{MAX_COMPARED_TENSORS} compared are not in the model. "
        f"Call posh_reward.training.resume.{remedy}"
    )


def find_lost_weights(model: Any, checkpoint: Path) -> list[str]:
    """Compare a sample of a checkpoint's tensors with a model; return the names of the missing.

    A tensor is compared with every one in the model whose name has the longest common ending, so
    that a new prefix does not hide it. Empty tensors are skipped.
    """
    import torch

    own = {}
    for name, value in model.state_dict().items():
        if value.numel():
            own[name.replace(ADAPTER_INFIX, ".")] = value.detach().cpu().to(torch.float32)
    if not own:
        return []
    lost = []
    for name, saved in _sample_tensors(checkpoint):
        values = find_tensors_by_ending(name, own)
        # One of them that is equal is enough: the question is only if it was loaded at all.
        if not any(torch.equal(value, saved.float()) for value in values):
            lost.append(name)
    return lost


def find_tensors_by_ending(name: str, own: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Return the model's tensors whose names share the longest ending with ``name``."""
    parts = name.split(".")
    for start in range(len(parts)):
        ending = ".".join(parts[start:])
        tensors = [value for key, value in own.items() if f".{key}".endswith(f".{ending}")]
        if tensors:
            return tensors
    return []


def _sample_tensors(checkpoint: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield up to ``MAX_COMPARED_TENSORS`` tensors, spread over a checkpoint."""
    from safetensors import safe_open

    files = files_of_tensors(checkpoint)
    names = sorted(files)
    for name in names[:: max(len(names) // MAX_COMPARED_TENSORS, 1)][:MAX_COMPARED_TENSORS]:
        with safe_open(files[name], "pt") as file:
            yield name, file.get_tensor(name)


def files_of_tensors(checkpoint: Path) -> dict[str, Path]:
    """Map each tensor of a checkpoint's model or adapter to its file."""
    from safetensors import safe_open

    index = checkpoint / "model.safetensors.index.json"
    if index.is_file():
        files = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        return {name: checkpoint / file for name, file in files.items()}
    by_name: dict[str, Path] = {}
    for path in checkpoint.glob("*model.safetensors"):
        with safe_open(path, "pt") as file:
            by_name |= dict.fromkeys(file.keys(), path)
    return by_name


# Its place in the data.


def continue_sampling(trainer: Trainer, checkpoint: str) -> None:
    """Let GRPOTrainer or RLOOTrainer draw what it would have drawn next. Call it before training.

    transformers skips the batches that the current epoch has used. But TRL's sampler draws each
    epoch's order from a generator of its own, which starts over: a run resumed in its second epoch
    would repeat the order of the first. And TRL generates at every n-th call from the start of the
    process, so it would be out of step with the batches (1.16, ``RepeatSampler``, ``_step``).
    """
    if not hasattr(trainer, "_buffered_inputs"):  # not one of the two
        return
    state = TrainerState.load_from_json(str(Path(checkpoint) / "trainer_state.json"))
    trainer._step = state.global_step * trainer.args.gradient_accumulation_steps
    make_sampler = trainer._get_train_sampler

    def advanced_sampler(*args: Any, **kwargs: Any) -> Any:
        import torch

        sampler = make_sampler(*args, **kwargs)
        if sampler.shuffle:
            for _ in range(int(state.epoch or 0)):
                torch.randperm(sampler.num_samples, generator=sampler.generator)
        return sampler

    trainer._get_train_sampler = advanced_sampler
