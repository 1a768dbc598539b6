"""Agreement of several metrics with the same judgments: paired intervals, tests against one metric.

A row is one judgment: a pair with its label, or a text with its rating. Each metric is measured on
the rows it has scores for; two metrics are compared on the rows that both have scores for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan

import numpy as np

from posh_reward.errors import InputError
from posh_reward.process.progress import progress_bar
from posh_reward.study.agreement.metric_scores import ScoreColumn
from posh_reward.study.statistics import Estimate, Floats, Ints, estimate, resampled_rows

RowMeasure = Callable[[Floats, Floats, Ints], float]
"""(Scores of all rows, people's numbers for all rows, rows to use) -> figure."""
SimpleMeasure = Callable[[Floats, Floats], float]
"""(Scores, people's numbers), row by row -> figure."""
ManyMeasure = Callable[[Floats, Floats, Sequence[Ints]], Sequence[float]]
"""``RowMeasure`` for several selections of rows at once."""


@dataclass(frozen=True)
class Figure:
    """A column of a table of figures; higher is better."""

    axis: str
    name: str
    measure: RowMeasure = lambda *_: nan  # unused where the figure is computed elsewhere
    p_value: SimpleMeasure | None = None  # for the hypothesis that the figure is 0
    many: ManyMeasure | None = None  # all resamples at once, if faster than ``measure`` on each
    percent: bool = False  # printed in percent, as in the paper

    @property
    def key(self) -> str:
        """Column name in the paper's tables and in JSON, such as ``"overall rho"``."""
        return f"{self.axis} {self.name}"


def on_rows(measure: SimpleMeasure) -> RowMeasure:
    """Turn a measure of two lists into one of selected rows."""
    return lambda scores, people, rows: measure(scores[rows], people[rows])


@dataclass(frozen=True)
class Judgments:
    """People's judgments as numbers, row by row."""

    name: str
    people: Mapping[str, Floats]  # axis -> (rows,), higher is better; nan for no judgment
    groups: Sequence[Hashable]  # (rows,) images; rows of one image are resampled together
    # (Column, axis) -> (rows,) a text's score, or the difference of two texts' scores.
    scores: Callable[[ScoreColumn, str], Floats]


@dataclass(frozen=True)
class Cell:
    """One metric's figure."""

    estimate: Estimate
    rows: int  # number of rows it is computed on
    p: float = nan  # SciPy's p-value for the figure being 0; nan if there is none


@dataclass(frozen=True)
class MetricLine:
    """One metric's figures, by ``Figure.key``."""

    name: str
    cells: Mapping[str, Cell]
    differences: Mapping[str, Estimate] = field(default_factory=dict)  # figure minus the base's
    failures: Mapping[str, int] = field(default_factory=dict)
    signature: str = ""
    missing: str = ""  # why there are no figures, and the remedy


def compare(
    judgments: Judgments,
    columns: Sequence[ScoreColumn],
    figures: Sequence[Figure],
    *,
    against: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
    quiet: bool = True,
) -> list[MetricLine]:
    """Measure each metric and compare it with the base, ``against``.

    The default base is the first metric with scores. ``resamples=0``: no intervals or tests.

    Raises:
        InputError: there is no metric ``against``, or two metrics have the same name.
    """
    names = [column.name for column in columns]
    if twins := {name for name in names if names.count(name) > 1}:
        raise InputError(f"two metrics are called {min(twins)!r}: give each its own name")
    if against is not None:
        check_against(against, names)
    bases = (c for c in columns if (not c.missing if against is None else c.name == against))
    base = next(bases, None)
    draws = list(resampled_rows(judgments.groups, resamples=resamples, seed=seed))
    comparison = _Comparison(judgments, draws)
    lines = []
    with progress_bar(f"{judgments.name}: figures", len(columns), "metric", quiet) as bar:
        for column in columns:
            lines.append(comparison.line(column, base, figures))
            bar.update()
    return lines


def check_against(against: str, names: Sequence[str]) -> None:
    """Raise ``InputError`` if no metric is called ``against``."""
    if against not in names:
        choices = ", ".join(map(repr, names))
        raise InputError(f"no metric {against!r} to compare with: use one of {choices}")


@dataclass(frozen=True)
class _Comparison:
    """Judgments and resamples; all metrics share the resamples, so differences are paired."""

    judgments: Judgments
    draws: Sequence[Ints]
    # (Metric, figure, rows) -> (resamples,) values; the base's are needed for every metric.
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
        images = self._images(rows)
        found = estimate(value, samples, groups=images)
        if figure.percent and value in (0, 1) and found.low == found.high:
            # If all images agree, so do all resamples, but others may not (Clopper and Pearson).
            least = 0.025 ** (1 / images)
            found = replace(found, low=value * least, high=value or 1 - least)
        return Cell(found, len(rows), p)

    def _difference(self, figure: Figure, columns: tuple[ScoreColumn, ScoreColumn]) -> Estimate:
        # Only rows that both have: otherwise a metric that fails on hard rows would gain by it.
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
        """(resamples,) the figure on the ``rows`` in each resample."""
        key = metric, figure.key, rows.tobytes()
        if key not in self.cache:
            # Images are resampled first and rows without a score dropped afterwards, so that all
            # metrics see the same resamples and their differences stay paired.
            usable = np.zeros(len(people), dtype=bool)
            usable[rows] = True
            draws = [draw[usable[draw]] for draw in self.draws]
            if figure.many is not None:
                values = figure.many(scores, people, draws)
            else:
                values = [figure.measure(scores, people, each) for each in draws]
            self.cache[key] = np.asarray(values, dtype=np.float64)
        return self.cache[key]
