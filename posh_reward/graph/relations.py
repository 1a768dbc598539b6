"""Relations between entities, from possessives, verbs and prepositions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from posh_reward.graph.entities import Components, Evidence, Sighting, is_possessive
from posh_reward.types import PART_OF, Relation, RelationSource

MOST_MEETINGS = 5_000
"""Maximum visits to the prepositions of one verb; the release has no limit. The second of joined
ones is visited twice, the third three times: forty are visited 820 times."""


class Connection(NamedTuple):
    """One place in the text that relates two entities."""

    component: int  # the possessive, verb or preposition
    subject: int
    object: int
    text: str
    source: RelationSource
    tokens: tuple[int, ...]


def possessions(parts: Components) -> Iterator[Connection]:
    """Relate possessions to their owners: "*her* head" is (head, part of, woman)."""
    for i in parts.of_kind("adjective"):
        owner = possessor(parts, i) if is_possessive(parts, i) else None
        if owner is not None:
            tokens = parts.components[i].tokens
            for possession in parts.entities(i, "describes"):
                yield Connection(i, possession, owner, PART_OF, "poss", tokens)


def possessor(parts: Components, component: int) -> int | None:
    """Return the entity to which a possessive refers, mentioned before or after it."""
    owners = parts.owner_of_cluster
    return next((owners[each] for each in parts.clusters(component) if each in owners), None)


def prepositions_of(parts: Components, verb: int) -> list[int]:
    """Return the prepositions below a verb, or below those: "comes *out* *of*".

    Each has to come after its head ("fly *up* from trees", with "up" below "from", is "fly from"),
    and one with two heads is listed twice.
    """
    if not parts.links.ends(verb, "preposition"):
        return []
    meetings: list[int] = []
    stack = [verb]
    # The order is the release's, and shows in the spans of a state: those below the verb come
    # first, in text order, then those below the last of them. "Fly *in* from *behind*", with "from"
    # below "in", is (in, behind, from).
    while stack and len(meetings) < MOST_MEETINGS:
        above = stack.pop()
        below = [i for i in sorted(parts.links.ends(above, "preposition")) if i > above]
        meetings += below
        stack += below
    return [i for i in meetings if i > verb]


def places(parts: Components, prepositions: Iterable[int]) -> list[int]:
    """Return the objects of prepositions in text order; twice if two prepositions share one."""
    return sorted([place for i in prepositions for place in parts.links.ends(i, "place")])


def states(parts: Components) -> Iterator[Sighting]:
    """Describe subjects by verbs without any object: "the baby *sleeps*", "a man *bends over*".

    In the release, a preposition visited twice is repeated: "fly up and down", with "down"
    joined to "up", is "fly up down down".
    """
    for verb in parts.of_kind("verb"):
        subjects = parts.entities(verb, "subject")
        if not subjects or parts.links.ends(verb, "object"):
            continue
        prepositions = prepositions_of(parts, verb)
        if not places(parts, prepositions):
            text = parts.syntax.phrase(parts.tokens([verb, *sorted(prepositions)]))
            tokens = parts.tokens([verb, *prepositions])
            for entity in subjects:
                yield Sighting(verb, entity, text, tokens)


def actions(parts: Components, used: set[int]) -> Iterator[Connection]:
    """Relate subjects to objects; the prepositions that a verb uses are added to ``used``.

    "She shields her eyes" is (she, shields, eyes). A verb without an object relates its subject to
    places: "rain falls on roofs by us" is (rain, falls on, roofs) and (rain, falls on by, us).
    """
    for verb in parts.of_kind("verb"):
        subjects = sorted(parts.links.ends(verb, "subject"))
        if not subjects:
            continue
        objects = sorted(parts.links.ends(verb, "object"))
        prepositions = prepositions_of(parts, verb)
        words = [verb, *sorted(set(prepositions))]
        # Objects come first: in "She puts the cup *in* the box and the plate", "in" places the cup,
        # although it is also between "She" and "plate", which would use it.
        if objects:
            yield from placed_objects(parts, verb, objects, prepositions, used)
        # Places in text order over all prepositions: in "a vest adorned with buckles on one *side*
        # and a *belt*", with "belt" joined to "buckles", the side comes before the belt.
        for subject, target in product(subjects, objects or places(parts, prepositions)):
            bridge = between(words, subject, target)
            relation = connect(parts, verb, subject, target, bridge)
            if relation or objects:
                used.update(bridge)
            yield from relation


def placed_objects(
    parts: Components,
    verb: int,
    objects: Sequence[int],
    prepositions: Sequence[int],
    used: set[int],
) -> list[Connection]:
    """Relate a verb's objects to its places: (eyes, with, hand) of "shields her eyes with a hand".

    A verb after its object stays with the prepositions: "she has no shoes and gazes at us", where
    "gazes" shares the object of "has", gives (shoes, gazes at, us). A preposition places only one
    object.
    """
    words = [verb, *sorted(set(prepositions))]
    connections: list[Connection] = []
    spent: set[int] = set()
    # In text order over all prepositions: "shook hands and went *out of* the hall and *into* the
    # street" is (hands, went out of, hall) before the street uses "into".
    for source, target in product(objects, places(parts, prepositions)):
        bridge = [
            i
            for i in between(words, source, target)
            if i == verb or (i not in used and i not in spent)
        ]
        relation = connect(parts, verb, source, target, bridge)
        connections += relation
        spent.update(bridge if relation else ())
    used |= spent - {verb}
    return connections


def between(components: Iterable[int], first: int, last: int) -> list[int]:
    """Return the components after one and before another."""
    return [i for i in components if first < i < last]


def connect(
    parts: Components, verb: int, subject: int, target: int, words: Sequence[int]
) -> list[Connection]:
    """Connect two components by words, if both are entities and there are words."""
    if not words or subject not in parts.entity_of or target not in parts.entity_of:
        return []
    tokens = parts.tokens(words)
    first, second = parts.entity_of[subject], parts.entity_of[target]
    return [Connection(verb, first, second, parts.syntax.phrase(tokens), "verb", tokens)]


def positions(parts: Components, used: set[int]) -> Iterator[Connection]:
    """Relate the heads and objects of prepositions that no verb used: "a cup *on* a table"."""
    for i in parts.of_kind("preposition"):
        if i not in used:
            tokens = parts.components[i].tokens
            text = parts.syntax.phrase(tokens)
            for head, place in product(parts.entities(i, "place_of"), parts.entities(i, "place")):
                yield Connection(i, head, place, text, "prep", tokens)


def relations(parts: Components, connections: Iterable[Connection]) -> tuple[Relation, ...]:
    """Merge equal triples, in order of their first connection."""
    triples: dict[tuple[int, int, str], tuple[RelationSource, Evidence]] = {}
    for component, subject, target, text, source, tokens in connections:
        _, evidence = triples.setdefault((subject, target, text), (source, Evidence()))
        evidence.add(parts, component, tokens)
    return tuple(
        Relation(subject, target, text, source, tuple(evidence.sentences), tuple(evidence.spans))
        for (subject, target, text), (source, evidence) in triples.items()
    )
