"""What components of a sentence are to each other, known from both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Role = Literal[
    "describes", "described_by", "subject", "subject_of", "object", "object_of",
    "place_of", "preposition", "place", "placed_by",
]  # fmt: skip
"""What one component is to another. Read "verb: subject noun", "noun: subject_of verb"; a
preposition is the ``place_of`` its head and has its ``place``: *a cup* (place_of) on *a table*."""

INVERSE: dict[Role, Role] = {
    "describes": "described_by", "described_by": "describes",
    "subject": "subject_of", "subject_of": "subject",
    "object": "object_of", "object_of": "object",
    "place_of": "preposition", "preposition": "place_of",
    "place": "placed_by", "placed_by": "place",
}  # fmt: skip


class Links:
    """Links by role, each known from both of its ends, in the order in which they were made.

    Components are named by index. As in the release a link may be there twice, and a component
    may be linked to itself; neither if ``mended``.
    """

    def __init__(self, components: int, *, mended: bool = False) -> None:
        self._ends: list[dict[Role, list[int]]] = [{} for _ in range(components)]
        self._once: set[tuple[int, Role, int]] | None = set() if mended else None

    def join(self, first: int, role: Role, second: int) -> None:
        """States that ``second`` is the ``role`` of ``first``."""
        if self._once is not None:
            link = (first, role, second)
            if first == second or link in self._once:
                return
            self._once |= {link, (second, INVERSE[role], first)}
        self._ends[first].setdefault(role, []).append(second)
        self._ends[second].setdefault(INVERSE[role], []).append(first)

    def borrow(self, first: int, role: Role, second: int) -> None:
        """As ``join``, but ``second`` does not know of it."""
        self._ends[first].setdefault(role, []).append(second)

    def forget(self, first: int, role: Role) -> None:
        """Removes the links of one role; their other ends keep theirs."""
        self._ends[first].pop(role, None)

    def part(self, first: int, role: Role) -> None:
        """Removes the links of one role, from both ends."""
        for second in self._ends[first].pop(role, ()):
            if self._once is not None:
                self._once -= {(first, role, second), (second, INVERSE[role], first)}
            others = self._ends[second][INVERSE[role]]
            others.remove(first)
            if not others:
                del self._ends[second][INVERSE[role]]

    def ends(self, component: int, role: Role) -> Sequence[int]:
        """Components that have a role for this one, its own before those taken over."""
        return self._ends[component].get(role, ())

    def any(self, component: int) -> bool:
        """Whether a component has any link."""
        return bool(self._ends[component])

    def roles(self, component: int) -> dict[Role, tuple[int, ...]]:
        """All links of a component, as they are now."""
        return {role: tuple(ends) for role, ends in self._ends[component].items()}
