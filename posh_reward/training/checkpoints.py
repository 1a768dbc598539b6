"""Checks of checkpoints: a kill may have truncated the newest, or other processes written it."""

from __future__ import annotations

import json
import logging
import re
import zipfile
from pathlib import Path

from posh_reward.errors import ConfigError
from posh_reward.training.processes import Processes

logger = logging.getLogger(__name__)

MODEL, OPTIMIZER = "mp_rank_00_model_states.pt", "mp_rank_00_optim_states.pt"
"""Endings of the names of DeepSpeed's files (0.19)."""


def newest_to_resume(output_dir: Path) -> Path | None:
    """Return the newest complete checkpoint with an optimizer; None without any.

    transformers' ``get_last_checkpoint`` takes the folder with the highest number, whatever is in
    it. Here a warning names each newer checkpoint that is skipped.

    Raises:
        ConfigError: there are complete checkpoints, but none has an optimizer.
    """
    without_optimizer = None
    for checkpoint in sorted(_checkpoints(output_dir), key=_step, reverse=True):
        damage = _damage(checkpoint)
        if damage is not None:
            logger.warning("%s %s: not resumed from", checkpoint, damage)
        elif _has_optimizer(checkpoint):
            return checkpoint
        else:
            logger.warning("%s has no optimizer: not resumed from", checkpoint)
            without_optimizer = checkpoint
    if without_optimizer is not None:
        raise _refusal(without_optimizer)
    return None


def check_checkpoint(checkpoint: Path) -> None:
    """Raise ConfigError unless a run can be resumed from a checkpoint that the user names."""
    latest = "name one of this run's (OUTPUT_DIR/checkpoint-N), or latest for its newest"
    if not checkpoint.is_dir():
        raise ConfigError(f"resume_from_checkpoint is {str(checkpoint)!r}, but no folder: {latest}")
    damage = _damage(checkpoint)
    if damage is not None:
        raise ConfigError(f"{checkpoint} {damage}, so it cannot be resumed from: {latest}")
    if not _has_optimizer(checkpoint):
        raise _refusal(checkpoint)


def _refusal(checkpoint: Path) -> ConfigError:
    return ConfigError(
        f"{checkpoint} has no optimizer, so a run resumed from it would not be the same "
        "run: train with save_only_model: false, or delete the checkpoints to start over"
    )


def _checkpoints(output_dir: Path) -> list[Path]:
    folders = output_dir.glob("checkpoint-*")
    return [
        each for each in folders if re.fullmatch(r"checkpoint-\d+", each.name) and each.is_dir()
    ]


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("checkpoint-"))


def _damage(checkpoint: Path) -> str | None:
    """Say what is missing or truncated; None if nothing is.

    ``trainer_state.json`` is written last (``Trainer._save_checkpoint``), so it suffices after a
    killed process. After a crash of the machine, a disk may have a later file but only part of an
    earlier one, so the others are checked too. Only their ends are read.
    """
    try:
        json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "was cut short (trainer_state.json)"
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file())
    torn = next((file.name for file in files if not is_complete(file)), None)
    if torn is not None:
        return f"was cut short ({torn})"
    # Without the scheduler transformers would silently start with a new optimizer, too.
    if (checkpoint / "optimizer.pt").is_file():
        for pattern in ("*model*.safetensors", "scheduler.pt"):
            if not any(checkpoint.glob(pattern)):
                return f"has no {pattern.replace('*', '')}"
    return None


def is_complete(file: Path) -> bool:
    """Return False if a file of tensors is truncated; True for any other file."""
    from safetensors import SafetensorError, safe_open

    if file.suffix in (".pt", ".pth"):  # zip archives, whose directory is at the end
        return zipfile.is_zipfile(file)
    if file.suffix == ".safetensors":
        try:
            with safe_open(file, "pt"):
                return True
        except SafetensorError:
            return False
    return True


def _has_optimizer(checkpoint: Path) -> bool:
    saved = ("optimizer.pt", "optimizer.bin", "optimizer_*", "global_step*")
    return any(path for pattern in saved for path in checkpoint.glob(pattern))


def deepspeed_misfit(checkpoint: Path, layout: Processes) -> str | None:
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
    models = ranks if layout.zero_stage == 3 else [""]
    names = {each + MODEL for each in models} | {each + OPTIMIZER for each in ranks}
    if states == names:
        return None
    problem = "lacks" if names - states else "also has"
    file = min(names - states or states - names)
    return (
        f"{folder} {problem} {file}: DeepSpeed reads one file per process, and this run has "
        f"{layout.processes}. Resume with as many processes as saved it, or from another checkpoint"
    )
