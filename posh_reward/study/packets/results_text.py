"""Results of a study -> plain text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from posh_reward.errors import on_one_line
from posh_reward.study.packets.results import Comparison, StudyResults
from posh_reward.study.packets.results_page import (
    SUGGESTED,
    lead,
    notes,
    p_text,
    spread,
    ties,
    verdict,
)
from posh_reward.study.pages.html import number


def summary(results: StudyResults) -> str:
    """Preferences, agreement of raters, and raters to look at."""
    lines = [lead(results).strip(), *map(on_one_line, notes(results))]
    for comparison in results.comparisons:
        lines += _comparison(comparison)
    for ranking in results.rankings:
        places = (f"{on_one_line(m.model)} {spread(m.strength)}" for m in ranking.models)
        lines.append(f"\nranking, {ranking.axis} (logits, 95 %): {'; '.join(places)}")
        lines += [
            f"preferences go in a circle: {' over '.join(map(on_one_line, (*each, each[0])))}"
            for each in ranking.cycles
        ]
    lines += _marks(results)
    lines += [f"look at {r.rater}: {'; '.join(r.flags)}" for r in results.raters if r.flags]
    lines += [SUGGESTED] if results.suggested else []
    return "\n".join(lines)


def _comparison(comparison: Comparison) -> Iterator[str]:
    earlier, later = on_one_line(comparison.earlier), on_one_line(comparison.later)
    yield (
        f"\n{later} against {earlier}: {comparison.items} items, {comparison.raters} raters. "
        f"Preferences run from -2 to 2; above 0, {later} is better"
    )
    if comparison.identical:
        yield ties(comparison)
    yield (
        f"{'axis':<10}  {'preference [95 %]':>24}  {'p':>6}  {'Holm':>6}  win tie loss  "
        f"{'sign':>6}  {'alpha [95 %]':<20}  same side"
    )
    for axis in comparison.axes:
        yield (
            f"{axis.axis:<10}  {axis.mean!s:>24}  {p_text(axis.p_mean):>6}  "
            f"{p_text(axis.p_holm):>6}  {axis.wins:>3} {axis.ties:>3} {axis.losses:>4}  "
            f"{p_text(axis.p):>6}  {spread(axis.alpha):<20}  {number(axis.same_side, 2)}"
        )
    for axis in comparison.axes:
        yield f"  {on_one_line(verdict(axis, comparison))}"


def _marks(results: StudyResults) -> Iterator[str]:
    for each in results.marked:
        yield (
            f"{on_one_line(each.model)}, {each.side}: {spread(each.marks, 1)} marks a text (lower "
            f"is better); unmarked words {spread(each.unmarked, 3)} (0 to 1, higher is better)"
        )
    for spans in results.span_agreement:
        texts = "1 text" if spans.tasks == 1 else f"{spans.tasks} texts"
        yield (
            f"agreement on {spans.side}: F1 {number(spans.f1)}, F1@50 "
            f"{number(spans.f1_at_50)} over {texts} (0 to 1, higher is better)"
        )


def files_that_do_not_count(
    refusals: Sequence[str], missing: Sequence[str], older: Sequence[str] = ()
) -> str:
    """One line for each file and each rater from whom nothing counts; empty if there are none."""
    lines = [f"refused {on_one_line(each)}" for each in refusals]
    lines += [f"not counted {on_one_line(each)}" for each in older]
    lines += [f"nothing counts yet from {name}" for name in missing]
    return "\n".join(lines)
