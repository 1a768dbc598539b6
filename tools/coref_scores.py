"""MUC, B-cubed and CEAF-e by their published definitions, over any hashable mentions.

MUC: Vilain et al. (1995). B-cubed: Bagga and Baldwin (1998). CEAF-e: Luo (2005), similarity
phi-4. Mentions found on one side only are handled as in Pradhan et al. (2014), the reference
scorer. Counts of several texts add up before the ratios are taken, as in the CoNLL-2012 task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

Cluster = frozenset[Hashable]
METRICS = ("MUC", "B3", "CEAFe")


@dataclass(frozen=True)
class Ratio:
    """A precision and a recall as counts, so that those of several texts can be added."""

    hit_precision: float = 0.0
    all_precision: float = 0.0
    hit_recall: float = 0.0
    all_recall: float = 0.0

    def __add__(self, other: Ratio) -> Ratio:
        return Ratio(
            self.hit_precision + other.hit_precision,
            self.all_precision + other.all_precision,
            self.hit_recall + other.hit_recall,
            self.all_recall + other.all_recall,
        )

    @property
    def precision(self) -> float:
        """Share of what was found that is right; 0 if nothing was found."""
        return self.hit_precision / self.all_precision if self.all_precision else 0.0

    @property
    def recall(self) -> float:
        """Share of what there is that was found; 0 if there is nothing."""
        return self.hit_recall / self.all_recall if self.all_recall else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def all_scores(gold: Sequence[Cluster], found: Sequence[Cluster]) -> dict[str, Ratio]:
    """The three metrics of one text."""
    return {"MUC": muc(gold, found), "B3": b_cubed(gold, found), "CEAFe": ceaf_e(gold, found)}


def conll_f1(scores: dict[str, Ratio]) -> float:
    """Mean of the three F1 (CoNLL-2012)."""
    return sum(scores[name].f1 for name in METRICS) / len(METRICS)


def muc(gold: Sequence[Cluster], found: Sequence[Cluster]) -> Ratio:
    """Links: how many are missing to join each cluster's mentions on the other side."""
    return Ratio(*kept_links(found, gold), *kept_links(gold, found))


def kept_links(clusters: Sequence[Cluster], others: Sequence[Cluster]) -> tuple[float, float]:
    """Links of ``clusters`` that ``others`` keep, and all of them."""
    owner = {mention: i for i, cluster in enumerate(others) for mention in cluster}
    kept = total = 0
    for cluster in clusters:
        pieces = {owner.get(mention, ("alone", mention)) for mention in cluster}
        kept += len(cluster) - len(pieces)
        total += len(cluster) - 1
    return kept, total


def b_cubed(gold: Sequence[Cluster], found: Sequence[Cluster]) -> Ratio:
    """Mentions: how much of each one's cluster it shares with its cluster on the other side."""
    return Ratio(*shared_mentions(found, gold), *shared_mentions(gold, found))


def shared_mentions(clusters: Sequence[Cluster], others: Sequence[Cluster]) -> tuple[float, float]:
    """Sum over the mentions of ``clusters`` of the share that ``others`` agree with."""
    owner = {mention: i for i, cluster in enumerate(others) for mention in cluster}
    shared, total = 0.0, 0
    for cluster in clusters:
        sizes = Counter(owner[mention] for mention in cluster if mention in owner)
        shared += sum(size * size for size in sizes.values()) / len(cluster)
        total += len(cluster)
    return shared, total


def ceaf_e(gold: Sequence[Cluster], found: Sequence[Cluster]) -> Ratio:
    """Entities: the best one-to-one matching of clusters by 2|G & F| / (|G| + |F|)."""
    if not gold or not found:
        return Ratio(0.0, len(found), 0.0, len(gold))
    similarity = np.array(
        [[2 * len(g & f) / (len(g) + len(f)) for f in found] for g in gold], dtype=float
    )
    best = best_matching(similarity)
    return Ratio(best, len(found), best, len(gold))


def best_matching(similarity: np.ndarray) -> float:
    """Highest sum of a one-to-one matching of rows to columns (Hungarian method).

    Args:
        similarity: (rows, columns), not negative.
    """
    cost = -(similarity if similarity.shape[0] <= similarity.shape[1] else similarity.T)
    rows, columns = cost.shape
    row_potential, potential = np.zeros(rows + 1), np.zeros(columns + 1)
    match = np.zeros(columns + 1, dtype=int)
    for row in range(1, rows + 1):
        match[0], column = row, 0
        slack, used = np.full(columns + 1, np.inf), np.zeros(columns + 1, dtype=bool)
        way = np.zeros(columns + 1, dtype=int)
        while match[column]:
            used[column] = True
            reduced = cost[match[column] - 1] - row_potential[match[column]] - potential[1:]
            better = ~used[1:] & (reduced < slack[1:])
            slack[1:][better], way[1:][better] = reduced[better], column
            nearest = int(np.argmin(np.where(used, np.inf, slack)))
            delta = slack[nearest]
            row_potential[match[used]] += delta
            potential[used] -= delta
            slack[~used] -= delta
            column = nearest
        while column:
            match[column], column = match[way[column]], way[column]
    return float(sum(-cost[match[j] - 1, j - 1] for j in range(1, columns + 1) if match[j]))
