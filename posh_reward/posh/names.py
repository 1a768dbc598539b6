"""Scene graph -> names to ask about, in two passes (paper, A.1.3).

An entity is asked about under *candidate names*; one that shares its name with others gets names
that tell it apart. All functions are pure functions of a graph and earlier passes' matches.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from posh_reward.types import HIGHEST_GRADE, PART_OF, Entity, Relation, SceneGraph

MIN_PRESENT_GRADE = 2.0  # of its best candidate, for an entity to count as present
ASKING_VERSION = 2
"""Version of the questions and of the means of grades, in signatures. Raise it with any change that
may alter a question or a score under any preset: ``tests/golden/test_readings.py`` notices only
what its texts happen to use."""

CONTAINING = frozenset(
    "have has had having hold holds holding contain contains contained containing "
    "wear wears wore wearing".split()
)
"""Relations that make their object a part of their subject. This is the release's list, and has to
stay so, or scores would not be POSH's. ``HAVING_VERBS`` in ``coref/resolver.py`` and ``HAVING`` in
``english/word_classes.py`` serve other rules."""

NO_NAMES = frozenset(
    "he him his himself she her hers herself it its itself they them their theirs themselves "
    "who whom this that these those".split()
)
"""Mentions that are never used as another name."""


class AmbiguousNames:
    """Entities that share a name (in one frame), with counts of what could tell them apart."""

    def __init__(self, index: GraphIndex, members: Sequence[int]) -> None:
        self.size = len(members)
        # One count for all members: comparing each with each would be quadratic in a text that
        # repeats one word a thousand times. An entity without rivals, the usual case, needs none.
        self._counts: Counter[tuple[str, object]] = Counter()
        if self.size > 1:
            for member in members:
                self._counts.update(("attribute", text) for text in index.attributes[member])
                self._counts.update(("mention", text) for text in index.mentions[member])
                self._counts.update(("active", key) for key in index.outgoing[member])
                self._counts.update(("passive", key) for key in index.incoming[member])

    def only_one(self, kind: str, key: object) -> bool:
        """Return True if exactly one of them has an attribute, a mention, or a relation."""
        return self.size == 1 or self._counts[kind, key] == 1


class GraphIndex:
    """Index of a graph for questions: lower-cased names, parents, relations, namesakes."""

    def __init__(self, graph: SceneGraph) -> None:
        self.graph = graph
        self.names = [normal_form(entity.head) for entity in graph.entities]
        self.attributes = [_order_attributes(entity) for entity in graph.entities]
        self.mentions = [_other_mentions(entity) for entity in graph.entities]
        self.parents = _find_parents(graph)
        # Per entity the (relation text, other entity) pairs that leave it or reach it: a dict as an
        # ordered set, by sentence.
        self.outgoing: dict[int, dict[tuple[str, int], None]] = defaultdict(dict)
        self.incoming: dict[int, dict[tuple[str, int], None]] = defaultdict(dict)
        for relation in sorted(graph.relations, key=lambda r: min(r.sentences, default=0)):
            if relation.text != PART_OF:
                self.outgoing[relation.subject][relation.text, relation.object] = None
                self.incoming[relation.object][relation.text, relation.subject] = None
        self._members: dict[tuple[str, int | None], list[int]] = defaultdict(list)
        for entity, name in enumerate(self.names):
            if not graph.entities[entity].flagged:  # "our left" is not another "left"
                for parent in [None, *self.parents[entity]]:
                    self._members[name, parent].append(entity)
        self._namesakes: dict[tuple[str, int | None], AmbiguousNames] = {}

    def find_namesakes(self, name: str, parent: int | None = None) -> AmbiguousNames:
        """Scored entities with a name: all of them, or those that are parts of ``parent``."""
        key = (name, parent)
        if key not in self._namesakes:
            self._namesakes[key] = AmbiguousNames(self, self._members[key])
        return self._namesakes[key]


def normal_form(text: str) -> str:
    """Return a name or attribute in the form in which they are compared."""
    return text.strip().lower()


def _order_attributes(entity: Entity) -> dict[str, int]:
    """Map each attribute's text to its first sentence, in that order, then alphabetically.

    The release sorts before it lower-cases. So "Two" comes before "long", and if "tall trees" are
    followed by "Tall trees", only "Tall" sets the sentence.
    """
    first: dict[str, int] = {}
    for attribute in sorted(entity.attributes, key=lambda a: a.text.strip()):
        text = normal_form(attribute.text)
        first.setdefault(text, min(attribute.sentences, default=0))
    return dict(sorted(first.items(), key=lambda item: item[1]))


def _other_mentions(entity: Entity) -> list[str]:
    """Return the entity's other names, without pronouns, each once, in text order."""
    own = normal_form(entity.head)
    names = dict.fromkeys(map(normal_form, entity.heads))
    return [name for name in names if name != own and name not in NO_NAMES]


def _find_parents(graph: SceneGraph) -> list[list[int]]:
    """Return for each entity, in order, those that it is part of, or that hold or wear it.

    In the release an entity may be its own parent: "A *woman* smiles. *Her* *mother* raises her
    hand", if all are one entity. It then waits for the second pass, so its parts are asked about
    before it is found.
    """
    parents: list[set[int]] = [set() for _ in graph.entities]
    for relation in graph.relations:
        if is_part_of(relation):
            parents[relation.subject].add(relation.object)
        elif is_containing(relation):
            parents[relation.object].add(relation.subject)
    return [sorted(own) for own in parents]


def is_part_of(relation: Relation) -> bool:
    """Return True if the subject is a part of the object."""
    return relation.text == PART_OF


def is_containing(relation: Relation) -> bool:
    """Return True if the object is a part of the subject."""
    return relation.text in CONTAINING


class EntityMatch(NamedTuple):
    """The best candidate name of an entity, and that candidate's grade."""

    identifier: str
    grade: float  # 1-5; 5 for flagged entities, which are not asked about

    @property
    def present(self) -> bool:
        """True if the other description mentions the entity."""
        return self.grade >= MIN_PRESENT_GRADE


class CandidateName(NamedTuple):
    """One name for an entity in a question."""

    rank: int
    text: str
    rewrite: Literal["attribute", "relation"] | None
    """Instruction that makes the text a fluent phrase; None if it is used unchanged."""


EntityMatches = Mapping[int, EntityMatch]  # by entity index; entities of later passes are missing


def match_viewer(graph: SceneGraph) -> dict[int, EntityMatch]:
    """Match the viewer and the viewer's sides, which are present without a question."""
    matches: dict[int, EntityMatch] = {}
    for number, entity in enumerate(graph.entities):
        if entity.us:
            matches[number] = EntityMatch("the viewer", HIGHEST_GRADE)
        elif entity.left:
            matches[number] = EntityMatch("our left", HIGHEST_GRADE)
        elif entity.right:
            matches[number] = EntityMatch("our right", HIGHEST_GRADE)
    return matches


def list_wholes(index: GraphIndex) -> list[int]:
    """List the entities of the first pass: those that are not part of another."""
    return [i for i in _list_scored(index) if not index.parents[i]]


def list_parts(index: GraphIndex) -> list[int]:
    """List the entities of the second pass: those that are part of another."""
    return [i for i in _list_scored(index) if index.parents[i]]


def _list_scored(index: GraphIndex) -> list[int]:
    return [i for i, entity in enumerate(index.graph.entities) if not entity.flagged]


def name_candidates(index: GraphIndex, entity: int, matches: EntityMatches) -> list[CandidateName]:
    """Return all names of an entity, in rank order; never empty.

    Names are made in *frames*. A part has one frame for each parent that was found ("robe of
    king"), and a bare one if no parent was found or its name is unique in the text.
    """
    name = index.names[entity]
    found = [p for p in index.parents[entity] if p in matches and matches[p].present]
    frames: list[_Frame] = []
    if not found or index.find_namesakes(name).size == 1:
        frames.append(_Frame("", index.find_namesakes(name)))
    for parent in found:
        of_parent = f" of {matches[parent].identifier}"
        frames.append(_Frame(of_parent, index.find_namesakes(name, parent)))
    texts: set[str] = set()
    names: list[CandidateName] = []
    for frame in frames:
        before = len(names)
        if frame.namesakes.size == 1:
            names.append(CandidateName(0, name + frame.of, None))
            texts.add(name + frame.of)
        # A text from an earlier frame is not added again, nor does it stop a later frame from
        # trying relations. Only if no frame yields a name is the first frame's bare name used.
        _add_new(_by_description(index, entity, frame), texts, names)
        if len(names) == before:
            _add_new(_by_relations(index, entity, frame, matches), texts, names)
    if not names:
        return [CandidateName(0, name + frames[0].of, None)]
    return sorted(names, key=lambda each: each.rank)


def _add_new(new: Iterable[CandidateName], texts: set[str], names: list[CandidateName]) -> None:
    for name in new:
        if name.text not in texts:
            texts.add(name.text)
            names.append(name)


class _Frame(NamedTuple):
    of: str  # follows the name: " of " and a parent, or nothing
    namesakes: AmbiguousNames


def _by_description(index: GraphIndex, entity: int, frame: _Frame) -> Iterator[CandidateName]:
    """Ranks 1 and 2: "red robe of king", and "cloak of king" if the robe is also called a cloak."""
    for text in index.attributes[entity]:
        if frame.namesakes.only_one("attribute", text):
            yield CandidateName(1, f"{text} {index.names[entity]}{frame.of}", "attribute")
    for text in index.mentions[entity]:
        if frame.namesakes.only_one("mention", text):
            yield CandidateName(2, text + frame.of, None)


def _by_relations(
    index: GraphIndex, entity: int, frame: _Frame, matches: EntityMatches
) -> Iterator[CandidateName]:
    """Ranks 3 and 4: relations from and to the entity that no namesake has."""
    name = index.names[entity]
    for text, other in index.outgoing[entity]:
        if frame.namesakes.only_one("active", (text, other)):
            other_name = _name_other(index, other, matches)
            if other_name is not None:
                yield CandidateName(3, f"{name} {text} {other_name}", "relation")
    for text, other in index.incoming[entity]:
        if frame.namesakes.only_one("passive", (text, other)):
            other_name = _name_other(index, other, matches)
            if other_name is not None:
                passive = f'{name}{frame.of} with relation "{other_name} {text} {name}"'
                yield CandidateName(4, passive, "relation")


def _name_other(index: GraphIndex, entity: int, matches: EntityMatches) -> str | None:
    """Name another entity within a candidate; None if it is absent."""
    if entity in matches:
        match = matches[entity]
        return match.identifier if match.present else None
    attributes, name = index.attributes[entity], index.names[entity]
    if not attributes:
        return name
    return f"{next(iter(attributes))} {name}"


def short_identifier(identifier: str) -> str:
    """Shorten a part's identifier as the release does in questions about its whole.

    If it contains " of " and "]", everything from the first " of " to the first "]" is cut:
    "hand of man]" becomes "hand".
    """
    if " of " not in identifier or "]" not in identifier:
        return identifier
    return identifier[: identifier.index(" of ")] + identifier[identifier.index("]") + 1 :]
