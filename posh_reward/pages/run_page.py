"""A run's logged completions -> what the policy learns to say, on the page of a report.

All completions count in the curves and in the table of details. Marked texts are shown of some
steps at even distances, and of each of these, some from the worst reward to the best.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from posh_reward.errors import InputError, escape_controls
from posh_reward.pages.details import DetailCounts, GradedDetail, Trend, list_trend_figures
from posh_reward.pages.html import Thumbnails, number
from posh_reward.pages.report_page import ReportContents, render_pairs_page
from posh_reward.reward.completion_log import (
    DECIDED_BY,
    GRADE,
    read_packed_elements,
    unpack_scores,
)
from posh_reward.tables.completions import (
    Completion,
    CompletionLog,
    is_figure,
    spread_evenly,
)
from posh_reward.tables.tables import SCORE_NAMES
from posh_reward.tables.text_tables import align_columns
from posh_reward.types import Failure, Scores, score_in_means

MAX_SHOWN_STEPS = 50
MAX_PERIODS = 40  # of the steps, by which details are counted
LISTED_IN_TERMINAL = 5
FIRST_FIGURES = ("posh", "precision", "recall", "f1", "silent", "contradicted", "cut", "lowered",
                 "failed")  # fmt: skip
"""The order of figures; others follow."""
FIGURE_MEANINGS = {
    "posh": "mean reward by POSH with its guards; TRL's reward adds others by their weights",
    "precision": "mean over completions that say something",
    "silent": "share of completions without any element",
    "contradicted": "share of completions with a sentence that the reference contradicts",
    "cut": "share of completions that reached the maximum length",
    "lowered": "share of completions whose reward the guards lower by more than 0.1",
    "failed": "share of completions without a score",
    "words": "mean words of a completion",
}


@dataclass(slots=True)
class RunContents:
    """Contents of a run's page, collected step by step."""

    shown: ReportContents
    steps: list[int] = field(default_factory=list)
    figures: dict[str, list[float | None]] = field(default_factory=dict)  # means, by step
    details: DetailCounts = field(default_factory=DetailCounts)  # by period
    periods: list[tuple[int, int]] = field(default_factory=list)  # first and last step
    completions: int = 0
    evaluated: int = 0  # completions of evaluations, which are left out
    without_details: int = 0  # completions whose log has no packed scores
    notes: list[str] = field(default_factory=list)

    def find_ends(self) -> tuple[slice, slice]:
        """Find the steps of the first and the last quarter of the periods."""
        width = self.details.compared_groups
        first = [step for step in self.steps if step <= self.periods[:width][-1][1]]
        last = [step for step in self.steps if step >= self.periods[-width:][0][0]]
        return slice(len(first)), slice(-len(last), None)


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
        InputError: no file could be read, or all are of evaluations.
    """
    contents = RunContents(ReportContents(images))
    count = len(log.files)
    to_show = spread_evenly(range(count), min(MAX_SHOWN_STEPS, most_shown))
    each_shows = most_shown // len(to_show)
    periods = min(MAX_PERIODS, count)
    last_period = -1
    if steps is None:
        steps = log.read()
    for place, completions in enumerate(steps):
        if not completions:
            continue
        period = place * periods // count
        if period != last_period:
            last_period = period
            contents.periods.append((completions[0].step, completions[0].step))
        _add_completions(contents, completions)
        if to_show[0] <= place:
            for completion in choose_completions(completions, each_shows):
                contents.shown.add_completion(completion, read_completion_scores(completion))
            to_show = [each for each in to_show if each > place] or [count]
    contents.evaluated = log.evaluated
    if not contents.completions:
        raise InputError(_explain_lack(log))
    contents.notes = list(_write_notes(contents, log))
    return contents


def _explain_lack(log: CompletionLog) -> str:
    if log.evaluated:
        return (
            f"all {log.evaluated:,} logged completions are of evaluations, which TRL writes in "
            "place of those of the same step: PoshReward keeps both (version 0.2)"
        )
    return f"no completion could be read: {'; '.join(log.unread) or 'all files are empty'}"


def _add_completions(contents: RunContents, completions: Sequence[Completion]) -> None:
    """Count the completions of one file."""
    figures_by_step: dict[int, list[Mapping[str, float]]] = {}
    for completion in completions:
        figures = _count_completion(contents, completion)
        figures_by_step.setdefault(completion.step, []).append(figures)
    for step, figures_of_step in sorted(figures_by_step.items()):
        _add_figures(contents, step, figures_of_step)
        first, last = contents.periods[-1]
        contents.periods[-1] = min(first, step), max(last, step)


def _count_completion(contents: RunContents, completion: Completion) -> Mapping[str, float]:
    """Count a completion's details; return its figures, as they count in means."""
    contents.completions += 1
    try:
        row, elements = read_packed_elements(completion.packed or "")
    except InputError:
        contents.without_details += 1
        return completion.figures
    figures = dict(completion.figures)
    if row.get("failure") is not None:
        return figures
    contents.details.add(len(contents.periods) - 1, map(_read_detail, elements))
    figures["silent"] = float(row.get("generation_elements") == 0)
    for axis in SCORE_NAMES:
        value = score_in_means(row.get, axis)
        if not is_figure(value):
            figures.pop(axis, None)
        elif axis in figures:
            figures[axis] = value
    return figures


def _read_detail(element: list[Any]) -> GradedDetail:
    decided_by = element[DECIDED_BY] if len(element) > DECIDED_BY else None
    direction, kind, text, grade = element[: GRADE + 1]
    return GradedDetail(direction, kind, text, grade, decided_by == "contradicted")


def _add_figures(contents: RunContents, step: int, figures: Sequence[Mapping[str, float]]) -> None:
    contents.steps.append(step)
    known: dict[str, list[float]] = {}
    for each in figures:
        for name, value in each.items():
            known.setdefault(name, []).append(value)
    for name in known.keys() | contents.figures.keys():
        means = contents.figures.setdefault(name, [None] * (len(contents.steps) - 1))
        means.append(_mean_known(known.get(name, [])))


def _mean_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def choose_completions(completions: Sequence[Completion], most: int) -> list[Completion]:
    """Choose completions of a step, from the worst reward to the best."""

    def reward(completion: Completion) -> float:
        figures = completion.figures
        return figures.get("posh", figures.get("f1", -1.0))

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
            f"{contents.without_details:,}; the tables leave them out, and their marks are missing"
        )
    if log.evaluated:
        yield f"completions of evaluations, left out: {log.evaluated:,}"
    yield from contents.shown.missing_images()
    for reason in log.unread:
        yield f"not read: {reason}"


def sort_figures(figures: Mapping[str, Any]) -> list[str]:
    """Sort the names of figures, POSH's first."""
    first = [name for name in FIRST_FIGURES if name in figures]
    return first + sorted(name for name in figures if name not in FIRST_FIGURES)


def describe_run(contents: RunContents) -> str:
    """Describe a run's beginning and end for a terminal."""
    first, last = contents.find_ends()
    rows = [["", _name_steps(contents.steps[first]), _name_steps(contents.steps[last])]]
    for name in sort_figures(contents.figures):
        values = contents.figures[name]
        if any(values):
            means = _mean_known(values[first]), _mean_known(values[last])
            rows.append([escape_controls(name), *map(number, means)])
    head = f"{len(contents.steps):,} steps, {contents.completions:,} completions"
    lines = [head, align_columns(rows)]
    for title, trends in list_tables(contents.details).items():
        if trends:
            lines += ["", f"{title} (first and last quarter of the steps):"]
            lines += map(describe_trend, trends[:LISTED_IN_TERMINAL])
    return "\n".join([*lines, *map(escape_controls, contents.notes)])


def _name_steps(steps: Sequence[int]) -> str:
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"


def list_tables(details: DetailCounts) -> dict[str, list[Trend]]:
    """List the details that stand out most at the end of a run, and those that changed most."""
    trends = list(map(details.compare_ends, details.list_details(moving=True)))
    written = [each for each in trends if each.detail.direction == "precision"]
    left_out = [each for each in trends if each.detail.direction == "recall"]
    contradicted = [each for each in written if any(each.detail.contradicted)]
    more = [each for each in written if each.change > 0]
    less = [each for each in written if each.change < 0]

    def sort(found: list[Trend]) -> list[Trend]:
        return sorted(found, key=lambda each: -each.last_unsupported)

    return {
        "Not supported": sort([each for each in written if each.last_unsupported]),
        "Contradicted": sorted(contradicted, key=lambda each: -sum(each.detail.contradicted)),
        "Said ever more": sorted(more, key=lambda each: -each.change),
        "Said ever less": sorted(less, key=lambda each: each.change),
        "Left out": sort([each for each in left_out if each.last_unsupported]),
    }


def describe_trend(trend: Trend) -> str:
    """Describe a trend in one line.

    ``'  attribute "wooden": 12.5 -> 40.0 per 100 texts, unsupported 50 % -> 99 % (417 of 420)'``
    """
    detail = trend.detail
    wrong = "unsupported" if detail.direction == "precision" else "left out"
    shares = " -> ".join(map(_format_share, (trend.first_share, trend.last_share)))
    denied = sum(detail.contradicted)
    return (
        f'  {detail.kind} "{escape_controls(detail.text)}": {trend.first_stated:.1f} -> '
        f"{trend.last_stated:.1f} per 100 texts, {wrong} {shares} "
        f"({sum(detail.unsupported):,} of {sum(detail.stated):,}"
        f"{f', {denied:,} contradicted' if denied else ''})"
    )


def _format_share(share: float | None) -> str:
    return "none" if share is None else f"{share:.0%}".replace("%", " %")


def run_figures(contents: RunContents) -> dict[str, Any]:
    """Return all figures of a run as plain data."""
    details = contents.details
    return {
        "completions": contents.completions,
        "evaluated": contents.evaluated,
        "steps": contents.steps,
        "figures": {name: contents.figures[name] for name in sort_figures(contents.figures)},
        "periods": contents.periods,
        "texts": [details.texts[group] for group in range(details.groups)],
        "compared_periods": details.compared_groups,
        "details": list(list_trend_figures(details)),
        "notes": contents.notes,
    }


@dataclass(frozen=True, slots=True)
class Curve:
    """A figure over the steps, as points in a box of 280 x 80 units."""

    name: str
    meaning: str
    low: float
    high: float
    first: float | None  # means over the first and the last quarter of the steps
    last: float | None
    raw: list[str]  # lines, which a missing value breaks
    smooth: list[str]


CURVE_WIDTH, CURVE_TOP, CURVE_BOTTOM = 280, 4, 84
ROUNDED_DIGITS = 4  # of the means in the page
SMOOTHED_SHARE = 0.05  # of the steps, that a point of the smooth line is the mean of


def make_curve(
    name: str, steps: Sequence[int], values: Sequence[float | None], ends: tuple[slice, slice]
) -> Curve:
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
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

    first, last = (_mean_known(values[end]) for end in ends)
    return Curve(
        name, FIGURE_MEANINGS.get(name, ""), low, high, first, last, draw(values), draw(smooth)
    )


PAGE_TITLE = "What the policy learns to say"


def run_page(contents: RunContents, title: str | None = None, about: str = "") -> str:
    """Render a run as one HTML document; ``about`` says which run it is."""
    shown, ends = contents.shown, contents.find_ends()
    names = [name for name in sort_figures(contents.figures) if any(contents.figures[name])]
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
        counts=contents.details,
        details=contents.details.list_details(moving=True),
        about=about,
        ends=[_name_steps(contents.steps[end]) for end in ends],
        notes=contents.notes,
        curves=[make_curve(name, contents.steps, contents.figures[name], ends) for name in names],
        means=means,
        steps=contents.steps,
        shown_steps=sorted({line.step for line in shown.lines if line.step is not None}),
    )


def _write_lead(contents: RunContents) -> str:
    count, shown = len(contents.steps), len(contents.shown.pairs)
    return (
        f"{contents.completions:,} completions of {count:,} steps, all of which count in curves "
        f"and tables; {shown:,} are shown, from the worst reward of a step to the best."
    )
