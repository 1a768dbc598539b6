"""People's marks beside POSH's, text by text, those on which they differ most first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from posh_reward.study.agreement.judged_items import gather_comments
from posh_reward.study.agreement.localisation import MARKED_AXES, SpanAnnotations, score_tokens
from posh_reward.study.agreement.metric_scores import Alerts, PoshMeasure, TextPair
from posh_reward.tables.statistics import Ints
from posh_reward.types import Failure, Span

Marked = NDArray[np.bool_]
"""(tokens,) True where a token is marked."""


@dataclass(frozen=True, slots=True)
class MarkedText:
    """Marks of people and of POSH on one side: in the generation, or in the reference."""

    axis: str
    raters: int
    stretches: tuple[tuple[str, int], ...]  # of the text, with how many people marked them
    people: int  # tokens that at least half of the raters marked
    metric: int  # tokens with an alert at the fixed threshold
    both: int
    disagreement: float  # 0 to 1


@dataclass(frozen=True, slots=True)
class MarkedItem:
    """One generation and its reference, with everybody's marks."""

    pair: TextPair
    sides: tuple[MarkedText, ...]
    comments: tuple[str, ...]

    @property
    def dispute(self) -> MarkedText:
        return max(self.sides, key=lambda side: side.disagreement)


def disagree_on_marks(people: Marked, metric: Marked) -> float:
    """From 0 to 1: of the tokens that either marks, the share that only one of them does.

    People mark tokens 1 and 2, the metric 2, 3 and 4: of these four, three are marked by one only,
    so the disagreement is 3/4. It is 0 if neither marks anything.
    """
    either = int((people | metric).sum())
    return int((people ^ metric).sum()) / max(either, 1)


def list_marked_items(marks: SpanAnnotations, measure: PoshMeasure) -> list[MarkedItem]:
    """Gather everybody's marks of each text, and the alerts of POSH at its fixed threshold."""
    places_by_pair: dict[TextPair, list[int]] = {}
    for place, pair in enumerate(marks.pairs):
        places_by_pair.setdefault(pair, []).append(place)
    pairs = list(places_by_pair)
    items = []
    for pair, alerts in zip(pairs, measure.alerts(pairs), strict=True):
        places = places_by_pair[pair]
        found: Alerts = {axis: [] for axis in MARKED_AXES}
        if not isinstance(alerts, Failure):
            found = alerts
        sides = []
        for axis in MARKED_AXES:
            sides.append(_mark_side(marks, axis, places, found, measure.threshold))
        rows: list[Mapping[str, object]] = [marks.pairs[place].row for place in places]
        items.append(MarkedItem(pair, tuple(sides), gather_comments(rows)))
    return sorted(items, key=lambda item: item.dispute.disagreement, reverse=True)


def _mark_side(
    marks: SpanAnnotations, axis: str, places: Sequence[int], alerts: Alerts, threshold: float
) -> MarkedText:
    tokens = marks.split_text(axis, places[0])
    everybody = np.stack([marks.token_marks(axis, place) for place in places])
    counts: Ints = everybody.astype(np.int64).sum(axis=0)
    people = 2 * counts >= len(places)
    metric = score_tokens(tokens, alerts[axis]) < threshold
    pair = marks.pairs[places[0]]
    text = pair.generation if axis == "mistakes" else pair.reference
    return MarkedText(
        axis,
        len(places),
        tuple(_cut_by_count(text, tokens, counts)),
        int(people.sum()),
        int(metric.sum()),
        int((people & metric).sum()),
        disagree_on_marks(people, metric),
    )


def _cut_by_count(text: str, tokens: Sequence[Span], counts: Ints) -> list[tuple[str, int]]:
    """Cut a text where the number of people who marked it changes; the parts join to the text."""
    stretches = []
    start = 0
    runs = groupby(zip(tokens, counts.tolist(), strict=True), key=lambda each: each[1])
    for count, run in runs:
        if not count:
            continue
        spans = [span for span, _ in run]
        first, last = spans[0][0], spans[-1][1]
        stretches += [(text[start:first], 0), (text[first:last], count)]
        start = last
    return [(part, count) for part, count in (*stretches, (text[start:], 0)) if part]
