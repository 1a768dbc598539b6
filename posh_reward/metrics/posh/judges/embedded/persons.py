"""Who a word can stand for: a man or boy, a woman or girl, either, or no person at all."""

from __future__ import annotations

from functools import lru_cache

from posh_reward.lexicon.wordnet import wordnet
from posh_reward.metrics.posh.judges.embedded.meaning import Term, meaning
from posh_reward.metrics.posh.judges.embedded.words import ANAPHORS, SOMEONE

PERSON_FILE = 18
"""WordNet's lexicographer file of persons."""
MALE = frozenset("he him his himself father king god son brother monk priest".split())
FEMALE = frozenset("she her hers herself mother queen goddess daughter sister nun".split())
EITHER = frozenset("they them their themselves who whom whose crowd family couple".split())
EITHER |= ANAPHORS | SOMEONE
NO_PERSON = frozenset("it its itself which".split())

Genders = frozenset[str]
BOTH: Genders = frozenset("mf")
NOBODY: Genders = frozenset()


@lru_cache(maxsize=1)
def _heads() -> dict[str, frozenset[int]]:
    """Synsets of ``male person`` and ``female person``."""
    net = wordnet()
    return {
        gender: frozenset(s for s, _ in net.senses(word) if net.file[s] == PERSON_FILE)
        for gender, word in (("m", "male"), ("f", "female"))
    }


@lru_cache(maxsize=50_000)
def genders(term: Term) -> Genders:
    """``fisherman`` -> m; ``sailor`` -> m and f; ``boat`` -> neither."""
    word, pos = term
    for words, found in ((MALE, "m"), (FEMALE, "f"), (EITHER, "mf"), (NO_PERSON, "")):
        if word in words:
            return frozenset(found)
    if pos != "n":
        return NOBODY
    net = wordnet()
    own, genus, _ = meaning(term)
    usual = max(own, key=lambda s: (own[s], -s), default=None)
    if usual is None or net.file[usual] != PERSON_FILE:
        return NOBODY
    marked = frozenset(g for g, heads in _heads().items() if heads & (own.keys() | genus.keys()))
    return marked or BOTH
