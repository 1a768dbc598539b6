"""What a scene can hold, and the records that drawing and wording read."""

from __future__ import annotations

from dataclasses import dataclass

SLOTS = 3
COLORS = ("red", "blue", "green", "yellow", "white", "black")
GARMENTS = {"woman": "dress", "man": "coat", "girl": "dress", "boy": "shirt"}
"""The people, and what each wears."""
PEOPLE = tuple(GARMENTS)
POSES = ("stands", "sits")
HELD = ("basket", "book", "flower", "fan", "lantern")
THINGS = {
    "house": ("red", "blue", "yellow", "white"),
    "tree": ("red", "green", "yellow"),
    "vase": ("red", "blue", "green", "white"),
    "dog": ("white", "black"),
    "bird": ("blue", "white", "black"),
}
"""The other subjects, and the colours that each comes in."""
BACKDROPS = ("house", "tree")
"""Things large enough to stand in front of."""
SIZES = ("small", "large")
MAX_BIRDS = 3


@dataclass(frozen=True, slots=True)
class Subject:
    """A person or a thing in one slot."""

    noun: str
    color: str
    """Of the garment, for a person."""
    pose: str | None = None
    """People only; None in plain scenes."""
    hat: str | None = None
    """Colour of the hat; people only."""
    held: str | None = None
    held_color: str | None = None
    size: str | None = None
    """Things other than birds."""
    count: int = 1
    """More than one for birds only."""
    behind: str | None = None
    """The thing that a person is in front of; never in plain scenes."""
    behind_color: str | None = None

    @property
    def person(self) -> bool:
        """Whether the subject is a human figure."""
        return self.noun in GARMENTS


Slots = tuple[Subject | None, ...]
"""The subject of each slot, left to right; None where a slot is empty."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What one image shows. ``uid`` also seeds its brushwork and its wording."""

    uid: str
    slots: Slots
