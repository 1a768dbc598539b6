"""Krippendorff's alpha: how far raters agree beyond chance (paper, Tables 5 and 7).

Computed from the coincidence matrix: every unit with m ratings adds each ordered pair of them with
the weight 1 / (m - 1). Alpha is 1 - observed / expected disagreement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Literal

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.statistics import Floats

Level = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True)
class Ratings:
    """Ratings counted once for each unit, so that resampling units only adds up counts."""

    values: Floats
    """(values,) the different ratings, rising."""
    counts: Floats
    """(units, values) how often each unit has each rating; every unit has two ratings or more."""

    def alpha(self, drawn: Floats | None = None, level: Level = "ordinal") -> float:
        """Krippendorff's alpha, at most 1; 0 is chance, higher is better.

        Args:
            drawn: (units,) how often each unit counts; None: once.
            level: as in ``krippendorff_alpha``.

        Returns:
            nan if there are no units, or all ratings are equal: nothing varies.

        Raises:
            InputError: the level is unknown.
        """
        weights = 1 / (self.counts.sum(axis=1) - 1)
        weighted = self.counts * (weights if drawn is None else weights * drawn)[:, None]
        coincidences = weighted.T @ self.counts - np.diag(weighted.sum(axis=0))
        totals = coincidences.sum(axis=1)
        distances = _distances(self.values, totals, level)
        expected = (np.outer(totals, totals) * distances).sum()
        if not expected:
            return nan
        return float(1 - (totals.sum() - 1) * (coincidences * distances).sum() / expected)


def counted(units: Sequence[Sequence[float | None]]) -> Ratings:
    """Counts the ratings of each unit; units with fewer than two say nothing and are left out."""
    kept = [[float(r) for r in unit if r is not None] for unit in units]
    kept = [unit for unit in kept if len(unit) > 1]
    values, place = np.unique([r for unit in kept for r in unit], return_inverse=True)
    owner = np.repeat(np.arange(len(kept)), [len(unit) for unit in kept])
    counts = np.zeros((len(kept), len(values)))
    np.add.at(counts, (owner, place), 1)
    return Ratings(values.astype(np.float64), counts)


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
    return counted(units).alpha(level=level)


def _distances(values: Floats, totals: Floats, level: Level) -> Floats:
    """Squared distance of each two values."""
    if level == "nominal":
        return 1 - np.eye(len(values))
    if level == "interval":
        places = values
    elif level == "ordinal":  # ratings up to the middle of each value's own
        places = np.cumsum(totals) - totals / 2
    else:
        raise InputError(f"the level {level!r} is unknown: use nominal, ordinal or interval")
    apart: Floats = np.square(places[:, None] - places[None, :])
    return apart
