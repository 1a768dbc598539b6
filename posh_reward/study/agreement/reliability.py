"""Krippendorff's alpha: how far raters agree beyond chance (paper, Tables 5 and 7).

Computed from the coincidence matrix: every unit with m ratings adds each ordered pair of them with
the weight 1 / (m - 1). Alpha is 1 - observed / expected disagreement.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Literal

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.statistics import Floats

Level = Literal["nominal", "ordinal", "interval"]


def krippendorff_alpha(units: Sequence[Sequence[float | None]], level: Level = "ordinal") -> float:
    """Krippendorff's alpha, at most 1; 0 is chance, higher is better.

    Args:
        units: per unit (an image, a pair) its ratings, in any order; None where a rater gave none.
            Units with fewer than two ratings say nothing and are left out.
        level: nominal: ratings are equal or not. ordinal: their order counts, by how many ratings
            lie between them. interval: their distance counts.

    Returns:
        nan if no unit has two ratings, or all ratings are equal: nothing varies.

    Raises:
        InputError: the level is unknown.
    """
    kept = [[float(r) for r in unit if r is not None] for unit in units]
    kept = [unit for unit in kept if len(unit) > 1]
    values = sorted({rating for unit in kept for rating in unit})
    coincidences = _coincidences(kept, values)
    totals = coincidences.sum(axis=1)
    distances = _distances(values, totals, level)
    count = totals.sum()
    expected = (np.outer(totals, totals) * distances).sum()
    if not expected:
        return nan
    return float(1 - (count - 1) * (coincidences * distances).sum() / expected)


def _coincidences(units: Sequence[Sequence[float]], values: Sequence[float]) -> Floats:
    place = {value: index for index, value in enumerate(values)}
    found = np.zeros((len(values), len(values)))
    for unit in units:
        counts = np.bincount([place[rating] for rating in unit], minlength=len(values))
        found += (np.outer(counts, counts) - np.diag(counts)) / (len(unit) - 1)
    return found


def _distances(values: Sequence[float], totals: Floats, level: Level) -> Floats:
    """Squared distance of each two values."""
    if level == "nominal":
        return 1 - np.eye(len(values))
    if level == "interval":
        places = np.asarray(values)
    elif level == "ordinal":  # ratings up to the middle of each value's own
        places = np.cumsum(totals) - totals / 2
    else:
        raise InputError(f"the level {level!r} is unknown: use nominal, ordinal or interval")
    apart: Floats = np.square(places[:, None] - places[None, :])
    return apart
