"""Subjects of a scene, and the objects in its drawing, named as in its description."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

SLOTS = 3
COLORS = ("red", "blue", "green", "yellow", "white", "black")
GARMENTS = {"woman": "dress", "man": "coat", "girl": "dress", "boy": "shirt"}
"""Garment of each person."""
PEOPLE = tuple(GARMENTS)
POSES = ("stands", "sits")
HANDHELD = ("basket", "book", "flower", "fan", "lantern")
THINGS = {
    "house": ("red", "blue", "yellow", "white"),
    "tree": ("red", "green", "yellow"),
    "vase": ("red", "blue", "green", "white"),
    "dog": ("white", "black"),
    "bird": ("blue", "white", "black"),
}
"""Colours of each other subject."""
BACKDROPS = ("house", "tree")  # large enough to stand in front of
SIZES = ("small", "large")
MAX_BIRDS = 3


@dataclass(frozen=True, slots=True)
class Subject:
    """A person or an object in one slot.

    Its ``repr`` determines the split (``split_of``), so no field may be renamed.
    """

    noun: str
    color: str  # of the garment, for a person
    pose: str | None = None  # people only; None in plain scenes
    hat: str | None = None  # colour of the hat; people only
    held: str | None = None
    held_color: str | None = None
    size: str | None = None  # objects other than birds
    count: int = 1  # more than one for birds only
    behind: str | None = None  # backdrop of a person; never in plain scenes
    behind_color: str | None = None

    @property
    def person(self) -> bool:
        """True for a human figure."""
        return self.noun in GARMENTS


Slots = tuple[Subject | None, ...]
"""The subject of each slot, left to right; None for an empty slot."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Content of one image; ``uid`` also seeds its drawing and its wording."""

    uid: str
    slots: Slots


Role = Literal["figure", "object", "worn", "held", "backdrop"]
"""A backdrop is behind a figure; an object has its own slot."""
Posture = Literal["stands", "sits", "flies"]

NOUNS = frozenset({*PEOPLE, *GARMENTS.values(), "hat", *HANDHELD, *THINGS})
"""All objects that a drawing can show."""
POSTURES: dict[str, Posture] = {
    "house": "stands", "tree": "stands", "vase": "stands", "dog": "sits", "bird": "flies",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Thing:
    """One person or object in a drawing."""

    noun: str
    role: Role
    slot: int  # 0 to 2, left to right; its owner's, if it has one
    color: str | None = None  # None for a figure, whose garment has the colour
    size: str | None = None  # None if such objects have only one size
    count: int = 1
    posture: Posture | None = None
    owner: int | None = None  # index of the figure that wears it, holds it or is in front of it


def things(scene: Scene) -> tuple[Thing, ...]:
    """List the people and objects in the scene's drawing, from left to right."""
    result: list[Thing] = []
    for slot, subject in enumerate(scene.slots):
        if subject is not None and subject.person:
            result += _with_belongings(subject, slot, len(result))
        elif subject is not None:
            result.append(Thing(subject.noun, "object", slot, subject.color, subject.size,
                                subject.count, POSTURES[subject.noun]))  # fmt: skip
    return tuple(result)


def _with_belongings(person: Subject, slot: int, owner: int) -> Iterator[Thing]:
    """Yield a figure, what it wears and holds, and its backdrop."""
    # ``drawing`` shows everyone who does not sit as standing, whether described so or not.
    yield Thing(person.noun, "figure", slot, posture="sits" if person.pose == "sits" else "stands")
    yield Thing(GARMENTS[person.noun], "worn", slot, person.color, owner=owner)
    if person.hat:
        yield Thing("hat", "worn", slot, person.hat, owner=owner)
    if person.held:
        yield Thing(person.held, "held", slot, person.held_color, owner=owner)
    if person.behind:
        yield Thing(person.behind, "backdrop", slot, person.behind_color,
                    posture=POSTURES[person.behind], owner=owner)  # fmt: skip
