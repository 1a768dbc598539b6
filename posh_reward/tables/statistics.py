"""Correlations, bootstrap intervals, and means when items and raters are both samples."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posh_reward.errors import InputError

MANY = 20_000  # values from which the normal interval, the bootstrap's limit, is used
TAIL = 0.025  # share of the resamples below a 95 % interval, and above it
FEW = 30  # the bootstrap interval of fewer values is too narrow, so it is widened
FEWEST = 6  # values that can settle a sign: five agree by chance in one of 16 cases
AT_ONCE = 1_000_000  # values drawn in one call, to bound memory

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


MOST_NUMBERS = 40
"""Distinct numbers by people up to which a contingency table is faster than SciPy's tau."""
TauVariant = Literal["b", "c"]


def spearman(scores: Floats, people: Floats) -> float:
    """Spearman's rank correlation; nan, as of all correlations, unless both sides vary."""
    from scipy.stats import rankdata

    return pearson(rankdata(scores), rankdata(people)) if _vary(scores, people) else nan


def kendall(scores: Floats, people: Floats, variant: TauVariant = "b") -> float:
    """Kendall's tau: b corrects for ties, c also for scales of different size."""
    from scipy.stats import kendalltau

    if not _vary(scores, people):
        return nan
    # SciPy's values, but several times faster where people use few numbers: resampling computes
    # tau ten thousand times.
    rows, row_of = np.unique(scores, return_inverse=True)
    columns, column_of = np.unique(people, return_inverse=True)
    if len(columns) > MOST_NUMBERS:
        return float(kendalltau(scores, people, variant=variant).statistic)
    flat = np.bincount(row_of * len(columns) + column_of, minlength=len(rows) * len(columns))
    table = flat.reshape(len(rows), len(columns)).astype(np.float64)
    # Concordant minus discordant pairs: compare each cell with the rows of lower scores, of which
    # cells to its left agree, cells to its right do not.
    below = np.cumsum(table, axis=0) - table  # (scores, numbers)
    up_to = np.cumsum(below, axis=1)
    surplus = float((table * ((up_to - below) - (up_to[:, -1:] - up_to))).sum())
    count = len(scores)
    if variant == "c":
        classes = min(table.shape)
        return float(2 * surplus * classes / (count**2 * (classes - 1)))
    # tau_b: surplus over the geometric mean of the numbers of pairs that each side orders strictly.
    ties = [(n * (n - 1) / 2).sum() for n in (table.sum(axis=0), table.sum(axis=1))]
    pairs = count * (count - 1) / 2
    return float(surplus / np.sqrt(pairs - ties[0]) / np.sqrt(pairs - ties[1]))


def pearson(scores: Floats, people: Floats) -> float:
    return float(np.corrcoef(scores, people)[0, 1]) if _vary(scores, people) else nan


def correlation_p(test: Callable[..., Any], scores: Floats, people: Floats) -> float:
    """Return the two-sided p-value of a correlation being 0 by SciPy's ``test``."""
    return float(test(scores, people).pvalue) if _vary(scores, people) else nan


def _vary(scores: Floats, people: Floats) -> bool:
    return len(scores) > 1 and bool(np.ptp(scores)) and bool(np.ptp(people))


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float
    count: int = FEWEST  # values behind the mean

    @property
    def excludes_zero(self) -> bool:
        """True if the sign of the mean is settled; never with fewer than ``FEWEST`` values."""
        return self.count >= FEWEST and (self.low > 0 or self.high < 0)

    def __str__(self) -> str:
        return f"{self:+.3f}"

    def __format__(self, form: str) -> str:
        return with_ends(self.mean, self.low, self.high, form or "+.3f")


def with_ends(value: float, low: float, high: float, form: str) -> str:
    """``0.1 [-0.2, 0.3]``, each number in a format such as ``.1f``; "none" for nan."""
    if isnan(value):
        return "none"
    ends = [low, high] if not isnan(low) else []
    digits = int(form.strip("+.f"))
    first, *others = (f"{round(each, digits) + 0:{form}}" for each in (value, *ends))  # never -0.0
    return f"{first} [{', '.join(others)}]" if others else first


def without_nan(value: Any) -> Any:
    """Replace NaN, which JSON lacks, by None, also within mappings."""
    if isinstance(value, Mapping):
        return {key: without_nan(each) for key, each in value.items()}
    return None if isinstance(value, float) and isnan(value) else value


def bootstrap_mean(values: Sequence[float], *, resamples: int = 10_000) -> Interval:
    """95 % percentile bootstrap interval of the mean of ``values``.

    Widened for fewer than ``FEW`` values: 95 % intervals of five then cover 81 to 92 % (without,
    75 to 84), of ten 89 to 94 % (84 to 89), the lower figures for very skewed values (3,000 samples
    each of normal, beta and log-normal values). A normal interval for ``MANY`` values or more.
    """
    if not len(values):
        raise InputError("no values to resample: all of them failed, or the list is empty")
    data = np.asarray(values, dtype=np.float64)
    mean, count = float(data.mean()), len(data)
    if count >= MANY:
        # Resampling would give the same, and 10,000 resamples of so many values take seconds.
        reach = NormalDist().inv_cdf(1 - TAIL) * float(data.std()) / count**0.5
        return Interval(mean, mean - reach, mean + reach, count)
    # Percentiles, not mean +- t * s: scores and preferences are bounded and skewed, and an interval
    # must not leave the range of the values.
    below = tail(count)
    low, high = np.quantile(_resampled_means(data, resamples), [below, 1 - below])
    return Interval(mean, float(low), float(high), count)


def _resampled_means(data: Floats, resamples: int) -> Floats:
    rng = np.random.default_rng(0)
    at_once = max(1, AT_ONCE // len(data))
    sizes = [min(at_once, resamples - start) for start in range(0, resamples, at_once)]
    rows = (rng.integers(0, len(data), (size, len(data))) for size in sizes)  # (resamples, values)
    return np.concatenate([data[each].mean(axis=1) for each in rows])


def tail(count: int) -> float:
    """Share of the resampled means below the interval of a mean, and above it."""
    if not 1 < count < FEW:
        return TAIL
    from scipy.special import stdtrit

    # Means of few resampled values vary too little: by sqrt((n - 1) / n), since a resample's
    # variance divides by n; and the normal distribution ignores that the spread is estimated, hence
    # Student's t. The expanded percentile interval corrects for both with quantiles further out
    # (Hesterberg, What Teachers Should Know About the Bootstrap, 2015).
    reach = float(stdtrit(count - 1, 1 - TAIL)) * (count / (count - 1)) ** 0.5
    return NormalDist().cdf(-reach)


def paired_difference(after: Sequence[float | None], before: Sequence[float | None]) -> Interval:
    """Interval of the mean of ``after - before``, item by item, leaving out items that failed."""
    if len(after) != len(before):
        raise InputError(f"{len(after)} values cannot be paired with {len(before)}")
    pairs = zip(after, before, strict=True)
    differences = [a - b for a, b in pairs if a is not None and b is not None]
    return bootstrap_mean(differences)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Any figure with its percentile interval; nan where undefined."""

    value: float
    low: float
    high: float
    p: float  # two-sided bootstrap p-value of the figure being 0, for differences

    @property
    def excludes_zero(self) -> bool:
        """True if the sign of the figure is settled at the interval's level."""
        return self.low > 0 or self.high < 0

    def __format__(self, form: str) -> str:
        return with_ends(self.value, self.low, self.high, form)


def bootstrap(
    measure: Callable[[Ints], Sequence[float]], groups: Sequence[Hashable], resamples: int = 1000
) -> list[Estimate]:
    """Intervals of several figures at once, resampling groups such as images."""
    if not len(groups):
        raise InputError("no rows to resample: all of them failed, or the list is empty")
    # Rows of a group share an image or a rater, so they are not independent: resample groups. All
    # figures of a resample come from the same rows, so what they share cancels in differences.
    values = np.asarray(measure(np.arange(len(groups))), dtype=np.float64)  # (figures,)
    figures = [measure(rows) for rows in resampled_rows(groups, resamples)]
    # (resamples, figures); reshape, since without resamples NumPy cannot infer the second size
    samples = np.asarray(figures, dtype=np.float64).reshape(len(figures), len(values))
    count = len(set(groups))
    return [estimate(*each, count) for each in zip(values, samples.T, strict=True)]


def resampled_rows(groups: Sequence[Hashable], resamples: int, seed: int = 0) -> Iterator[Ints]:
    """Row indices of each resample of groups, drawn with replacement; none for a single group."""
    # All resamples of a single group would be equal, and their interval of width 0.
    members = rows_by_group(groups)
    alone = len(members) == len(groups)
    rng = np.random.default_rng(seed)
    for _ in range(resamples if len(members) > 1 else 0):
        sample = rng.integers(0, len(members), len(members))
        yield sample if alone else np.concatenate([members[group] for group in sample])


def rows_by_group(groups: Sequence[Hashable]) -> list[Ints]:
    order, begins = segments(group_numbers(groups))
    return np.split(order, begins[1:]) if len(order) else []


def segments(numbers: Ints) -> tuple[Ints, Ints]:
    """Row order that brings groups together, and the start of each group in it."""
    order = np.argsort(numbers, kind="stable")
    return order, np.searchsorted(numbers[order], np.arange(numbers.max(initial=-1) + 1))


def group_numbers(groups: Sequence[Hashable]) -> Ints:
    """(rows,) group number of each row, from 0 in order of first occurrence."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(group, len(numbers)) for group in groups], dtype=np.int64)


def estimate(value: float, samples: Floats, groups: int) -> Estimate:
    """Interval and p-value of a figure from its values in resamples of ``groups``, ignoring nan.

    Fewer than two groups give no interval, and that of few is widened like that of a mean.
    """
    defined = samples[~np.isnan(samples)]
    if groups < 2 or np.isnan(value) or not len(defined):
        return Estimate(float(value), nan, nan, nan)
    below = tail(groups)
    low, high = np.quantile(defined, [below, 1 - below])
    # Count the figure itself as one more resample: a p-value from samples is never 0.
    fewer = 1 + min(int((defined <= 0).sum()), int((defined >= 0).sum()))
    # Few groups that happen to agree do so in every resample, so p is at least the sign test's for
    # that many groups.
    p = min(1.0, max(2.0 ** (1 - groups), 2 * fewer / (len(defined) + 1)))
    return Estimate(float(value), float(low), float(high), p)


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
