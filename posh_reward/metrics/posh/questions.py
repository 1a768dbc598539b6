"""Scene graph -> questions in three passes (paper, section 3, step 2; A.1.3).

An entity is asked for under *candidate identifiers*, each more telling than its bare name
where the name is shared. Everything here is a pure function of a graph and of what earlier
passes found out; who answers, and when, is not this module's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from posh_reward.metrics.posh.roster import Namesakes, Roster, done, suffered
from posh_reward.types import HIGHEST_GRADE, Entity, SceneGraph

PRESENT = 2.0
"""An entity is present when the grade of its best candidate is at least this."""
ASKING_VERSION = 2
"""Of what is asked about a graph, and how grades make a score. Raise it with any change of
``questions``, ``roster`` or ``examine`` that changes a question or a score: signatures carry it.
``tests/golden/test_readings.py`` fails if that is forgotten."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known of an entity once it has been asked for."""

    identifier: str
    grade: float
    """1-5; flagged entities have 5 without being asked."""

    @property
    def present(self) -> bool:
        """Whether the other description has it at all."""
        return self.grade >= PRESENT


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to call an entity in a question."""

    rank: int
    text: str
    rewrite: Literal["attribute", "relation"] | None
    """Which rewrite makes a fluent phrase of it; None if it is asked as it stands."""


Findings = Mapping[int, Finding]
"""By entity index; entities of later passes are missing."""


def given(graph: SceneGraph) -> dict[int, Finding]:
    """The viewer and the viewer's sides: present without being asked for."""
    return {
        index: Finding(_viewer_name(entity), HIGHEST_GRADE)
        for index, entity in enumerate(graph.entities)
        if entity.flagged
    }


def wholes(roster: Roster) -> list[int]:
    """Entities of the first pass: those that are no part of another."""
    return [
        index
        for index, entity in enumerate(roster.graph.entities)
        if not entity.flagged and not roster.parents[index]
    ]


def parts(roster: Roster) -> list[int]:
    """Entities of the second pass: those that belong to another."""
    return [
        index
        for index, entity in enumerate(roster.graph.entities)
        if not entity.flagged and roster.parents[index]
    ]


def candidates(roster: Roster, entity: int, found: Findings) -> list[Candidate]:
    """All ways to call an entity, in rank order; never empty.

    An entity is called in *frames*: a part as "robe of king" for each parent that was found, in
    order of entities, and by its bare name too if no parent was found or nothing else has that
    name. A text that an earlier frame has offered is not offered again, and does not keep a later
    frame from trying relations. Only if no frame gives anything is the first one asked bare.
    """
    name = roster.names[entity]
    parents = [p for p in roster.parents[entity] if p in found and found[p].present]
    frames = [_Frame(f" of {found[p].identifier}", roster.namesakes(name, p)) for p in parents]
    if not parents or roster.namesakes(name).size == 1:
        frames.insert(0, _Frame("", roster.namesakes(name)))
    offered: set[str] = set()
    ways: list[Candidate] = []
    for frame in frames:
        known = len(ways)
        if frame.namesakes.size == 1:
            ways.append(Candidate(0, name + frame.of, None))
            offered.add(name + frame.of)
        _offer(_by_description(roster, entity, frame), offered, ways)
        if len(ways) == known:
            _offer(_by_relations(roster, entity, frame, found), offered, ways)
    if not ways:
        return [Candidate(0, name + frames[0].of, None)]
    return sorted(ways, key=lambda way: way.rank)


def _offer(new: Iterable[Candidate], offered: set[str], ways: list[Candidate]) -> None:
    """Adds those whose text is not among those ``offered`` to ``ways``."""
    for way in new:
        if way.text not in offered:
            offered.add(way.text)
            ways.append(way)


class _Frame(NamedTuple):
    """In what connection an entity is called."""

    of: str
    """What follows its name: " of " and a parent, or nothing."""
    namesakes: Namesakes


def _by_description(roster: Roster, entity: int, frame: _Frame) -> Iterator[Candidate]:
    """Ranks 1 and 2: "red robe of king", and "cloak of king" if it is also called a cloak."""
    for text in roster.attributes[entity]:
        if frame.namesakes.only_one("attribute", text):
            yield Candidate(1, f"{text} {roster.names[entity]}{frame.of}", "attribute")
    for text in roster.mentions[entity]:
        if frame.namesakes.only_one("mention", text):
            yield Candidate(2, text + frame.of, None)


def _by_relations(
    roster: Roster, entity: int, frame: _Frame, found: Findings
) -> Iterator[Candidate]:
    """Ranks 3 and 4: what the entity does or what is done to it, where no rival does the same."""
    name = roster.names[entity]
    for text, index in done(roster, entity):
        if frame.namesakes.only_one("done", (text, index)):
            other = _called(roster, index, found)
            if other is not None:
                yield Candidate(3, f"{name} {text} {other}", "relation")
    for text, index in suffered(roster, entity):
        if frame.namesakes.only_one("suffered", (text, index)):
            other = _called(roster, index, found)
            if other is not None:
                told = f'{name}{frame.of} with relation "{other} {text} {name}"'
                yield Candidate(4, told, "relation")


def _called(roster: Roster, entity: int, found: Findings) -> str | None:
    """How another entity is called within a candidate; None if it is absent."""
    if entity in found:
        finding = found[entity]
        return finding.identifier if finding.present else None
    attributes = roster.attributes[entity]
    name = roster.names[entity]
    return f"{next(iter(attributes))} {name}" if attributes else name


def _viewer_name(entity: Entity) -> str:
    if entity.us:
        return "the viewer"
    return "our left" if entity.left else "our right"


def shortened(identifier: str) -> str:
    """What the release leaves of a part's identifier in the question about its whole.

    If there is an " of " and a "]" in it, all from the first " of " to the first "]" goes: it
    asks about "hand" for "hand of man]".
    """
    if " of " not in identifier or "]" not in identifier:
        return identifier
    return identifier[: identifier.index(" of ")] + identifier[identifier.index("]") + 1 :]
