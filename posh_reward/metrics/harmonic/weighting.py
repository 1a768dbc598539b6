"""Harmonic weighting: the surer a criterion's score, the more it counts (section 2.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence


def mean_and_sigma(probabilities: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation of a distribution over the scores 1, 2, ... (Eqs. 1 and 4).

    Args:
        probabilities: one per score, which sum to 1 but for rounding.
    """
    whole = math.fsum(probabilities)
    shares = [(score, each / whole) for score, each in enumerate(probabilities, start=1)]
    mean = math.fsum(score * share for score, share in shares)
    return mean, math.sqrt(math.fsum((score - mean) ** 2 * share for score, share in shares))


def harmonic_weights(sigmas: Sequence[float], gamma: float) -> list[float]:
    """Weights proportional to sigma ** (-2 (1 - gamma) / gamma), which sum to 1 (Eq. 3).

    Where the formula has no value the weights are its limits. With gamma 0, all weight goes to the
    least sigma; with a sigma of 0 and gamma below 1, to the criteria that have it. Equal ones share
    alike.

    Args:
        sigmas: standard deviations, each 0 or more; at least one.
        gamma: 1: equal weights. 0.5: inverse variances. 0: the surest criterion alone.
    """
    if gamma == 1:
        return [1 / len(sigmas)] * len(sigmas)
    least = min(sigmas)
    power = 2 * (1 - gamma) / gamma if gamma else math.inf
    if least == 0 or math.isinf(power):
        shares = [float(sigma == least) for sigma in sigmas]
    else:
        # Ratios of logarithms: powers of a small sigma are too large for a float.
        shares = [math.exp(-power * (math.log(sigma) - math.log(least))) for sigma in sigmas]
    whole = math.fsum(shares)
    return [share / whole for share in shares]


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """The mean (Eq. 2); rounding never takes it out of the range of the values."""
    mean = math.fsum(value * weight for value, weight in zip(values, weights, strict=True))
    return min(max(mean, min(values)), max(values))
