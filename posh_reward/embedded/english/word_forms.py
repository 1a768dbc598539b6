"""Forms of words: which text lacks a word in any form, slips of a letter included."""

from __future__ import annotations

from functools import lru_cache

from posh_reward.embedded.english.likeness import is_known, without_a_letter
from posh_reward.embedded.english.wordnet import wordnet
from posh_reward.types import WORD_CACHE_SIZE
from posh_reward.words import CONTENT_WORD


def lacks(text: str, word: str) -> bool:
    """Return True if a text contains no form of a word."""
    return _lemmas_of_text(text).isdisjoint(_lemmas(word.lower())) and not _is_slip(text, word)


def _is_slip(text: str, word: str) -> bool:
    """Return True if a word is none, but nearly one of the text's."""
    lower = word.lower()
    return not is_known(lower) and not _parts_of_text(text).isdisjoint(without_a_letter(lower))


@lru_cache(maxsize=4096)
def _parts_of_text(text: str) -> frozenset[str]:
    return frozenset().union(
        *(without_a_letter(each.lower()) for each in CONTENT_WORD.findall(text))
    )


@lru_cache(maxsize=4096)
def _lemmas_of_text(text: str) -> frozenset[str]:
    return frozenset().union(*(_lemmas(word.lower()) for word in CONTENT_WORD.findall(text)))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def _lemmas(word: str) -> frozenset[str]:
    return frozenset((word, *wordnet().lemmas(word)))
