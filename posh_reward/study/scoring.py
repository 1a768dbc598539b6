"""Pairs of a table -> scored rows, in order, batch by batch; what is done is not done again.

A scored row has ``id``, ``generation``, ``reference``, the scores ``mistakes``, ``omissions`` and
``overall`` (0.2 to 1; null where there is none, with a ``failure``), the number of elements on
each side, ``unparsed`` and ``signature``, and on request the ``elements``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Protocol

from posh_reward.errors import InputError, JudgeError
from posh_reward.metric.posh import PoSh
from posh_reward.study.heldout import AXES, score_columns
from posh_reward.study.journal import Row
from posh_reward.types import Scores

NUMBERS = (*AXES, "generation_elements", "reference_elements", "unparsed")
PATIENCE = 3
"""Batches in a row in which the judge failed at every pair, after which it counts as gone."""


class Sink(Protocol):
    """Where scored rows go: a ``Journal``, which keeps them, or a ``Stream``."""

    def rows(self) -> Iterator[Row]:
        """Those that it holds."""
        ...

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Takes more."""
        ...

    def discard(self) -> None:
        """Does away with those that it holds."""
        ...


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table are called; without ``id`` rows are counted from 1."""

    generation: str = "generation"
    reference: str = "reference"
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """One row to be scored."""

    id: str | int
    generation: object
    """A text; anything else has no score."""
    reference: object

    @property
    def fault(self) -> str | None:
        """Why there is nothing to score, if so."""
        for name, text in (("reference", self.reference), ("generation", self.generation)):
            if text is None or text != text:  # NaN is how data frames write nothing
                return f"the {name} is missing"
            if isinstance(text, str) and not text.strip():
                return f"the {name} is empty"
        return None

    @property
    def head(self) -> Row:
        """What a scored row repeats of it."""
        texts = {"generation": self.generation, "reference": self.reference}
        known = {key: text if isinstance(text, str) else None for key, text in texts.items()}
        return {"id": self.id, **known}


@dataclass(slots=True)
class Tally:
    """Running totals over scored rows, for a last line to people."""

    rows: int = 0
    scores: dict[str, list[float]] = field(default_factory=lambda: {axis: [] for axis in AXES})
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, row: Mapping[str, Any]) -> None:
        """Counts one more row."""
        self.rows += 1
        if row["overall"] is None:
            self.failures[row["failure"]] += 1
            return
        for axis, values in self.scores.items():
            values.append(row[axis])

    def __str__(self) -> str:
        done = len(self.scores["overall"])
        said = f"scored {done:,} of {self.rows:,} pairs"
        if done:
            means = (f"{axis} {fmean(values):.3f}" for axis, values in self.scores.items())
            said += f"; means: {', '.join(means)}"
        for reason, count in self.failures.most_common(5):
            said += f"\nno score for {count:,}: {reason}"
        others = len(self.failures) - 5
        return said + (f"\nand {others} other reasons" if others > 0 else "")


def pairs_of(rows: Iterable[Row], name: str, columns: Columns) -> list[Pair]:
    """The pairs of a table; a cell that is missing makes a pair with a fault.

    Raises:
        InputError: there are no rows, or no row has one of the columns.
    """
    pairs = []
    seen: dict[str, None] = {}
    for number, row in enumerate(rows, start=1):
        seen.update(dict.fromkeys(row))
        known = number if columns.id is None else row.get(columns.id)
        identifier = known if isinstance(known, str | int) else str(known)
        pairs.append(Pair(identifier, row.get(columns.generation), row.get(columns.reference)))
    if not pairs:
        raise InputError(f"{name} has no rows")
    for flag in ("generation", "reference", "id"):
        column = getattr(columns, flag)
        if column is not None and column not in seen:
            raise InputError(
                f"{name} has no column {column!r}, but {', '.join(map(str, seen))}: "
                f"name the right one with --{flag}"
            )
    return pairs


def check_done(
    done: Iterable[Row], pairs: Sequence[Pair], name: str, signature: str, elements: bool
) -> Iterator[Row]:
    """Passes on what an earlier run has scored, if that is how this run would begin.

    Raises:
        InputError: another signature, other rows or another choice of columns.
    """
    remedy = "write elsewhere, or start anew with --overwrite"
    for place, row in enumerate(done):
        if "signature" not in row or not row.keys() >= {"id", *AXES}:
            raise InputError(f"{name} holds rows that are no scores: write elsewhere")
        if row["signature"] != signature:
            raise InputError(
                f"{name} was scored as {row['signature']}, not as {signature}: {remedy}"
            )
        if ("elements" in row) != elements:
            raise InputError(
                f"{name} was written {'with' if 'elements' in row else 'without'} --elements: "
                f"{remedy}"
            )
        if place >= len(pairs) or any(row.get(k) != v for k, v in pairs[place].head.items()):
            raise InputError(
                f"row {place + 1} of {name} is not row {place + 1} of the input, which must "
                f"have changed: {remedy}"
            )
        yield row


def score_pairs(
    posh: PoSh, pairs: Sequence[Pair], *, batch: int, elements: bool
) -> Iterator[list[Row]]:
    """Scored rows, a batch at a time. Pairs with a fault are answered without the judge.

    Rows of batches in which the judge failed at every pair are kept back until it is seen to
    work again: those of a judge that is gone would count as done for good.

    Raises:
        JudgeError: the judge cannot work at all, or not any more.
    """
    kept_back: list[list[Row]] = []
    failed = 0
    for start in range(0, len(pairs), batch):
        some = pairs[start : start + batch]
        scores = _scores(posh, some)
        kept_back.append([scored_row(p, s, elements) for p, s in zip(some, scores, strict=True)])
        reasons = [each.failure for each in scores if each.elements]  # none: it was not asked
        if None in reasons:
            failed = 0
        elif reasons:
            failed += 1
        if failed == PATIENCE:
            raise JudgeError(
                f"it failed at every pair of {PATIENCE} batches in a row ({reasons[0]}), whose "
                "rows are not kept; if that is the pairs' fault, a greater --batch goes past them"
            )
        if not failed:
            yield from kept_back
            kept_back.clear()
    yield from kept_back


def _scores(posh: PoSh, pairs: Sequence[Pair]) -> list[Scores]:
    sound = [pair for pair in pairs if pair.fault is None]
    generations: list[Any] = [pair.generation for pair in sound]
    references: list[Any] = [pair.reference for pair in sound]
    scored = iter(posh.score(generations, references))
    return [
        next(scored)
        if pair.fault is None
        else Scores(None, None, None, posh.signature, failure=pair.fault)
        for pair in pairs
    ]


def scored_row(pair: Pair, scores: Scores, elements: bool) -> Row:
    """One row of output."""
    return {**pair.head, **score_columns(scores, elements=elements)}


def typed(row: Row) -> Row:
    """A scored row as it was before CSV made texts of everything."""
    read = dict(row)
    for column in NUMBERS:
        if isinstance(read.get(column), str):
            read[column] = float(read[column]) if read[column] else None
    if isinstance(read.get("elements"), str):
        read["elements"] = json.loads(read["elements"])
    read["failure"] = read.get("failure") or None
    return read
