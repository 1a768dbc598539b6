"""Judgments by people and metrics' scores -> figures with paired intervals -> table, page, JSON.

A row is one judgment: a pair with its label, or a text with its rating. Each metric is measured on
the rows it has scores for; two metrics are compared on the rows that both have scores for.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from math import isnan, nan
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np

from posh_reward.errors import InputError
from posh_reward.process.progress import progress_bar
from posh_reward.study.agreement.metric_scores import (
    Measure,
    ScoreColumn,
    TextPair,
    column_scores,
    score_texts,
)
from posh_reward.tables.statistics import (
    Estimate,
    Floats,
    Ints,
    estimate_from_resamples,
    replace_nan,
    resample_rows,
)
from posh_reward.tables.text_tables import align_columns

WIDTH = 100  # columns of notes in a terminal
WIDEST = 5  # figures side by side in a table
SURE = 0.05  # correlations with a p-value from here on are marked with a question mark
ENOUGH = 10  # fewest images to resample: with 8, 95 % intervals cover the truth in 85 % of cases
NO_IMAGE = (
    "{} needs images, and no row has one: name the column of images with --image, or the folder "
    "of relative paths with --images"
)

SimpleMeasure = Callable[[Floats, Floats], float]
"""(Scores, people's numbers), row by row -> figure."""


class Sample(NamedTuple):
    """One metric on one axis."""

    metric: str
    scores: Floats  # (rows,)
    people: Floats  # (rows,)


RowMeasure = Callable[[Sample, Sequence[Ints]], Sequence[float]]
"""(All rows, selections of rows) -> a figure for each selection: first the rows with scores, then
those of its resamples."""


@dataclass(frozen=True)
class Figure:
    """A column of a table of figures; higher is better."""

    axis: str
    name: str
    measure: RowMeasure
    p_value: SimpleMeasure | None = None  # for the hypothesis that the figure is 0
    percent: bool = False  # printed in percent, as in the paper
    centre: bool = True  # move a correlation's resamples (``centred``)

    @property
    def key(self) -> str:
        """Column name in the paper's tables and in JSON, such as ``"overall rho"``."""
        return f"{self.axis} {self.name}"


def on_rows(measure: SimpleMeasure) -> RowMeasure:
    return lambda all, draws: [measure(all.scores[rows], all.people[rows]) for rows in draws]


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


@dataclass(frozen=True)
class AgreementSettings:
    """Metrics to measure, and how to resample."""

    measures: Sequence[Measure] = ()  # metrics that score texts, in order
    columns: Sequence[str] = ()  # existing scores in the judgments' own rows
    missing: Sequence[tuple[str, str]] = ()  # (metric, why it cannot run here and the remedy)
    against: str | None = None  # metric to compare the others with; None: the first
    resamples: int = 1000  # 0: no intervals or tests
    seed: int = 0
    table: int | None = None  # the paper's table to print below our figures
    quiet: bool = False


def compare(
    judgments: Judgments,
    columns: Sequence[ScoreColumn],
    figures: Sequence[Figure],
    settings: AgreementSettings,
) -> list[MetricLine]:
    """Measure each metric and compare it with the base, by default the first with scores."""
    names, against = [column.name for column in columns], settings.against
    if twins := {name for name in names if names.count(name) > 1}:
        raise InputError(f"two metrics are called {min(twins)!r}: give each its own name")
    if against is not None and against not in names:
        choices = ", ".join(map(repr, names))
        raise InputError(f"no metric {against!r} to compare with: use one of {choices}")
    bases = (c for c in columns if (not c.missing if against is None else c.name == against))
    base = next(bases, None)
    draws = resample_rows(judgments.groups, settings.resamples, settings.seed)
    comparison = _Comparison(judgments, list(draws))
    lines = []
    with progress_bar(f"{judgments.name}: figures", len(columns), "metric", settings.quiet) as bar:
        for column in columns:
            lines.append(comparison.line(column, base, figures))
            bar.update()
    return lines


@dataclass(frozen=True)
class _Comparison:
    """Judgments and resamples; all metrics share the resamples, so differences are paired."""

    judgments: Judgments
    draws: Sequence[Ints]
    # (Metric, figure, rows) -> ``_figures``; the base's are needed for every metric.
    cache: dict[tuple[str, str, bytes], tuple[float, Floats]] = field(default_factory=dict)

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
        all = self._sample(column, figure)
        rows = np.flatnonzero(~np.isnan(all.scores + all.people))
        p = nan if figure.p_value is None else figure.p_value(all.scores[rows], all.people[rows])
        value, samples = self._figures(figure, all, rows)
        images = self._images(rows)
        found = estimate_from_resamples(value, samples, images)
        if figure.percent and value in (0, 1) and found.low == found.high:
            # If all images agree, so do all resamples, but others may not (Clopper and Pearson).
            least = 0.025 ** (1 / images)
            found = replace(found, low=value * least, high=value or 1 - least)
        return Cell(found, len(rows), p)

    def _difference(self, figure: Figure, columns: tuple[ScoreColumn, ScoreColumn]) -> Estimate:
        # Only rows that both have: otherwise a metric that fails on hard rows would gain by it.
        both = [self._sample(column, figure) for column in columns]
        rows = np.flatnonzero(~np.isnan(both[0].people + both[0].scores + both[1].scores))
        (ours, our_samples), (theirs, their_samples) = (
            self._figures(figure, each, rows) for each in both
        )
        return estimate_from_resamples(
            ours - theirs, our_samples - their_samples, self._images(rows)
        )

    def _images(self, rows: Ints) -> int:
        return len({self.judgments.groups[row] for row in rows})

    def _sample(self, column: ScoreColumn, figure: Figure) -> Sample:
        scores = self.judgments.scores(column, figure.axis)
        return Sample(column.name, scores, self.judgments.people[figure.axis])

    def _figures(self, figure: Figure, all: Sample, rows: Ints) -> tuple[float, Floats]:
        """Return the figure on the ``rows``, and in each resample of them (resamples,)."""
        key = all.metric, figure.key, rows.tobytes()
        if key not in self.cache:
            # Images are resampled first and rows without a score dropped afterwards, so that all
            # metrics see the same resamples and their differences stay paired.
            usable = np.zeros(len(all.people), dtype=bool)
            usable[rows] = True
            draws = [rows, *(draw[usable[draw]] for draw in self.draws)]
            value, *values = figure.measure(all, draws)
            samples = np.array(values, dtype=np.float64)
            moved = figure.centre and not figure.percent
            self.cache[key] = value, centred(value, samples) if moved else samples
        return self.cache[key]


def centred(value: float, samples: Floats) -> Floats:
    """Move a correlation's values in resamples so that their mean is its value in the sample."""
    # A correlation is about pairs of rows. Of those of 20 images, 1 in 20 is within an image; in a
    # resample it is 2 in 20, since an image that was drawn twice meets itself. Where rows of an
    # image agree better than others, as with captions by the same five models, resamples of a tau
    # of .804 gave [.805, .811], without the figure itself. The spread is right, the place is not.
    if np.isnan(samples).all():
        return samples
    moved: Floats = np.clip(samples + value - np.nanmean(samples), -1, 1)
    return moved


@dataclass(frozen=True, slots=True)
class PaperLine:
    """One line of a paper's table."""

    name: str
    figures: Mapping[str, float]  # reported ones by ``Figure.key``, as printed (accuracies in %)


def paper_table(table: int) -> list[PaperLine]:
    """Read ``tables/tableN.csv``, with the numbers as printed in the paper."""
    # Table 6 lists GPT4o and GPT5 three times each. Our copy of the paper lacks the symbols for
    # their inputs (image, reference, both), so they are numbered in its order. Table 3 is a
    # selection from it, with GPT4o (3) and GPT5 (2).
    file = resources.files(__package__).joinpath(f"tables/table{table}.csv")
    rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    return [
        PaperLine(row.pop("metric"), {key: float(cell) for key, cell in row.items() if cell})
        for row in rows
    ]


@dataclass(frozen=True)
class AgreementReport:
    """Figures of several metrics for one set of judgments."""

    title: str
    figures: Sequence[Figure]
    lines: Sequence[MetricLine]
    notes: Sequence[str] = ()
    paper: Sequence[PaperLine] = ()  # the paper's values for the same figures
    table: int | None = None  # number of the paper's table
    against: str | None = None  # the metric that the others are compared with
    extra: Mapping[str, Any] = field(default_factory=dict)  # more for JSON, e.g. models' ratings

    @property
    def blocks(self) -> list[tuple[str, list[Figure]]]:
        """Axes with their figures, in order, at most ``WIDEST`` figures per block."""
        axes: dict[str, list[Figure]] = {}
        for figure in self.figures:
            axes.setdefault(figure.axis, []).append(figure)
        return [
            (axis, figures[start : start + WIDEST])
            for axis, figures in axes.items()
            for start in range(0, len(figures), WIDEST)
        ]


def score_columns(texts: Sequence[TextPair], settings: AgreementSettings) -> list[ScoreColumn]:
    """Score all texts with each metric; one that cannot run here has its remedy instead."""
    for each in settings.measures:
        if getattr(each, "sees", False) and all(text.image is None for text in texts):
            raise InputError(NO_IMAGE.format(each.name))
    columns = [score_texts(m, texts, settings.quiet) for m in settings.measures]
    columns += [column_scores(name, texts) for name in settings.columns]
    return columns + [ScoreColumn(name, {}, missing=why) for name, why in settings.missing]


def make_report(
    title: str,
    judgments: Judgments,
    columns: Sequence[ScoreColumn],
    figures: Sequence[Figure],
    settings: AgreementSettings,
    notes: Sequence[str],
    *,
    extra: Mapping[str, Any] | None = None,
) -> AgreementReport:
    """Measure every metric on the judgments.

    A warning about too few images is added to ``notes``. ``extra`` goes into the JSON.
    """
    lines = compare(judgments, columns, figures, settings)
    check_any_row(lines, judgments.name)
    keys = {figure.key for figure in figures}
    paper = [
        PaperLine(line.name, {key: value for key, value in line.figures.items() if key in keys})
        for line in (paper_table(settings.table) if settings.table else ())
    ]
    against = settings.against or next((line.name for line in lines if not line.missing), None)
    return AgreementReport(
        title,
        figures,
        lines,
        [*notes, *partial_note(columns), *few_images_note(judgments.groups)],
        [line for line in paper if line.figures],
        settings.table,
        against,
        extra or {},
    )


def check_any_row(lines: Sequence[MetricLine], name: str) -> None:
    full = [line for line in lines if line.cells]
    if full and not any(cell.rows for line in full for cell in line.cells.values()):
        reasons = [why for line in full for why in line.failures]
        raise InputError(
            f"{name}: nothing was scored: "
            + (reasons[0] if reasons else "no row has both a person's number and a metric's")
        )


def unrated_note(people: Mapping[str, Floats], number: str) -> list[str]:
    """Note how many rows lack a person's number (a label, a rating), if any."""
    counts = {axis: int(np.isnan(values).sum()) for axis, values in people.items()}
    axes = ", ".join(f"{axis} {count:,}" for axis, count in counts.items() if count)
    return [f"Rows without a {number}, left out: {axes}."] if axes else []


def partial_note(columns: Sequence[ScoreColumn]) -> list[str]:
    """Note how many texts have an overall score, but none on an axis that others have."""
    notes = []
    for column in columns:
        if "overall" not in column.scores:
            continue
        overall = column.scores["overall"]
        for axis, scores in column.scores.items():
            missing = np.isnan(scores)
            if not missing.all() and (count := int((missing & ~np.isnan(overall)).sum())):
                notes.append(
                    f"{column.name} has no score for {axis} of {count:,} texts, such as those in "
                    "which nothing can be wrong."
                )
    return notes


def few_images_note(groups: Sequence[Hashable]) -> list[str]:
    """Warn of unreliable intervals if there are fewer than ``ENOUGH`` images to resample."""
    count = len(set(groups))
    why = f"Intervals are too narrow for so few images ({count}): use {ENOUGH} or more. A single "
    return [] if count >= ENOUGH else [why + "one has no interval."]


def as_json(report: AgreementReport) -> dict[str, Any]:
    """Return the report as plain data: undefined figures are null, accuracies 0 to 1."""
    return {
        "title": report.title,
        "compared_with": report.against,
        "metrics": [_line_json(line) for line in report.lines],
        "paper": {"table": report.table, "metrics": [asdict(line) for line in report.paper]},
        "notes": list(report.notes),
        **report.extra,
    }


def _line_json(line: MetricLine) -> dict[str, Any]:
    return {
        "name": line.name,
        "signature": line.signature,
        "missing": line.missing or None,
        "failures": dict(line.failures),
        "figures": {
            key: {**replace_nan(asdict(cell.estimate) | {"p": cell.p}), "rows": cell.rows}
            for key, cell in line.cells.items()
        },
        "differences": {key: replace_nan(asdict(each)) for key, each in line.differences.items()},
    }


def _figure_text(figure: Figure, value: float) -> str:
    if isnan(value):
        return "-"
    return f"{100 * value:.1f}" if figure.percent else f"{value:.3f}"


def _difference_text(figure: Figure, difference: Estimate) -> str:
    """Format a difference with sign and p-value; intervals would take too much room."""
    if isnan(difference.value):
        return "-"
    p = "" if isnan(difference.p) else f" p {difference.p:.3f}"
    return f"{'+' if difference.value > 0 else ''}{_figure_text(figure, difference.value)}{p}"


def _interval_text(figure: Figure, estimate: Estimate) -> str:
    text = _figure_text(figure, estimate.value)
    if isnan(estimate.low):
        return text
    return f"{text} [{_figure_text(figure, estimate.low)}, {_figure_text(figure, estimate.high)}]"


def terminal_text(report: AgreementReport) -> str:
    """Format the whole report: figures of each axis, the paper's, and differences."""
    parts = [report.title, fill(_legend(report), WIDTH)]
    for axis, figures in report.blocks:
        parts += map(
            align_columns, (_figure_rows(report, axis, figures), _difference_rows(report, figures))
        )
    failures = (
        f"{line.name}: {count:,} texts have no score: {reason}"
        for line in report.lines
        for reason, count in line.failures.items()
    )
    missing = (
        f"{line.name}: not measured: {line.missing}" for line in report.lines if line.missing
    )
    parts += ["\n".join(missing), "\n".join(failures)]
    parts += [fill(note, WIDTH) for note in report.notes]
    return "\n\n".join(part for part in parts if part)


def _legend(report: AgreementReport) -> str:
    text = "Higher is better; 95 % intervals by bootstrap over images. "
    if any(figure.percent for figure in report.figures):
        text += "Accuracies in percent. "
    if any(figure.p_value for figure in report.figures):
        text += "A question mark: not significantly different from 0 (p of 0.05 or more). "
    return text.strip()


def _figure_rows(report: AgreementReport, axis: str, figures: Sequence[Figure]) -> list[list[str]]:
    """Table of figures, heads first; the paper's lines are below ours."""
    rows = [[axis, "rows", *(figure.name for figure in figures)]]
    for line in report.lines:
        if line.cells:
            cells = [line.cells[figure.key] for figure in figures]
            texts = (
                _interval_text(figure, cell.estimate) + ("?" if cell.p >= SURE else "")
                for figure, cell in zip(figures, cells, strict=True)
            )
            rows.append([line.name, f"{max(cell.rows for cell in cells):,}", *texts])
    for paper in report.paper:
        if any(figure.key in paper.figures for figure in figures):
            # Accuracies are printed in percent there, too.
            numbers = [paper.figures.get(figure.key, nan) for figure in figures]
            texts = (
                _figure_text(figure, number / 100 if figure.percent else number)
                for figure, number in zip(figures, numbers, strict=True)
            )
            rows.append([f"{paper.name} (paper, Table {report.table})", "", *texts])
    return rows


def _difference_rows(report: AgreementReport, figures: Sequence[Figure]) -> list[list[str]]:
    rows = [
        [line.name, *(_difference_text(f, line.differences[f.key]) for f in figures)]
        for line in report.lines
        if line.differences
    ]
    heads = [f"minus {report.against}", *(figure.name for figure in figures)]
    return [heads, *rows] if rows else []
