"""Judgments and metrics -> a report, with the papers' figures below ours."""

from __future__ import annotations

import csv
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from math import isnan
from typing import Any

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.agreement.compare import Cell, Figure, Judgments, MetricLine, compare
from posh_reward.study.agreement.metric_scores import (
    CandidateText,
    Combine,
    Measure,
    ScoreColumn,
    column_scores,
    score_texts,
)
from posh_reward.study.statistics import Estimate, Floats

LEVEL = "95 %"
WIDEST = 5  # figures side by side in a table
SURE = 0.05  # correlations with a p-value from here on are marked with a question mark
ENOUGH = 10  # fewest groups to resample: with 8, 95 % intervals cover the truth in 86 % of cases
NO_IMAGE = (
    "{} needs images, and no row has one: name the column of images with --image, or the folder "
    "of relative paths with --images"
)


@dataclass(frozen=True)
class AgreementSettings:
    """Metrics to measure, and how to resample."""

    measures: Sequence[Measure] = ()  # metrics that score texts, in order
    columns: Sequence[str] = ()  # existing scores in the judgments' own rows
    missing: Sequence[tuple[str, str]] = ()  # (metric, why it cannot run here and the remedy)
    combine: Combine = "native"
    against: str | None = None  # metric to compare the others with; None: the first
    resamples: int = 1000
    seed: int = 0
    table: int | None = None  # the paper's table to print below our figures
    quiet: bool = False


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


def score_columns(texts: Sequence[CandidateText], settings: AgreementSettings) -> list[ScoreColumn]:
    """Score all texts with each metric; one that cannot run here has its remedy instead.

    Raises:
        InputError: a metric needs images, and no text has one.
    """
    for each in settings.measures:
        if getattr(each, "sees", False) and all(text.image is None for text in texts):
            raise InputError(NO_IMAGE.format(each.name))
    columns = [score_texts(m, texts, settings.combine, settings.quiet) for m in settings.measures]
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

    Raises:
        InputError: no metric has a score for any row.
    """
    lines = compare(
        judgments, columns, figures, against=settings.against, resamples=settings.resamples,
        seed=settings.seed, quiet=settings.quiet,
    )  # fmt: skip
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
        [*notes, *few_groups_note(judgments.groups)],
        [line for line in paper if line.figures],
        settings.table,
        against,
        extra or {},
    )


def check_any_row(lines: Sequence[MetricLine], name: str) -> None:
    """Raise ``InputError`` if no metric was measured on any row."""
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


def few_groups_note(groups: Sequence[Hashable], unit: str = "images") -> list[str]:
    """Warn of unreliable intervals if there are fewer than ``ENOUGH`` groups to resample."""
    count = len(set(groups))
    if count >= ENOUGH:
        return []
    return [
        f"Intervals are too narrow for so few {unit} ({count}): use {ENOUGH} or more. A single one "
        "has no interval."
    ]


def as_json(report: AgreementReport) -> dict[str, Any]:
    """Return the report as plain data: undefined figures are null, accuracies 0 to 1."""
    return {
        "title": report.title,
        "compared_with": report.against,
        "metrics": [_line_json(line) for line in report.lines],
        "paper": {
            "table": report.table,
            "metrics": [asdict(line) for line in report.paper],
        },
        "notes": list(report.notes),
        **report.extra,
    }


def _line_json(line: MetricLine) -> dict[str, Any]:
    def numbers(estimate: Estimate, p: float) -> dict[str, float | None]:
        values = asdict(estimate) | {"p": p}
        return {name: None if isnan(value) else value for name, value in values.items()}

    return {
        "name": line.name,
        "signature": line.signature,
        "missing": line.missing or None,
        "failures": dict(line.failures),
        "figures": {
            key: {**numbers(cell.estimate, cell.p), "rows": cell.rows}
            for key, cell in line.cells.items()
        },
        "differences": {key: numbers(each, each.p) for key, each in line.differences.items()},
    }


def figure_text(figure: Figure, value: float) -> str:
    """Format a figure for tables: accuracies in percent, the others with three decimals."""
    if isnan(value):
        return "-"
    return f"{100 * value:.1f}" if figure.percent else f"{value:.3f}"


def paper_text(figure: Figure, value: float | None) -> str:
    """Format a number of the paper as printed there."""
    if value is None:
        return "-"
    return f"{value:.1f}" if figure.percent else f"{value:.3f}"


def cell_text(figure: Figure, cell: Cell) -> str:
    """Format a figure with its interval; a question mark if it may well be 0."""
    doubtful = cell.p >= SURE  # False for nan
    return _interval_text(figure, cell.estimate) + ("?" if doubtful else "")


def difference_text(figure: Figure, difference: Estimate, *, interval: bool = True) -> str:
    """Format a difference with sign and p-value, and its interval if there is room."""
    if isnan(difference.value):
        return "-"
    sign = "+" if difference.value > 0 else ""
    text = _interval_text(figure, difference) if interval else figure_text(figure, difference.value)
    p = "" if isnan(difference.p) else f" p {difference.p:.3f}"
    return f"{sign}{text}{p}"


def _interval_text(figure: Figure, estimate: Estimate) -> str:
    text = figure_text(figure, estimate.value)
    if isnan(estimate.low):
        return text
    return f"{text} [{figure_text(figure, estimate.low)}, {figure_text(figure, estimate.high)}]"
