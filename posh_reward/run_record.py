"""The record of a training run, ``run.json`` in its output folder.

It says what the run began from, what it read, how it was set, and which weights it has left. A
model that was trained from another run's model names that run's record by its fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from posh_reward.errors import InputError

RUN_FILE = "run.json"
CHECKPOINT = "checkpoint-"  # how the names of a run's checkpoints begin


@dataclass(frozen=True, slots=True)
class StartModel:
    """The model that a run began from."""

    name: str  # a folder, or a name on the hub
    fingerprint: str | None = None  # of its weights, if it is a folder
    commit: str | None = None  # of its weights, if it is on the hub
    run: str | None = None  # fingerprint of the record of the run that trained it


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The rows that a run learned from."""

    name: str
    split: str
    rows: int
    fingerprint: str | None = None  # of the rows' content and how they were prepared


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run is made of, and how far it has come."""

    recipe: str  # such as "sft"
    model: StartModel
    data: TrainingData
    settings: Mapping[str, Any]  # that differ from the defaults
    versions: Mapping[str, str]  # by package
    steps_asked: int
    prompt: str | None = None
    metric: Mapping[str, Any] = field(default_factory=dict)  # settings; empty without a metric
    reward: str | None = None  # signature: everything that its scores depend on
    status: Literal["running", "finished", "stopped"] = "running"
    reason: str | None = None  # why it stopped, or ended before the last step that was asked
    steps_made: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)  # counts and shares of the run
    weights: str | None = None  # fingerprint of the saved model; None until it is saved
    checkpoint: str | None = None  # name of the checkpoint with the same weights, if any

    @property
    def fingerprint(self) -> str:
        """Truncated SHA-256 of everything in the record."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """Return the file's text, without figures that are no number, such as means of nothing."""
        fields = asdict(self)
        fields["figures"] = {k: float(v) for k, v in self.figures.items() if math.isfinite(v)}
        return json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"

    def write(self, folder: Path) -> None:
        """Write the file into a run's folder, at once or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{RUN_FILE}.part"
        part.write_text(self.to_json(), encoding="utf-8")
        os.replace(part, folder / RUN_FILE)


def read_run(folder: Path) -> RunRecord | None:
    """Read the record of a run's folder, or of a checkpoint's run; None if there is none.

    Raises:
        InputError: the file is not such a record.
    """
    from pydantic import TypeAdapter, ValidationError

    is_checkpoint = folder.resolve().name.startswith(CHECKPOINT)
    places = (folder, folder.resolve().parent) if is_checkpoint else (folder,)
    for path in (place / RUN_FILE for place in places):
        if not path.is_file():
            continue
        try:
            return TypeAdapter(RunRecord).validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problems = error.errors() if isinstance(error, ValidationError) else ()
            where = ", ".join(".".join(map(str, each["loc"])) or each["msg"] for each in problems)
            raise InputError(
                f"{str(path)!r} is not the record of a run ({where or error}): delete it, or move "
                "it away"
            ) from None
    return None
