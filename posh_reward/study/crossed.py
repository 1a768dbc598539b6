"""Means of raters' answers when items and raters are both samples; corrections for many tests."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from posh_reward.study.statistics import Floats, Interval, Ints, group_numbers, segments

LEVEL = 0.95
LEAST = 1e-12  # smallest p-value
ALIKE = 1e-12  # values that differ less are equal but for rounding
NARROWEST = 0.5  # least width of an interval for other raters, relative to the one for these raters
POWER, LOWEST_POWER = 1.5, 0.5  # of the mean of both t: the first over the degrees of freedom


@dataclass(frozen=True, slots=True)
class MeanTest:
    """A mean with the interval over items and raters, and the p-value of its being 0."""

    interval: Interval
    p: float


class MeanVariances(NamedTuple):
    """Parts of the variance of a mean; four arrays (studies,)."""

    over_items: Floats  # over new items, with the same raters
    items: Floats  # over new items and raters: the part that an item's raters share
    raters: Floats  # over new items and raters: the part that differs between raters
    degrees: Floats  # degrees of freedom of ``raters``


class CrossedDesign:
    """Crossing of items with raters; an item counts once, as the mean of its raters.

    Raters are clusters, too: three who each lean a little towards one model make an interval over
    items alone miss in 17 to 43 % of studies. Where each item has one rater, and all raters have
    equally many, this is Student's test of the raters' means. Two-way clustered variances, as
    libraries have them, cover 88 to 100 % of such studies instead of 95 (research/study_coverage).

    ``items`` and ``raters`` name those of each answer; ``ties`` counts items with equal texts,
    which are 0 without asking.
    """

    def __init__(
        self, items: Sequence[Hashable], raters: Sequence[Hashable], ties: int = 0
    ) -> None:
        self._item_of, rater_of = group_numbers(items), group_numbers(raters)  # (answers,) each
        self._sizes = np.bincount(self._item_of).astype(np.float64)  # (items,) raters of each
        self._by_item, self._by_rater = segments(self._item_of), segments(rater_of)
        self.items, self.raters, self.ties = len(self._sizes), len(self._by_rater[1]), ties
        self._count = self.items + ties
        self._asked = self.items / self._count
        # (answers,) of each answer in the mean of the items that raters saw
        self._weights = 1 / (self._sizes[self._item_of] * self.items)
        # Mean of 1 / (number of raters of an item).
        self._single = float((1 / self._sizes).mean())
        if self.raters > 1:
            self._expect(rater_of)

    def _expect(self, rater_of: Ints) -> None:
        """Shares of the sources of variance in the mean and in the raters' squared sums.

        The sources are raters' tastes, single answers, and what an item's raters have in common.
        """
        weights = np.zeros((self.raters, self.items))
        np.add.at(weights, (rater_of, self._item_of), self._weights)
        of_raters = weights.sum(axis=1)  # (raters,) share of each rater in the mean
        squares = np.bincount(rater_of, weights=np.square(self._weights))
        # Sums of deviations from the mean: it contains every rater's answers, so one who gives most
        # of them hardly deviates from it.
        centre = np.eye(self.raters) - of_raters[:, None]
        sources = np.diag(of_raters**2), np.diag(squares), weights @ weights.T
        covariances = [centre @ source @ centre.T for source in sources]
        self._in_sums = np.array([np.trace(each) for each in covariances])
        self._products = np.array([[np.sum(a * b) for b in covariances] for a in covariances])
        # What an item's raters share shows between raters only as far as they see different items:
        # not at all where all see all; like single answers where each item has one rater.
        visible = min(self._in_sums[2] * squares.sum() / self._in_sums[1], 1 / self.items)
        self._in_mean = np.array([np.square(of_raters).sum(), squares.sum(), visible])
        # Two raters who both see three items: every answer has a weight of 1/6, each rater .5. Of
        # a taste's variance .5^2 + .5^2 = .5 is in the mean, and .25 in the sums, since two raters
        # deviate by half their difference; of single answers 6/36 = 1/6 and 1/12; of what an item's
        # raters share nothing shows. So the sums show half of what they stand for, and are doubled.

    def moments(self, values: Floats) -> tuple[Floats, MeanVariances]:
        """Means (studies,) of values (studies, answers), and their variances."""
        per_item = _sums(values, self._by_item) / self._sizes  # (studies, items)
        # Equal texts are data: leaving them out would overstate every difference.
        all_items = np.hstack([per_item, np.zeros((len(values), self.ties))])
        means = all_items.mean(axis=1)
        over_items = all_items.var(axis=1, ddof=min(1, self._count - 1)) / self._count
        if self.raters < 2:
            none = np.zeros_like(means)
            return means, MeanVariances(over_items, over_items, none, none + 1)
        # (studies, answers) share of each answer in the mean. Take deviations from the items that
        # raters saw: ties would count against every rater alike.
        shares = (values - per_item.mean(axis=1)[:, None]) * self._weights
        between = np.square(_sums(shares, self._by_rater)).sum(axis=1)
        sources = self._sources(values, per_item, between)
        # Correct the squared sums by what the design lets them show of such sources: half of it for
        # two raters, all of it for many, less for a rater who gave most of the answers. The sources
        # are uncertain, but decide only between factors that are alike. Degrees: Satterthwaite.
        shown, products = self._in_sums @ sources, np.sum(sources * (self._products @ sources), 0)
        some = shown > 0
        factor = np.divide(self._in_mean @ sources, shown, out=np.ones_like(shown), where=some)
        degrees = np.divide(
            shown**2, products, out=np.full_like(shown, self.raters - 1), where=some
        )
        # What shows between raters is also in the variance between items: count it once.
        overlap = self._in_mean[1:] @ sources[1:]
        items = np.maximum(over_items - self._asked**2 * overlap, 0)
        return means, MeanVariances(over_items, items, self._asked**2 * factor * between, degrees)

    def _sources(self, values: Floats, per_item: Floats, between: Floats) -> Floats:
        """(sources, studies) estimated variances; never negative."""
        spread = per_item.var(axis=1, ddof=min(1, self.items - 1))
        within = np.square(values - per_item[:, self._item_of]).sum(axis=1)
        within /= max(len(self._item_of) - self.items, 1)
        shared = np.maximum(spread - within * self._single, 0)
        single = (spread - shared) / self._single
        taste = between - self._in_sums[1] * single - self._in_sums[2] * shared
        return np.stack([np.maximum(taste, 0) / self._in_sums[0], single, shared])

    def reach(self, variances: MeanVariances, level: float = LEVEL) -> Floats:
        """Half the width of the interval of each mean."""
        from scipy.special import stdtrit

        by_item = stdtrit(max(self._count - 1, 1), (1 + level) / 2)
        degrees = np.maximum(variances.degrees, 1)
        by_rater = stdtrit(degrees, (1 + level) / 2)
        both = variances.items + variances.raters
        share = np.divide(variances.raters, both, out=np.zeros_like(both), where=both > 0)
        # Three raters have two degrees of freedom, a hundred items 99. Weighting both t by their
        # shares of the variance (Cochran and Cox) is too wide, a geometric mean calls 8 % of null
        # studies settled; a mean of powers lies between. The fewer the raters, the more often they
        # agree by chance, and the higher the power (research/LOG.md).
        power = np.maximum(LOWEST_POWER, POWER / degrees)
        student = (share * by_rater**power + (1 - share) * by_item**power) ** (1 / power)
        reach = student * np.sqrt(both)
        # Three items by two raters who see all, 0 1, 1 2 and 2 3: the raters' means are 1 and 2, so
        # their part of the variance is s^2 / 2 = .25, with t(1) = 12.71. The items' means are .5,
        # 1.5 and 2.5: s^2 / 3 = 1/3. Single answers of an item vary by .5, of which .5 / 2 / 3 is
        # in the raters' part already, which leaves .25, with
        # t(2) = 4.30. Both shares are .5, the power is 1.5: ((12.71^1.5 + 4.30^1.5) / 2)^(2/3) is
        # 9.02, times the root of .25 + .25 is 6.38.
        # Raters may agree by chance, about few items even exactly, so bound the width from below.
        # Not by the whole width over items, though: 99 % of such intervals would cover.
        least = NARROWEST * by_item * np.sqrt(variances.over_items)
        return np.asarray(np.maximum(reach, least))

    def test(self, values: Sequence[float], largest: float = 2.0) -> MeanTest:
        """Mean of one study, with its 95 % interval, cut at +-``largest``, and its p-value."""
        from scipy.optimize import brentq

        [mean], variances = self.moments(np.asarray([values], dtype=np.float64))
        if variances.over_items[0] < ALIKE:  # all items equal: the interval would have no width
            return unanimous(float(mean), self.items, largest)
        [reach] = self.reach(variances)
        low, high = max(mean - reach, -largest), min(mean + reach, largest)

        def beyond(p: float) -> float:
            return float(self.reach(variances, 1 - p)[0] - abs(mean))

        # p belongs to the level at which the interval ends at 0. There is no formula, since both
        # quantiles of Student's t change with the level.
        p = brentq(beyond, LEAST, 1) if beyond(LEAST) > 0 else LEAST
        return MeanTest(Interval(float(mean), float(low), float(high), self.items), float(p))


def _sums(values: Floats, groups: tuple[Ints, Ints]) -> Floats:
    order, begins = groups
    sums: Floats = np.add.reduceat(values[:, order], begins, axis=1)  # (studies, groups)
    return sums


def unanimous(mean: float, items: int, largest: float = 2.0) -> MeanTest:
    """Interval of items that all have one value; its width is not 0."""
    # Even if all items agree, a share of others may not (Clopper and Pearson), with any value. Six
    # at the end of the scale settle a sign, five do not, as in the sign test.
    share = 1 - ((1 - LEVEL) / 2) ** (1 / items)
    low, high = mean - share * (mean + largest), mean + share * (largest - mean)
    p = min(1.0, 2 * (largest / (largest + abs(mean))) ** items)
    return MeanTest(Interval(mean, low, high, items), p)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction of p-values: each bounds the chance of any false statement among them."""
    # .04 .01 .03 -> sorted .01 .03 .04, times 3 2 1: .03 .06 .04, and none below its predecessor.
    order = np.argsort(p_values)
    values = np.empty(len(p_values))
    values[order] = np.maximum.accumulate(np.sort(p_values) * np.arange(len(p_values), 0, -1))
    return [float(value) for value in np.minimum(values, 1)]
