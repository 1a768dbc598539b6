"""Correlations of scores with people's numbers; nan where they are not defined.

Higher is better: 1 is the same order (Pearson: the same line), -1 the opposite. A correlation is
not defined for fewer than two values, or if one side does not vary.
"""

from __future__ import annotations

from math import nan
from typing import Literal

import numpy as np
from scipy.stats import kendalltau, pearsonr, rankdata, spearmanr

from posh_reward.study.statistics import Floats, Ints

Variant = Literal["b", "c"]
MOST_NUMBERS = 40
"""Different numbers of people's, up to which a contingency table is faster than SciPy's tau."""


def spearman(scores: Floats, people: Floats) -> float:
    """Spearman's rank correlation."""
    if not _vary(scores, people):
        return nan
    return pearson(rankdata(scores), rankdata(people))


def kendall(scores: Floats, people: Floats, variant: Variant = "b") -> float:
    """Kendall's tau: b corrects for ties, c also for scales with different numbers of values.

    SciPy's values, several times faster where people use few different numbers: resampling asks
    for tau ten thousand times.
    """
    if not _vary(scores, people):
        return nan
    table = _contingency(scores, people)
    if table is None:
        return float(kendalltau(scores, people, variant=variant).statistic)
    surplus = _surplus(table)
    count = len(scores)
    if variant == "c":
        classes = min(table.shape)
        return float(2 * surplus * classes / (count**2 * (classes - 1)))
    ties = [(n * (n - 1) / 2).sum() for n in (table.sum(axis=0), table.sum(axis=1))]
    pairs = count * (count - 1) / 2
    return float(surplus / np.sqrt(pairs - ties[0]) / np.sqrt(pairs - ties[1]))


def concordant(scores: Floats, people: Floats) -> float:
    """How many pairs both sides put in the same strict order."""
    if not _vary(scores, people):
        return 0.0
    pairs = len(scores) * (len(scores) - 1) / 2
    differ = [pairs - tied(scores), pairs - tied(people)]
    table = _contingency(scores, people)
    if table is None:
        tau = float(kendalltau(scores, people).statistic)
        surplus = float(round(tau * float(np.sqrt(differ[0]) * np.sqrt(differ[1]))))
    else:
        surplus = _surplus(table)
    ordered_by_both = sum(differ) - pairs + tied(scores, people)
    return (ordered_by_both + surplus) / 2


def tied(*columns: Floats | Ints) -> float:
    """How many pairs are equal in all columns."""
    _, counts = np.unique(np.stack(columns), axis=1, return_counts=True)
    return float((counts * (counts - 1) / 2).sum())


def _surplus(table: Floats) -> float:
    """Pairs in the same order, less those in the opposite order."""
    below = np.cumsum(table, axis=0) - table  # how often each number comes with a lower score
    up_to = np.cumsum(below, axis=1)
    return float((table * ((up_to - below) - (up_to[:, -1:] - up_to))).sum())


def _contingency(scores: Floats, people: Floats) -> Floats | None:
    """(scores, people's numbers) how often each two meet, in rising order; None if it is large."""
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
    """SciPy's two-sided p-value of Spearman's correlation being 0."""
    return float(spearmanr(scores, people).pvalue) if _vary(scores, people) else nan


def kendall_p(scores: Floats, people: Floats, variant: Variant = "b") -> float:
    """SciPy's two-sided p-value of Kendall's tau being 0."""
    if not _vary(scores, people):
        return nan
    return float(kendalltau(scores, people, variant=variant).pvalue)


def pearson_p(scores: Floats, people: Floats) -> float:
    """SciPy's two-sided p-value of Pearson's correlation being 0."""
    return float(pearsonr(scores, people).pvalue) if _vary(scores, people) else nan


def _vary(scores: Floats, people: Floats) -> bool:
    return len(scores) > 1 and bool(np.ptp(scores)) and bool(np.ptp(people))
