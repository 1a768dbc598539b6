"""Correlations of scores with people's numbers, from -1 to 1; higher is better.

They are nan for fewer than two values, or if one side does not vary.
"""

from __future__ import annotations

from math import nan
from typing import Literal

import numpy as np
from scipy.stats import kendalltau, pearsonr, rankdata, spearmanr

from posh_reward.study.statistics import Floats, Ints

TauVariant = Literal["b", "c"]
MOST_NUMBERS = 40
"""Distinct numbers by people up to which a contingency table is faster than SciPy's tau."""


def spearman(scores: Floats, people: Floats) -> float:
    """Spearman's rank correlation."""
    if not _vary(scores, people):
        return nan
    return pearson(rankdata(scores), rankdata(people))


def kendall(scores: Floats, people: Floats, variant: TauVariant = "b") -> float:
    """Kendall's tau: b corrects for ties, c also for scales of different size."""
    if not _vary(scores, people):
        return nan
    # SciPy's values, but several times faster where people use few numbers: resampling computes
    # tau ten thousand times.
    table = _contingency(scores, people)
    if table is None:
        return float(kendalltau(scores, people, variant=variant).statistic)
    surplus = _surplus(table)
    count = len(scores)
    if variant == "c":
        classes = min(table.shape)
        return float(2 * surplus * classes / (count**2 * (classes - 1)))
    # tau_b: surplus over the geometric mean of the numbers of pairs that each side orders strictly.
    ties = [(n * (n - 1) / 2).sum() for n in (table.sum(axis=0), table.sum(axis=1))]
    pairs = count * (count - 1) / 2
    return float(surplus / np.sqrt(pairs - ties[0]) / np.sqrt(pairs - ties[1]))


def concordant(scores: Floats, people: Floats) -> float:
    """Number of pairs that both sides order strictly and alike."""
    if not _vary(scores, people):
        return 0.0
    pairs = len(scores) * (len(scores) - 1) / 2
    strict = [pairs - tied_pairs(scores), pairs - tied_pairs(people)]
    table = _contingency(scores, people)
    if table is None:
        tau = float(kendalltau(scores, people).statistic)
        surplus = float(round(tau * float(np.sqrt(strict[0]) * np.sqrt(strict[1]))))
    else:
        surplus = _surplus(table)
    # concordant + discordant = pairs strict on both sides; concordant - discordant = surplus.
    strict_on_both = sum(strict) - pairs + tied_pairs(scores, people)
    return (strict_on_both + surplus) / 2


def tied_pairs(*columns: Floats | Ints) -> float:
    """Number of pairs that are tied in all columns."""
    _, counts = np.unique(np.stack(columns), axis=1, return_counts=True)
    return float((counts * (counts - 1) / 2).sum())


def _surplus(table: Floats) -> float:
    """Concordant minus discordant pairs."""
    # Compare each cell with the rows of lower scores: cells to its left agree, to its right do not.
    below = np.cumsum(table, axis=0) - table  # (scores, numbers)
    up_to = np.cumsum(below, axis=1)
    return float((table * ((up_to - below) - (up_to[:, -1:] - up_to))).sum())


def _contingency(scores: Floats, people: Floats) -> Floats | None:
    """(scores, people's numbers) counts of each combination, ascending; None if too large."""
    rows, row_of = np.unique(scores, return_inverse=True)
    columns, column_of = np.unique(people, return_inverse=True)
    if len(columns) > MOST_NUMBERS:
        return None
    flat = np.bincount(row_of * len(columns) + column_of, minlength=len(rows) * len(columns))
    table: Floats = flat.reshape(len(rows), len(columns)).astype(np.float64)
    return table


def pearson(scores: Floats, people: Floats) -> float:
    """Pearson's correlation."""
    if not _vary(scores, people):
        return nan
    return float(np.corrcoef(scores, people)[0, 1])


def spearman_p(scores: Floats, people: Floats) -> float:
    """Return SciPy's two-sided p-value of Spearman's correlation being 0."""
    return float(spearmanr(scores, people).pvalue) if _vary(scores, people) else nan


def kendall_p(scores: Floats, people: Floats, variant: TauVariant = "b") -> float:
    """Return SciPy's two-sided p-value of Kendall's tau being 0."""
    if not _vary(scores, people):
        return nan
    return float(kendalltau(scores, people, variant=variant).pvalue)


def pearson_p(scores: Floats, people: Floats) -> float:
    """Return SciPy's two-sided p-value of Pearson's correlation being 0."""
    return float(pearsonr(scores, people).pvalue) if _vary(scores, people) else nan


def _vary(scores: Floats, people: Floats) -> bool:
    return len(scores) > 1 and bool(np.ptp(scores)) and bool(np.ptp(people))
