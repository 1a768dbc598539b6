"""Subjects of a scene, and the things that its drawing shows, under the nouns of its wording."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

SLOTS = 3
COLORS = ("red", "blue", "green", "yellow", "white", "black")
GARMENTS = {"woman": "dress", "man": "coat", "girl": "dress", "boy": "shirt"}
"""The people, and what each wears."""
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
"""The other subjects, and the colours that each comes in."""
BACKDROPS = ("house", "tree")  # things large enough to stand in front of
SIZES = ("small", "large")
MAX_BIRDS = 3


@dataclass(frozen=True, slots=True)
class Subject:
    """A person or a thing in one slot.

    Its ``repr`` decides the split (``split_of``), so no field may be renamed.
    """

    noun: str
    color: str  # of the garment, for a person
    pose: str | None = None  # people only; None in plain scenes
    hat: str | None = None  # colour of the hat; people only
    held: str | None = None
    held_color: str | None = None
    size: str | None = None  # things other than birds
    count: int = 1  # more than one for birds only
    behind: str | None = None  # the thing that a person is in front of; never in plain scenes
    behind_color: str | None = None

    @property
    def person(self) -> bool:
        """True for a human figure."""
        return self.noun in GARMENTS


Slots = tuple[Subject | None, ...]
"""The subject of each slot, left to right; None where a slot is empty."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One image's content. ``uid`` also seeds its brushwork and its wording."""

    uid: str
    slots: Slots


Role = Literal["figure", "object", "worn", "held", "backdrop"]
"""backdrop: what a figure is in front of. An object stands in a slot of its own."""
Posture = Literal["stands", "sits", "flies"]

NOUNS = frozenset({*PEOPLE, *GARMENTS.values(), "hat", *HANDHELD, *THINGS})
"""Everything that a drawing can show."""
POSTURES: dict[str, Posture] = {
    "house": "stands", "tree": "stands", "vase": "stands", "dog": "sits", "bird": "flies",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing in a drawing."""

    noun: str
    role: Role
    slot: int  # 0 to 2, left to right; of its owner, if it has one
    color: str | None = None  # None for a figure, whose garment has the colour
    size: str | None = None  # None where things of its kind have only one
    count: int = 1
    posture: Posture | None = None
    owner: int | None = None  # index of the figure that wears or holds it, or is in front


def things(scene: Scene) -> tuple[Thing, ...]:
    """Everything that the scene's drawing shows, from left to right."""
    result: list[Thing] = []
    for slot, subject in enumerate(scene.slots):
        if subject is not None and subject.person:
            result += _with_belongings(subject, slot, len(result))
        elif subject is not None:
            posture = POSTURES[subject.noun]
            result.append(
                Thing(subject.noun, "object", slot, subject.color, subject.size, subject.count,
                      posture)
            )  # fmt: skip
    return tuple(result)


def _with_belongings(person: Subject, slot: int, owner: int) -> Iterator[Thing]:
    """A figure, and what it wears, holds and is in front of."""
    # ``drawing`` has whoever does not sit stand, also where ``wording`` does not say so.
    yield Thing(person.noun, "figure", slot, posture="sits" if person.pose == "sits" else "stands")
    yield Thing(GARMENTS[person.noun], "worn", slot, person.color, owner=owner)
    if person.hat:
        yield Thing("hat", "worn", slot, person.hat, owner=owner)
    if person.held:
        yield Thing(person.held, "held", slot, person.held_color, owner=owner)
    if person.behind:
        yield Thing(person.behind, "backdrop", slot, person.behind_color,
                    posture=POSTURES[person.behind], owner=owner)  # fmt: skip
