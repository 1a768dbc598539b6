"""English or another language, as far as a dictionary tells."""

from __future__ import annotations

import re
from functools import lru_cache

from posh_reward.lexicon.wordnet import wordnet

WORD = re.compile(r"[^\W\d_]+")
COMMONEST = frozenset(
    "a against although am among amongst an and anyone anything as at be because beside by ca "
    "cannot could do during else everyone everything for from go he her hers herself him himself "
    "how i if in into is it itself me my myself no noone nor of on onto or our ours ourselves per "
    "re she should since so something than that the their them themselves thereupon these they "
    "this those thru to toward towards unless until up upon us via we what when whenever where "
    "whereafter whereas whereby wherein whereupon whether which whither whoever whom whose with "
    "without would you your yours yourself yourselves".split()
)
"""spaCy's stop words that WordNet lacks, or that are too short to be looked up there. Listed here,
since a page about scores would otherwise load spaCy, which takes a second."""
SHORTEST = 3
"""A shorter word is known only if it is among the commonest: dictionaries list most pairs of
letters."""
KNOWN_SHARE = 1 / 3
"""A text with a lower share of known words is gibberish, or in another language. None of 9,432
descriptions and captions by people had less than a half, and a sentence that quotes a Latin
inscription has 0.4; random strings of letters had 0.15 at most."""


def words(text: str) -> list[str]:
    """Words in lower case, without digits and marks."""
    return [word.lower() for word in WORD.findall(text)]


@lru_cache(maxsize=4096)
def is_english(text: str) -> bool:
    """True if at least a third of the words are English, as far as a dictionary tells."""
    return known_share(text) >= KNOWN_SHARE


def known_share(text: str, also: frozenset[str] = frozenset()) -> float:
    """The share of words that are in the dictionary or in ``also``; 1 without any word."""
    parts = words(text)
    return sum(word in also or _is_word(word) for word in parts) / len(parts) if parts else 1.0


@lru_cache(maxsize=100_000)
def _is_word(word: str) -> bool:
    return word in COMMONEST or (len(word) >= SHORTEST and bool(wordnet().lemmas(word)))
