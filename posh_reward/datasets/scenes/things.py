"""What a drawing shows, thing by thing, under the nouns that ``wording`` has for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from posh_reward.datasets.scenes.subjects import GARMENTS, HELD, PEOPLE, THINGS, Scene, Subject

Role = Literal["figure", "object", "worn", "held", "backdrop"]
"""backdrop: what a figure is in front of. An object stands in a slot of its own."""
Posture = Literal["stands", "sits", "flies"]

NOUNS = frozenset({*PEOPLE, *GARMENTS.values(), "hat", *HELD, *THINGS})
"""Everything that a drawing can show."""
POSTURES: dict[str, Posture] = {
    "house": "stands", "tree": "stands", "vase": "stands", "dog": "sits", "bird": "flies",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing in a drawing."""

    noun: str
    role: Role
    slot: int
    """0 to 2, left to right; of its owner, if it has one."""
    color: str | None = None
    """None for a figure, whose garment has the colour."""
    size: str | None = None
    """None where things of its kind have only one."""
    count: int = 1
    posture: Posture | None = None
    owner: int | None = None
    """Place among the scene's things of the figure that wears it, holds it or is in front of it."""


def things(scene: Scene) -> tuple[Thing, ...]:
    """Everything that the scene's drawing shows, from left to right."""
    found: list[Thing] = []
    for slot, subject in enumerate(scene.slots):
        if subject is not None and subject.person:
            found += _with_belongings(subject, slot, len(found))
        elif subject is not None:
            posture = POSTURES[subject.noun]
            found.append(
                Thing(subject.noun, "object", slot, subject.color, subject.size, subject.count,
                      posture)
            )  # fmt: skip
    return tuple(found)


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
