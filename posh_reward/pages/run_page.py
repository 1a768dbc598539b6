"""A run's logged completions -> what the policy learns to say, on the page of a report.

All completions count in the curves and in the table of details. Marked texts are shown of some
steps at even distances, and of each of these, some from the worst reward to the best.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from posh_reward.errors import InputError
from posh_reward.pages.details import Detail, DetailCounts, GradedDetail, list_detail_figures
from posh_reward.pages.html import Thumbnails
from posh_reward.pages.report_page import ReportContents, render_pairs_page
from posh_reward.reward.completion_log import (
    DECIDED_BY,
    GRADE,
    read_packed_elements,
    unpack_scores,
)
from posh_reward.tables.completions import Completion, CompletionLog, spread_evenly
from posh_reward.tables.tables import SCORE_NAMES
from posh_reward.tables.text_tables import align_columns
from posh_reward.types import Failure, Scores

MAX_SHOWN_STEPS = 50
MAX_PERIODS = 40  # stretches of steps by which details are counted
COMPARED_SHARE = 0.25  # of the steps, at the beginning and at the end
LISTED_IN_TERMINAL = 5
FIRST_FIGURES = ("reward", "precision", "recall", "f1", "contradicted", "cut", "lowered", "failed")
"""The order of figures; others follow."""
FIGURE_MEANINGS = {
    "contradicted": "share of completions with a sentence that the reference contradicts",
    "cut": "share of completions that reached the maximum length",
    "lowered": "share of completions whose reward the guards lower by more than 0.1",
    "failed": "share of completions without a score",
    "words": "mean words of a completion",
}


@dataclass(slots=True)
class RunContents:
    """What a page says of a run, collected step by step."""

    shown: ReportContents
    steps: list[int] = field(default_factory=list)
    figures: dict[str, list[float | None]] = field(default_factory=dict)  # means, by step
    details: DetailCounts = field(default_factory=DetailCounts)  # by period
    periods: list[tuple[int, int]] = field(default_factory=list)  # first and last step
    completions: int = 0
    without_details: int = 0  # completions whose log has no packed scores
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Trend:
    """A detail, and how often it is a mistake per 100 texts at the beginning and at the end."""

    detail: Detail
    first: float
    last: float


def compare_ends(counts: Sequence[int], details: DetailCounts) -> tuple[float, float]:
    """Return how often something is counted per 100 texts in the first and the last periods.

    Of 40 periods with 100 texts each, ten are compared: 250 times in the first ten is 25.
    """
    groups = range(details.groups)
    width = max(1, round(len(groups) * COMPARED_SHARE))

    def rate(part: Sequence[int]) -> float:
        texts = sum(details.texts[group] for group in part)
        return 100 * sum(counts[group] for group in part) / max(texts, 1)

    return rate(groups[:width]), rate(groups[-width:])


def read_run(
    log: CompletionLog,
    images: Thumbnails | None,
    most_shown: int,
    steps: Iterable[list[Completion]] | None = None,
) -> RunContents:
    """Read a run's completions.

    Args:
        log: of the run.
        images: of its dataset, for the completions shown.
        most_shown: completions shown with their marks.
        steps: ``log.read()``, with a bar around it.

    Raises:
        InputError: no file could be read.
    """
    contents = RunContents(ReportContents(images))
    places = range(len(log.files))
    shown_steps = set(spread_evenly(places, min(MAX_SHOWN_STEPS, most_shown)))
    each_shows = most_shown // max(len(shown_steps), 1)
    periods = min(MAX_PERIODS, len(log.files))
    for place, completions in enumerate(steps if steps is not None else log.read()):
        period = place * periods // len(log.files)
        for completion in completions:
            _count_details(contents, period, completion)
        for step in sorted({each.step for each in completions}):
            _add_figures(contents, step, [each for each in completions if each.step == step])
            _note_period(contents.periods, period, step)
        if place in shown_steps:
            for completion in choose_completions(completions, each_shows):
                contents.shown.add_completion(completion, read_completion_scores(completion))
    if not contents.completions:
        raise InputError(f"no completion could be read: {'; '.join(log.unread) or 'all are empty'}")
    contents.notes = list(_write_notes(contents, log))
    return contents


def _note_period(periods: list[tuple[int, int]], period: int, step: int) -> None:
    while len(periods) <= period:
        periods.append((step, step))
    first, last = periods[period]
    periods[period] = min(first, step), max(last, step)


def _count_details(contents: RunContents, period: int, completion: Completion) -> None:
    contents.completions += 1
    try:
        _, elements = read_packed_elements(completion.packed or "")
    except InputError:
        contents.without_details += 1
    else:
        contents.details.add(period, map(_read_detail, elements))


def _read_detail(element: list[Any]) -> GradedDetail:
    decided_by = element[DECIDED_BY] if len(element) > DECIDED_BY else None
    direction, kind, text, grade = element[: GRADE + 1]
    return GradedDetail(direction, kind, text, grade, decided_by == "contradicted")


def _add_figures(contents: RunContents, step: int, completions: Sequence[Completion]) -> None:
    contents.steps.append(step)
    known: dict[str, list[float]] = {}
    for completion in completions:
        for name, value in completion.figures.items():
            known.setdefault(name, []).append(value)
    for name in known.keys() | contents.figures.keys():
        means = contents.figures.setdefault(name, [None] * (len(contents.steps) - 1))
        values = known.get(name)
        means.append(fmean(values) if values else None)


def choose_completions(completions: Sequence[Completion], most: int) -> list[Completion]:
    """Choose completions of a step, from the worst reward to the best."""

    def reward(completion: Completion) -> float:
        figures = completion.figures
        return figures.get("reward", figures.get("f1", -1.0))

    return spread_evenly(sorted(completions, key=reward), most)


def read_completion_scores(completion: Completion) -> Scores:
    """Read a completion's scores; without elements if its log has none, or is damaged."""
    try:
        scores = unpack_scores(completion.packed or "")
    except InputError:
        precision, recall, f1 = (completion.figures.get(axis) for axis in SCORE_NAMES)
        failure = Failure("error", completion.failure) if completion.failure else None
        scores = Scores(precision, recall, f1, signature="", failure=failure)
    return replace(
        scores,
        generation=scores.generation or completion.text,
        reference=scores.reference or completion.reference,
    )


def _write_notes(contents: RunContents, log: CompletionLog) -> Iterator[str]:
    if contents.without_details:
        yield (
            f"completions without details, by an earlier version, another reward, or damaged: "
            f"{contents.without_details:,}; the tables leave them out"
        )
    if log.evaluated:
        yield f"completions of evaluations, left out: {log.evaluated:,}"
    for reason in log.unread:
        yield f"not read: {reason}"


def sort_figures(figures: Mapping[str, Any]) -> list[str]:
    """Sort the names of figures, leaving out those that are 0 at every step."""
    names = [name for name in figures if any(figures[name])]
    first = [name for name in FIRST_FIGURES if name in names]
    return first + sorted(name for name in names if name not in FIRST_FIGURES)


def describe_run(contents: RunContents) -> str:
    """Describe a run's beginning and end for a terminal."""
    count = len(contents.steps)
    width = max(1, round(count * COMPARED_SHARE))
    rows = [["", f"first {width} steps", f"last {width} steps"]]
    for name in sort_figures(contents.figures):
        values = contents.figures[name]
        rows.append([name, _format_mean(values[:width]), _format_mean(values[-width:])])
    lines = [f"{count:,} steps, {contents.completions:,} completions", align_columns(rows)]
    for title, chosen in list_tables(contents).items():
        if chosen:
            lines += ["", f"{title}, per 100 texts (first and last quarter of the steps):"]
            lines += map(describe_trend, chosen[:LISTED_IN_TERMINAL])
    return "\n".join([*lines, *contents.notes])


def _format_mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{fmean(known):.3f}" if known else "none"


def list_tables(contents: RunContents) -> dict[str, list[Trend]]:
    """Sort details into tables, the most frequent at the end of the run first."""
    tables: dict[str, list[Trend]] = {"Not supported": [], "Contradicted": [], "Left out": []}
    for detail in contents.details.list_most_frequent():
        trend = Trend(detail, *compare_ends(detail.unsupported, contents.details))
        if detail.direction == "recall":
            tables["Left out"].append(trend)
            continue
        tables["Not supported"].append(trend)
        if any(detail.contradicted):
            ends = compare_ends(detail.contradicted, contents.details)
            tables["Contradicted"].append(Trend(detail, *ends))
    return {name: sorted(found, key=lambda each: -each.last) for name, found in tables.items()}


def describe_trend(trend: Trend) -> str:
    """Describe a trend: ``'  attribute "wooden": 12.5 -> 40.0; said 420 times, supported 3'``."""
    detail = trend.detail
    stated = sum(detail.stated)
    word = "said" if detail.direction == "precision" else "in references"
    supported = "supported" if detail.direction == "precision" else "mentioned"
    return (
        f'  {detail.kind} "{detail.text}": {trend.first:.1f} -> {trend.last:.1f}; '
        f"{word} {stated:,} times, {supported} {stated - sum(detail.unsupported):,}"
    )


def run_figures(contents: RunContents) -> dict[str, Any]:
    """Return all figures of a run as plain data."""
    details = contents.details
    return {
        "completions": contents.completions,
        "steps": contents.steps,
        "figures": {name: contents.figures[name] for name in sort_figures(contents.figures)},
        "periods": contents.periods,
        "texts": [details.texts[group] for group in range(details.groups)],
        "details": list_detail_figures(details),
        "notes": contents.notes,
    }


@dataclass(frozen=True, slots=True)
class Curve:
    """A figure over the steps, as points in a box of 280 x 80 units."""

    name: str
    meaning: str
    low: float
    high: float
    first: float  # means over the first and the last quarter of the steps
    last: float
    raw: list[str]  # lines, which a missing value breaks
    smooth: list[str]


CURVE_WIDTH, CURVE_TOP, CURVE_BOTTOM = 280, 4, 84
ROUNDED_DIGITS = 4  # of the means in the page
SMOOTHED_SHARE = 0.05  # of the steps, that a point of the smooth line is the mean of


def make_curve(name: str, steps: Sequence[int], values: Sequence[float | None]) -> Curve:
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    width = max(1, round(len(values) * COMPARED_SHARE))
    scale = (CURVE_BOTTOM - CURVE_TOP) / (high - low) if high > low else 0.0
    reach = round(len(values) * SMOOTHED_SHARE / 2)
    smooth = [_mean_known(values[max(0, at - reach) : at + reach + 1]) for at in range(len(values))]

    def draw(line: Sequence[float | None]) -> list[str]:
        pieces: list[list[str]] = [[]]
        for step, value in zip(steps, line, strict=True):
            if value is None:
                pieces.append([])
                continue
            x = CURVE_WIDTH * (step - steps[0]) / max(steps[-1] - steps[0], 1)
            pieces[-1].append(f"{x:.1f},{CURVE_BOTTOM - (value - low) * scale:.1f}")
        return [" ".join(piece) for piece in pieces if piece]

    return Curve(
        name, FIGURE_MEANINGS.get(name, ""), low, high,
        _mean_known(values[:width]) or 0.0, _mean_known(values[-width:]) or 0.0,
        draw(values), draw(smooth),
    )  # fmt: skip


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


PAGE_TITLE = "What the policy learns to say"


def run_page(contents: RunContents, title: str | None = None) -> str:
    """Render a run as one HTML document."""
    shown = contents.shown
    names = sort_figures(contents.figures)
    means = {
        name: [value and round(value, ROUNDED_DIGITS) for value in contents.figures[name]]
        for name in names
    }
    return render_pairs_page(
        "run_page.html",
        shown,
        title=title or PAGE_TITLE,
        lead=_write_lead(contents),
        groups=[f"{first} to {last}" for first, last in contents.periods],
        details=contents.details,
        notes=contents.notes,
        curves=[make_curve(name, contents.steps, contents.figures[name]) for name in names],
        means=means,
        steps=contents.steps,
        shown_steps=sorted({line.step for line in shown.lines if line.step is not None}),
        periods=contents.periods,
    )


def _write_lead(contents: RunContents) -> str:
    count, shown = len(contents.steps), len(contents.shown.pairs)
    return (
        f"{contents.completions:,} completions of {count:,} steps, all of which count in curves "
        f"and tables; {shown:,} are shown with their marks, from the worst reward of a step to the "
        "best. Choose a detail to see completions that have it."
    )
