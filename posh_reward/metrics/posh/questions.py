"""Scene graph -> questions in three passes (paper, section 3, step 2; A.1.3).

An entity is asked for under *candidate names*, each more telling than its bare name where the
name is shared. Pure functions of a graph and of earlier passes' findings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from posh_reward.types import HIGHEST_GRADE, Entity, Relation, SceneGraph

PART_OF = "part of"
CONTAINING = frozenset(
    "have has had having hold holds holding contain contains contained containing "
    "wear wears wore wearing".split()
)
"""Relations that make their object a part of their subject."""

MENDED_CONTAINING = frozenset({"held", "worn"})
"""More of them, with preset ``mended``: as released "a man *held* a cup" makes no part."""

NO_NAMES = frozenset(
    "he him his himself she her hers herself it its itself they them their theirs themselves "
    "who whom this that these those".split()
)
"""Mentions that are never offered as another name."""

MENDED_NO_NAMES = frozenset(
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves "
    "whose which what one ones".split()
)
"""More of them, with preset ``mended``: as released "a boat floats. *One* sinks" is asked for as
"one", too."""


class Namesakes:
    """Entities that share a name (in one frame), with counts of all that could tell them apart."""

    def __init__(self, roster: Roster, members: Sequence[int]) -> None:
        self.size = len(members)
        # Counted once for all members: comparing each with each would be quadratic in a text that
        # repeats one word a thousand times. An entity without rivals, the usual case, needs none.
        self._counts: Counter[tuple[str, object]] = Counter()
        if self.size > 1:
            for member in members:
                self._counts.update(("attribute", text) for text in roster.attributes[member])
                self._counts.update(("mention", text) for text in roster.mentions[member])
                self._counts.update(("active", key) for key in active_relations(roster, member))
                self._counts.update(("passive", key) for key in passive_relations(roster, member))

    def only_one(self, kind: str, key: object) -> bool:
        """True if just one of them has an attribute, a mention, or a relation."""
        return self.size == 1 or self._counts[kind, key] == 1


class Roster:
    """A graph as questions see it: lower-cased names, parents, namesakes."""

    def __init__(self, graph: SceneGraph, *, mended: bool = False) -> None:
        self.graph = graph
        self.mended = mended
        self.names = [normal_form(entity.head) for entity in graph.entities]
        self.attributes = [_attributes(entity, mended) for entity in graph.entities]
        self.mentions = [_other_mentions(entity, mended) for entity in graph.entities]
        self.parents = _parents(graph, mended)
        self.outgoing: dict[int, list[Relation]] = defaultdict(list)
        self.incoming: dict[int, list[Relation]] = defaultdict(list)
        for relation in sorted(graph.relations, key=lambda r: min(r.sentences, default=0)):
            if relation.text != PART_OF:
                self.outgoing[relation.subject].append(relation)
                self.incoming[relation.object].append(relation)
        self._members: dict[tuple[str, int | None], list[int]] = defaultdict(list)
        for index, name in enumerate(self.names):
            if not graph.entities[index].flagged:  # "our left" is not another "left"
                for parent in [None, *self.parents[index]]:
                    self._members[name, parent].append(index)
        self._namesakes: dict[tuple[str, int | None], Namesakes] = {}

    def namesakes(self, name: str, parent: int | None = None) -> Namesakes:
        """All entities of a name that are asked for, or only those that are parts of a parent."""
        key = (name, parent)
        if key not in self._namesakes:
            self._namesakes[key] = Namesakes(self, self._members[key])
        return self._namesakes[key]


def normal_form(text: str) -> str:
    """A text as names and attributes are compared: stripped and lower-cased."""
    return text.strip().lower()


def active_relations(roster: Roster, entity: int) -> dict[tuple[str, int], None]:
    """(relation text, object) of each relation that leaves the entity, in order, once."""
    return dict.fromkeys((r.text, r.object) for r in roster.outgoing[entity])


def passive_relations(roster: Roster, entity: int) -> dict[tuple[str, int], None]:
    """(relation text, subject) of each relation that reaches the entity, in order, once."""
    return dict.fromkeys((r.text, r.subject) for r in roster.incoming[entity])


def _attributes(entity: Entity, mended: bool) -> dict[str, int]:
    """Plain attribute text -> its first sentence; by first sentence, then alphabetically.

    The release sorts before it lower-cases, so "Two" comes before "long", and of "tall trees"
    and later "Tall trees" only "Tall" says when they are tall. ``mended``: the earliest does.
    """
    first: dict[str, int] = {}
    for attribute in sorted(entity.attributes, key=lambda a: a.text.strip()):
        text = normal_form(attribute.text)
        sentence = min(attribute.sentences, default=0)
        earliest = first.setdefault(text, sentence)
        if mended:
            first[text] = min(sentence, earliest)
    return dict(sorted(first.items(), key=lambda item: item[1]))


def _other_mentions(entity: Entity, mended: bool) -> list[str]:
    """Other names of the entity, pronouns apart, each once, in text order."""
    name = normal_form(entity.head)
    others = dict.fromkeys(normal_form(head) for head in entity.heads)
    return [
        other
        for other in others
        if other != name and other not in NO_NAMES and not (mended and other in MENDED_NO_NAMES)
    ]


def _parents(graph: SceneGraph, mended: bool) -> list[list[int]]:
    """For each entity, those that it is part of or that have, hold, contain or wear it.

    In order of entities. As released a thing may be its own parent: "A *woman* smiles. *Her*
    *mother* raises her hand", all of them one; it then waits for the second pass, and so is not
    found when its parts are asked for. Not if ``mended``.
    """
    parents: list[set[int]] = [set() for _ in graph.entities]
    for relation in graph.relations:
        if is_part_of(relation):
            parents[relation.subject].add(relation.object)
        elif is_containing(relation) or (mended and relation.text in MENDED_CONTAINING):
            parents[relation.object].add(relation.subject)
    if mended:
        for index, them in enumerate(parents):
            them.discard(index)
    return [sorted(them) for them in parents]


def is_part_of(relation: Relation) -> bool:
    """True where the subject is a part of the object."""
    return relation.text == PART_OF


def is_containing(relation: Relation) -> bool:
    """True where the object is a part of the subject."""
    return relation.text in CONTAINING


PRESENT = 2.0  # an entity is present when the grade of its best candidate is at least this
ASKING_VERSION = 2
"""Version of the questions about a graph and of the means of grades, in signatures. Raise it with
any change that may change a question or a score, in whichever preset:
``tests/golden/test_readings.py`` sees only what its texts happen to use."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An entity once it has been asked for: its best candidate with its grade."""

    identifier: str
    grade: float  # 1-5; flagged entities have 5 without being asked

    @property
    def present(self) -> bool:
        """True if the other description has it at all."""
        return self.grade >= PRESENT


@dataclass(frozen=True, slots=True)
class CandidateName:
    """One name for an entity in a question."""

    rank: int
    text: str
    rewrite: Literal["attribute", "relation"] | None
    """Instruction that makes a fluent phrase of it; None if it is asked as it stands."""


Findings = Mapping[int, Finding]  # by entity index; entities of later passes are missing


def viewer_findings(graph: SceneGraph) -> dict[int, Finding]:
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


def candidates(roster: Roster, entity: int, findings: Findings) -> list[CandidateName]:
    """All names of an entity, in rank order; never empty.

    Names are made in *frames*: a part's is "robe of king" for each parent that was found, in
    order of entities, and its bare name too if no parent was found or nothing else has that name.
    """
    name = roster.names[entity]
    parents = [p for p in roster.parents[entity] if p in findings and findings[p].present]
    frames = [_Frame(f" of {findings[p].identifier}", roster.namesakes(name, p)) for p in parents]
    if not parents or roster.namesakes(name).size == 1:
        frames.insert(0, _Frame("", roster.namesakes(name)))
    texts: set[str] = set()
    names: list[CandidateName] = []
    for frame in frames:
        before = len(names)
        if frame.namesakes.size == 1:
            names.append(CandidateName(0, name + frame.of, None))
            texts.add(name + frame.of)
        # A text that an earlier frame offers is not offered again, and does not keep a later frame
        # from trying relations. Only if no frame gives anything is the first one asked bare.
        _offer(_by_description(roster, entity, frame), texts, names)
        if len(names) == before:
            _offer(_by_relations(roster, entity, frame, findings), texts, names)
    if not names:
        return [CandidateName(0, name + frames[0].of, None)]
    return sorted(names, key=lambda each: each.rank)


def _offer(new: Iterable[CandidateName], texts: set[str], names: list[CandidateName]) -> None:
    for name in new:
        if name.text not in texts:
            texts.add(name.text)
            names.append(name)


class _Frame(NamedTuple):
    of: str  # follows the name: " of " and a parent, or nothing
    namesakes: Namesakes


def _by_description(roster: Roster, entity: int, frame: _Frame) -> Iterator[CandidateName]:
    """Ranks 1 and 2: "red robe of king", and "cloak of king" if it is also called a cloak."""
    for text in roster.attributes[entity]:
        if frame.namesakes.only_one("attribute", text):
            yield CandidateName(1, f"{text} {roster.names[entity]}{frame.of}", "attribute")
    for text in roster.mentions[entity]:
        if frame.namesakes.only_one("mention", text):
            yield CandidateName(2, text + frame.of, None)


def _by_relations(
    roster: Roster, entity: int, frame: _Frame, findings: Findings
) -> Iterator[CandidateName]:
    """Ranks 3 and 4: relations from and to the entity that no rival has."""
    name = roster.names[entity]
    for text, index in active_relations(roster, entity):
        if frame.namesakes.only_one("active", (text, index)):
            other = _identifier(roster, index, findings)
            if other is not None:
                yield CandidateName(3, f"{name} {text} {other}", "relation")
    for text, index in passive_relations(roster, entity):
        if frame.namesakes.only_one("passive", (text, index)):
            other = _identifier(roster, index, findings)
            if other is not None:
                passive = f'{name}{frame.of} with relation "{other} {text} {name}"'
                yield CandidateName(4, passive, "relation")


def _identifier(roster: Roster, entity: int, findings: Findings) -> str | None:
    """Name of another entity within a candidate; None if it is absent."""
    if entity in findings:
        finding = findings[entity]
        return finding.identifier if finding.present else None
    attributes = roster.attributes[entity]
    name = roster.names[entity]
    return f"{next(iter(attributes))} {name}" if attributes else name


def _viewer_name(entity: Entity) -> str:
    if entity.us:
        return "the viewer"
    return "our left" if entity.left else "our right"


def short_identifier(identifier: str) -> str:
    """A part's identifier as the release has it in the question about its whole.

    If there is an " of " and a "]" in it, all from the first " of " to the first "]" goes: it
    asks about "hand" for "hand of man]".
    """
    if " of " not in identifier or "]" not in identifier:
        return identifier
    return identifier[: identifier.index(" of ")] + identifier[identifier.index("]") + 1 :]
