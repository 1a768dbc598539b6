"""Figures of many metrics on the same rows, with paired intervals, and tested against one of them.

A row is one judgment: a pair with its label, a text with its rating. Each metric is measured on the
rows that it has scores for; two metrics are compared on those that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.agreement.metric_scores import ScoreColumn
from posh_reward.study.statistics import Estimate, Floats, Ints, estimate, resampled_rows

RowMeasure = Callable[[Floats, Floats, Ints], float]
"""(Scores of all rows, people's numbers of all rows, rows to use) -> figure."""
SimpleMeasure = Callable[[Floats, Floats], float]
"""(Scores, people's numbers), row by row -> figure."""
ManyMeasure = Callable[[Floats, Floats, Sequence[Ints]], Sequence[float]]
"""``RowMeasure`` for many choices of rows."""


@dataclass(frozen=True)
class Figure:
    """One figure of a table, higher is better."""

    axis: str
    name: str
    measure: RowMeasure = lambda *_: nan  # left out where the figure is computed elsewhere
    p_value: SimpleMeasure | None = None  # of the figure being 0
    # The figure in each resample, where that is not ``measure`` once for each.
    many: ManyMeasure | None = None
    percent: bool = False  # printed in percent, as in the paper

    @property
    def key(self) -> str:
        """The column's name in the paper's tables and in JSON, such as ``"overall rho"``."""
        return f"{self.axis} {self.name}"


def on_rows(measure: SimpleMeasure) -> RowMeasure:
    """Turn a measure of two lists into one of chosen rows."""
    return lambda scores, people, rows: measure(scores[rows], people[rows])


@dataclass(frozen=True)
class Judgments:
    """People's numbers, row by row."""

    name: str
    # Axis -> (rows,) people's numbers, higher is better; nan where there is none.
    people: Mapping[str, Floats]
    # (rows,) the image of each: rows of one image are resampled together.
    groups: Sequence[Hashable]
    # A metric's number of each row on an axis: the score of a text, or a difference of two.
    scores: Callable[[ScoreColumn, str], Floats]


@dataclass(frozen=True)
class Cell:
    """One metric's figure."""

    estimate: Estimate
    rows: int  # number of rows that it rests on
    p: float = nan  # SciPy's p-value of the figure being 0; nan where there is none


@dataclass(frozen=True)
class MetricLine:
    """One metric's figures, by ``Figure.key``."""

    name: str
    cells: Mapping[str, Cell]
    # The metric's figure minus that of the metric which all are compared with.
    differences: Mapping[str, Estimate] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    signature: str = ""
    missing: str = ""  # reason why there are no figures, with the remedy


def compare(
    judgments: Judgments,
    columns: Sequence[ScoreColumn],
    figures: Sequence[Figure],
    *,
    against: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
    progress: Callable[[int], object] = lambda _: None,
) -> list[MetricLine]:
    """Measure every metric, one line of figures for each.

    ``against`` is the metric that the others are compared with; None: the first that has scores.
    Without ``resamples`` there are no intervals and tests. ``progress`` gets 1 after each metric.

    Raises:
        InputError: there is no metric of the name ``against``, or two have the same name.
    """
    draws = list(resampled_rows(judgments.groups, resamples=resamples, seed=seed))
    base = _base(columns, against)
    comparison = _Comparison(judgments, draws)
    lines = []
    for column in columns:
        lines.append(comparison.line(column, base, figures))
        progress(1)
    return lines


def _base(columns: Sequence[ScoreColumn], against: str | None) -> ScoreColumn | None:
    names = [column.name for column in columns]
    twins = {name for name in names if names.count(name) > 1}
    if twins:
        raise InputError(f"two metrics are called {min(twins)!r}: give each its own name")
    if against is None:
        return next((column for column in columns if not column.missing), None)
    if against not in names:
        raise InputError(
            f"there is no metric {against!r} to compare with, but {', '.join(map(repr, names))}"
        )
    return columns[names.index(against)]


@dataclass(frozen=True)
class _Comparison:
    """Judgments with their resamples; all metrics share the draws, so differences are paired."""

    judgments: Judgments
    draws: Sequence[Ints]
    # (Metric, figure, usable rows) -> (resamples,) values: those of the base come up often.
    cache: dict[tuple[str, str, bytes], Floats] = field(default_factory=dict)

    def line(
        self, column: ScoreColumn, base: ScoreColumn | None, figures: Sequence[Figure]
    ) -> MetricLine:
        if column.missing:
            return MetricLine(column.name, {}, missing=column.missing)
        cells = {figure.key: self._cell(figure, column) for figure in figures}
        differences = {}
        if base is not None and base is not column and not base.missing:
            differences = {each.key: self._difference(each, (column, base)) for each in figures}
        return MetricLine(column.name, cells, differences, column.failures, column.signature)

    def _cell(self, figure: Figure, column: ScoreColumn) -> Cell:
        people = self.judgments.people[figure.axis]
        scores = self.judgments.scores(column, figure.axis)
        rows = np.flatnonzero(~np.isnan(people) & ~np.isnan(scores))
        value = figure.measure(scores, people, rows)
        p = nan if figure.p_value is None else figure.p_value(scores[rows], people[rows])
        samples = self._samples(column.name, figure, scores, people, rows)
        return Cell(estimate(value, samples, groups=self._images(rows)), len(rows), p)

    def _difference(self, figure: Figure, columns: tuple[ScoreColumn, ScoreColumn]) -> Estimate:
        """The first metric's figure minus the second's."""
        # On rows that both have: a metric that fails on hard rows would otherwise gain by it.
        people = self.judgments.people[figure.axis]
        scores = [self.judgments.scores(column, figure.axis) for column in columns]
        rows = np.flatnonzero(~np.isnan(people + scores[0] + scores[1]))
        values = [figure.measure(each, people, rows) for each in scores]
        ours, theirs = (
            self._samples(column.name, figure, each, people, rows)
            for column, each in zip(columns, scores, strict=True)
        )
        return estimate(values[0] - values[1], ours - theirs, groups=self._images(rows))

    def _images(self, rows: Ints) -> int:
        return len({self.judgments.groups[row] for row in rows})

    def _samples(
        self, metric: str, figure: Figure, scores: Floats, people: Floats, rows: Ints
    ) -> Floats:
        """(resamples,) the figure on those of ``rows`` that each resample has."""
        key = metric, figure.key, rows.tobytes()
        if key not in self.cache:
            # Draws are of images; rows without a score drop out of them afterwards, so that the
            # draws of all metrics, and their differences, stay paired.
            usable = np.zeros(len(people), dtype=bool)
            usable[rows] = True
            draws = [draw[usable[draw]] for draw in self.draws]
            if figure.many is not None:
                values = figure.many(scores, people, draws)
            else:
                values = [figure.measure(scores, people, each) for each in draws]
            self.cache[key] = np.asarray(values, dtype=np.float64)
        return self.cache[key]
