"""Correlations, bootstrap intervals, and corrections for several statements."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from posh_reward.errors import InputError

MIN_VALUES_FOR_NORMAL_INTERVAL = 20_000
"""From here on the normal interval, the bootstrap's limit, is used."""
MIN_VALUES_WITHOUT_WIDENING = 30
"""The bootstrap interval of fewer values is too narrow, so it is widened."""
MIN_VALUES_FOR_SIGN = 6
"""Fewer values cannot make a sign significant: five agree by chance in one of 16 cases."""
TAIL_SHARE = 0.025  # of the resamples below a 95 % interval, and above it
VALUES_PER_DRAW = 1_000_000  # bounds the memory of resampling

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MAX_NUMBERS_FOR_TABLE = 40
"""Distinct numbers by people up to which a contingency table is faster than SciPy's tau."""
TauVariant = Literal["b", "c"]


def spearman(scores: Floats, people: Floats) -> float:
    """Spearman's rank correlation; nan, as of all correlations, unless both sides vary."""
    from scipy.stats import rankdata

    if not _both_vary(scores, people):
        return nan
    return pearson(rankdata(scores), rankdata(people))


def kendall(scores: Floats, people: Floats, variant: TauVariant = "b") -> float:
    """Kendall's tau: b corrects for ties, c also for scales of different size."""
    from scipy.stats import kendalltau

    if not _both_vary(scores, people):
        return nan
    # SciPy's values, but several times faster where people use few numbers: resampling computes
    # tau ten thousand times.
    rows, row_of = np.unique(scores, return_inverse=True)
    columns, column_of = np.unique(people, return_inverse=True)
    if len(columns) > MAX_NUMBERS_FOR_TABLE:
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
    pairs = count * (count - 1) / 2
    ordered_by_people = pairs - _count_pairs(table.sum(axis=0))
    ordered_by_scores = pairs - _count_pairs(table.sum(axis=1))
    return float(surplus / np.sqrt(ordered_by_people) / np.sqrt(ordered_by_scores))


def _count_pairs(sizes: Floats) -> float:
    """Number of pairs within groups of these sizes."""
    return float((sizes * (sizes - 1) / 2).sum())


def pearson(scores: Floats, people: Floats) -> float:
    if not _both_vary(scores, people):
        return nan
    return float(np.corrcoef(scores, people)[0, 1])


def compute_p_value(test: Callable[..., Any], scores: Floats, people: Floats) -> float:
    """Return the two-sided p-value of a correlation being 0 by SciPy's ``test``."""
    if not _both_vary(scores, people):
        return nan
    return float(test(scores, people).pvalue)


def _both_vary(scores: Floats, people: Floats) -> bool:
    return len(scores) > 1 and bool(np.ptp(scores)) and bool(np.ptp(people))


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float
    count: int = MIN_VALUES_FOR_SIGN  # values behind the mean

    @property
    def excludes_zero(self) -> bool:
        """True if the sign of the mean is significant; never with too few values."""
        return self.count >= MIN_VALUES_FOR_SIGN and (self.low > 0 or self.high < 0)

    def __str__(self) -> str:
        return f"{self:+.3f}"

    def __format__(self, form: str) -> str:
        return format_with_ends(self.mean, self.low, self.high, form or "+.3f")


def format_with_ends(value: float, low: float, high: float, form: str) -> str:
    """``0.1 [-0.2, 0.3]``, each number in a format such as ``.1f``; "none" for nan."""
    if isnan(value):
        return "none"
    digits = int(form.strip("+.f"))
    # Adding 0 makes 0.0 of -0.0.
    first, *ends = (f"{round(each, digits) + 0:{form}}" for each in (value, low, high))
    if isnan(low):
        return first
    return f"{first} [{', '.join(ends)}]"


def replace_nan(value: Any) -> Any:
    """Replace NaN, which JSON lacks, by None, also within mappings."""
    if isinstance(value, Mapping):
        return {key: replace_nan(each) for key, each in value.items()}
    if isinstance(value, float) and isnan(value):
        return None
    return value


def bootstrap_mean(values: Sequence[float], *, resamples: int = 10_000) -> Interval:
    """95 % percentile bootstrap interval of the mean of ``values``.

    Widened for fewer than ``MIN_VALUES_WITHOUT_WIDENING`` values: 95 % intervals of five then cover
    81 to 92 % (without, 75 to 84), of ten 89 to 94 % (84 to 89), the lower figures for very skewed
    values (3,000 samples each of normal, beta and log-normal values). A normal interval for
    ``MIN_VALUES_FOR_NORMAL_INTERVAL`` values or more.
    """
    if not len(values):
        raise InputError("no values to resample: all of them failed, or the list is empty")
    data = np.asarray(values, dtype=np.float64)
    mean, count = float(data.mean()), len(data)
    if count >= MIN_VALUES_FOR_NORMAL_INTERVAL:
        # Resampling would give the same, and 10,000 resamples of so many values take seconds.
        half_width = NormalDist().inv_cdf(1 - TAIL_SHARE) * float(data.std()) / count**0.5
        return Interval(mean, mean - half_width, mean + half_width, count)
    # Percentiles, not mean +- t * s: scores and preferences are bounded and skewed, and an interval
    # must not leave the range of the values.
    below = find_tail_share(count)
    low, high = np.quantile(_resample_means(data, resamples), [below, 1 - below])
    return Interval(mean, float(low), float(high), count)


def _resample_means(data: Floats, resamples: int) -> Floats:
    rng = np.random.default_rng(0)
    resamples_per_draw = max(1, VALUES_PER_DRAW // len(data))
    means: list[Floats] = []
    for start in range(0, resamples, resamples_per_draw):
        size = min(resamples_per_draw, resamples - start)
        rows = rng.integers(0, len(data), (size, len(data)))  # (resamples, values)
        means.append(data[rows].mean(axis=1))
    return np.concatenate(means)


def find_tail_share(count: int) -> float:
    """Share of the resampled means below the interval of a mean, and above it."""
    if not 1 < count < MIN_VALUES_WITHOUT_WIDENING:
        return TAIL_SHARE
    from scipy.special import stdtrit

    # Means of few resampled values vary too little: by sqrt((n - 1) / n), since a resample's
    # variance divides by n; and the normal distribution ignores that the spread is estimated, hence
    # Student's t. The expanded percentile interval corrects for both with quantiles further out
    # (Hesterberg, What Teachers Should Know About the Bootstrap, 2015).
    quantile = float(stdtrit(count - 1, 1 - TAIL_SHARE)) * (count / (count - 1)) ** 0.5
    return NormalDist().cdf(-quantile)


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
        """True if the sign of the figure is significant at the interval's level."""
        return self.low > 0 or self.high < 0

    def __format__(self, form: str) -> str:
        return format_with_ends(self.value, self.low, self.high, form)


def bootstrap(
    measure: Callable[[Ints], Sequence[float]], groups: Sequence[Hashable], resamples: int = 1000
) -> list[Estimate]:
    """Intervals of several figures at once, resampling groups such as images."""
    if not len(groups):
        raise InputError("no rows to resample: all of them failed, or the list is empty")
    # Rows of a group share an image or a rater, so they are not independent: resample groups. All
    # figures of a resample come from the same rows, so what they share cancels in differences.
    values = np.asarray(measure(np.arange(len(groups))), dtype=np.float64)  # (figures,)
    figures = [measure(rows) for rows in resample_rows(groups, resamples)]
    # (resamples, figures); reshape, since without resamples NumPy cannot infer the second size
    samples = np.asarray(figures, dtype=np.float64).reshape(len(figures), len(values))
    count = len(set(groups))
    return [estimate_from_resamples(*each, count) for each in zip(values, samples.T, strict=True)]


def resample_rows(groups: Sequence[Hashable], resamples: int, seed: int = 0) -> Iterator[Ints]:
    """Row indices of each resample of groups, drawn with replacement; none for a single group."""
    # All resamples of a single group would be equal, and their interval of width 0.
    members = group_rows(groups)
    alone = len(members) == len(groups)
    rng = np.random.default_rng(seed)
    if len(members) < 2:
        return
    for _ in range(resamples):
        sample = rng.integers(0, len(members), len(members))
        if not alone:
            sample = np.concatenate([members[group] for group in sample])
        yield sample


def group_rows(groups: Sequence[Hashable]) -> list[Ints]:
    order, begins = sort_by_group(number_groups(groups))
    if not len(order):
        return []
    return np.split(order, begins[1:])


def sort_by_group(numbers: Ints) -> tuple[Ints, Ints]:
    """Row order that brings groups together, and the start of each group in it."""
    order = np.argsort(numbers, kind="stable")
    return order, np.searchsorted(numbers[order], np.arange(numbers.max(initial=-1) + 1))


def number_groups(groups: Sequence[Hashable]) -> Ints:
    """(rows,) group number of each row, from 0 in order of first occurrence."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(group, len(numbers)) for group in groups], dtype=np.int64)


def estimate_from_resamples(value: float, samples: Floats, groups: int) -> Estimate:
    """Interval and p-value of a figure from its values in resamples of ``groups``, ignoring nan.

    Fewer than two groups give no interval, and that of few is widened like that of a mean.
    """
    defined = samples[~np.isnan(samples)]
    if groups < 2 or np.isnan(value) or not len(defined):
        return Estimate(float(value), nan, nan, nan)
    below = find_tail_share(groups)
    low, high = np.quantile(defined, [below, 1 - below])
    # Count the figure itself as one more resample: a p-value from samples is never 0.
    fewer = 1 + min(int((defined <= 0).sum()), int((defined >= 0).sum()))
    # Few groups that happen to agree do so in every resample, so p is at least the sign test's for
    # that many groups.
    p = min(1.0, max(2.0 ** (1 - groups), 2 * fewer / (len(defined) + 1)))
    return Estimate(float(value), float(low), float(high), p)


CONFIDENCE_LEVEL = 0.95
ROUNDING_TOLERANCE = 1e-12
"""Values that differ less are equal but for rounding."""


def correct_by_holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction of p-values: each bounds the chance of any false statement among them."""
    # .04 .01 .03 -> sorted .01 .03 .04, times 3 2 1: .03 .06 .04, and none below its predecessor.
    order = np.argsort(p_values)
    values = np.empty(len(p_values))
    values[order] = np.maximum.accumulate(np.sort(p_values) * np.arange(len(p_values), 0, -1))
    return [float(value) for value in np.minimum(values, 1)]
