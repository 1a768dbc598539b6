"""MUC, B-cubed and CEAF-e by their published definitions, over any hashable mentions.

MUC: Vilain et al. (1995). B-cubed: Bagga and Baldwin (1998). CEAF-e: Luo (2005), similarity phi-4.
Mentions on one side only are handled as in the reference scorer (Pradhan et al., 2014). Counts are
summed over texts before taking ratios, as in the CoNLL-2012 task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

Cluster = frozenset[Hashable]
METRICS = ("MUC", "B3", "CEAFe")


@dataclass(frozen=True)
class Ratio:
    """Precision and recall as counts, which can be summed over texts."""

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
        """Share of the found that is correct; 0 if nothing was found."""
        return self.hit_precision / self.all_precision if self.all_precision else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold that was found; 0 without gold."""
        return self.hit_recall / self.all_recall if self.all_recall else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def all_scores(gold: Sequence[Cluster], ours: Sequence[Cluster]) -> dict[str, Ratio]:
    """Return the three metrics of one text."""
    return {"MUC": muc(gold, ours), "B3": b_cubed(gold, ours), "CEAFe": ceaf_e(gold, ours)}


def conll_f1(scores: dict[str, Ratio]) -> float:
    """Return the mean of the three F1 (CoNLL-2012)."""
    return sum(scores[name].f1 for name in METRICS) / len(METRICS)


def muc(gold: Sequence[Cluster], ours: Sequence[Cluster]) -> Ratio:
    """Count the coreference links within clusters that the other side keeps."""
    return Ratio(*common_links(ours, gold), *common_links(gold, ours))


def common_links(clusters: Sequence[Cluster], others: Sequence[Cluster]) -> tuple[float, float]:
    """Return the links of ``clusters`` that ``others`` keep, and all links of ``clusters``."""
    # A cluster of n mentions needs n - 1 links; cut into k pieces by the other side it keeps n - k.
    owner = {mention: i for i, cluster in enumerate(others) for mention in cluster}
    links = total = 0
    for cluster in clusters:
        pieces = {owner.get(mention, ("alone", mention)) for mention in cluster}
        links += len(cluster) - len(pieces)
        total += len(cluster) - 1
    return links, total


def b_cubed(gold: Sequence[Cluster], ours: Sequence[Cluster]) -> Ratio:
    """Sum over mentions the overlap of a mention's two clusters, one from each side."""
    return Ratio(*shared_mentions(ours, gold), *shared_mentions(gold, ours))


def shared_mentions(clusters: Sequence[Cluster], others: Sequence[Cluster]) -> tuple[float, float]:
    """Return the summed share of each mention's cluster that ``others`` keep, and the mentions."""
    owner = {mention: i for i, cluster in enumerate(others) for mention in cluster}
    shared, total = 0.0, 0
    for cluster in clusters:
        sizes = Counter(owner[mention] for mention in cluster if mention in owner)
        shared += sum(size * size for size in sizes.values()) / len(cluster)
        total += len(cluster)
    return shared, total


def ceaf_e(gold: Sequence[Cluster], ours: Sequence[Cluster]) -> Ratio:
    """Match clusters one to one, maximising 2|G & F| / (|G| + |F|)."""
    if not gold or not ours:
        return Ratio(0.0, len(ours), 0.0, len(gold))
    similarity = np.array([[2 * len(g & f) / (len(g) + len(f)) for f in ours] for g in gold])
    best = float(similarity[linear_sum_assignment(similarity, maximize=True)].sum())
    return Ratio(best, len(ours), best, len(gold))
