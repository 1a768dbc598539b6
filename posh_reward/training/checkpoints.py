"""Checkpoints that can be resumed from: a kill may have cut the newest one short."""

from __future__ import annotations

import json
import logging
import re
import zipfile
from pathlib import Path

from posh_reward.errors import ConfigError

logger = logging.getLogger(__name__)


def newest_to_resume(output_dir: Path) -> Path | None:
    """Return the newest checkpoint with its end and its optimizer; None without any.

    transformers' ``get_last_checkpoint`` takes the folder with the highest number, whatever is in
    it. Newer checkpoints that are passed over are named in warnings.

    Raises:
        ConfigError: there are whole checkpoints, but none has an optimizer.
    """
    without_optimizer = None
    for checkpoint in sorted(checkpoints(output_dir), key=step, reverse=True):
        torn = torn_file(checkpoint)
        if torn is not None:
            logger.warning("%s was cut short (%s): it is not resumed from", checkpoint, torn)
        elif has_optimizer(checkpoint):
            return checkpoint
        else:
            logger.warning("%s has no optimizer: it is not resumed from", checkpoint)
            without_optimizer = checkpoint
    if without_optimizer is not None:
        raise ConfigError(
            f"{without_optimizer} has no optimizer, so a run resumed from it would not be the same "
            "run: train with save_only_model: false, or delete the checkpoints to start over"
        )
    return None


def checkpoints(output_dir: Path) -> list[Path]:
    """List a run's checkpoints, whole or not, in no order."""
    folders = output_dir.glob("checkpoint-*")
    return [
        each for each in folders if re.fullmatch(r"checkpoint-\d+", each.name) and each.is_dir()
    ]


def step(checkpoint: Path) -> int:
    """Return the number of steps that had been trained."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def torn_file(checkpoint: Path) -> str | None:
    """Name a file that is missing or cut short; None if there is none.

    ``trainer_state.json`` is written last (``Trainer._save_checkpoint``), so it tells of a killed
    process. The others are looked at for the sake of machines that failed: a disk may then have a
    later file, but not all of an earlier one. Only their ends are read.
    """
    try:
        json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "trainer_state.json"
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file())
    return next((file.name for file in files if not is_whole(file)), None)


def is_whole(file: Path) -> bool:
    """True if a file of tensors has its end, and for other files."""
    if file.suffix in (".pt", ".pth"):  # zip archives, whose directory is at the end
        return zipfile.is_zipfile(file)
    if file.suffix == ".safetensors":
        return _has_all_tensors(file)
    return True


def _has_all_tensors(file: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "pt"):
            return True
    except SafetensorError:
        return False


def has_optimizer(checkpoint: Path) -> bool:
    """True if the optimizer's state was saved: by the trainer, DeepSpeed or FSDP."""
    saved = ("optimizer.pt", "optimizer.bin", "optimizer_*", "global_step*")
    return any(path for pattern in saved for path in checkpoint.glob(pattern))
