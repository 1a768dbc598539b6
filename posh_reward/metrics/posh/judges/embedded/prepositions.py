"""Which prepositions say the same, and which rule each other out."""

from __future__ import annotations

from functools import lru_cache

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
"""Kinds that do not hold the other way round: the cup is on the table."""
PREPOSITIONS = frozenset(word for words in KINDS.values() for word in words.split())
SAME_KIND = 0.85
UNLIKE = 0.35
"""Two prepositions that neither agree nor exclude each other."""


@lru_cache(maxsize=1)
def kinds() -> dict[str, frozenset[str]]:
    """Preposition -> what it can say."""
    return {
        word: frozenset(kind for kind, words in KINDS.items() if word in words.split())
        for word in PREPOSITIONS
    }


def agreement(a: str, b: str) -> float:
    """From 0 (``above``, ``below``) to 1 (the same)."""
    if a == b:
        return 1.0
    here, there = kinds().get(a), kinds().get(b)
    if here is None or there is None:
        return UNLIKE
    if here & there:
        return SAME_KIND
    against = any((x in here and y in there) or (y in here and x in there) for x, y in OPPOSITE)
    return 0.0 if against else UNLIKE


def converse(a: str, b: str) -> float:
    """Agreement of "x a y" with "y b x": ``above`` with ``below``, ``beside`` with ``beside``."""
    here, there = kinds().get(a, frozenset()), kinds().get(b, frozenset())
    if any((x in here and y in there) or (y in here and x in there) for x, y in OPPOSITE):
        return SAME_KIND
    if here & there & DIRECTED:
        return 0.0
    return agreement(a, b)
