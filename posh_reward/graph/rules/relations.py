"""Relations between entities: what is part of what, who does what, and what is where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from posh_reward.graph.rules.entities import Reading, Sighting, is_possessive
from posh_reward.types import Relation, RelationSource, Span

PART_OF = "part of"


class Connection(NamedTuple):
    """One place where the text relates two entities."""

    component: int
    """The possessive, verb or preposition."""
    subject: int
    object: int
    text: str
    source: RelationSource
    tokens: tuple[int, ...]


def possessions(reading: Reading) -> Iterator[Connection]:
    """Whose something is, if that is an entity: "*her* head" is (head, part of, woman)."""
    for i in reading.of_kind("adjective"):
        if not is_possessive(reading, i):
            continue
        owner = possessor(reading, i)
        if owner is not None:
            tokens = reading.components[i].tokens
            for possessed in reading.entities(i, "describes"):
                yield Connection(i, possessed, owner, PART_OF, "poss", tokens)


def possessor(reading: Reading, component: int) -> int | None:
    """The entity that a possessive refers to, mentioned before or after it."""
    tokens = reading.components[component].tokens
    clusters = [reading.cluster_of[token] for token in tokens if token in reading.cluster_of]
    known = reading.entity_of_cluster
    return next((known[cluster] for cluster in clusters if cluster in known), None)


def prepositions_of(reading: Reading, verb: int) -> list[int]:
    """Prepositions after a verb that hang on it, or on others that do: "comes *out* *of*"."""
    found: set[int] = set()
    todo = [verb]
    while todo:
        hanging = set(reading.links.ends(todo.pop(), "preposition")) - found
        found |= hanging
        todo.extend(hanging)
    return sorted(i for i in found if i > verb)


def is_state(reading: Reading, verb: int) -> bool:
    """A verb with a subject but no object of its own or of its prepositions: "she *sleeps*"."""
    links = reading.links
    return (
        bool(links.ends(verb, "subject"))
        and not links.ends(verb, "object")
        and not any(links.ends(i, "place") for i in prepositions_of(reading, verb))
    )


def states(reading: Reading) -> Iterator[Sighting]:
    """Verbs that describe their subject: "the baby *sleeps*", "a man *bends over*"."""
    for verb in reading.of_kind("verb"):
        if is_state(reading, verb):
            tokens = reading.tokens([verb, *prepositions_of(reading, verb)])
            for entity in reading.entities(verb, "subject"):
                yield Sighting(verb, entity, tokens)


def actions(reading: Reading, used: set[int]) -> Iterator[Connection]:
    """What verbs relate; adds the prepositions that they take up to ``used``."""
    for verb in reading.of_kind("verb"):
        if not reading.links.ends(verb, "subject"):
            continue
        if reading.links.ends(verb, "object"):
            yield from transitive_actions(reading, verb, used)
        else:
            yield from placed_actions(reading, verb, used)


def transitive_actions(reading: Reading, verb: int, used: set[int]) -> list[Connection]:
    """What a verb with a direct object relates, and where its prepositions put that object.

    "She shields her eyes with a hand": (eyes, with, hand), (she, shields, eyes). A verb that
    does not stand between subject and object goes with the prepositions: "she has no shoes
    and gazes at us", where "gazes" shares the object of "has", gives (shoes, gazes at, us).
    """
    hanging = prepositions_of(reading, verb)
    objects = reading.links.ends(verb, "object")
    deeds: list[Connection] = []
    spent: set[int] = set()
    for subject, target in product(reading.links.ends(verb, "subject"), objects):
        words = between(bringing(reading, [verb, *hanging], target), subject, target)
        spent.update(words)
        deeds += connected(reading, verb, subject, target, words)
    placed: list[Connection] = []
    gone = set(used) if reading.mended else used  # mended: joined objects are all placed
    for source, preposition in product(objects, hanging):
        for target in reading.links.ends(preposition, "place"):
            words = [
                i
                for i in between(bringing(reading, [verb, *hanging], target), source, target)
                if i not in spent and i not in gone
            ]
            connection = connected(reading, verb, source, target, words)
            placed += connection
            used.update(i for i in words if connection and i != verb)
    used |= spent
    return placed + deeds


def placed_actions(reading: Reading, verb: int, used: set[int]) -> list[Connection]:
    """Where a subject acts: "rain falls on roofs by us" is (rain, falls on by, us) for "us"."""
    hanging = prepositions_of(reading, verb)
    found: list[Connection] = []
    for subject, preposition in product(reading.links.ends(verb, "subject"), hanging):
        for target in reading.links.ends(preposition, "place"):
            words = between(bringing(reading, [verb, *hanging], target), subject, target)
            connection = connected(reading, verb, subject, target, words)
            found += connection
            used.update(words if connection else ())
    return found


def bringing(reading: Reading, words: Sequence[int], target: int) -> Sequence[int]:
    """A verb and those of its prepositions that lead to an object.

    All of them in the release: "sits on a chair *at* a table" is "sits on at". In preset
    "mended" not those with other objects: "sits at".
    """
    if not reading.mended:
        return words
    places = {i: reading.links.ends(i, "place") for i in words}
    return [i for i in words if not places[i] or target in places[i]]


def between(components: Iterable[int], first: int, last: int) -> list[int]:
    """Those components that stand after one and before another."""
    return [i for i in components if first < i < last]


def connected(
    reading: Reading, verb: int, subject: int, target: int, words: Sequence[int]
) -> list[Connection]:
    """The connection that words make between two components, if those are entities."""
    if not words or subject not in reading.entity_of or target not in reading.entity_of:
        return []
    tokens = reading.tokens(words)
    first, second = reading.entity_of[subject], reading.entity_of[target]
    return [Connection(verb, first, second, reading.syntax.phrase(tokens), "verb", tokens)]


def positions(reading: Reading, used: set[int]) -> Iterator[Connection]:
    """What the prepositions relate that no verb took up: "a cup *on* a table"."""
    for i in reading.of_kind("preposition"):
        if i in used:
            continue
        tokens = reading.components[i].tokens
        text = reading.syntax.phrase(tokens)
        heads, places = reading.entities(i, "place_of"), reading.entities(i, "place")
        for head, place in product(heads, places):
            yield Connection(i, head, place, text, "prep", tokens)


def relations(reading: Reading, connections: Iterable[Connection]) -> tuple[Relation, ...]:
    """Relations in order of their first connection: equal triples are one, with all spans."""
    found: dict[tuple[int, int, str], tuple[RelationSource, list[int], list[Span]]] = {}
    for component, subject, target, text, source, tokens in connections:
        _, sentences, spans = found.setdefault((subject, target, text), (source, [], []))
        if reading.mended and set(reading.spans(tokens)) <= set(spans):
            continue  # told of two mentions of one thing
        sentences.append(reading.sentence(component))
        spans.extend(reading.spans(tokens))
    return tuple(
        Relation(subject, target, text, source, tuple(sentences), tuple(spans))
        for (subject, target, text), (source, sentences, spans) in found.items()
    )
