"""Which weights and settings a description was made with: the column ``origin`` of rows.

It goes with a description into scores, packets and results, so that texts of different weights
never pass for one model's. Files without the column, such as those of version 0.1 or from
elsewhere, are read as before: nothing is known about them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from posh_reward.errors import InputError, safe
from posh_reward.run_record import read_run

ORIGIN = "origin"
"""Name of the column. It is a text, which all formats keep and tools can compare."""
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Origin:
    """Weights and settings behind a model's descriptions."""

    weights: str  # fingerprint or commit; ``UNKNOWN`` offline, of a model on the hub
    engine: str
    dtype: str
    max_new_tokens: str
    repetition_penalty: str
    max_pixels: str
    prompt: str  # digest of it
    model: str  # folder or name that was loaded; may have moved since

    def __str__(self) -> str:
        """Return such as ``weights:1c0f...|engine:vllm|...|model:runs/sft``."""
        return "|".join(f"{each.name}:{getattr(self, each.name)}" for each in fields(self))

    def differences(self, other: Origin) -> list[str]:
        """Describe what differs from an earlier origin, except for the folder's name."""
        return [
            f"{each.name.replace('_', ' ')} {getattr(other, each.name)} before and "
            f"{getattr(self, each.name)} now"
            for each in fields(self)
            if each.name != "model" and getattr(self, each.name) != getattr(other, each.name)
        ]


def read_origin(text: object) -> Origin | None:
    """Read a cell of the column; None for anything else, as a table of one's own may have there."""
    names = [each.name for each in fields(Origin)]
    # The model is last, since its name may contain the separator.
    parts = str(text).split("|", len(names) - 1)
    values = [part.partition(":") for part in parts]
    if [name for name, _, _ in values] != names:
        return None
    return Origin(**{name: value for name, _, value in values})


def prompt_digest(text: str) -> str:
    """Return a short digest of a prompt."""
    return sha256(text.encode()).hexdigest()[:8]


@dataclass(slots=True)
class Origins:
    """The origins of a table's descriptions, one for each model; None where no row names it."""

    by_model: dict[str, Origin | None] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row's.

        Raises:
            InputError: an earlier row of the model has other weights or settings.
        """
        model, origin = str(row.get("model") or ""), read_origin(row.get(ORIGIN))
        before = self.by_model.setdefault(model, origin)
        if before is None or origin is None:
            self.by_model[model] = before or origin
        elif differences := origin.differences(before):
            raise InputError(
                f"rows of {model!r} are of different models or settings ({'; '.join(differences)}):"
                " give them different names, or keep the rows of one"
            )

    def trained_otherwise(self, signature: str) -> Iterator[str]:
        """Yield a line for each model whose run was rewarded by another metric than scores now.

        Only runs whose folders are still here are known.
        """
        for name, origin in self.by_model.items():
            run = read_run(Path(origin.model)) if origin else None
            metric = (run.reward or "").partition("|reward:")[0] if run else ""
            if metric and metric != signature:
                yield (
                    f"note: {safe(name)} was trained on {metric}, and is scored by {signature}: "
                    f"--metric {safe(str(origin.model if origin else ''))} takes the run's metric"
                )

    def unlike(self) -> Iterator[str]:
        """Yield what was different for the models that are compared, but for their weights."""
        known = [(name, each) for name, each in self.by_model.items() if each is not None]
        for setting in fields(Origin):
            values = {name: getattr(origin, setting.name) for name, origin in known}
            if setting.name not in ("weights", "model") and len(set(values.values())) > 1:
                listed = ", ".join(f"{name} {value}" for name, value in values.items())
                yield f"the models were not described alike: {setting.name} is {safe(listed)}"
