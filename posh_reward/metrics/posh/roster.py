"""A scene graph as questions see it: what its entities are called, and who belongs to whom.

What the release does here that is plainly a mistake is named, and preset "mended" leaves it out
(docs/released_quirks.md).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from posh_reward.types import Entity, Relation, SceneGraph

PART_OF = "part of"
CONTAINING = frozenset(
    "have has had having hold holds holding contain contains contained containing "
    "wear wears wore wearing".split()
)
"""Relations that make their object a part of their subject."""

FORGOTTEN_CONTAINING = frozenset({"held", "worn"})
"""Those that the release leaves out: "a man *held* a cup" does not make the cup a part."""

NO_NAMES = frozenset(
    "he him his himself she her hers herself it its itself they them their theirs themselves "
    "who whom this that these those".split()
)
"""Mentions that are never offered as another name."""

FORGOTTEN_NO_NAMES = frozenset(
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves "
    "whose which what one ones".split()
)
"""Those that the release does offer: "a boat floats. *One* sinks" is asked for as "one", too."""


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
                self._counts.update(("done", key) for key in done(roster, member))
                self._counts.update(("suffered", key) for key in suffered(roster, member))

    def only_one(self, kind: str, key: object) -> bool:
        """Whether just one of them has an attribute, a mention, or a relation."""
        return self.size == 1 or self._counts[kind, key] == 1


class Roster:
    """A graph as questions see it: lower-cased names, parents, and who shares a name.

    Args:
        graph: the scene graph.
        mended: without the release's clear mistakes (docs/released_quirks.md).
    """

    def __init__(self, graph: SceneGraph, *, mended: bool = False) -> None:
        self.graph = graph
        self.mended = mended
        self.names = [plain(entity.head) for entity in graph.entities]
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


def plain(text: str) -> str:
    """A text as names and attributes are compared: stripped and lower-cased."""
    return text.strip().lower()


def done(roster: Roster, entity: int) -> dict[tuple[str, int], None]:
    """(relation text, object) of each relation that leaves the entity, in order, once."""
    return dict.fromkeys((r.text, r.object) for r in roster.outgoing[entity])


def suffered(roster: Roster, entity: int) -> dict[tuple[str, int], None]:
    """(relation text, subject) of each relation that reaches the entity, in order, once."""
    return dict.fromkeys((r.text, r.subject) for r in roster.incoming[entity])


def _attributes(entity: Entity, mended: bool) -> dict[str, int]:
    """Plain attribute text -> its first sentence; by first sentence, then alphabetically.

    The release sorts before it lower-cases, so "Two" comes before "long", and of "tall trees"
    and later "Tall trees" only "Tall" says when they are tall. ``mended``: the earliest does.
    """
    first: dict[str, int] = {}
    for attribute in sorted(entity.attributes, key=lambda a: a.text.strip()):
        text = plain(attribute.text)
        sentence = min(attribute.sentences, default=0)
        known = first.setdefault(text, sentence)
        if mended:
            first[text] = min(sentence, known)
    return dict(sorted(first.items(), key=lambda item: item[1]))


def _other_mentions(entity: Entity, mended: bool) -> list[str]:
    """What else the entity is called, pronouns apart, each once, in text order."""
    name = plain(entity.head)
    others = dict.fromkeys(plain(head) for head in entity.heads)
    return [
        other
        for other in others
        if other != name and other not in NO_NAMES and not (mended and other in FORGOTTEN_NO_NAMES)
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
        elif is_containing(relation) or (mended and relation.text in FORGOTTEN_CONTAINING):
            parents[relation.object].add(relation.subject)
    if mended:
        for index, them in enumerate(parents):
            them.discard(index)
    return [sorted(them) for them in parents]


def is_part_of(relation: Relation) -> bool:
    """Whether it makes its subject a part of its object."""
    return relation.text == PART_OF


def is_containing(relation: Relation) -> bool:
    """Whether it makes its object a part of its subject."""
    return relation.text in CONTAINING
