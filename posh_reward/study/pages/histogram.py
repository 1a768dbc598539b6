"""Scores of one axis -> a small inline SVG with its mean."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import fmean, median

from posh_reward.study.rows.posh_rows import Axis
from posh_reward.study.statistics import bootstrap_mean

LOW, HIGH, BINS = 0.2, 1.0, 16
"""The range that scores lie in, cut into bins of 0.05."""
WIDTH, HEIGHT, FOOT = 320, 84, 16
TICKS = ((0.2, "start"), (0.4, "middle"), (0.6, "middle"), (0.8, "middle"), (1.0, "end"))
ENOUGH = 10
"""Fewer values than this get no interval."""


def counts(values: Sequence[float]) -> list[int]:
    """How many values fall into each bin; those outside the range count at its end."""
    bins = [0] * BINS
    for value in values:
        place = int((value - LOW) / (HIGH - LOW) * BINS + 1e-9)
        bins[min(max(place, 0), BINS - 1)] += 1
    return bins


def axis_card(axis: Axis, values: Sequence[float]) -> str:
    """A card for a page: the mean of an axis and the distribution of its scores."""
    name = axis.name.capitalize()
    title = f"<h2>{name} ({axis.field})</h2><p>{axis.meaning}</p>"
    if not len(values):
        return f'<div class="card axis">{title}<p class="mean">none</p></div>'
    mean = fmean(values)
    spread = f"median {median(values):.3f}"
    if len(values) >= ENOUGH:
        interval = bootstrap_mean(values, resamples=1000)
        spread = f"mean, 95 % [{interval.low:.3f}, {interval.high:.3f}] · {spread}"
    return (
        f'<div class="card axis"><div>{title}<p class="mean">{mean:.3f} '
        f"<small>higher is better</small></p><p>{spread}</p></div>"
        f"{_histogram(name, values, mean)}</div>"
    )


def _histogram(name: str, values: Sequence[float], mean: float) -> str:
    bins = counts(values)
    step, room = WIDTH / BINS, HEIGHT - FOOT
    bars = "".join(
        _bar(index, count, step, room * count / max(bins)) for index, count in enumerate(bins)
    )
    ticks = "".join(_tick(tick, anchor) for tick, anchor in TICKS)
    at = _x(min(max(mean, LOW), HIGH))
    label = f"{name}: {len(values)} scores from {min(values):.2f} to {max(values):.2f}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f'<line x1="0" y1="{room}" x2="{WIDTH}" y2="{room}"/>{bars}'
        f'<line class="at" x1="{at:.1f}" y1="0" x2="{at:.1f}" y2="{room}"/>{ticks}</svg>'
    )


def _bar(index: int, count: int, step: float, height: float) -> str:
    if not count:
        return ""
    low = LOW + index * (HIGH - LOW) / BINS
    about = f"{low:.2f} to {low + (HIGH - LOW) / BINS:.2f}: {count}"
    return (
        f'<rect x="{index * step + 1:.1f}" y="{HEIGHT - FOOT - height:.1f}" rx="2" '
        f'width="{step - 2:.1f}" height="{height:.1f}"><title>{about}</title></rect>'
    )


def _tick(value: float, anchor: str) -> str:
    kind = ' class="mid"' if anchor == "middle" else ""
    at = f'x="{_x(value):.1f}" y="{HEIGHT - 2}" text-anchor="{anchor}"'
    return f"<text{kind} {at}>{value:.1f}</text>"


def _x(value: float) -> float:
    return (value - LOW) / (HIGH - LOW) * WIDTH
