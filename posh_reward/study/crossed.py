"""Means of raters' answers when items and raters are both samples; corrections for many tests."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from posh_reward.study.statistics import Floats, Interval, Ints, group_numbers

NORMAL = NormalDist()
LEVEL = 0.95
WALKS = 200_000
"""Simulated studies from which the level of a look is taken: a level of 5 % is good to 0.05."""


CAUTION = 1.25
"""Satterthwaite's degrees of freedom are a little too many where raters matter: intervals of three
who all see 100 pairs and lean by 0.3 hold the truth in 93 % without this."""


@dataclass(frozen=True, slots=True)
class MeanTest:
    """A mean with the interval over items and raters, and the p-value of its being 0."""

    interval: Interval
    p: float


class CrossedDesign:
    """Raters of each item. An item counts once, as the mean of its raters.

    An interval over items alone holds for these raters only: three raters who each lean a little
    towards one model make it miss in 17 to 43 % of studies (docs/study.md has the simulations).

    Args:
        items: (answers,) the item of each.
        raters: (answers,) who gave it.
        ties: items of equal texts, which count as 0 and which nobody was asked about.
    """

    def __init__(
        self, items: Sequence[Hashable], raters: Sequence[Hashable], ties: int = 0
    ) -> None:
        item_of, rater_of = group_numbers(items), group_numbers(raters)
        sizes, loads = np.bincount(item_of), np.bincount(rater_of)
        self._by_item, self._sizes = _sorted(item_of), sizes.astype(np.float64)
        self._by_rater, self._loads = _sorted(rater_of), loads.astype(np.float64)
        self.items, self.raters, self.ties = len(sizes), len(loads), ties
        self._answers = answers = len(item_of)
        count = self.items + ties
        weight = np.bincount(rater_of, 1 / sizes[item_of]) / count  # (raters,) share in the mean
        # One rater's lean moves the mean by `weight`. s^2 / items, below, holds some of that.
        inner = (1 / sizes).sum() / count - (weight**2).sum()
        self._rater_share = float((weight**2).sum() - inner / max(count - 1, 1))
        pairs = np.zeros((self.items, self.raters))
        np.add.at(pairs, (item_of, rater_of), 1)
        spread_items = (self._sizes**2).sum() / answers
        spread_raters = (self._loads**2).sum() / answers
        # Expected sums of squares between raters, between items, and in all (rows), for a variance
        # of 1 of items, raters and single answers (columns): Henderson's method I.
        self._expected = np.array([
            [(pairs**2).sum(0) @ (1 / self._loads) - spread_items, answers - spread_raters,
             self.raters - 1],
            [answers - spread_items, (pairs**2).sum(1) @ (1 / self._sizes) - spread_raters,
             self.items - 1],
            [answers - spread_items, answers - spread_raters, answers - 1],
        ])  # fmt: skip
        self._solution = np.linalg.pinv(self._expected)

    def moments(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Means, their variances, and degrees of freedom.

        Args:
            values: (studies, answers)

        Returns:
            Three arrays (studies,). The variance is that of the mean over new items and new raters;
            with one rater, over new items.
        """
        per_item = _sums(values, self._by_item) / self._sizes  # (studies, items)
        padded = np.hstack([per_item, np.zeros((len(values), self.ties))])
        count = padded.shape[1]
        means = padded.mean(axis=1)
        over_items = padded.var(axis=1, ddof=1) / count if count > 1 else np.zeros(len(values))
        if self.raters < 2:
            return means, over_items, np.full(len(values), max(count - 1.0, 1.0))
        per_rater = _sums(values, self._by_rater) / self._loads
        centre = values.mean(axis=1)[:, None]
        squares = np.stack([
            (np.square(per_rater - centre) * self._loads).sum(axis=1),
            (np.square(per_item - centre) * self._sizes).sum(axis=1),
            np.square(values - centre).sum(axis=1),
        ])  # fmt: skip
        item, rater, single = self._solution @ squares  # variance components, (studies,)
        rater = np.maximum(rater, 0)
        variance = over_items + self._rater_share * rater
        # Satterthwaite: few raters tell their variance badly, even where it comes out as 0. So the
        # whole mean square between raters counts, not only what exceeds the noise.
        per_lean = self._expected[0, 1] / (self.raters - 1)  # answers behind one rater's mean
        noise = np.maximum(item * self._expected[0, 0] / (self.raters - 1) + single, 0)
        doubt = np.square(self._rater_share * (rater + noise / per_lean)) / (self.raters - 1)
        doubt *= CAUTION
        doubt += np.square(over_items) / max(count - 1, 1)
        freedom = np.divide(np.square(variance), doubt, out=np.ones_like(doubt), where=doubt > 0)
        return means, variance, np.maximum(freedom, 1)

    def reach(self, variance: Floats, freedom: Floats, level: float = LEVEL) -> Floats:
        """Half the width of the interval of each mean."""
        from scipy.special import stdtrit

        return np.asarray(stdtrit(freedom, (1 + level) / 2) * np.sqrt(variance), dtype=np.float64)

    def test(self, values: Sequence[float], largest: float = 2.0) -> MeanTest:
        """The mean of one study with its 95 % interval.

        Args:
            values: (answers,)
            largest: no value is further from 0.
        """
        from scipy.special import stdtr

        [mean], [variance], [freedom] = self.moments(np.asarray([values], dtype=np.float64))
        if variance <= 0:  # all items alike
            return unanimous(float(mean), self.items, largest)
        [reach] = self.reach(np.array([variance]), np.array([freedom]))
        low, high = max(mean - reach, -largest), min(mean + reach, largest)
        p = 2 * float(stdtr(freedom, -abs(mean) / variance**0.5))
        return MeanTest(Interval(float(mean), float(low), float(high), self.items), p)


def _sorted(groups: Ints) -> tuple[Ints, Ints]:
    """Order that brings groups together, and where each begins."""
    order = np.argsort(groups, kind="stable")
    return order, np.searchsorted(groups[order], np.arange(groups.max() + 1))


def _sums(values: Floats, grouping: tuple[Ints, Ints]) -> Floats:
    order, begins = grouping
    sums: Floats = np.add.reduceat(values[:, order], begins, axis=1)
    return sums


def unanimous(mean: float, items: int, largest: float = 2.0) -> MeanTest:
    """The interval of items that all have one value: not of width 0.

    So many items that agree leave room for a share of others (Clopper and Pearson), and those may
    have any value. Six at the end of the scale settle a sign and five do not, as in the sign test.
    The p-value is that of the level at which the interval ends at 0.
    """
    share = 1 - ((1 - LEVEL) / 2) ** (1 / items)
    low, high = mean - share * (mean + largest), mean + share * (largest - mean)
    p = min(1.0, 2 * (largest / (largest + abs(mean))) ** items)
    return MeanTest(Interval(mean, low, high, items), p)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values after Holm's correction: the chance of one false statement or more among them all.

    The smallest is multiplied by their number, the next by one less, and so on; none is smaller
    than the one before it.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, largest = [1.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, p_values[index] * (len(order) - place)))
        corrected[index] = largest
    return corrected


def settled(p_values: Sequence[float], shares: Sequence[float] = (1.0,)) -> list[bool]:
    """Statements that hold together at 5 %, after Holm's correction and one for several looks.

    Args:
        p_values: of the statements.
        shares: of the study's answers at each look so far, rising to at most 1.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    holds = [False] * len(p_values)
    for place, index in enumerate(order):
        # Maurer and Bretz (2013): Holm's step with the spending of that step's level.
        if p_values[index] > look_level(tuple(shares), (1 - LEVEL) / (len(order) - place)):
            break
        holds[index] = True
    return holds


@lru_cache(maxsize=64)
def look_level(shares: tuple[float, ...], level: float = 1 - LEVEL) -> float:
    """Level at which the last of several looks may be tested, so that all have ``level`` together.

    Alpha spending as of O'Brien and Fleming (Lan and DeMets, 1983): early looks may use little, so
    that nearly all is left for the end. One look at the whole study is tested at ``level``.
    """
    if shares == (1.0,):
        return level
    rng = np.random.default_rng(0)
    walk, alive = np.zeros(WALKS), np.ones(WALKS, dtype=bool)
    before, used, bound = 0.0, 0.0, np.inf
    for share in shares:
        walk += np.sqrt(max(share - before, 0)) * rng.standard_normal(WALKS)
        spent = 2 - 2 * NORMAL.cdf(NORMAL.inv_cdf(1 - level / 2) / share**0.5)
        heights = np.sort(np.abs(walk[alive]))[::-1] / share**0.5
        crossing = round((spent - used) * WALKS)
        bound = float(heights[crossing - 1]) if crossing > 0 else np.inf
        alive &= np.abs(walk) / share**0.5 < bound
        before, used = share, spent
    return 2 - 2 * NORMAL.cdf(bound) if np.isfinite(bound) else 0.0
