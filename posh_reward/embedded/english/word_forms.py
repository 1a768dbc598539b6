"""Forms of words: which text lacks a word in any form, slips of a letter included."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain

from posh_reward.embedded.english.likeness import is_known, without_a_letter
from posh_reward.embedded.english.wordnet import load_wordnet
from posh_reward.types import WORD_CACHE_SIZE
from posh_reward.words import CONTENT_WORD


def lacks_word(text: str, word: str) -> bool:
    """Return True if a text contains no form of a word."""
    return _known_forms_in(text).isdisjoint(_known_forms(word.lower())) and not _is_slip(text, word)


def _is_slip(text: str, word: str) -> bool:
    """Return True if a word is none, but nearly one of the text's."""
    lower = word.lower()
    return not is_known(lower) and not _slips_in(text).isdisjoint(without_a_letter(lower))


@lru_cache(maxsize=4096)
def _slips_in(text: str) -> frozenset[str]:
    return frozenset(chain.from_iterable(map(without_a_letter, _content_words(text))))


@lru_cache(maxsize=4096)
def _known_forms_in(text: str) -> frozenset[str]:
    return frozenset(chain.from_iterable(map(_known_forms, _content_words(text))))


def _content_words(text: str) -> list[str]:
    return [word.lower() for word in CONTENT_WORD.findall(text)]


@lru_cache(maxsize=WORD_CACHE_SIZE)
def _known_forms(word: str) -> frozenset[str]:
    return frozenset((word, *load_wordnet().lemmas(word)))
