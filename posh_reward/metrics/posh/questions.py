"""Scene graph -> questions in three passes (paper, section 3, step 2; A.1.3).

An entity is asked for under *candidate identifiers*, each more telling than its bare name
where the name is shared. Everything here is a pure function of a graph and of what earlier
passes found out; who answers, and when, is not this module's business.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from posh_reward.types import HIGHEST_GRADE, Entity, Relation, SceneGraph

PRESENT = 2.0
"""An entity is present when the grade of its best candidate is at least this."""

PART_OF = "part of"
CONTAINING = frozenset(
    "have has had having hold holds held holding contain contains contained containing "
    "wear wears wore worn wearing".split()
)
"""Relations that make their object a part of their subject."""

PRONOUNS = frozenset(
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves "
    "he him his himself she her hers herself it its itself they them their theirs themselves "
    "this that these those who whom whose which what one ones".split()
)


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


class Namesakes:
    """Entities that share a name (in one frame), and what only one of them has.

    That tells it from its rivals, the others. Counting once keeps a text that repeats one word
    a thousand times linear; an entity without rivals, the usual case, needs no counts.
    """

    def __init__(self, roster: Roster, members: Sequence[int]) -> None:
        self.size = len(members)
        self._counts: Counter[tuple[str, object]] = Counter()
        if self.size > 1:
            for member in members:
                self._counts.update(("attribute", text) for text in roster.attributes[member])
                self._counts.update(("mention", text) for text in roster.mentions[member])
                self._counts.update(("done", key) for key in _done(roster, member))
                self._counts.update(("suffered", key) for key in _suffered(roster, member))

    def only_one(self, kind: str, key: object) -> bool:
        """Whether just one of them has an attribute, a mention, or a relation."""
        return self.size == 1 or self._counts[kind, key] == 1


class Roster:
    """A graph as questions see it: lower-cased names, parents, and who shares a name."""

    def __init__(self, graph: SceneGraph) -> None:
        self.graph = graph
        self.names = [plain(entity.head) for entity in graph.entities]
        self.attributes = [_attributes(entity) for entity in graph.entities]
        self.mentions = [_other_mentions(entity) for entity in graph.entities]
        self.parents = _parents(graph)
        self.outgoing: dict[int, list[Relation]] = defaultdict(list)
        self.incoming: dict[int, list[Relation]] = defaultdict(list)
        for relation in graph.relations:
            if relation.text != PART_OF:
                self.outgoing[relation.subject].append(relation)
                self.incoming[relation.object].append(relation)
        self._members: dict[tuple[str, int | None], list[int]] = defaultdict(list)
        for index, name in enumerate(self.names):
            for parent in [None, *self.parents[index]]:
                self._members[name, parent].append(index)
        self._namesakes: dict[tuple[str, int | None], Namesakes] = {}

    def namesakes(self, name: str, parent: int | None = None) -> Namesakes:
        """All entities of a name, or only those that are also parts of one parent."""
        key = (name, parent)
        if key not in self._namesakes:
            self._namesakes[key] = Namesakes(self, self._members[key])
        return self._namesakes[key]


def plain(text: str) -> str:
    """A text as names and attributes are compared: stripped and lower-cased."""
    return text.strip().lower()


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

    A part is called by its parents that were found, and by its bare name too if no parent
    was found or nothing else has that name.
    """
    name = roster.names[entity]
    parents = [p for p in roster.parents[entity] if p in found and found[p].present]
    ways: list[Candidate] = []
    if not parents or roster.namesakes(name).size == 1:
        ways += _in_frame(roster, entity, name, roster.namesakes(name), found)
    for parent in parents:
        frame = f"{name} of {found[parent].identifier}"
        ways += _in_frame(roster, entity, frame, roster.namesakes(name, parent), found)
    return sorted(ways, key=lambda way: way.rank)


def _in_frame(
    roster: Roster, entity: int, frame: str, namesakes: Namesakes, found: Findings
) -> list[Candidate]:
    """Ranks 0 to 2, or, where they give nothing, ranks 3 and 4, or else the frame itself."""
    ways = [] if namesakes.size > 1 else [Candidate(0, frame, None)]
    ways += [
        Candidate(1, f"{text} {frame}", "attribute")
        for text in roster.attributes[entity]
        if namesakes.only_one("attribute", text)
    ]
    ways += [
        Candidate(2, text, None)
        for text in roster.mentions[entity]
        if namesakes.only_one("mention", text)
    ]
    return (
        ways
        or _by_relations(roster, entity, frame, namesakes, found)
        or [Candidate(0, frame, None)]
    )


def _by_relations(
    roster: Roster, entity: int, frame: str, namesakes: Namesakes, found: Findings
) -> list[Candidate]:
    """Ranks 3 and 4: what the entity does or what is done to it, where no rival does the same."""
    name = roster.names[entity]
    outward = [
        Candidate(3, f"{name} {text} {other}", "relation")
        for text, index in _done(roster, entity)
        if namesakes.only_one("done", (text, index))
        and (other := _called(roster, index, found)) is not None
    ]
    inward = [
        Candidate(4, f'{frame} with relation "{other} {text} {name}"', "relation")
        for text, index in _suffered(roster, entity)
        if namesakes.only_one("suffered", (text, index))
        and (other := _called(roster, index, found)) is not None
    ]
    return outward + inward


def _done(roster: Roster, entity: int) -> dict[tuple[str, int], None]:
    """(relation text, object) of each relation that leaves the entity, in order, once."""
    return dict.fromkeys((r.text, r.object) for r in roster.outgoing[entity])


def _suffered(roster: Roster, entity: int) -> dict[tuple[str, int], None]:
    """(relation text, subject) of each relation that reaches the entity, in order, once."""
    return dict.fromkeys((r.text, r.subject) for r in roster.incoming[entity])


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


def _attributes(entity: Entity) -> dict[str, int]:
    """Plain attribute text -> its first sentence; by first sentence, then alphabetically.

    The release sorts before it lower-cases, so "Two" comes before "long".
    """
    first: dict[str, int] = {}
    for attribute in sorted(entity.attributes, key=lambda a: a.text.strip()):
        text = plain(attribute.text)
        sentence = min(attribute.sentences, default=0)
        first[text] = min(sentence, first.get(text, sentence))
    return dict(sorted(first.items(), key=lambda item: item[1]))


def _other_mentions(entity: Entity) -> list[str]:
    """What else the entity is called, pronouns apart, each once, in text order."""
    name = plain(entity.head)
    others = (plain(head) for head in entity.heads)
    return list(dict.fromkeys(o for o in others if o != name and o not in PRONOUNS))


def _parents(graph: SceneGraph) -> list[list[int]]:
    """For each entity, those that it is part of or that have, hold, contain or wear it."""
    parents: list[list[int]] = [[] for _ in graph.entities]
    for relation in graph.relations:
        if relation.text == PART_OF:
            child, parent = relation.subject, relation.object
        elif relation.text in CONTAINING:
            child, parent = relation.object, relation.subject
        else:
            continue
        if parent not in parents[child] and parent != child:
            parents[child].append(parent)
    return parents
