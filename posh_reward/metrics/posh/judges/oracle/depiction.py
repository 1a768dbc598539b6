"""Properties and relations of a drawing's objects: true, false, or None if unknown.

The known words are those of ``scene_wording`` and their close relatives. Others are never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from posh_reward.datasets.scenes.subjects import COLORS, Posture, Role, Thing

PLACES = {"left": 0, "center": 1, "centre": 1, "middle": 1, "right": 2}  # words for the slots
FRONT = "front"  # an entity of "in *front* of a house", as graphs have it
SIZES = {"small": "small", "little": "small", "large": "large", "big": "large"}
COUNTS = {"a": 1, "one": 1, "single": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
STANCES: dict[str, Posture] = {
    "stand": "stands", "stands": "stands", "standing": "stands", "stood": "stands",
    "sit": "sits", "sits": "sits", "sitting": "sits", "seated": "sits", "sat": "sits",
    "fly": "flies", "flies": "flies", "flying": "flies", "flew": "flies",
}  # fmt: skip
BEING = frozenset("is are was were be being".split())
LINKS: dict[Role, frozenset[str]] = {
    "worn": frozenset(("in", "wears", "wearing", "wear", "dressed in", "with", "has")),
    "held": frozenset(("holds", "holding", "hold", "carries", "carrying", "with", "has")),
    "backdrop": frozenset(("in front of", "before")),
}
"""Relations of a figure to its belongings."""
BACK_LINKS: dict[Role, frozenset[str]] = {
    "worn": frozenset(("part of", "of", "on")),
    "held": frozenset(("part of", "of", "held by")),
    "backdrop": frozenset(("behind",)),
}
"""Relations of belongings to their figure."""
AT = frozenset("on to at in".split())  # relations of an object to its place


def has(thing: Thing, text: str) -> bool | None:
    """Return True if an object has a property, such as "red", "two" or "stands"."""
    return every(_is(thing, word) for word in words_of(text) if word not in BEING)


def _is(thing: Thing, word: str) -> bool | None:
    if word in STANCES:
        return _takes(thing, STANCES[word])
    if word in COLORS and thing.color is not None:
        return thing.color == word
    if word in SIZES and thing.size is not None:
        return thing.size == SIZES[word]
    return thing.count == COUNTS[word] if word in COUNTS else None


def _takes(thing: Thing, posture: Posture) -> bool | None:
    """A wrong posture is false only of what has limbs: a house may "sit" on a meadow."""
    if thing.posture is None:
        return None
    limbs = thing.role == "figure" or thing.noun in ("dog", "bird")
    return thing.posture == posture or (False if limbs else None)


def joins(things: Sequence[Thing], first: int, text: str, second: int) -> bool | None:
    """Return True if a relation holds, such as "holds" or "sits in front of"."""
    stances, link = _stances_and_link(text)
    one, other = things[first], things[second]
    if one.role == "figure" and other.owner is not None:
        holds = other.owner == first if link in LINKS[other.role] else None
    elif other.role == "figure" and one.owner is not None:
        holds = one.owner == second if link in BACK_LINKS[one.role] else None
    elif one.role == "figure" and link in LINKS["backdrop"]:
        holds = False
    else:
        holds = None
    return every((holds, *(_takes(one, stance) for stance in stances)))


def stands_at(thing: Thing, text: str, slot: int | None) -> bool | None:
    """Return True if an object is in the slot that a place names, such as "stands on" the left."""
    stances, link = _stances_and_link(text)
    holds = thing.slot == slot if slot is not None and link in AT else None
    return every((holds, *(_takes(thing, stance) for stance in stances)))


def _stances_and_link(text: str) -> tuple[list[Posture], str]:
    """Split a relation's text: "sits in front of" -> (["sits"], "in front of")."""
    words = words_of(text)
    stances = [STANCES[word] for word in words if word in STANCES]
    return stances, " ".join(w for w in words if w not in STANCES and w not in BEING)


def every(truths: Iterable[bool | None]) -> bool | None:
    """Three-valued "and": False if one is; else None if one is unknown or there are none."""
    answers = list(truths)
    if False in answers:
        return False
    return True if answers and None not in answers else None


def words_of(text: str) -> list[str]:
    """Lower-case words of a text."""
    return re.findall(r"[a-z]+", text.lower())
