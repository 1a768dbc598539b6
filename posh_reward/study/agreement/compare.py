"""Figures of many metrics on the same rows, with paired intervals, and tested against one of them.

Rows are what people said once: a pair with its label, a text with its rating. Each metric is
measured on the rows that it has scores for; two metrics are compared on those that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.agreement.items import Column
from posh_reward.study.statistics import Estimate, Floats, Ints, estimate, resampled_rows

FullMeasure = Callable[[Floats, Floats, Ints], float]
"""(Scores of all rows, people's numbers of all rows, rows to use) -> figure."""
SimpleMeasure = Callable[[Floats, Floats], float]
"""(Scores, people's numbers), row by row -> figure."""
ManyMeasure = Callable[[Floats, Floats, Sequence[Ints]], Sequence[float]]
"""``FullMeasure`` for many choices of rows."""


@dataclass(frozen=True)
class Figure:
    """One figure of a table, higher is better."""

    axis: str
    name: str
    measure: FullMeasure
    p_value: SimpleMeasure | None = None
    """Of the figure being 0."""
    many: ManyMeasure | None = None
    """The figure in each resample, where that is not ``measure`` once for each."""
    percent: bool = False
    """Shown in percent, as the paper does."""

    @property
    def key(self) -> str:
        """The column's name in the paper's tables and in JSON, such as ``"overall rho"``."""
        return f"{self.axis} {self.name}"


def head(axis: str, name: str) -> Figure:
    """The head of a column whose figures are computed elsewhere."""
    return Figure(axis, name, lambda *_: nan)


def on_rows(measure: SimpleMeasure) -> FullMeasure:
    """A measure of two lists as a measure of chosen rows."""
    return lambda scores, people, rows: measure(scores[rows], people[rows])


@dataclass(frozen=True)
class Sheet:
    """What people said, row by row."""

    name: str
    people: Mapping[str, Floats]
    """Axis -> (rows,) people's numbers; nan where they said nothing. Higher is better."""
    groups: Sequence[Hashable]
    """(rows,) the image of each: rows of one image are resampled together."""
    scores: Callable[[Column, str], Floats]
    """A metric's number of each row on an axis: the score of a text, or a difference of two."""


@dataclass(frozen=True)
class Cell:
    """One metric's figure."""

    estimate: Estimate
    rows: int
    """How many rows it rests on."""
    p: float = nan
    """SciPy's p-value of the figure being 0; nan where there is none."""


@dataclass(frozen=True)
class Line:
    """One metric's figures, by ``Figure.key``."""

    name: str
    cells: Mapping[str, Cell]
    differences: Mapping[str, Estimate] = field(default_factory=dict)
    """The metric's figure minus that of the one which all are compared with."""
    failures: Mapping[str, int] = field(default_factory=dict)
    signature: str = ""
    missing: str = ""
    """Why there are no figures, with the remedy."""


def compare(
    sheet: Sheet,
    columns: Sequence[Column],
    figures: Sequence[Figure],
    *,
    against: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
    progress: Callable[[], None] | None = None,
) -> list[Line]:
    """One line of figures for each metric.

    Args:
        sheet: what people said.
        columns: what the metrics gave.
        figures: what to measure.
        against: the metric that the others are compared with; None: the first that has scores.
        resamples: of images; 0 leaves out intervals and tests.
        seed: of the resampling.
        progress: called after each metric.

    Raises:
        InputError: there is no metric of the name ``against``, or two have the same name.
    """
    samples = Samples(list(resampled_rows(sheet.groups, resamples=resamples, seed=seed)))
    base = _base(columns, against)
    lines = []
    for column in columns:
        lines.append(_line(sheet, column, base, figures, samples))
        if progress is not None:
            progress()
    return lines


@dataclass
class Samples:
    """Figures in each resample; those of the metric that all are compared with come up often."""

    draws: Sequence[Ints]
    known: dict[tuple[str, str, bytes], Floats] = field(default_factory=dict)
    """(Metric, figure, rows that can be used) -> (resamples,) values."""

    def of(self, metric: str, figure: Figure, scores: Floats, people: Floats, rows: Ints) -> Floats:
        """(resamples,) the figure on those of ``rows`` that each resample has."""
        key = metric, figure.key, rows.tobytes()
        if key not in self.known:
            self.known[key] = self._measured(figure, scores, people, rows)
        return self.known[key]

    def _measured(self, figure: Figure, scores: Floats, people: Floats, rows: Ints) -> Floats:
        usable = np.zeros(len(people), dtype=bool)
        usable[rows] = True
        chosen = [drawn[usable[drawn]] for drawn in self.draws]
        if figure.many is not None:
            return np.asarray(figure.many(scores, people, chosen), dtype=np.float64)
        return np.array([figure.measure(scores, people, r) for r in chosen], dtype=np.float64)


def _base(columns: Sequence[Column], against: str | None) -> Column | None:
    names = [column.name for column in columns]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise InputError(f"two metrics are called {min(doubled)!r}: give each its own name")
    if against is None:
        return next((column for column in columns if not column.missing), None)
    if against not in names:
        raise InputError(
            f"there is no metric {against!r} to compare with, but {', '.join(map(repr, names))}"
        )
    return columns[names.index(against)]


def _line(
    sheet: Sheet,
    column: Column,
    base: Column | None,
    figures: Sequence[Figure],
    samples: Samples,
) -> Line:
    if column.missing:
        return Line(column.name, {}, missing=column.missing)
    cells, differences = {}, {}
    for figure in figures:
        cells[figure.key] = _cell(sheet, figure, column, samples)
        if base is not None and base is not column and not base.missing:
            differences[figure.key] = _difference(sheet, figure, (column, base), samples)
    return Line(column.name, cells, differences, column.failures, column.signature)


def _cell(sheet: Sheet, figure: Figure, column: Column, samples: Samples) -> Cell:
    people, scores = sheet.people[figure.axis], sheet.scores(column, figure.axis)
    rows = np.flatnonzero(~np.isnan(people) & ~np.isnan(scores))
    value = figure.measure(scores, people, rows)
    p = nan if figure.p_value is None else figure.p_value(scores[rows], people[rows])
    drawn = samples.of(column.name, figure, scores, people, rows)
    return Cell(estimate(value, drawn, groups=_images(sheet, rows)), len(rows), p)


def _images(sheet: Sheet, rows: Ints) -> int:
    return len({sheet.groups[row] for row in rows})


def _difference(
    sheet: Sheet, figure: Figure, columns: tuple[Column, Column], samples: Samples
) -> Estimate:
    """How much higher the first metric's figure is than the second's, where both have scores."""
    people = sheet.people[figure.axis]
    scores = [sheet.scores(column, figure.axis) for column in columns]
    rows = np.flatnonzero(~np.isnan(people + scores[0] + scores[1]))
    values = [figure.measure(each, people, rows) for each in scores]
    ours, theirs = (
        samples.of(column.name, figure, each, people, rows)
        for column, each in zip(columns, scores, strict=True)
    )
    return estimate(values[0] - values[1], ours - theirs, groups=_images(sheet, rows))
