"""The folder that a run writes to, which holds one run: its checkpoints, its model, its record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from posh_reward.errors import ConfigError
from posh_reward.models.hub import MERGED_MODEL_PREFIX
from posh_reward.process.locks import keep_folder
from posh_reward.run_record import RunRecord, read_run
from posh_reward.settings import shorten
from posh_reward.training.resume import numbered_checkpoints, parse_checkpoint_step

if TYPE_CHECKING:
    from transformers import TrainingArguments

STATE_FILE = "trainer_state.json"
"""Written into a run's folder after its model, so a run that was killed before has none."""
PLACE_SETTINGS = ("output_dir", "resume_from_checkpoint")
"""Settings that do not change what is trained."""
START_OVER = "to train again, delete it or name another --output_dir"


def enter_output(args: TrainingArguments, *settings: Any) -> dict[str, Any]:
    """Keep other processes out of ``output_dir``, and a run out of another run's folder.

    Call this before loading anything.

    Args:
        args: the trainer's settings.
        settings: the recipe's own and the model's.

    Returns:
        All settings that are not the defaults.

    Raises:
        BusyError: another process trains into ``output_dir``.
        ConfigError: the folder has a run of other settings, or checkpoints or a model from which
            this run would not go on.
        SystemExit: this run is finished; status 0, after printing a line.
    """
    folder = Path(args.output_dir)
    if args.process_index == 0:
        keep_folder(folder)
    asked: dict[str, Any] = {}
    for each in (*settings, args):
        asked |= find_changed_settings(each)
    record, has_model = read_run(folder), _has_model(folder)
    step = None
    if has_model:
        step = _finished_step(folder, args, record)
    if step is not None:
        if record is not None and record.settings:
            _refuse_other_run(folder, step, record.settings, asked)
        if args.process_index == 0:
            bound = "max_steps" if args.max_steps > 0 else "num_train_epochs"
            print(
                f"{folder} is finished, at step {step}: {START_OVER}; to train it further, raise "
                f"--{bound} with --resume_from_checkpoint latest", flush=True,
            )  # fmt: skip
        raise SystemExit(0)
    _refuse_mixture(folder, args.resume_from_checkpoint)
    was_saved = (folder / STATE_FILE).is_file()
    if record is not None:
        was_saved = record.state == "finished"
    if has_model and was_saved and not numbered_checkpoints(folder):
        raise ConfigError(f"{folder} has a model, and no checkpoint to go on from: {START_OVER}")
    return asked


def _has_model(folder: Path) -> bool:
    """Return True for a model in the folder or, as of a distilled judge, in one of its own."""
    inner = (file.parent.name for file in folder.glob("*/*model*.safetensors"))
    own = any(folder.glob("*model*.safetensors"))
    return own or not all(name.startswith(("checkpoint-", MERGED_MODEL_PREFIX)) for name in inner)


def _finished_step(folder: Path, args: Any, record: RunRecord | None) -> int | None:
    """Return the step at which a run ended that went as far as these settings ask for."""
    saved = folder / STATE_FILE
    if not saved.is_file():
        return None
    state = json.loads(saved.read_text(encoding="utf-8"))
    steps, epochs = "global_step", "epoch"
    if record is not None and record.state == "finished":
        # Also if a callback ended it early, so what counts is how far it was to go.
        steps, epochs = "max_steps", "num_train_epochs"
    if args.max_steps > 0:
        far_enough = state[steps] >= args.max_steps
    else:
        far_enough = (state[epochs] or 0.0) >= args.num_train_epochs
    return int(state["global_step"]) if far_enough else None


def _refuse_other_run(
    folder: Path, step: int, before: Mapping[str, Any], asked: Mapping[str, Any]
) -> None:
    """Raise ConfigError if the run that is finished here had other settings."""
    others = find_differing_settings(before, asked)
    if others:
        values = (f"{each} {shorten(before.get(each, 'unset'))}" for each in others)
        raise ConfigError(
            f"{folder} has another run, finished at step {step}, with {', '.join(values)}: "
            f"{START_OVER}"
        )


def _refuse_mixture(folder: Path, resume: str | None) -> None:
    """Raise ConfigError if checkpoints would stay here that this run does not make or go on from.

    They would later pass for its own: as its newest, as its best, or in ``generate.py``.
    """
    if resume == "latest":
        return
    start = 0
    if resume is not None:
        start = parse_checkpoint_step(Path(resume)) or 0
    later = [path.name for step, path in numbered_checkpoints(folder) if step > start]
    if later:
        raise ConfigError(
            f"{folder} has checkpoints of an earlier run, up to {later[-1]}: "
            "--resume_from_checkpoint latest goes on from there; to start over, delete them or "
            "name another --output_dir"
        )


def find_changed_settings(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass whose values are not the defaults, but no keys."""
    plain = (str, int, float, list, dict, NoneType)
    changed = {}
    for each in fields(settings):
        value = getattr(settings, each.name)
        is_key = each.name.endswith("_token")
        if isinstance(value, plain) and value != each.default and not is_key:
            changed[each.name] = value
    return changed


def find_differing_settings(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings that two runs do not share."""
    stored = json.loads(json.dumps(dict(now), default=str))
    names = sorted((earlier.keys() | stored.keys()) - set(PLACE_SETTINGS))
    return [name for name in names if earlier.get(name) != stored.get(name)]
