"""Word classes: function words, pronouns and persons, places, prepositions."""

from __future__ import annotations

import re
from functools import lru_cache

from posh_reward.embedded.english.meaning import Term, coarse_pos, meaning
from posh_reward.embedded.english.wordnet import wordnet
from posh_reward.types import WORD_CACHE_SIZE, Token
from posh_reward.words import FUNCTION_WORDS

PERSONAL = frozenset(
    "he him his himself she her hers herself it its itself they them their themselves who whom "
    "which".split()
)
ANAPHORS = frozenset(
    "one ones other others another first second third last former latter thing object item pair "
    "group rest something anything".split()
)
"""Heads that can refer back to anything: the other, the second."""
SOMEONE = frozenset(
    "figure figures person persons people someone somebody individual elder younger".split()
)
"""Heads that can refer to any person."""
VIEWERS = frozenset("viewer viewers beholder onlooker onlookers spectator spectators".split())
"""Names of the viewer, besides "we" and "us"."""
HAVING = frozenset("of with in part has have having wears wear wearing holds holding".split())
"""Words of relations in which one thing has, wears or holds another."""
WORD = re.compile(r"\w+")


def term_of(token: Token) -> Term | None:
    """Term of a content word; None for function words and punctuation."""
    return None if token.dep == "aux" else _content(token.text, token.pos)


@lru_cache(maxsize=WORD_CACHE_SIZE)
def _content(text: str, pos: str) -> Term | None:
    word = text.lower()
    if word in FUNCTION_WORDS or not any(map(str.isalnum, word)):
        return None
    return word, coarse_pos(pos)


def plain_tokens(text: str) -> tuple[Token, ...]:
    """Words without syntax, for a description without a parse."""
    return tuple(
        Token(match[0], match[0].lower(), "X", "", i, 0, match.span())
        for i, match in enumerate(WORD.finditer(text))
    )


def words_of(text: str) -> list[str]:
    """Lower-case words of a phrase."""
    return [word.lower() for word in WORD.findall(text)]


def stands_in(heads: list[Term]) -> bool:
    """Return True if a thing has no name of its own: ``she``, ``the other``, ``a figure``."""
    return all(word in ANAPHORS or word in SOMEONE for word, _ in heads)


def is_anaphor(heads: list[Term]) -> bool:
    """Return True if a thing is called ``the one``, ``the other``, ``the second``."""
    return bool(heads) and all(word in ANAPHORS for word, _ in heads)


def is_viewer(heads: list[Term]) -> bool:
    """Return True if a thing is the viewer of the image."""
    return bool(heads) and all(word in VIEWERS for word, _ in heads)


PERSON_FILE = 18  # WordNet's lexicographer file for persons
MALE = frozenset("he him his himself father king god son brother monk priest".split())
FEMALE = frozenset("she her hers herself mother queen goddess daughter sister nun".split())
EITHER = frozenset("they them their themselves who whom whose crowd family couple".split())
EITHER |= ANAPHORS | SOMEONE
NO_PERSON = frozenset("it its itself which".split())

Genders = frozenset[str]
BOTH: Genders = frozenset("mf")
NOBODY: Genders = frozenset()


@lru_cache(maxsize=1)
def _gender_synsets() -> dict[str, frozenset[int]]:
    net = wordnet()
    return {
        gender: frozenset(s for s, _ in net.senses(word) if net.file[s] == PERSON_FILE)
        for gender, word in (("m", "male"), ("f", "female"))
    }


@lru_cache(maxsize=WORD_CACHE_SIZE)
def genders(term: Term) -> Genders:
    """Possible genders: ``fisherman`` -> m; ``sailor`` -> m and f; ``boat`` -> none."""
    word, pos = term
    for words, letters in ((MALE, "m"), (FEMALE, "f"), (EITHER, "mf"), (NO_PERSON, "")):
        if word in words:
            return frozenset(letters)
    if pos != "n":
        return NOBODY
    net = wordnet()
    own, genus, *_ = meaning(term)
    usual = max(own, key=lambda s: (own[s], -s), default=None)
    if usual is None or net.file[usual] != PERSON_FILE:
        return NOBODY
    synsets = own.keys() | genus.keys()
    return frozenset(g for g, heads in _gender_synsets().items() if heads & synsets) or BOTH


KINDS = {
    "over": "above on over onto upon atop across covering",
    "under": "under beneath below underneath",
    "behind": "behind after beyond",
    "front": "before front ahead",
    "beside": "beside by near next alongside along against at close",
    "inside": "in inside within into amid among amidst between",
    "around": "around round about",
    "through": "through across along past via",
    "towards": "to towards toward at into onto for",
    "away": "from off out of away",
    "belonging": "of with in part having wearing",
    "up": "up upward upwards",
    "down": "down downward downwards",
}
OPPOSITE = (
    ("over", "under"), ("behind", "front"), ("towards", "away"), ("inside", "away"), ("up", "down"),
)  # fmt: skip
DIRECTED = frozenset("over under behind front inside towards away up down".split())
"""Kinds that do not hold in both directions: the cup is on the table."""
PREPOSITIONS = frozenset(word for words in KINDS.values() for word in words.split())
KINDS_OF = {
    word: frozenset(kind for kind, words in KINDS.items() if word in words.split())
    for word in PREPOSITIONS
}
SAME_KIND = 0.85  # agreement of prepositions of one kind: over, above
UNLIKE = 0.35  # agreement of prepositions that neither agree nor exclude each other


def agreement(a: str, b: str) -> float:
    """Agreement of two prepositions, from 0 (``above``, ``below``) to 1 (the same)."""
    if a == b:
        return 1.0
    if KINDS_OF.get(a, frozenset()) & KINDS_OF.get(b, frozenset()):
        return SAME_KIND
    return 0.0 if _are_opposite(a, b) else UNLIKE


def converse(a: str, b: str) -> float:
    """Agreement of "x a y" with "y b x": ``above`` with ``below``, ``beside`` with ``beside``."""
    if _are_opposite(a, b):
        return SAME_KIND
    if KINDS_OF.get(a, frozenset()) & KINDS_OF.get(b, frozenset()) & DIRECTED:
        return 0.0
    return agreement(a, b)


def _are_opposite(a: str, b: str) -> bool:
    here, there = KINDS_OF.get(a, frozenset()), KINDS_OF.get(b, frozenset())
    return any((x in here and y in there) or (y in here and x in there) for x, y in OPPOSITE)
