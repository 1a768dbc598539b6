"""Agreement between raters: Krippendorff's alpha, and relaxed F1 of spans (paper, Tables 4, 5, 7).

Alpha is 1 - observed / expected disagreement, from the coincidence matrix: a unit with m ratings
adds each ordered pair of them with weight 1 / (m - 1).

Raters differ in where they begin and end a mark, so spans match if they share tokens: at least one
(F1), or at least half of them (F1@50). Spans are counted over all texts together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from posh_reward.tables.statistics import Floats
from posh_reward.types import Span

TOKEN_PATTERN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class RatingCounts:
    """Counts of ratings per unit, so that resampling units only reweighs counts."""

    # (units, values) times each unit has each rating, ascending; at least two per unit
    counts: Floats

    def alpha(self, times: Floats | None = None) -> float:
        """Krippendorff's ordinal alpha, at most 1; 0 is chance; nan if nothing varies.

        ``times``, (units,), is how often each unit counts; None: once.
        """
        # m ratings make m (m - 1) ordered pairs: weighted by 1 / (m - 1), the unit counts m.
        weights = 1 / (self.counts.sum(axis=1) - 1)  # (units,)
        counts = self.counts * (weights if times is None else weights * times)[:, None]
        # (values, values); the subtraction removes each rating's pair with itself.
        coincidences = counts.T @ self.counts - np.diag(counts.sum(axis=0))
        totals = coincidences.sum(axis=1)  # (values,)
        # The distance of two ratings is the number of ratings between them: of their midranks.
        places = np.cumsum(totals) - totals / 2
        distances = np.square(places[:, None] - places)
        # Chance pairs are drawn without replacement: n_c n_k / (n - 1).
        by_chance = (np.outer(totals, totals) * distances).sum()
        if not by_chance:
            return nan
        return float(1 - (totals.sum() - 1) * (coincidences * distances).sum() / by_chance)


def count_ratings(units: Sequence[Sequence[float | None]]) -> RatingCounts:
    """Count the ratings of each unit; units with fewer than two are left out."""
    ratings: list[float] = []
    owners: list[int] = []  # (ratings,) unit of each
    count = 0
    for unit in units:
        present = [float(rating) for rating in unit if rating is not None]
        if len(present) > 1:
            ratings += present
            owners += [count] * len(present)
            count += 1
    values, places = np.unique(np.array(ratings), return_inverse=True)
    counts = np.zeros((count, len(values)))
    np.add.at(counts, (np.array(owners, dtype=np.int64), places), 1)
    return RatingCounts(counts)


def token_spans(text: str) -> list[Span]:
    """Character offsets of a text's tokens: words and single punctuation marks."""
    return [match.span() for match in TOKEN_PATTERN.finditer(text)]


def spans_overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def tokens_in(spans: Iterable[Span], tokens: Sequence[Span]) -> frozenset[int]:
    """Indices of the tokens that any of the spans touches."""
    touched: set[int] = set()
    for span in spans:
        touched.update(index for index, token in enumerate(tokens) if spans_overlap(span, token))
    return frozenset(touched)


@dataclass(frozen=True, slots=True)
class Matches:
    """Counts of matching elements (spans, graph elements) of two sides; texts add up."""

    first_matches: int = 0  # elements of the first side that match one of the second
    first: int = 0
    second_matches: int = 0  # elements of the second side that match one of the first
    second: int = 0

    def __add__(self, other: Matches) -> Matches:
        return Matches(
            self.first_matches + other.first_matches,
            self.first + other.first,
            self.second_matches + other.second_matches,
            self.second + other.second,
        )

    @property
    def precision(self) -> float:
        if not self.first:
            return nan
        return self.first_matches / self.first

    @property
    def recall(self) -> float:
        if not self.second:
            return nan
        return self.second_matches / self.second

    @property
    def f1(self) -> float:
        """Harmonic mean of both; 0 if none match, nan if neither side has any."""
        if not self.first and not self.second:
            return nan
        if not self.first_matches or not self.second_matches:
            return 0.0
        return 2 * self.precision * self.recall / (self.precision + self.recall)


def span_matches(
    text: str, first: Iterable[Span], second: Iterable[Span], share: float = 0.0
) -> Matches:
    """Match two raters' spans, in characters, in one text; spans without a token are left out.

    ``share`` is the least share of a span's tokens that a single span of the other side must cover:
    0 means one token (relaxed F1), 0.5 is F1@50.
    """
    tokens = token_spans(text)
    ours = list(filter(None, (tokens_in([span], tokens) for span in first)))
    theirs = list(filter(None, (tokens_in([span], tokens) for span in second)))

    def count_matches(some: list[frozenset[int]], others: list[frozenset[int]]) -> int:
        count = 0
        for one in some:
            most = max((len(one & other) for other in others), default=0)
            count += most > 0 and most >= share * len(one)
        return count

    return Matches(count_matches(ours, theirs), len(ours), count_matches(theirs, ours), len(theirs))
