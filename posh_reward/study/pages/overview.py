"""Totals of scored rows -> the cards on top of a report: distributions, or models compared."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from posh_reward.study.pages.histogram import axis_card
from posh_reward.study.rows.posh_rows import AXES, SCALE
from posh_reward.study.rows.standings import GAINS, Gain, Standing, Tally, best_first, verdict
from posh_reward.study.statistics import Interval

HEADS = "".join(f'<th class="n">{axis.name.capitalize()}</th>' for axis in AXES)
CHANCE = (
    " Each interval stands alone: of twenty models as good as the baseline, expect one to look "
    "better or worse."
)


def overview(tally: Tally, baseline: str, gains: Sequence[Gain]) -> str:
    """The cards: a distribution for each axis, or, with several models, tables of them.

    Args:
        tally: totals over the rows of the page.
        baseline: the model that the others are compared with.
        gains: each other model against it.
    """
    if len(tally.models) > 1:
        return (
            '<section class="card standings" aria-label="Models">'
            f"{_means(best_first(tally.standings()), baseline)}{_gains(gains, baseline)}</section>"
        )
    [totals] = tally.models.values()
    cards = "".join(axis_card(axis, totals.scores[axis.name]) for axis in AXES)
    return f'<section class="axes" aria-label="Distributions">{cards}</section>'


def _means(standings: Sequence[Standing], baseline: str) -> str:
    rows = "".join(_row(each, base=each.model == baseline) for each in standings)
    return (
        f"<table><caption>Means, the best model first. {SCALE.capitalize()}; with 95 % intervals"
        f"</caption><thead><tr><th>Model</th>{HEADS}"
        '<th class="n wide">Words</th><th class="n wide">Scored</th>'
        f'<th class="n wide">No score</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _row(standing: Standing, *, base: bool) -> str:
    cells = "".join(_mean(standing.axes.get(axis.name)) for axis in AXES)
    return (
        f"<tr{' class=base' if base else ''}><td>{_name(standing.model)}</td>{cells}"
        f'<td class="n wide">{standing.words:.1f}</td><td class="n wide">{standing.scored:,}</td>'
        f'<td class="n wide">{standing.failed:,}</td></tr>'
    )


def _mean(interval: Interval | None) -> str:
    if interval is None:
        return '<td class="n none">none</td>'
    spread = f"[{interval.low:.3f}, {interval.high:.3f}]"
    return f'<td class="n"><b>{interval.mean:.3f}</b> <small>{spread}</small></td>'


def _gains(gains: Sequence[Gain], baseline: str) -> str:
    rows = "".join(
        f"<tr><td>{_name(each.model)}</td>"
        + "".join(_gain(each.axes.get(axis.name)) for axis in AXES)
        + f'<td class="n wide">{each.count:,}</td></tr>'
        for each in gains
    )
    return (
        f"<table><caption>Differences to {_name(baseline)}, {GAINS}."
        f"{CHANCE if len(gains) > 2 else ''}</caption>"
        f'<thead><tr><th>Model</th>{HEADS}<th class="n wide">Ids</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _gain(interval: Interval | None) -> str:
    if interval is None:
        return '<td class="n none">none</td>'
    said = verdict(interval)
    spread = f"[{interval.low:+.3f}, {interval.high:+.3f}]"
    return (
        f'<td class="n"><b>{interval.mean:+.3f}</b> <small>{spread}</small> '
        f'<span class="verdict {said if " " not in said else ""}">{said}</span></td>'
    )


def _name(model: str) -> str:
    return escape(model or "(no model)")
