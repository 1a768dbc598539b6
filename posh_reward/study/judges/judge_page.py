"""Comparisons of judges -> one page with plots and no scripts."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from posh_reward.metrics.posh.questions import PRESENT
from posh_reward.study.judges.judge_agreement import OBJECTIVES, JudgeComparison, shared_grades
from posh_reward.study.judges.judge_report import (
    ALIKE,
    JudgeReport,
    cost_rows,
    decision,
    group_rows,
    overview_rows,
    pair_rows,
    question_rows,
    question_text,
)
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
from posh_reward.study.statistics import Floats, rows_by_group

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
