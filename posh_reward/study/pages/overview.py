"""Totals of scored rows -> the cards on top of a report: distributions, or models side by side."""

from __future__ import annotations

from html import escape

from posh_reward.study.pages.histogram import axis_card
from posh_reward.study.rows.scored import AXES, SCALE
from posh_reward.study.rows.standings import Standing, Tally
from posh_reward.study.statistics import Interval


def overview(tally: Tally, gain: Interval | None) -> str:
    """The cards: a distribution for each axis, or, with several models, a table of their means.

    Args:
        tally: totals over the rows of the page.
        gain: of two models, how much better the second is; None if there are not two.
    """
    if len(tally.models) > 1:
        return _table(tally.standings(), gain)
    [totals] = tally.models.values()
    cards = "".join(axis_card(axis, totals.scores[axis.name]) for axis in AXES)
    return f'<section class="axes" aria-label="Distributions">{cards}</section>'


def _table(standings: list[Standing], gain: Interval | None) -> str:
    heads = "".join(f'<th class="n">{axis.name.capitalize()}</th>' for axis in AXES)
    rows = "".join(map(_row, standings))
    said = "" if gain is None else f"<p>{_gain(standings, gain)}</p>"
    return (
        f'<section class="card standings" aria-label="Models"><table><caption>{SCALE}; means with '
        f"95 % intervals</caption><thead><tr><th>Model</th>{heads}"
        '<th class="n wide">Words</th><th class="n wide">Scored</th>'
        f'<th class="n wide">No score</th></tr></thead><tbody>{rows}</tbody></table>{said}'
        "</section>"
    )


def _row(standing: Standing) -> str:
    cells = "".join(_mean(standing.axes.get(axis.name)) for axis in AXES)
    return (
        f"<tr><td>{escape(standing.model or '(no model)')}</td>{cells}"
        f'<td class="n wide">{standing.words:.1f}</td><td class="n wide">{standing.scored:,}</td>'
        f'<td class="n wide">{standing.failed:,}</td></tr>'
    )


def _mean(interval: Interval | None) -> str:
    if interval is None:
        return '<td class="n none">none</td>'
    spread = f"[{interval.low:.3f}, {interval.high:.3f}]"
    return f'<td class="n"><b>{interval.mean:.3f}</b> <small>{spread}</small></td>'


def _gain(standings: list[Standing], gain: Interval) -> str:
    before, after = (escape(standing.model or "(no model)") for standing in standings)
    settled = "" if gain.excludes_zero else "; the sign is not settled"
    return (
        f"Overall of {after} minus overall of {before}, paired by id: <b>{gain}</b>{settled}. "
        f"Above 0, {after} is better."
    )
