"""Results of a study -> plain text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from posh_reward.errors import on_one_line
from posh_reward.study.packets.results import Comparison, Preference, StudyResults
from posh_reward.study.packets.results_page import SUGGESTED, agreement, lead, share, spread, ties


def summary(results: StudyResults) -> str:
    """What people preferred, how far they agree, and whom to look at."""
    lines = [lead(results).strip()]
    for comparison in results.comparisons:
        lines += _comparison(comparison)
    lines += _marks(results)
    lines += [f"look at {r.rater}: {'; '.join(r.flags)}" for r in results.raters if r.flags]
    lines += [SUGGESTED] if results.suggested else []
    return "\n".join(lines)


def _comparison(comparison: Comparison) -> Iterator[str]:
    earlier, later = on_one_line(comparison.earlier), on_one_line(comparison.later)
    yield (
        f"\n{later} against {earlier}: {comparison.items} items. Preferences run from "
        f"-2 to 2; above 0, {later} is better"
    )
    if comparison.identical:
        yield ties(comparison)
    yield f"{'axis':<10}  {'preference [95 %]':>24}  win tie loss  sign test  alpha [95 %]"
    yield from map(_axis, comparison.axes)


def _axis(each: Preference) -> str:
    return (
        f"{each.axis:<10}  {each.mean!s:>24}  {each.wins:>3} {each.ties:>3} {each.losses:>4}  "
        f"{each.p:>9.3f}  {agreement(each.alpha)}"
    )


def _marks(results: StudyResults) -> Iterator[str]:
    for each in results.marked:
        yield (
            f"{on_one_line(each.model)}, {each.side}: {spread(each.marks, 1)} marks a text (lower "
            f"is better); unmarked words {spread(each.unmarked, 3)} (0 to 1, higher is better)"
        )
    for spans in results.span_agreement:
        texts = "1 text" if spans.tasks == 1 else f"{spans.tasks} texts"
        yield (
            f"agreement on {spans.side}: F1 {share(spans.f1)}, F1@50 "
            f"{share(spans.f1_at_50)} over {texts} (0 to 1, higher is better)"
        )


def refused_and_missing(refused: Sequence[str], missing: Sequence[str]) -> str:
    """What did not count, one line each; empty if all did."""
    lines = [f"refused {on_one_line(each)}" for each in refused]
    lines += [f"nothing counts yet from {name}" for name in missing]
    return "\n".join(lines)
