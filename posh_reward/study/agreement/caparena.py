"""CapArena: battles of models' descriptions of web images (paper, section 5; Table 6).

Pairs with a text by a human are left out. Descriptions: accuracy over better, tie and worse,
overall and in each cluster, with one tie threshold for all. Models: rank correlations of their Elo
ratings from a metric's outcomes with those from people's.

Medians over 1,000 draws of the battles rank the models, as in the paper. The intervals come from
one pass through the battles of each resample of images, which is noisier than the median of many:
they are rather too wide than too narrow.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.agreement import elo
from posh_reward.study.agreement.compare import Figure, Sheet, SimpleMeasure, on_rows
from posh_reward.study.agreement.correlation import kendall, spearman
from posh_reward.study.agreement.items import Item
from posh_reward.study.agreement.pairs import differences
from posh_reward.study.agreement.pairwise import accuracy, predicted_outcomes
from posh_reward.study.agreement.sources import check_columns, image_of, text_of
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats, Ints

HUMAN = "human"
TIES = ("skip", "bad", "equal")
AXIS = "overall"
COLUMNS = ("img", "ref", "source1", "source2", "caption1", "caption2", "winner", "cluster")
"""Of ``caparena_annots_eval.json``."""


@dataclass(frozen=True)
class Arena:
    """Battles, with everything by battle; items 2 i and 2 i + 1 are the captions of battle i."""

    items: Sequence[Item]
    outcome: Floats
    """1 where the first caption won, -1 where the second did, 0 for ties."""
    first: Ints
    """Number of the model that wrote the first caption."""
    second: Ints
    models: Sequence[str]
    clusters: Sequence[str]
    groups: Sequence[Hashable]
    left_out: int
    """Pairs with a human's text."""

    @property
    def sheet(self) -> Sheet:
        """The battles as rows of figures."""
        return Sheet("CapArena", {AXIS: self.outcome}, self.groups, differences)

    def ratings(self, outcome: Floats, rows: Ints) -> Floats:
        """(models,) median Elo ratings from some battles; ``outcome`` has all."""
        return elo.median_ratings(
            self.first[rows], self.second[rows], outcome[rows], len(self.models)
        )

    def one_pass(self, outcome: Floats, orders: Ints) -> Floats:
        """(orders, models) Elo ratings after the battles in each order."""
        return elo.ratings(self.first, self.second, outcome, orders, len(self.models))


def arena(rows: Sequence[Row], name: str) -> Arena:
    """The battles of CapArena's file.

    Raises:
        InputError: a column is missing, a cell is not a text, or a winner is unknown.
    """
    check_columns(rows, {f"a column {column!r}": column for column in COLUMNS}, name)
    kept = [(number, row) for number, row in enumerate(rows, start=1) if not _by_human(row)]
    if not kept:
        raise InputError(f"every pair of {name} has a text by {HUMAN!r}: there is nothing to rank")
    items: list[Item] = []
    sources: list[tuple[str, str]] = []
    outcome, clusters, groups = [], [], []
    for number, row in kept:
        where = f"{name}, row {number}"
        image, references = image_of(row, "img"), (text_of(row, "ref", where),)
        for side in ("1", "2"):
            caption = text_of(row, f"caption{side}", where)
            items.append(Item(caption, references, image, row, side))
        sources.append((text_of(row, "source1", where), text_of(row, "source2", where)))
        outcome.append(_outcome(row, where))
        clusters.append(str(row.get("cluster")))
        groups.append(number if image is None else image)
    models = sorted({source for both in sources for source in both})
    first, second = (np.array([models.index(s[side]) for s in sources]) for side in (0, 1))
    return Arena(items, np.array(outcome), first, second, models, clusters, groups,
                 len(rows) - len(kept))  # fmt: skip


def _by_human(row: Row) -> bool:
    return HUMAN in (row.get("source1"), row.get("source2"))


def _outcome(row: Row, where: str) -> float:
    winner = row.get("winner")
    for name, won in ((row["source1"], 1.0), (row["source2"], -1.0)):
        if winner == name:
            return won
    if winner in TIES:
        return 0.0
    raise InputError(
        f"{where}: the winner {str(winner)[:40]!r} is neither {row['source1']!r} nor "
        f"{row['source2']!r}, nor one of {', '.join(TIES)}"
    )


def arena_figures(arena: Arena) -> list[Figure]:
    """Accuracy of descriptions, and the rank correlations of models."""
    rankings = Rankings(arena)
    return [
        Figure(AXIS, "desc acc", on_rows(accuracy), percent=True),
        *(
            Figure(AXIS, f"model {name}", partial(rankings.agreement, correlation),
                   many=partial(rankings.agreements, correlation))
            for name, correlation in (("rho", spearman), ("tau", kendall))
        ),
    ]  # fmt: skip


def cluster_figures(arena: Arena) -> list[Figure]:
    """Accuracy of the descriptions of each cluster, with the tie threshold of all."""
    clusters = np.array(arena.clusters)
    return [
        Figure(AXIS, f"acc in {name}", partial(_accuracy_within, clusters == name), percent=True)
        for name in sorted(set(arena.clusters))
    ]


def _accuracy_within(
    inside: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    scores: Floats,
    people: Floats,
    rows: Ints,
) -> float:
    right = predicted_outcomes(scores[rows], people[rows]) == np.sign(people[rows])
    chosen = right[inside[rows]]
    return float(chosen.mean()) if len(chosen) else nan


class Rankings:
    """Ratings of models from people's outcomes and from a metric's, and how they correlate.

    Ratings take a second or so, and rho and tau need the same ones: what was computed is kept.
    """

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._kept: dict[bytes, tuple[Floats, Floats]] = {}

    def agreement(
        self, correlation: SimpleMeasure, scores: Floats, people: Floats, rows: Ints
    ) -> float:
        """The correlation of the models' median ratings."""
        key = scores.tobytes() + rows.tobytes()
        if key not in self._kept:
            outcome = _predicted(scores, people, rows)
            self._kept[key] = self._arena.ratings(outcome, rows), self._arena.ratings(people, rows)
        ours, gold = self._kept[key]
        met = _met(self._arena, rows)
        return correlation(ours[met], gold[met])

    def agreements(
        self, correlation: SimpleMeasure, scores: Floats, people: Floats, draws: Sequence[Ints]
    ) -> list[float]:
        """The correlation of their ratings after one pass through each resample."""
        if not draws:
            return []
        orders = _padded(draws)
        key = scores.tobytes() + orders.tobytes()
        if key not in self._kept:
            outcome = np.array([_predicted(scores, people, rows) for rows in draws])
            ours, gold = (self._arena.one_pass(each, orders) for each in (outcome, people))
            self._kept[key] = ours, gold
        ours, gold = self._kept[key]
        mets = [_met(self._arena, rows) for rows in draws]
        return [correlation(a[m], b[m]) for a, b, m in zip(ours, gold, mets, strict=True)]


def _predicted(scores: Floats, people: Floats, rows: Ints) -> Floats:
    """(battles,) a metric's outcomes of some battles; 0 for all others."""
    outcome = np.zeros(len(people))
    outcome[rows] = predicted_outcomes(scores[rows], people[rows])
    return outcome


def _met(arena: Arena, rows: Ints) -> Ints:
    """The models that fight in some battles: the others stay at 1000 and have no rank."""
    return np.unique(np.concatenate([arena.first[rows], arena.second[rows]]))


def _padded(draws: Sequence[Ints]) -> Ints:
    orders = np.full((len(draws), max(map(len, draws))), elo.NONE)
    for order, rows in zip(orders, draws, strict=True):
        order[: len(rows)] = rows
    return orders


def standings(arena: Arena, predicted: Mapping[str, Floats]) -> dict[str, dict[str, float]]:
    """Metric -> model -> median Elo rating, people first.

    Args:
        arena: the battles.
        predicted: metric -> (battles,) differences of its scores; nan where it has none.
    """
    everything = np.arange(len(arena.outcome))
    found = {"people": arena.ratings(arena.outcome, everything)}
    for name, scores in predicted.items():
        rows = np.flatnonzero(~np.isnan(scores))
        found[name] = arena.ratings(_predicted(scores, arena.outcome, rows), rows)
    return {
        name: dict(zip(arena.models, map(float, rating), strict=True))
        for name, rating in found.items()
    }
