"""Means of answers by several raters about several items, both of which are samples.

What is estimated
-----------------
Rater r's answer about item i is taken for a sum of independent parts::

    answer[i, r] = mean + shared[i] + taste[r] + single[i, r]

``shared`` is what an item's raters have in common, ``taste`` what a rater's answers have in common
(a leaning towards one model), and ``single`` the rest. ``CrossedDesign`` estimates ``mean`` by the
average over items of each item's average over its raters, so an item counts once however many
raters saw it. Its interval is for other items *and* other raters of the same kinds. An interval
over items alone takes ``taste``, which is the same at all items of a rater, for noise that averages
out: with three raters who each lean a little, it misses the truth in 17 to 43 % of studies.

The estimator as a whole has no name in the literature; each of its steps has: variance components
by the method of moments (Henderson, 1953), a correction of clustered squares by what the design
lets them show, with Satterthwaite's degrees of freedom (as Bell and McCaffrey's, 2002), and an
average of two quantiles of Student's t (after Cochran and Cox, 1950).

The formula, step by step
-------------------------
The example: three items, each seen by the same two raters, who answer 0 1, 1 2 and 2 3.

1. Mean. Item averages are .5, 1.5 and 2.5, so the mean is 1.5. Each of the six answers has a
   *weight* in it of 1 / (raters of its item * items) = 1/6.
2. Variance over items, with these raters: the variance of the item averages, 1, over their
   number, 3, is 1/3.
3. Raters' squared sums. A rater's *sum* is that of weight * (answer - mean): here -.25 and .25.
   Squared and added up: .125. Tastes make these sums large.
4. What the design lets them show. Of a source with variance 1, some is *in the sums* on average,
   less than is *in the mean*, since the mean that is subtracted contains the rater's own answers.
   Of tastes .25 is in the sums (two raters deviate by half their difference) and .5^2 + .5^2 = .5
   in the mean; of single answers 1/12 and 6 * (1/6)^2 = 1/6; of what an item's raters share
   nothing shows between raters who see the same items.
5. Sources, by moments. Answers about the same item vary by .5, so single answers do. Item averages
   vary by 1, of which single answers make .5 / 2, so .75 is shared. In the sums of .125 single
   answers make .5 / 12; tastes make the rest: (.125 - .0417) / .25 = 1/3. None may be negative.
6. Variance over raters: the sums, times what these sources have in the mean over what they have in
   the sums: (.5 / 3 + .5 / 6) / (.25 / 3 + .5 / 12) = 2, so .25. The factor of two raters is
   always 2, that of many is near 1. Degrees of freedom are Satterthwaite's, twice the sums' squared
   expectation over their variance: 1 for two raters.
7. Variance over items, without what step 6 has already: 1/3 less the single answers' .5 / 6: .25.
8. Half-width. Two raters have one degree of freedom, t = 12.71; three items have two, t = 4.30.
   Both variances are half of the total, and the power mean of both t with the exponent 1.5 is
   ((12.71^1.5 + 4.30^1.5) / 2)^(2/3) = 9.02. Times the root of .25 + .25: 6.38. It is at least half
   as wide as the interval over items: 4.30 * (1/3)^.5 / 2 = 1.24.

With a single rater this is Student's interval over items. Where each item has one rater, and all
raters have equally many, it is Student's interval of the raters' means.

What it assumes
---------------
Items and raters are independent draws, and answers are missing at random. The parts add up, with
the same variance at all items and of all raters. Step 5 takes all that differs between the raters
of an item for single answers, also tastes; this matters little, as sources decide only between
factors (step 6) that are alike. Student's t wants roughly normal tastes: if each rater is simply
for one model or the other, three raters agree by chance in one of four studies, and 11 % of the
studies of equally good models are called significant.

How often it covers the truth, and the alternative
--------------------------------------------------
What libraries offer for two kinds of clusters is the two-way cluster-robust variance (Cameron,
Gelbach and Miller, 2011): squared sums of weight * (answer - mean) by item, plus those by rater,
less those by answer, each times groups / (groups - 1), with the smaller number of groups less 1 as
degrees of freedom. In the example it is 1/3 + .25 - .1833 = .4, with t = 12.71: a half-width of
8.04 instead of 6.38.

Share of 95 % intervals that cover the truth, ours and two-way, in 4,000 simulated studies of 100
images each (standard error .35 points). A rater's lean is the taste's standard deviation, of 1 in
all. "A third" is of the images, at random; "less": each rater sees 60 % of what the one before did.

====== ==== =================== =================== ===================
raters lean all see all         each sees a third   each sees less
====== ==== =================== =================== ===================
2      0    97.5 %     100.0 %  96.8 %      93.7 %  97.0 %      99.8 %
2      .3   95.3 %      99.8 %  95.1 %      93.6 %  95.2 %      98.9 %
3      0    96.7 %      99.8 %  96.1 %      95.2 %  97.2 %      98.4 %
3      .3   95.6 %      97.9 %  95.2 %      95.1 %  95.6 %      94.4 %
5      0    96.1 %      98.0 %  95.9 %      96.5 %  97.2 %      95.8 %
5      .3   95.3 %      96.2 %  95.0 %      94.9 %  96.2 %      89.4 %
10     0    95.0 %      96.1 %  95.9 %      96.5 %  96.7 %      93.9 %
10     .3   95.2 %      95.7 %  95.4 %      95.7 %  96.8 %      89.4 %
====== ==== =================== =================== ===================

Also with 40 and 300 images and a lean of .15: 94.5 to 97.9 %, two-way 87.0 to 100.0 %. Both are
grids of ``research/study_coverage.py``, seed 2, whose head has the commands; ``research/LOG.md``
has the other methods that were tried.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from posh_reward.tables.statistics import (
    CONFIDENCE_LEVEL,
    ROUNDING_TOLERANCE,
    Floats,
    Interval,
    Ints,
    number_groups,
    sort_by_group,
)

SMALLEST_P_VALUE = 1e-12
MIN_RELATIVE_WIDTH = 0.5  # of an interval for other raters, to the one for these raters
POWER_TIMES_DEGREES = 1.5
"""Exponent of the mean of both t, times the raters' degrees of freedom."""
MIN_POWER = 0.5


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

    The head of this file derives its intervals. ``items`` and ``raters`` name those of each answer;
    ``ties`` counts items with equal texts, which are 0 without asking.
    """

    def __init__(
        self, items: Sequence[Hashable], raters: Sequence[Hashable], ties: int = 0
    ) -> None:
        self._item_of, rater_of = number_groups(items), number_groups(raters)  # (answers,) each
        self._sizes = np.bincount(self._item_of).astype(np.float64)  # (items,) raters of each
        self._by_item, self._by_rater = sort_by_group(self._item_of), sort_by_group(rater_of)
        self.items, self.raters, self.ties = len(self._sizes), len(self._by_rater[1]), ties
        self._count = self.items + ties
        self._asked_share = self.items / self._count
        # (answers,) of each answer in the mean of the items that raters saw
        self._weights = 1 / (self._sizes[self._item_of] * self.items)
        # Share of the variance of single answers that is in an item's mean: that of 1 / raters.
        self._single_in_item = float((1 / self._sizes).mean())
        if self.raters > 1:
            self._compute_expectations(rater_of)

    def _compute_expectations(self, rater_of: Ints) -> None:
        """Compute how much of each source is in the mean and in the raters' squared sums (step 4).

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
        # The variance of the squared sums, over 2: the trace of their covariance, squared.
        self._products = np.array([[np.sum(a * b) for b in covariances] for a in covariances])
        # What an item's raters share shows between raters only as far as they see different items:
        # not at all where all see all; like single answers where each item has one rater.
        visible = min(self._in_sums[2] * squares.sum() / self._in_sums[1], 1 / self.items)
        self._in_mean = np.array([np.square(of_raters).sum(), squares.sum(), visible])

    def estimate(self, values: Floats) -> tuple[Floats, MeanVariances]:
        """Means (studies,) of values (studies, answers), and their variances (steps 1 to 7)."""
        per_item = _sum_groups(values, self._by_item) / self._sizes  # (studies, items)
        # Equal texts are data: leaving them out would overstate every difference.
        all_items = np.hstack([per_item, np.zeros((len(values), self.ties))])
        means = all_items.mean(axis=1)
        over_items = all_items.var(axis=1, ddof=min(1, self._count - 1)) / self._count
        if self.raters < 2:
            zeros, ones = np.zeros_like(means), np.ones_like(means)
            return means, MeanVariances(over_items, over_items, raters=zeros, degrees=ones)
        # (studies, answers) share of each answer in the mean. Take deviations from the items that
        # raters saw: ties would count against every rater alike.
        shares = (values - per_item.mean(axis=1)[:, None]) * self._weights
        between = np.square(_sum_groups(shares, self._by_rater)).sum(axis=1)
        sources = self._estimate_sources(values, per_item, between)
        # Correct the squared sums by what the design lets them show of such sources: half of it for
        # two raters, all of it for many, less for a rater who gave most of the answers. The sources
        # are uncertain, but decide only between factors that are alike. Degrees: Satterthwaite.
        shown = self._in_sums @ sources
        products = np.sum(sources * (self._products @ sources), axis=0)
        vary = shown > 0
        factor = np.divide(self._in_mean @ sources, shown, out=np.ones_like(shown), where=vary)
        degrees = np.full_like(shown, self.raters - 1)
        np.divide(shown**2, products, out=degrees, where=vary)
        # What shows between raters is also in the variance between items: count it once.
        overlap = self._in_mean[1:] @ sources[1:]
        asked = self._asked_share**2
        items = np.maximum(over_items - asked * overlap, 0)
        return means, MeanVariances(over_items, items, asked * factor * between, degrees)

    def _estimate_sources(self, values: Floats, per_item: Floats, between: Floats) -> Floats:
        """(sources, studies) estimated variances, never negative (step 5)."""
        spread = per_item.var(axis=1, ddof=min(1, self.items - 1))
        within = np.square(values - per_item[:, self._item_of]).sum(axis=1)
        within /= max(len(self._item_of) - self.items, 1)
        shared = np.maximum(spread - within * self._single_in_item, 0)
        single = (spread - shared) / self._single_in_item
        taste = between - self._in_sums[1] * single - self._in_sums[2] * shared
        return np.stack([np.maximum(taste, 0) / self._in_sums[0], single, shared])

    def half_width(self, variances: MeanVariances, level: float = CONFIDENCE_LEVEL) -> Floats:
        """Half the width of the interval of each mean (step 8)."""
        from scipy.special import stdtrit

        by_item = stdtrit(max(self._count - 1, 1), (1 + level) / 2)
        degrees = np.maximum(variances.degrees, 1)
        by_rater = stdtrit(degrees, (1 + level) / 2)
        both = variances.items + variances.raters
        share = np.divide(variances.raters, both, out=np.zeros_like(both), where=both > 0)
        # Three raters have two degrees of freedom, a hundred items 99. Weighting both t by their
        # shares of the variance (Cochran and Cox) is too wide, a geometric mean calls 8 % of null
        # studies significant; a mean of powers lies between. The fewer the raters, the more often
        # they agree by chance, and the higher the power (research/LOG.md).
        power = np.maximum(MIN_POWER, POWER_TIMES_DEGREES / degrees)
        student = (share * by_rater**power + (1 - share) * by_item**power) ** (1 / power)
        half_width = student * np.sqrt(both)
        # Raters may agree by chance, about few items even exactly, so bound the width from below.
        # Not by the whole width over items, though: 99 % of such intervals would cover.
        least = MIN_RELATIVE_WIDTH * by_item * np.sqrt(variances.over_items)
        return np.asarray(np.maximum(half_width, least))

    def test(self, values: Sequence[float], largest: float = 2.0) -> MeanTest:
        """Mean of one study, with its 95 % interval, cut at +-``largest``, and its p-value."""
        from scipy.optimize import brentq

        [mean], variances = self.estimate(np.asarray([values], dtype=np.float64))
        if variances.over_items[0] < ROUNDING_TOLERANCE:
            # All items are equal: the interval would have no width.
            return bound_unanimous_mean(float(mean), self.items, largest)
        [half_width] = self.half_width(variances)
        low, high = max(mean - half_width, -largest), min(mean + half_width, largest)

        def distance_to_zero(p: float) -> float:
            """Part of the interval at the level 1 - p beyond 0; negative if it ends before 0."""
            return float(self.half_width(variances, 1 - p)[0] - abs(mean))

        # p belongs to the level at which the interval ends at 0. There is no formula, since both
        # quantiles of Student's t change with the level.
        p = SMALLEST_P_VALUE
        if distance_to_zero(p) > 0:
            p = brentq(distance_to_zero, p, 1)
        return MeanTest(Interval(float(mean), float(low), float(high), self.items), float(p))


def _sum_groups(values: Floats, groups: tuple[Ints, Ints]) -> Floats:
    order, begins = groups
    sums: Floats = np.add.reduceat(values[:, order], begins, axis=1)  # (studies, groups)
    return sums


def bound_unanimous_mean(mean: float, items: int, largest: float = 2.0) -> MeanTest:
    """Interval of items that all have one value; its width is not 0."""
    # Even if all items agree, a share of others may not (Clopper and Pearson), with any value. The
    # sign of six at the end of the scale is significant, of five not, as in the sign test.
    share = 1 - ((1 - CONFIDENCE_LEVEL) / 2) ** (1 / items)
    low, high = mean - share * (mean + largest), mean + share * (largest - mean)
    p = min(1.0, 2 * (largest / (largest + abs(mean))) ** items)
    return MeanTest(Interval(mean, low, high, items), p)
