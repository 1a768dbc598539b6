"""Preferences -> inline SVG: means with intervals, and how often each choice was made."""

from __future__ import annotations

from html import escape

from posh_reward.study.packets.rater_texts import BETTER, CHOICES
from posh_reward.study.packets.results import Comparison, Preference

WIDTH, LEFT, RIGHT = 760, 165, 30
STEP = 40
"""Height of one axis."""
FOOT = 42
LONGEST = 28
"""Characters of a model's name in a plot."""


def _x(value: float, low: float, high: float) -> float:
    return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def preference_plot(comparison: Comparison) -> str:
    """Means with their intervals; a hollow dot where the sign is not settled."""
    height = STEP * len(comparison.axes) + FOOT
    ticks = "".join(
        f'<line{" class=zero" if value == 0 else ""} x1="{_x(value, -2, 2):.0f}" y1="4" '
        f'x2="{_x(value, -2, 2):.0f}" y2="{height - FOOT}"/>'
        f'<text class="soft" text-anchor="middle" x="{_x(value, -2, 2):.0f}" '
        f'y="{height - FOOT + 16}">{value:+d}</text>'.replace("+0", "0")
        for value in range(-2, 3)
    )
    rows = "".join(_mean(place, each) for place, each in enumerate(comparison.axes))
    earlier, later = _name(comparison.earlier), _name(comparison.later)
    ends = (
        f'<text class="soft" x="{LEFT}" y="{height - 4}">\u2190 {earlier} better</text>'
        f'<text class="soft" text-anchor="end" x="{WIDTH - RIGHT}" y="{height - 4}">{later} better'
        " \u2192</text>"
    )
    said = "; ".join(f"{each.axis} {each.mean}" for each in comparison.axes)
    label = escape(f"Mean preference with 95 % intervals: {said}")
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{ticks}{rows}{ends}'
        "</svg>"
    )


def _name(model: str) -> str:
    return escape(model if len(model) <= LONGEST else model[: LONGEST - 1] + "\u2026")


def _mean(place: int, each: Preference) -> str:
    y = place * STEP + STEP / 2 + 2
    mean = each.mean
    low, at, high = (_x(value, -2, 2) for value in (mean.low, mean.mean, mean.high))
    kind = "" if mean.excludes_zero else ' class="open"'
    return (
        f'<text x="0" y="{y + 4}">{BETTER[each.axis]}</text>'
        f'<line class="spread" x1="{low:.1f}" y1="{y}" x2="{high:.1f}" y2="{y}"/>'
        f'<circle{kind} cx="{at:.1f}" cy="{y}" r="7"/>'
    )


def answers_plot(comparison: Comparison) -> str:
    """Shares of the five choices, from much better for the earlier to much better for the later."""
    height = STEP * len(comparison.axes) + 26
    rows = "".join(_bar(place, each) for place, each in enumerate(comparison.axes))
    earlier, later = _name(comparison.earlier), _name(comparison.later)
    ends = (
        f'<text class="soft" x="{LEFT}" y="{height - 6}">{earlier} much better</text>'
        f'<text class="soft" text-anchor="middle" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" '
        f'y="{height - 6}">equal</text>'
        f'<text class="soft" text-anchor="end" x="{WIDTH - RIGHT}" y="{height - 6}">{later} much '
        "better</text>"
    )
    label = escape("Shares of single answers. " + " ".join(map(_said, comparison.axes)))
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{rows}{ends}</svg>'


def _said(each: Preference) -> str:
    counts = ", ".join(f"{value:+d}: {each.counts[value]}" for value in sorted(CHOICES))
    return f"{each.axis}: {counts}."


def _bar(place: int, each: Preference) -> str:
    y, total = place * STEP + 4, max(sum(each.counts.values()), 1)
    parts, done = [f'<text x="0" y="{y + 18}">{BETTER[each.axis]}</text>'], 0
    for kind, value in enumerate(sorted(CHOICES)):
        count = each.counts[value]
        start, end = _x(done, 0, total), _x(done + count, 0, total)
        done += count
        parts.append(
            f'<rect class="c{kind}" x="{start:.1f}" y="{y}" width="{end - start:.1f}" height="28"/>'
        )
        if end - start > 26:
            middle = (start + end) / 2
            parts.append(f'<text class="in c{kind}" x="{middle:.1f}" y="{y + 18}">{count}</text>')
    return "".join(parts)
