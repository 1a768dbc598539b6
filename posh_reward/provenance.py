"""Origins of descriptions: the weights and settings behind them, in the column ``origin``.

It goes with a description into scores, packets and results, so that texts of different weights
never pass for one model's. Files without the column, such as those of version 0.1 or from
elsewhere, are read as before: nothing is known about them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from posh_reward.errors import InputError, escape_controls
from posh_reward.metrics.metric import SEVERAL_REFERENCES
from posh_reward.models.hub import UNKNOWN_IDENTITY, find_identity
from posh_reward.run_record import UNCHECKED_WARNING, read_run

ORIGIN_COLUMN = "origin"
"""Name of the column. It is a text, which all formats keep and tools can compare."""
UNCHECKED_MARK = "judge:unchecked|"
"""Begins the text of an origin that is ``unchecked``."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Weights and settings behind a model's descriptions."""

    weights: str  # ``models.hub.find_identity``
    config: str  # ``models.hub.config_digest``
    engine: str  # with its version, such as "vllm 0.31.0"
    dtype: str
    max_new_tokens: str
    repetition_penalty: str
    max_pixels: str
    prompt: str  # digest of it
    model: str  # folder or name that was loaded; may have moved since
    unchecked: bool = False  # as its run's record

    def __str__(self) -> str:
        """Return such as ``weights:1c0f...|engine:vllm|...|model:runs/sft``."""
        parts = [f"{each}:{getattr(self, each)}" for each in ORIGIN_FIELDS]
        return UNCHECKED_MARK * self.unchecked + "|".join(parts)

    def differences(self, other: Origin) -> list[str]:
        """Describe what differs from an earlier origin, except for the folder's name."""
        differences = []
        for each in fields(self):
            now, before = getattr(self, each.name), getattr(other, each.name)
            if each.name != "model" and now != before:
                differences.append(f"{each.name.replace('_', ' ')} {before} before and {now} now")
        return differences


ORIGIN_FIELDS = tuple(each.name for each in fields(Origin) if each.name != "unchecked")
"""Fields in the text of an origin."""


def read_origin(text: object) -> Origin | None:
    """Read a cell of the column; None for anything else, as a table of one's own may have there."""
    plain = str(text).removeprefix(UNCHECKED_MARK)
    # The model is last, since its name may contain the separator.
    values = {}
    for part in plain.split("|", len(ORIGIN_FIELDS) - 1):
        name, _, value = part.partition(":")
        values[name] = value
    if tuple(values) != ORIGIN_FIELDS:
        return None
    return Origin(**values, unchecked=plain != str(text))


def prompt_digest(text: str) -> str:
    """Return a short digest of a prompt."""
    return sha256(text.encode()).hexdigest()[:8]


@dataclass(slots=True)
class Origins:
    """Origins of a table's rows, by model, with the metric that scored them."""

    by_model: dict[str, Origin | None] = field(default_factory=dict)  # None: no row names it
    unnamed: Counter[str] = field(default_factory=Counter)  # rows without an origin, by model
    signatures: dict[str, str] = field(default_factory=dict)  # by model, of its scores

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row's.

        Raises:
            InputError: an earlier row of the model has other weights, settings or metric.
        """
        model, origin = str(row.get("model") or ""), read_origin(row.get(ORIGIN_COLUMN))
        before = self.by_model.setdefault(model, origin)
        differences = [] if origin is None or before is None else origin.differences(before)
        signature = str(row.get("signature") or "").replace(SEVERAL_REFERENCES, "")
        scored = self.signatures.setdefault(model, signature)
        if signature != scored:
            differences.append(f"scored as {scored or 'nothing'} before and {signature} now")
        if differences:
            raise InputError(
                f"rows of {model or 'one model'!r} are of different models or settings "
                f"({'; '.join(differences)}): give them different names, or keep the rows of one"
            )
        self.by_model[model] = before or origin
        self.unnamed[model] += origin is None

    @property
    def known(self) -> dict[str, Origin]:
        """The origins of models whose rows name one; those of people, for example, do not."""
        return {name: each for name, each in self.by_model.items() if each is not None}

    def lines(self) -> list[str]:
        """Return each model's origin, as text for a page."""
        return [f"{name}: {origin}" for name, origin in self.known.items()]

    def gaps(self) -> Iterator[str]:
        """Yield a line for each model of which only some rows say what made them."""
        for name, origin in self.known.items():
            if count := self.unnamed[name]:
                yield (
                    f"{count:,} rows of {escape_controls(name)} do not say which weights made "
                    f"them; the others are of {escape_controls(origin.weights)}"
                )

    def unchecked(self) -> Iterator[str]:
        """Yield a line for each model whose rewards may have meant nothing."""
        for name, origin in self.known.items():
            if origin.unchecked:
                yield escape_controls(f"{name} {UNCHECKED_WARNING}")

    def find_twins(self) -> Iterator[str]:
        """Yield a line for each model that is an earlier one under another name."""
        first: dict[str, str] = {}
        for name, origin in self.known.items():
            same = first.setdefault(str(replace(origin, model="")), name)
            if same != name and UNKNOWN_IDENTITY not in origin.weights:
                yield escape_controls(
                    f"{name} and {same} are one model: the same weights, {origin.weights}, with "
                    "the same settings"
                )

    def trained_otherwise(self, signature: str) -> Iterator[str]:
        """Yield a line for each model whose run was rewarded by another metric than scores now.

        Only runs are known whose folders are still here, with the weights that described.
        """
        for name, origin in self.known.items():
            run = read_run(Path(origin.model))
            metric = (run.reward or "").partition("|reward:")[0] if run else ""
            if metric not in ("", signature) and find_identity(origin.model) == origin.weights:
                yield escape_controls(
                    f"{name} was trained on {metric}, and is scored by {signature}: "
                    f"--metric {origin.model} takes the run's metric"
                )

    def unlike(self) -> Iterator[str]:
        """Yield what differs between the models, but for the models: ``dtype: a ..., b ...``."""
        values_by_setting = {}
        for each in ORIGIN_FIELDS:
            if each not in ("weights", "config", "model"):  # the models' own
                values = {name: getattr(origin, each) for name, origin in self.known.items()}
                values_by_setting[each.replace("_", " ")] = values
        values_by_setting["scored as"] = self.signatures
        for what, values in values_by_setting.items():
            if len(set(values.values())) > 1:
                listed = ", ".join(f"{name} {value}" for name, value in values.items())
                yield escape_controls(f"{what}: {listed}")
