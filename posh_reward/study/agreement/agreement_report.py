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
    read_score_column,
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

NOTE_WIDTH_COLUMNS = 100  # of a terminal
MAX_FIGURES_PER_TABLE = 5  # side by side
SIGNIFICANCE_LEVEL = 0.05  # a correlation whose p-value is not below has a question mark
MIN_IMAGES_FOR_INTERVAL = 10  # with 8, 95 % intervals cover the truth in 85 % of cases
NO_IMAGE_ERROR = (
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
    centre: bool = True  # move a correlation's resamples (``correct_bootstrap_bias``)

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


def compare_metrics(
    judgments: Judgments,
    columns: Sequence[ScoreColumn],
    figures: Sequence[Figure],
    settings: AgreementSettings,
) -> list[MetricLine]:
    """Measure each metric and compare it with the base, by default the first with scores."""
    base = _find_base(columns, settings.against)
    draws = resample_rows(judgments.groups, settings.resamples, settings.seed)
    comparison = _Comparison(judgments, list(draws))
    lines = []
    with progress_bar(f"{judgments.name}: figures", len(columns), "metric", settings.quiet) as bar:
        for column in columns:
            lines.append(comparison.measure_metric(column, base, figures))
            bar.update()
    return lines


def _find_base(columns: Sequence[ScoreColumn], against: str | None) -> ScoreColumn | None:
    """The metric to compare with: the one named, else the first that has scores."""
    names = [column.name for column in columns]
    for name in sorted(names):
        if names.count(name) > 1:
            raise InputError(f"two metrics are called {name!r}: give each its own name")
    if against is None:
        return next((column for column in columns if not column.missing), None)
    if against not in names:
        choices = ", ".join(map(repr, names))
        raise InputError(f"no metric {against!r} to compare with: use one of {choices}")
    return columns[names.index(against)]


@dataclass(frozen=True)
class _Comparison:
    """Judgments and resamples; all metrics share the resamples, so differences are paired."""

    judgments: Judgments
    draws: Sequence[Ints]
    # (Metric, figure, rows) -> ``_resample_figure``; the base's are needed for every metric.
    cache: dict[tuple[str, str, bytes], tuple[float, Floats]] = field(default_factory=dict)

    def measure_metric(
        self, column: ScoreColumn, base: ScoreColumn | None, figures: Sequence[Figure]
    ) -> MetricLine:
        if column.missing:
            return MetricLine(column.name, {}, missing=column.missing)
        cells: dict[str, Cell] = {}
        differences: dict[str, Estimate] = {}
        for figure in figures:
            cells[figure.key] = self._measure_cell(figure, column)
            if base is not None and base is not column and not base.missing:
                differences[figure.key] = self._measure_difference(figure, column, base)
        return MetricLine(column.name, cells, differences, column.failures, column.signature)

    def _measure_cell(self, figure: Figure, column: ScoreColumn) -> Cell:
        all = self._find_sample(column, figure)
        rows = np.flatnonzero(~np.isnan(all.scores + all.people))
        p = nan
        if figure.p_value is not None:
            p = figure.p_value(all.scores[rows], all.people[rows])
        value, samples = self._resample_figure(figure, all, rows)
        images = self._count_images(rows)
        found = estimate_from_resamples(value, samples, images)
        if figure.percent and value in (0, 1) and found.low == found.high:
            # If all images agree, so do all resamples, but other images may not. The exact interval
            # of a share (Clopper and Pearson): with n of n images right, a true share below
            # .025^(1/n) would give such a sample in less than 2.5 % of cases.
            least = 0.025 ** (1 / images)
            found = replace(found, low=value * least, high=value or 1 - least)
        return Cell(found, len(rows), p)

    def _measure_difference(
        self, figure: Figure, column: ScoreColumn, base: ScoreColumn
    ) -> Estimate:
        one, other = self._find_sample(column, figure), self._find_sample(base, figure)
        # Only rows that both have: otherwise a metric that fails on hard rows would gain by it.
        rows = np.flatnonzero(~np.isnan(one.people + one.scores + other.scores))
        ours, our_samples = self._resample_figure(figure, one, rows)
        theirs, their_samples = self._resample_figure(figure, other, rows)
        return estimate_from_resamples(
            ours - theirs, our_samples - their_samples, self._count_images(rows)
        )

    def _count_images(self, rows: Ints) -> int:
        return len({self.judgments.groups[row] for row in rows})

    def _find_sample(self, column: ScoreColumn, figure: Figure) -> Sample:
        scores = self.judgments.scores(column, figure.axis)
        return Sample(column.name, scores, self.judgments.people[figure.axis])

    def _resample_figure(self, figure: Figure, all: Sample, rows: Ints) -> tuple[float, Floats]:
        """Return the figure on the ``rows``, and in each resample of them (resamples,)."""
        key = all.metric, figure.key, rows.tobytes()
        if key not in self.cache:
            # Images are resampled first and rows without a score dropped afterwards, so that all
            # metrics see the same resamples and their differences stay paired.
            usable = np.zeros(len(all.people), dtype=bool)
            usable[rows] = True
            draws = [rows]
            for draw in self.draws:
                draws.append(draw[usable[draw]])
            value, *values = figure.measure(all, draws)
            samples = np.array(values, dtype=np.float64)
            if figure.centre and not figure.percent:
                samples = correct_bootstrap_bias(value, samples)
            self.cache[key] = value, samples
        return self.cache[key]


def correct_bootstrap_bias(value: float, samples: Floats) -> Floats:
    """Bias correction of the bootstrap: subtract from each resample's value the estimated bias.

    The bootstrap estimates the bias of a figure t as the mean of its values in resamples minus its
    value in the sample, b = mean(t*) - t (Efron and Tibshirani, An Introduction to the Bootstrap,
    section 10.2). Values in resamples have that bias once more than the sample has, so t* - b has
    the place of t and the spread of t*. Correlations only, hence clipped to -1 to 1.
    """
    # A correlation is about pairs of rows. Of those of 20 images, 1 in 20 is within an image; in a
    # resample it is 2 in 20, since an image that was drawn twice meets itself. Where rows of an
    # image agree better than others, as with captions by the same five models, resamples of a tau
    # of .804 gave [.805, .811], without the figure itself. The bias is the resampling's, not the
    # figure's: so we move the interval and report t itself, not t - b.
    if np.isnan(samples).all():
        return samples
    corrected: Floats = np.clip(samples + value - np.nanmean(samples), -1, 1)
    return corrected


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
    lines = []
    for row in rows:
        name = row.pop("metric")
        lines.append(PaperLine(name, {key: float(cell) for key, cell in row.items() if cell}))
    return lines


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
    columns: Sequence[ScoreColumn] = ()  # the scores behind the lines

    @property
    def table_blocks(self) -> list[tuple[str, list[Figure]]]:
        """Axes with their figures, in order, at most ``MAX_FIGURES_PER_TABLE`` a block."""
        axes: dict[str, list[Figure]] = {}
        for figure in self.figures:
            axes.setdefault(figure.axis, []).append(figure)
        blocks = []
        for axis, figures in axes.items():
            for start in range(0, len(figures), MAX_FIGURES_PER_TABLE):
                blocks.append((axis, figures[start : start + MAX_FIGURES_PER_TABLE]))
        return blocks


def score_columns(texts: Sequence[TextPair], settings: AgreementSettings) -> list[ScoreColumn]:
    """Score all texts with each metric; one that cannot run here has its remedy instead."""
    without_images = all(text.image is None for text in texts)
    for measure in settings.measures:
        if getattr(measure, "sees", False) and without_images:
            raise InputError(NO_IMAGE_ERROR.format(measure.name))
    columns = [score_texts(measure, texts, settings.quiet) for measure in settings.measures]
    columns += [read_score_column(name, texts) for name in settings.columns]
    for name, why in settings.missing:
        columns.append(ScoreColumn(name, {}, missing=why))
    return columns


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
    lines = compare_metrics(judgments, columns, figures, settings)
    check_any_row(lines, judgments.name)
    against = settings.against
    if against is None:
        against = next((line.name for line in lines if not line.missing), None)
    notes = [*notes, *describe_missing_axes(columns), *warn_of_few_images(judgments.groups)]
    return AgreementReport(
        title,
        figures,
        lines,
        notes,
        _select_paper_lines(settings.table, figures),
        settings.table,
        against,
        extra or {},
        columns,
    )


def _select_paper_lines(table: int | None, figures: Sequence[Figure]) -> list[PaperLine]:
    """The paper's values of our figures; none without the number of a table."""
    if not table:
        return []
    keys = {figure.key for figure in figures}
    lines = []
    for line in paper_table(table):
        if same := {key: value for key, value in line.figures.items() if key in keys}:
            lines.append(PaperLine(line.name, same))
    return lines


def check_any_row(lines: Sequence[MetricLine], name: str) -> None:
    """Raise ``InputError`` if no metric has a figure on any row, with the first reason."""
    full = [line for line in lines if line.cells]
    reasons: list[str] = []
    for line in full:
        if any(cell.rows for cell in line.cells.values()):
            return
        reasons += line.failures
    if full:
        why = next(iter(reasons), "no row has both a person's number and a metric's")
        raise InputError(f"{name}: nothing was scored: {why}")


def unrated_note(people: Mapping[str, Floats], number: str) -> list[str]:
    """Note how many rows lack a person's number (a label, a rating), if any."""
    counts = []
    for axis, values in people.items():
        if count := int(np.isnan(values).sum()):
            counts.append(f"{axis} {count:,}")
    if not counts:
        return []
    return [f"Rows without a {number}, left out: {', '.join(counts)}."]


def describe_missing_axes(columns: Sequence[ScoreColumn]) -> list[str]:
    """Note how many texts have an overall score, but none on an axis that others have."""
    notes = []
    for column in columns:
        if "overall" not in column.scores:
            continue
        overall = column.scores["overall"]
        for axis, scores in column.scores.items():
            missing = np.isnan(scores)
            count = int((missing & ~np.isnan(overall)).sum())
            if count and not missing.all():
                notes.append(
                    f"{column.name} has no score for {axis} of {count:,} texts, such as those in "
                    "which nothing can be wrong."
                )
    return notes


def warn_of_few_images(groups: Sequence[Hashable]) -> list[str]:
    """Warn of unreliable intervals if there are too few images to resample."""
    count = len(set(groups))
    if count >= MIN_IMAGES_FOR_INTERVAL:
        return []
    return [
        f"Intervals are too narrow for so few images ({count}): use {MIN_IMAGES_FOR_INTERVAL} or "
        "more. A single one has no interval."
    ]


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
    figures = {}
    for key, cell in line.cells.items():
        figures[key] = {**replace_nan(asdict(cell.estimate) | {"p": cell.p}), "rows": cell.rows}
    return {
        "name": line.name,
        "signature": line.signature,
        "missing": line.missing or None,
        "failures": dict(line.failures),
        "figures": figures,
        "differences": {key: replace_nan(asdict(each)) for key, each in line.differences.items()},
    }


def format_figure(figure: Figure, value: float) -> str:
    if isnan(value):
        return "-"
    if figure.percent:
        return f"{100 * value:.1f}"
    return f"{value:.3f}"


def _difference_text(figure: Figure, difference: Estimate) -> str:
    """Format a difference with sign and p-value; intervals would take too much room."""
    text = format_figure(figure, difference.value)
    if difference.value > 0:
        text = f"+{text}"
    if isnan(difference.value) or isnan(difference.p):
        return text
    return f"{text} p {difference.p:.3f}"


def _interval_text(figure: Figure, estimate: Estimate) -> str:
    text = format_figure(figure, estimate.value)
    if isnan(estimate.low):
        return text
    return f"{text} [{format_figure(figure, estimate.low)}, {format_figure(figure, estimate.high)}]"


def terminal_text(report: AgreementReport) -> str:
    """Format the whole report: figures of each axis, the paper's, and differences."""
    parts = [report.title, fill(legend_text(report), NOTE_WIDTH_COLUMNS)]
    for axis, figures in report.table_blocks:
        parts.append(align_columns(list_figure_rows(report, axis, figures)))
        parts.append(align_columns(list_difference_rows(report, figures)))
    parts.append("\n".join(list_gaps(report)))
    parts += [fill(note, NOTE_WIDTH_COLUMNS) for note in report.notes]
    return "\n\n".join(filter(None, parts))


def list_gaps(report: AgreementReport) -> list[str]:
    """Say which metrics were not measured, and which texts have no score."""
    missing, failures = [], []
    for line in report.lines:
        if line.missing:
            missing.append(f"{line.name}: not measured: {line.missing}")
        for reason, count in line.failures.items():
            failures.append(f"{line.name}: {count:,} texts have no score: {reason}")
    return missing + failures


def legend_text(report: AgreementReport) -> str:
    text = "Higher is better; 95 % intervals by bootstrap over images. "
    if any(figure.percent for figure in report.figures):
        text += "Accuracies in percent. "
    if any(figure.p_value for figure in report.figures):
        text += "A question mark: not significantly different from 0 (p of 0.05 or more). "
    return text.strip()


def list_figure_rows(
    report: AgreementReport, axis: str, figures: Sequence[Figure]
) -> list[list[str]]:
    """Table of figures, heads first; the paper's lines are below ours."""
    rows = [[axis, "rows", *(figure.name for figure in figures)]]
    for line in report.lines:
        if not line.cells:
            continue
        texts = []
        for figure in figures:
            cell = line.cells[figure.key]
            text = _interval_text(figure, cell.estimate)
            if cell.p >= SIGNIFICANCE_LEVEL:
                text += "?"
            texts.append(text)
        count = max(line.cells[figure.key].rows for figure in figures)
        rows.append([line.name, f"{count:,}", *texts])
    for paper in report.paper:
        texts = []
        for figure in figures:
            number = paper.figures.get(figure.key, nan)
            if figure.percent:  # accuracies are printed in percent there, too
                number /= 100
            texts.append(format_figure(figure, number))
        if any(figure.key in paper.figures for figure in figures):
            rows.append([f"{paper.name} (paper, Table {report.table})", "", *texts])
    return rows


def list_difference_rows(report: AgreementReport, figures: Sequence[Figure]) -> list[list[str]]:
    rows = []
    for line in report.lines:
        if line.differences:
            texts = [_difference_text(each, line.differences[each.key]) for each in figures]
            rows.append([line.name, *texts])
    if not rows:
        return []
    return [[f"minus {report.against}", *(figure.name for figure in figures)], *rows]
