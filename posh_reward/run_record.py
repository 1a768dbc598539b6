"""``run.json``: what a training run started from, was asked for, did, and saved.

It is in the run's output folder, next to the model, and as it was then in each checkpoint. Weights
are identified by ``models.hub.weights_fingerprint``, or by the commit of a model on the hub.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from posh_reward.errors import InputError
from posh_reward.process.child import find_secrets, redact
from posh_reward.process.locks import whole_file

RUN_FILE, CARD_FILE = "run.json", "README.md"
UNCHECKED_WARNING = (
    "was trained by a judge that was not checked (check_judge: false): its rewards may have meant "
    "nothing"
)
"""Said of a model whose record is ``unchecked``."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run so far; ``finished`` if it has saved its model."""

    recipe: str  # such as "sft.py"
    state: Literal["running", "stopped", "finished"]  # a killed run stays "running"
    reason: str | None  # why it ended before the steps that were asked for
    model: str  # that it started from: a folder, or a name on the hub
    model_weights: str | None  # ``models.hub.find_identity``
    data: Mapping[str, Any]  # name, split, rows, and a fingerprint of them
    prompt: str | None
    metric: Mapping[str, Any] | None  # settings as ``read_metric`` takes them; None without
    reward: str | None  # signature of the reward
    settings: Mapping[str, Any]  # of the trainer and the recipe, where not the default
    versions: Mapping[str, str]  # of this package and the libraries
    held_out: Mapping[str, Any] | None = None  # data that it is evaluated on, as ``data``
    unchecked: bool = False
    """True if a judge that was not checked gave rewards, whose grades may mean nothing: in this
    run, before it was resumed, or in the run that trained the model that it started from."""
    earlier: Sequence[Mapping[str, Any]] = ()
    """Of a run that was resumed with other values: those before, with the step ``until`` which."""
    steps_asked: int = 0
    steps: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)  # ``training.learning.Progress``
    weights: str | None = None  # fingerprint of the saved model
    checkpoint: str | None = None  # the one that the saved model equals; None if none is kept


def write_run(folder: Path, record: RunRecord) -> None:
    """Write the record of a run, without the keys of this environment.

    The model's card, if there is one, says of an ``unchecked`` run that it is one.
    """
    text = json.dumps(asdict(record), indent=2, ensure_ascii=False, default=str)
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / RUN_FILE) as file:
        file.write((redact(find_secrets(os.environ), text) + "\n").encode("utf-8"))
    card = folder / CARD_FILE
    if record.unchecked and card.is_file():  # TRL and PEFT rewrite it at each save
        said = card.read_text(encoding="utf-8")
        if UNCHECKED_WARNING not in said:
            with whole_file(card) as file:
                file.write(f"{said}\n\n**This model {UNCHECKED_WARNING}.**\n".encode())


def read_run(folder: Path) -> RunRecord | None:
    """Read the record of the run that made a folder: its output, or one of its checkpoints.

    A checkpoint without a record has its run's. None without one, as of runs before version 0.2
    and of models from elsewhere.

    Raises:
        InputError: the file is damaged.
    """
    file = folder / RUN_FILE
    if not file.is_file() and folder.name.startswith("checkpoint-"):
        file = folder.parent / RUN_FILE
    if not file.is_file():
        return None
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        names = {each.name for each in fields(RunRecord)}
        return RunRecord(**{name: value for name, value in values.items() if name in names})
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{file} is damaged ({error}): delete it, and what it said is lost"
        ) from None


def describe_progress(record: RunRecord, step: int) -> str:
    """Describe how far a run is: ``"running, step 40 of 200; started from runs/sft"``.

    ``step`` is the last that is known: the record is brought up to date at checkpoints only.
    """
    said = f"{record.state}, step {step} of {record.steps_asked}"
    if record.reason:
        said += f" ({record.reason})"
    return f"{said}; started from {record.model}"
