"""Where the words of a text begin and end: raters mark whole words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from posh_reward.types import Span

WORD = re.compile(r"\w+(?:['\N{RIGHT SINGLE QUOTATION MARK}]\w+)*")


def words(text: str) -> tuple[Span, ...]:
    """The words of a text; parts of a hyphenated word are words of their own."""
    return tuple(match.span() for match in WORD.finditer(text))


def touched(spans: Iterable[Span], within: tuple[Span, ...]) -> frozenset[int]:
    """Indices of the words that share a character with one of the spans."""
    return frozenset(
        index
        for start, end in spans
        for index, (first, last) in enumerate(within)
        if start < last and first < end
    )


def whole(spans: Iterable[Span], within: tuple[Span, ...]) -> tuple[Span, ...]:
    """Each span from the first to the last word that it touches; one without words is dropped."""
    found = (sorted(touched([span], within)) for span in spans)
    return tuple((within[hit[0]][0], within[hit[-1]][1]) for hit in found if hit)
