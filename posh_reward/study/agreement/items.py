"""Items that metrics score, and columns of the scores that they gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf, isnan, nan
from typing import Literal, Protocol

import numpy as np

from posh_reward.errors import InputError
from posh_reward.metrics.inputs import joined_references
from posh_reward.study.rows.posh_rows import NAMES
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats
from posh_reward.types import Failure

AT_ONCE = 128
"""Pairs that a metric scores at a time."""
NO_SCORE = Failure("text", "the table has no score here")

Combine = Literal["join", "best", "mean"]
COMBINE: tuple[Combine, ...] = ("join", "best", "mean")
"""What is done with several references: one text of them all; the best score; the mean score."""

Progress = Callable[[int], None]
"""Told how many more pairs are done."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What a metric scores; equal pairs are scored once."""

    generation: str
    reference: str
    image: str | None = None
    """Path of the image, for metrics that see."""


@dataclass(frozen=True, slots=True)
class Item:
    """One text that people judged."""

    generation: str
    references: tuple[str, ...]
    image: str | None = None
    row: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    """The row that it comes from, where precomputed scores are looked up."""
    side: str = ""
    """In a row of two texts "1" or "2": what names of its own columns end in."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """One pair for each reference."""
        return tuple(Pair(self.generation, each, self.image) for each in self.references)


@dataclass(frozen=True, slots=True)
class Given:
    """What a metric gave one pair on each axis, higher is better; None where it gave nothing."""

    mistakes: float | None = None
    omissions: float | None = None
    overall: float | None = None
    failure: Failure | None = None
    """Why there is no score."""

    @classmethod
    def same(cls, value: float) -> Given:
        """One number for all axes, from metrics that have only one."""
        return cls(value, value, value)


class Measure(Protocol):
    """Any metric: POSH, a baseline, a file of scores."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    @property
    def signature(self) -> str:
        """What another run needs to reproduce its scores."""
        ...

    def score(self, pairs: Sequence[Pair]) -> list[Given]:
        """One record for each pair, in order."""
        ...


@dataclass(frozen=True)
class Column:
    """One metric's scores of all items."""

    name: str
    scores: Mapping[str, Floats]
    """Axis -> (items,) scores, higher is better; nan where there is none."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Reason -> how many items have no score for it."""
    signature: str = ""
    missing: str = ""
    """Why the metric could not work at all, with the remedy; then there are no scores."""


def absent(name: str, why: str) -> Column:
    """The column of a metric that is not installed, so that tables name it with the remedy."""
    return Column(name, {}, missing=why)


def measured(
    measure: Measure,
    items: Sequence[Item],
    combine: Combine = "join",
    progress: Progress | None = None,
) -> Column:
    """A metric's scores of all items; each distinct pair is scored once."""
    wanted = [_pairs(item, combine) for item in items]
    distinct = list(dict.fromkeys(pair for pairs in wanted for pair in pairs))
    known: dict[Pair, Given] = {}
    for some in batches(distinct):
        known.update(zip(some, measure.score(some), strict=True))
        if progress is not None:
            progress(len(some))
    given = [_combined([known[pair] for pair in pairs], combine) for pairs in wanted]
    return _column(measure.name, given, measure.signature)


def distinct_pairs(items: Sequence[Item], combine: Combine) -> int:
    """How many pairs ``measured`` will score."""
    return len({pair for item in items for pair in _pairs(item, combine)})


def batches(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    """The pairs, ``AT_ONCE`` at a time; those of one reference are next to each other."""
    ordered = sorted(pairs, key=lambda pair: pair.reference)
    for start in range(0, len(ordered), AT_ONCE):
        yield ordered[start : start + AT_ONCE]


def _pairs(item: Item, combine: Combine) -> tuple[Pair, ...]:
    if combine == "join" and len(item.references) > 1:
        return (Pair(item.generation, joined_references(item.references), item.image),)
    return item.pairs


def _combined(given: Sequence[Given], combine: Combine) -> Given:
    """One record of those for several references; one that failed fails the item."""
    if len(given) == 1:
        return given[0]
    failed = next((each for each in given if each.failure is not None), None)
    if failed is not None:
        return failed
    how = max if combine == "best" else _mean
    by_axis = [[getattr(each, axis) for each in given] for axis in NAMES]
    mistakes, omissions, overall = (None if None in v else how(v) for v in by_axis)
    return Given(mistakes, omissions, overall)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _column(name: str, given: Sequence[Given], signature: str) -> Column:
    scores = {
        axis: np.array([nan if (v := getattr(g, axis)) is None else v for g in given], dtype=float)
        for axis in NAMES
    }
    failures = Counter(str(each.failure) for each in given if each.failure is not None)
    return Column(name, scores, dict(failures), signature)


def precomputed(name: str, items: Sequence[Item]) -> Column:
    """Scores that the rows have already.

    They are in the columns ``NAME_mistakes``, ``NAME_omissions`` and ``NAME_overall``, or for all
    axes in ``NAME``; in rows of two texts each ends in 1 or 2.

    Raises:
        InputError: no row has such a column, or a cell is not a number.
    """
    given = [_from_row(name, item) for item in items]
    if all(each == Given(failure=NO_SCORE) for each in given):
        side = items[0].side if items else ""
        raise InputError(
            f"there are no scores {name!r}: the rows need a column {name + side!r}, or "
            f"{', '.join(repr(f'{name}_{axis}{side}') for axis in NAMES)}"
        )
    return _column(name, given, f"column {name}")


def _from_row(name: str, item: Item) -> Given:
    try:
        shared = number(item.row, name + item.side)
        found = {axis: number(item.row, f"{name}_{axis}{item.side}") for axis in NAMES}
    except InputError as error:
        raise InputError(f"{error}; it is the score of {item.generation[:60]!r}") from None
    if shared is None and all(value is None for value in found.values()):
        return Given(failure=NO_SCORE)
    mistakes, omissions, overall = (shared if v is None else v for v in found.values())
    return Given(mistakes, omissions, overall)


def number(row: Row | Mapping[str, object], column: str) -> float | None:
    """A cell as a number; None if it is missing, empty or NaN.

    Raises:
        InputError: it is something else.
    """
    value = row.get(column)
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool | list | dict):
            raise ValueError
        read = float(str(value))
    except ValueError:
        raise InputError(f"{column} is {str(value)[:40]!r}, not a number") from None
    if isinf(read):  # no mean, difference or correlation can be had with it
        raise InputError(f"{column} is {str(value)[:40]!r}, not a finite number")
    return None if isnan(read) else read
