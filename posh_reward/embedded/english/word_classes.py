"""Word classes: pronouns and persons, prepositions; and the terms of tokens."""

from __future__ import annotations

import re
from functools import lru_cache

from posh_reward.embedded.english.meaning import Term, coarse_pos, find_meaning
from posh_reward.embedded.english.wordnet import load_wordnet
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
PERSON_HEADS = frozenset(
    "figure figures person persons people someone somebody individual elder younger".split()
)
"""Heads that can refer to any person."""
VIEWER_HEADS = frozenset("viewer viewers beholder onlooker onlookers spectator spectators".split())
"""Names of the viewer, besides "we" and "us"."""
HAVING = frozenset("of with in part has have having wears wear wearing holds holding".split())
"""Words of relations in which one entity has, wears or holds another."""
WORD_PATTERN = re.compile(r"\w+")
SPELLING = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)
"""A token from its first letter or digit to its last one."""


def find_term(token: Token) -> Term | None:
    """Find the term of a content word; None for function words and punctuation."""
    if token.dep == "aux":
        return None
    return _content_term(token.text, token.pos)


@lru_cache(maxsize=WORD_CACHE_SIZE)
def _content_term(text: str, pos: str) -> Term | None:
    word = spell(text)
    if not word or word in FUNCTION_WORDS:
        return None
    return word, coarse_pos(pos)


def plain_tokens(text: str) -> tuple[Token, ...]:
    """Words without syntax, for a description without a parse."""
    tokens = []
    for i, match in enumerate(WORD_PATTERN.finditer(text)):
        tokens.append(Token(match[0], match[0].lower(), "X", "", i, 0, match.span()))
    return tuple(tokens)


def spell(token: str) -> str:
    """Lower-case word of a token, without the marks around it; empty if it has only marks.

    One definition for tokens and for words of phrases: what the tokenizer keeps whole stays whole,
    such as ``o'keeffe``, ``10:30``, ``at&t``, ``p.m``.
    """
    spelling = SPELLING.search(token.lower())
    return spelling[0] if spelling else ""


def split_words(phrase: str) -> list[str]:
    """Words of a phrase, which is made of tokens joined by blanks."""
    return [word for word in map(spell, phrase.split()) if word]


def stands_in(heads: list[Term]) -> bool:
    """Return True if an entity has no name of its own: ``she``, ``the other``, ``a figure``."""
    return all(word in ANAPHORS or word in PERSON_HEADS for word, _ in heads)


def is_anaphor(heads: list[Term]) -> bool:
    """Return True if an entity is called ``the one``, ``the other``, ``the second``."""
    return bool(heads) and all(word in ANAPHORS for word, _ in heads)


def is_viewer(heads: list[Term]) -> bool:
    """Return True if an entity is the viewer of the image."""
    return bool(heads) and all(word in VIEWER_HEADS for word, _ in heads)


PERSON_FILE = 18  # WordNet's lexicographer file for persons
MALE_WORDS = frozenset("he him his himself father king god son brother monk priest".split())
FEMALE_WORDS = frozenset("she her hers herself mother queen goddess daughter sister nun".split())
WORDS_OF_EITHER_GENDER = frozenset(
    "they them their themselves who whom whose crowd family couple".split()
)
WORDS_OF_EITHER_GENDER |= ANAPHORS | PERSON_HEADS
NO_PERSON_WORDS = frozenset("it its itself which".split())

Genders = frozenset[str]
BOTH_GENDERS: Genders = frozenset("mf")
NO_GENDER: Genders = frozenset()


@lru_cache(maxsize=1)
def _gender_synsets() -> dict[str, frozenset[int]]:
    net = load_wordnet()
    synsets = {}
    for gender, word in (("m", "male"), ("f", "female")):
        senses = dict(net.senses(word))
        synsets[gender] = frozenset(s for s in senses if net.file[s] == PERSON_FILE)
    return synsets


@lru_cache(maxsize=WORD_CACHE_SIZE)
def genders(term: Term) -> Genders:
    """Possible genders: ``fisherman`` -> m; ``sailor`` -> m and f; ``boat`` -> none."""
    word, pos = term
    if word in MALE_WORDS:
        return frozenset("m")
    if word in FEMALE_WORDS:
        return frozenset("f")
    if word in WORDS_OF_EITHER_GENDER:
        return BOTH_GENDERS
    if word in NO_PERSON_WORDS or pos != "n":
        return NO_GENDER
    net = load_wordnet()
    own, genus, *_ = find_meaning(term)
    usual = max(own, key=lambda s: (own[s], -s), default=None)
    if usual is None or net.file[usual] != PERSON_FILE:
        return NO_GENDER
    synsets = own.keys() | genus.keys()
    stated = frozenset(g for g, heads in _gender_synsets().items() if heads & synsets)
    return stated or BOTH_GENDERS


PREPOSITIONS_BY_KIND = {
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
OPPOSITE_KINDS = (
    ("over", "under"), ("behind", "front"), ("towards", "away"), ("inside", "away"), ("up", "down"),
)  # fmt: skip
DIRECTED_KINDS = frozenset("over under behind front inside towards away up down".split())
"""Kinds that do not hold in both directions: the cup is on the table."""
PREPOSITIONS = frozenset(" ".join(PREPOSITIONS_BY_KIND.values()).split())
SAME_KIND_AGREEMENT = 0.85  # of prepositions of one kind: over, above
UNRELATED_AGREEMENT = 0.35  # of prepositions that neither agree nor exclude each other


@lru_cache(maxsize=WORD_CACHE_SIZE)
def find_kinds(preposition: str) -> frozenset[str]:
    """Find the kinds of a preposition; none of any other word."""
    by_kind = PREPOSITIONS_BY_KIND.items()
    return frozenset(kind for kind, words in by_kind if preposition in words.split())


def preposition_agreement(a: str, b: str) -> float:
    """Agreement of two prepositions, from 0 (``above``, ``below``) to 1 (the same)."""
    if a == b:
        return 1.0
    if not find_kinds(a).isdisjoint(find_kinds(b)):
        return SAME_KIND_AGREEMENT
    return 0.0 if _are_opposite(a, b) else UNRELATED_AGREEMENT


def converse(a: str, b: str) -> float:
    """Agreement of "x a y" with "y b x": ``above`` with ``below``, ``beside`` with ``beside``."""
    if _are_opposite(a, b):
        return SAME_KIND_AGREEMENT
    if find_kinds(a) & find_kinds(b) & DIRECTED_KINDS:
        return 0.0
    return preposition_agreement(a, b)


def _are_opposite(a: str, b: str) -> bool:
    here, there = find_kinds(a), find_kinds(b)
    return any((x in here and y in there) or (y in here and x in there) for x, y in OPPOSITE_KINDS)
