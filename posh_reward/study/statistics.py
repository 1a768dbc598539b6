"""Intervals by resampling images (paired, percentile)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from posh_reward.errors import InputError

MANY = 20_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the sign of the mean is settled at this level."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def bootstrap_mean(
    values: Sequence[float], *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Interval of the mean of ``values``, resampled with replacement.

    From ``MANY`` values on it is the normal interval, which resampling comes to anyway.

    Raises:
        InputError: there are no values.
    """
    if not len(values):
        raise InputError("no values to resample: every one of them failed, or the list is empty")
    data = np.asarray(values, dtype=np.float64)
    if len(data) >= MANY:
        reach = NormalDist().inv_cdf((1 + level) / 2) * float(data.std()) / len(data) ** 0.5
        mean = float(data.mean())
        return Interval(mean, mean - reach, mean + reach)
    rng = np.random.default_rng(seed)
    means = np.array([data[rng.integers(0, len(data), len(data))].mean() for _ in range(resamples)])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(data.mean()), float(low), float(high))


def paired_difference(
    after: Sequence[float | None], before: Sequence[float | None], *, seed: int = 0
) -> Interval:
    """Interval of the mean of ``after - before``, item by item; items that failed are left out.

    Raises:
        InputError: the lists differ in length, or no item has both values.
    """
    if len(after) != len(before):
        raise InputError(f"{len(after)} values cannot be paired with {len(before)}")
    pairs = zip(after, before, strict=True)
    differences = [a - b for a, b in pairs if a is not None and b is not None]
    return bootstrap_mean(differences, seed=seed)
