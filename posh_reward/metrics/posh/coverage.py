"""Content words that no element of a text covers: they are said, and nobody is asked about them."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

from posh_reward.lexicon.function_words import FUNCTION_WORDS
from posh_reward.lexicon.wordnet import wordnet
from posh_reward.types import Scores

WORD = re.compile(r"[^\W_]{2,}")
SENTENCE = re.compile(r"[^.!?\n]*(?:[.!?\n]|\Z)")
LIGHT = FUNCTION_WORDS | frozenset(
    "about above across after against all along also although among any are around at away back "
    "because before behind below beneath beside between beyond both but by can could down during "
    "each either else even ever every few for from further had has have having how if in inside "
    "into just like many may might more most much near neither no nor off on once only onto other "
    "out outside over own per rather same several should since so some still such than these "
    "those though through throughout toward towards under until up upon very via was well were "
    "what when where while whole will within without would yet".split()
)
"""Words that claim nothing by themselves: function words, prepositions, quantifiers."""


@dataclass(frozen=True, slots=True)
class LooseWords:
    """Counts of a generation's content words."""

    content: int
    loose: int
    """Of these, those outside the spans of its elements."""
    supported: int
    """Of the loose ones, those whose lemma the reference has."""
    bare: int
    """Of the loose ones that the reference lacks, those in sentences without any element."""

    @property
    def coverage(self) -> float | None:
        """Share of content words inside spans of elements; None without any."""
        return 1 - self.loose / self.content if self.content else None


def loose_words(scores: Scores) -> LooseWords:
    """The content words of a generation that none of its elements covers."""
    text = scores.generation
    covered = bytearray(len(text))
    for element in scores.elements:
        if element.direction == "precision":
            for start, end in element.spans:
                covered[start:end] = b"\1" * len(covered[start:end])
    words = [each for each in WORD.finditer(text) if each[0].lower() not in LIGHT]
    loose = [each for each in words if not any(covered[each.start() : each.end()])]
    stated = _lemmas_of_text(scores.reference) if loose else frozenset()
    lacking = [each for each in loose if stated.isdisjoint(_lemmas(each[0].lower()))]
    claims = [any(covered[each.start() : each.end()]) for each in SENTENCE.finditer(text)]
    ends = [each.end() for each in SENTENCE.finditer(text)]
    bare = sum(not claims[bisect_right(ends, each.start())] for each in lacking)
    return LooseWords(len(words), len(loose), len(loose) - len(lacking), bare)


def coverage(scores: Scores) -> float | None:
    """Share of a generation's content words inside spans of its elements; None without any."""
    return loose_words(scores).coverage


@lru_cache(maxsize=4096)
def _lemmas_of_text(text: str) -> frozenset[str]:
    return frozenset().union(*(_lemmas(word.lower()) for word in WORD.findall(text)))


@lru_cache(maxsize=100_000)
def _lemmas(word: str) -> frozenset[str]:
    return frozenset((word, *wordnet().lemmas(word)))
