"""Agreement on marked spans: relaxed F1 (paper, section 4 and Table 4).

Where a mark begins and ends is a matter of taste, so spans match if they share tokens: at least
one (F1), or at least half of them (F1@50). What is counted is spans, over all texts together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import nan

from posh_reward.types import Span

TOKEN = re.compile(r"\w+|[^\w\s]")


def token_spans(text: str) -> list[Span]:
    """Character offsets of the tokens of a text: words, and single signs."""
    return [match.span() for match in TOKEN.finditer(text)]


def overlaps(one: Span, other: Span) -> bool:
    """Whether two spans share a character."""
    return one[0] < other[1] and other[0] < one[1]


def tokens_in(span: Span, tokens: Sequence[Span]) -> frozenset[int]:
    """Indices of the tokens that a span touches."""
    return frozenset(index for index, token in enumerate(tokens) if overlaps(span, token))


@dataclass(frozen=True, slots=True)
class Matches:
    """How many spans of two sides match; those of several texts add up."""

    found: int = 0
    """Spans of the first side that match one of the second."""
    given: int = 0
    """Spans of the first side."""
    recalled: int = 0
    """Spans of the second side that match one of the first."""
    sought: int = 0
    """Spans of the second side."""

    def __add__(self, other: Matches) -> Matches:
        return Matches(
            self.found + other.found,
            self.given + other.given,
            self.recalled + other.recalled,
            self.sought + other.sought,
        )

    @property
    def precision(self) -> float:
        """Share of the first side's spans that match; nan if it has none."""
        return self.found / self.given if self.given else nan

    @property
    def recall(self) -> float:
        """Share of the second side's spans that match; nan if it has none."""
        return self.recalled / self.sought if self.sought else nan

    @property
    def f1(self) -> float:
        """Harmonic mean of both; 0 if one side has spans and none match, nan if neither has any."""
        if not self.given and not self.sought:
            return nan
        if not self.found or not self.recalled:
            return 0.0
        return 2 * self.precision * self.recall / (self.precision + self.recall)


def span_matches(
    text: str, first: Iterable[Span], second: Iterable[Span], share: float = 0.0
) -> Matches:
    """Which spans of two raters match in one text.

    Args:
        text: what both marked.
        first: one side's spans, in characters; those that touch no token are left out.
        second: the other's, the expert's where there is one.
        share: how much of a span's own tokens a single span of the other side has to touch:
            0 for one token (relaxed F1), 0.5 for F1@50.
    """
    tokens = token_spans(text)
    ours, theirs = (
        [inside for span in spans if (inside := tokens_in(span, tokens))]
        for spans in (first, second)
    )

    def matching(some: list[frozenset[int]], others: list[frozenset[int]]) -> int:
        return sum(
            any(one & other and len(one & other) >= share * len(one) for other in others)
            for one in some
        )

    return Matches(matching(ours, theirs), len(ours), matching(theirs, ours), len(theirs))
