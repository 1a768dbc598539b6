"""Comparisons of judges -> a decision, text for terminals, JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posh_reward.metrics.posh.presets import question
from posh_reward.metrics.posh.questions import PRESENT
from posh_reward.process.progress import progress_bar
from posh_reward.study.agreement.agreement_page import align
from posh_reward.study.judges.judge_agreement import (
    AXES,
    OBJECTIVES,
    JudgeComparison,
    QuestionDifference,
    compare,
    shared_grades,
)
from posh_reward.study.judges.judge_runs import AGAIN, JudgeRun, ScoredPair
from posh_reward.study.pages.html import render
from posh_reward.study.pages.model_plots import (
    COLORS,
    GRID,
    Plot,
    draw,
    plain,
    plot_style,
    short_name,
)
from posh_reward.study.statistics import Estimate, Floats, rows_by_group

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ALIKE = 0.95  # least share of siblings in the same order for a judge that may replace another
FEW = 6  # references below which intervals mean nothing: resampling repeats the same few
COSTS = {
    "requests": "questions",
    "rewrites": "rewrites",
    "cache_hits": "not asked again",
    "prompt_tokens_submitted": "tokens submitted",
    "prompt_tokens_computed": "computed",
    "tokens_decoded": "decoded",
    "seconds": "seconds",
}
"""Field of ``Usage`` -> heading in tables."""


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """All judges compared with the first."""

    first: JudgeRun
    comparisons: Sequence[JudgeComparison]
    floor: JudgeComparison | None  # the first judge's second run, against its first; None without
    pairs: int
    references: int

    @property
    def lines(self) -> list[JudgeComparison]:
        """All comparisons, the floor last."""
        return [*self.comparisons, *([self.floor] if self.floor else [])]

    @property
    def runs(self) -> list[JudgeRun]:
        """All judges, the first one first."""
        return [self.first, *(line.other for line in self.lines)]


def judge_report(
    runs: Sequence[JudgeRun],
    pairs: Sequence[ScoredPair],
    *,
    resamples: int = 1000,
    seed: int = 0,
    quiet: bool = True,
) -> JudgeReport:
    """Compare every run with the first; the last may be the first judge's second run."""
    lines = []
    with progress_bar("comparing", len(runs) - 1, "judge", quiet) as bar:
        for run in runs[1:]:
            lines.append(compare(runs[0], run, pairs, resamples=resamples, seed=seed))
            bar.update()
    floor = lines.pop() if runs[-1].label == runs[0].label + AGAIN else None
    references = {pair.reference.strip() for pair in pairs}
    return JudgeReport(runs[0], lines, floor, len(pairs), len(references))


@dataclass(frozen=True, slots=True)
class JudgeDecision:
    """Decision on replacing the first judge in training."""

    verdict: Literal["yes", "no", "not settled"]
    sentence: str  # the verdict with its figures


def decision(comparison: JudgeComparison, floor: JudgeComparison | None = None) -> JudgeDecision:
    """Decide by the intervals of the share of siblings ordered alike, for f1 and two objectives."""
    first, other = comparison.first.label, comparison.other.label
    unsettled = f"Not settled whether {other} may replace {first} for training"
    groups = comparison.groups.values()
    if not groups or any(isnan(group.alike.value) for group in groups):
        common = "that a judge orders" if groups else "that both judges scored"
        return JudgeDecision("not settled", f"{unsettled}: no reference has two texts {common}.")
    by_f1, by_two = (comparison.groups[name].alike for name in OBJECTIVES)
    figures = (
        f"siblings are ordered alike in {percent(by_f1)} of pairs by f1, and in {percent(by_two)} "
        "with precision and recall as two objectives"
    )
    if floor is not None and floor.groups:
        figures += f" (the first judge against itself: {percent(floor.groups['f1'].alike)})"
    if comparison.pair_failures:
        figures += (
            f"; {100 * (1 - comparison.scored_share):.0f} % of the pairs have no score from both"
        )
    unsettled += f": {figures}."
    if min(group.references for group in groups) < FEW or isnan(by_f1.low) or isnan(by_two.low):
        needed = f"It takes intervals over {FEW} or more references to decide."
        return JudgeDecision("not settled", f"{unsettled} {needed}")
    # The worst case: every pair of siblings that lacks a score would be ordered differently.
    if min(group.alike.low * group.compared for group in groups) >= ALIKE:
        return JudgeDecision("yes", f"{other} may replace {first} for training: {figures}.")
    if min(by_f1.high, by_two.high) < ALIKE:
        return JudgeDecision("no", f"{other} may not replace {first} for training: {figures}.")
    return JudgeDecision(
        "not settled",
        f"{unsettled} At least {100 * ALIKE:.0f} % are required; use more references to decide.",
    )


def percent(estimate: Estimate) -> str:
    """Format a share with its interval: ``97 % [96, 98]``."""
    if isnan(estimate.value):
        return "none"
    digits = 1 if 0.98 < estimate.value < 1 else 0
    value, low, high = (
        f"{100 * each:.{digits}f}" for each in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} %" + ("" if isnan(estimate.low) else f" [{low}, {high}]")


def spread(estimate: Estimate, digits: int = 3, sign: str = "") -> str:
    """Format a figure with its interval."""
    if isnan(estimate.value):
        return "none"
    value = f"{estimate.value:{sign}.{digits}f}"
    ends = f" [{estimate.low:{sign}.{digits}f}, {estimate.high:{sign}.{digits}f}]"
    return value + ("" if isnan(estimate.low) else ends)


def overview_rows(report: JudgeReport) -> list[list[str]]:
    """Table of judges: agreement on groups, then on questions."""
    heads = ["against " + report.first.label, "siblings alike, f1", "two objectives",
             "sign changed", "cosine", "present alike", "kappa"]  # fmt: skip
    return [heads, *map(_overview_row, report.lines)]


def _overview_row(line: JudgeComparison) -> list[str]:
    groups = [line.groups.get(name) for name in OBJECTIVES]
    questions = line.questions.get("all")
    return [
        line.other.label,
        *(percent(group.alike) if group else "none" for group in groups),
        percent(groups[0].flips) if groups[0] else "none",
        spread(groups[0].cosine, 2) if groups[0] else "none",
        percent(questions.present) if questions else "none",
        spread(questions.kappa, 2) if questions else "none",
    ]


def group_rows(comparison: JudgeComparison) -> list[list[str]]:
    """Table of objectives: what GRPO sees."""
    heads = ["objective", "groups", "texts", "pairs of siblings", "siblings alike",
             "correlation in the group", "sign changed", "cosine of updates"]  # fmt: skip
    rows = [
        [name, f"{group.groups:,}", f"{group.completions:,}", f"{group.ordered:,}",
         percent(group.alike),
         spread(group.correlation), percent(group.flips), spread(group.cosine)]
        for name, group in comparison.groups.items()
    ]  # fmt: skip
    return [heads, *rows]


def question_rows(comparison: JudgeComparison) -> list[list[str]]:
    """Table of agreement per question, by part."""
    heads = ["questions", "count", "difference", "bias", "present alike", "kappa"]
    rows = [
        [part, f"{it.count:,}", spread(it.difference), spread(it.bias, sign="+"),
         percent(it.present), spread(it.kappa)]
        for part, it in comparison.questions.items()
    ]  # fmt: skip
    return [heads, *rows]


def pair_rows(comparison: JudgeComparison) -> list[list[str]]:
    """Table of agreement per pair, by score."""
    heads = ["score", "pairs", "bias", "spread", "rank correlation"]
    rows = [
        [axis, f"{it.count:,}", spread(it.bias, sign="+"), spread(it.spread), spread(it.rank)]
        for axis in AXES
        if (it := comparison.pairs.get(axis))
    ]  # fmt: skip
    return [heads, *rows]


def cost_rows(report: JudgeReport) -> list[list[str]]:
    """Table of costs of each judge's own search."""
    rows = [
        [run.label, *(f"{getattr(run.usage, name):,.{name == 'seconds':d}f}" for name in COSTS)]
        for run in report.runs
    ]
    return [["judge", *COSTS.values()], *rows]


def question_text(difference: QuestionDifference) -> str:
    """Return the question in the released wording, without instructions."""
    return question(difference.question).removeprefix("Q: ").partition(" Consider")[0]


def terminal_text(report: JudgeReport) -> str:
    """Format decisions and tables for a terminal."""
    about = f"{report.pairs:,} pairs of {report.references:,} references; 95 % over references."
    parts = [
        "\n".join(decision(line, report.floor).sentence for line in report.comparisons),
        about,
        align(overview_rows(report)),
        align(cost_rows(report)),
    ]
    for line in report.comparisons:
        parts.append(f"{line.other.label} against {line.first.label}")
        parts += [align(question_rows(line)), align(pair_rows(line))]
        parts += [align(group_rows(line))] if line.groups else []
        parts += [f"without an answer: {line.failures:,} questions, {line.pair_failures:,} pairs"]
    return "\n\n".join(parts)


def as_json(report: JudgeReport) -> dict[str, Any]:
    """Collect all figures for JSON; undefined ones are null."""
    return {
        "pairs": report.pairs,
        "references": report.references,
        "judges": [
            {"judge": run.label, "signature": run.signature, "usage": asdict(run.usage)}
            for run in report.runs
        ],
        "comparisons": [_comparison_json(line, report.floor) for line in report.comparisons],
        "floor": _comparison_json(report.floor, None) if report.floor else None,
        "rows": list(_score_rows(report.runs)),
    }


def _score_rows(runs: Sequence[JudgeRun]) -> Iterator[dict[str, Any]]:
    """Yield each pair with every judge's scores; None where one failed."""
    for same_pair in zip(*(run.scores for run in runs), strict=True):
        yield {
            "generation": same_pair[0].generation,
            "reference": same_pair[0].reference,
            "scores": {
                run.label: {axis: getattr(scores, axis) for axis in AXES}
                for run, scores in zip(runs, same_pair, strict=True)
            },
        }


def _comparison_json(line: JudgeComparison, floor: JudgeComparison | None) -> dict[str, Any]:
    parts = {
        name: {key: _plain(asdict(value)) for key, value in getattr(line, name).items()}
        for name in ("questions", "pairs", "groups")
    }
    return {
        "judge": line.other.label,
        "against": line.first.label,
        **asdict(decision(line, floor)),
        **parts,
        "calibration": [asdict(each) for each in line.calibration],
        "largest": [
            {"question": question_text(each), "target": each.question.target.text,
             "source": each.question.source.text, "first": each.first, "other": each.other}
            for each in line.largest
        ],
        "failed_questions": line.failures,
        "unscored_pairs": line.pair_failures,
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """Replace NaN, which JSON lacks, by None."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return None if isinstance(value, float) and isnan(value) else value


HERE = "posh_reward.study.judges"
EQUAL = 1e-6  # scores that differ by less are a tie
LONGEST = 40  # characters of a judge's name in a plot


def judge_page(report: JudgeReport) -> str:
    """Render one HTML document that needs no other file; needs Matplotlib."""
    with plot_style():
        overview = _overview(report)
        lines = [_line(each, report) for each in report.comparisons]
    return render(
        "judges.html",
        HERE,
        title=f"Judges against {report.first.label}",
        lead=(
            f"{report.pairs:,} pairs of {report.references:,} references. Every judge scored all, "
            f"and also answered the questions that came up under {report.first.label}."
        ),
        first=report.first.label,
        overview={
            "rows": overview_rows(report),
            "image": draw(overview, "svg"),
            "what": overview.what,
        },
        costs=cost_rows(report),
        lines=lines,
        footer=[f"{run.label}: {run.signature}" for run in report.runs],
    )


def _line(line: JudgeComparison, report: JudgeReport) -> dict[str, Any]:
    plot = comparison_plot(line)
    missing = [
        f"{count:,} {what}"
        for count, what in ((line.failures, "questions"), (line.pair_failures, "pairs"))
        if count
    ]
    return {
        "name": line.other.label,
        "verdict": decision(line, report.floor).sentence,
        "image": draw(plot, "svg"),
        "what": plot.what,
        "tables": [
            *([group_rows(line)] if line.groups else []), pair_rows(line), question_rows(line)
        ],
        "missing": f"Not answered by both: {', '.join(missing)}." if missing else "",
        "largest": [
            {"text": question_text(each), "first": each.first, "other": each.other,
             "target": each.question.target.text, "source": each.question.source.text}
            for each in line.largest
        ],
    }  # fmt: skip


def _overview(report: JudgeReport) -> Plot:
    """Plot each judge's share of siblings in the same order, for both objectives."""
    from matplotlib.figure import Figure

    lines = [line for line in report.lines if line.groups]
    figure = Figure(figsize=(9, 1.3 + 0.42 * max(len(lines), 1)), layout="constrained")
    axes = figure.subplots()
    for color, shape, off, name in zip(COLORS, "os", (0.12, -0.12), OBJECTIVES, strict=False):
        estimates = [line.groups[name].alike for line in lines]
        values = np.array([100 * each.value for each in estimates])
        reach = [[100 * (e.value - e.low), 100 * (e.high - e.value)] for e in estimates]
        axes.errorbar(
            values, np.arange(len(lines))[::-1] + off, xerr=np.nan_to_num(np.array(reach).T),
            fmt=shape, color=color, ms=5, lw=1.3, label=name,
        )  # fmt: skip
    axes.axvline(100 * ALIKE, color="#57606a", ls=":", lw=1)
    axes.set_yticks(
        range(len(lines))[::-1], [short_name(line.other.label, LONGEST) for line in lines]
    )
    axes.set_ylim(-0.6, max(len(lines), 1) - 0.4)
    axes.set_xlabel(
        f"siblings ordered as by {short_name(report.first.label, LONGEST)}, % with 95 % intervals"
    )
    plain(axes, labelsize=8)
    if lines:
        figure.legend(loc="outside upper left", ncols=2, frameon=False)
    shares = ", ".join(f"{line.other.label} {line.groups['f1'].alike.value:.1%}" for line in lines)
    return Plot("overview", f"Siblings ordered alike by f1: {shares}", figure)


def comparison_plot(line: JudgeComparison) -> Plot:
    """Plot calibration, differences of grades, scores, and orders of siblings."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.3), layout="constrained")
    calibrated, differences, scores, order = figure.subplots(1, 4)
    first, other = (short_name(run.label, 24) for run in (line.first, line.other))
    calibrated.plot([1, 5], [1, 5], color="#8c959f", lw=0.8, ls=":")
    calibrated.errorbar(
        [each.other for each in line.calibration], [each.first for each in line.calibration],
        yerr=[each.spread for each in line.calibration], fmt="o-", color=COLORS[0], ms=4, lw=1.1,
        elinewidth=0.6,
    )  # fmt: skip
    calibrated.axhline(PRESENT, color=GRID, lw=1)
    calibrated.set(
        title="calibration (bars: spread)", xlabel=f"grade of {other}",
        ylabel=f"mean grade of {first}", xlim=(0.9, 5.1), ylim=(0.5, 5.5),
    )  # fmt: skip
    _, grades = shared_grades(line.first, line.other)
    gaps = (grades[:, 1] - grades[:, 0])[~np.isnan(grades).any(axis=1)]
    differences.hist(gaps if len(gaps) else [0.0], bins=np.linspace(-4, 4, 33), color=COLORS[0])
    differences.set(title="grades: difference", xlabel=f"{other} minus {first}", yscale="log")
    # The default formatter writes formulas, and plots show text as it is: names could be formulas.
    differences.yaxis.set_major_formatter("{x:.0f}")
    pairs = [
        (a.f1, b.f1)
        for a, b in zip(line.first.scores, line.other.scores, strict=True)
        if a.f1 is not None and b.f1 is not None
    ]
    scores.plot([0.2, 1], [0.2, 1], color="#8c959f", lw=0.8, ls=":")
    scores.plot(*zip(*pairs or [(nan, nan)], strict=True), "o", color=COLORS[0], ms=3, alpha=0.5)
    scores.set(title="f1 of pairs", xlabel=first, ylabel=other)
    _draw_order(order, line)
    for axes in (calibrated, differences, scores, order):
        plain(axes, labelsize=8)
        axes.title.set_fontsize(9)
    what = (
        f"Calibration of {line.other.label}, differences of grades, f1 of pairs, and the share of "
        "siblings ordered alike by their difference of f1"
    )
    return Plot("comparison", what, figure)


def _draw_order(axes: Axes, line: JudgeComparison) -> None:
    """Plot the share of siblings in the same order by the first judge's difference of f1."""
    gaps, alike = sibling_gaps(line)
    if len(gaps):
        edges = np.unique(np.quantile(gaps, np.linspace(0, 1, 7)))
        places = np.clip(np.digitize(gaps, edges[1:-1]), 0, max(len(edges) - 2, 0))
        bins = [places == place for place in np.unique(places)]
        axes.plot(
            [gaps[inside].mean() for inside in bins],
            [100 * alike[inside].mean() for inside in bins],
            "o-", color=COLORS[0], ms=4, lw=1.1,
        )  # fmt: skip
    axes.axhline(50, color="#8c959f", lw=0.8, ls=":")
    axes.set(
        title="siblings ordered alike", ylabel="%", ylim=(40, 102),
        xlabel=f"difference of f1, {short_name(line.first.label, 24)}",
    )  # fmt: skip


def sibling_gaps(line: JudgeComparison) -> tuple[Floats, Floats]:
    """Return each pair of siblings' difference of f1 by the first judge, and 1 if ordered alike.

    Ties of the first judge are left out; ties of the other count half.
    """
    scored = [
        (one.reference, one.f1, two.f1)
        for one, two in zip(line.first.scores, line.other.scores, strict=True)
        if one.f1 is not None and two.f1 is not None
    ]
    f1 = np.array([each[1:] for each in scored]).reshape(-1, 2)
    differences = [np.zeros((0, 2))]
    for rows in rows_by_group([each[0] for each in scored]):
        i, j = np.triu_indices(len(rows), 1)
        differences.append(f1[rows[i]] - f1[rows[j]])
    first, other = np.concatenate(differences).T
    signs = np.sign(np.where(np.abs(other) < EQUAL, 0, other)) * np.sign(first)
    ordered = np.abs(first) >= EQUAL
    return np.abs(first[ordered]), (1 + signs[ordered]) / 2
