"""Relations between entities: what is part of what, who does what, and what is where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from posh_reward.graph.rules.entities import Components, Evidence, Sighting, is_possessive
from posh_reward.types import Relation, RelationSource

PART_OF = "part of"

MOST_MEETINGS = 5_000
"""How often the prepositions of one verb are met at most; the release has no limit. Of joined
ones the second is met twice, the third three times: forty are met 820 times."""


class Connection(NamedTuple):
    """One place where the text relates two entities."""

    component: int
    """The possessive, verb or preposition."""
    subject: int
    object: int
    text: str
    source: RelationSource
    tokens: tuple[int, ...]


def possessions(known: Components) -> Iterator[Connection]:
    """Whose something is, if that is an entity: "*her* head" is (head, part of, woman)."""
    for i in known.of_kind("adjective"):
        if not is_possessive(known, i):
            continue
        owner = possessor(known, i)
        if owner is not None:
            tokens = known.components[i].tokens
            for possessed in known.entities(i, "describes"):
                yield Connection(i, possessed, owner, PART_OF, "poss", tokens)


def possessor(known: Components, component: int) -> int | None:
    """The entity that a possessive refers to, mentioned before or after it."""
    owners = known.owner_of_cluster
    return next((owners[each] for each in known.clusters(component) if each in owners), None)


def prepositions_of(known: Components, verb: int) -> list[int]:
    """Prepositions that hang on a verb, or on others that do: "comes *out* *of*".

    Each has to come after what it hangs on ("fly *up* from trees", with "up" below "from", is
    "fly from"), and one that two lead to is there twice. Those on the verb come first, then
    those on the last of them, in text order each: "fly *in* from *behind*", with "from" below
    "in", is (in, behind, from). ``mended``: all that come after the verb, once each.
    """
    if not known.links.ends(verb, "preposition"):
        return []
    found: list[int] = []
    todo = [verb]
    seen: set[int] = set()
    while todo and len(found) < MOST_MEETINGS:
        above = todo.pop()
        if known.mended:
            hanging = [i for i in known.links.ends(above, "preposition") if i not in seen]
            seen.update(hanging)
        else:
            hanging = [i for i in known.links.ends(above, "preposition") if i > above]
        found += sorted(hanging)
        todo += sorted(hanging)
    return [i for i in found if i > verb]


def is_state(known: Components, verb: int) -> bool:
    """A verb with a subject but no object of its own or of its prepositions: "she *sleeps*"."""
    links = known.links
    return (
        bool(links.ends(verb, "subject"))
        and not links.ends(verb, "object")
        and not any(links.ends(i, "place") for i in prepositions_of(known, verb))
    )


def states(known: Components) -> Iterator[Sighting]:
    """Verbs that describe their subject: "the baby *sleeps*", "a man *bends over*".

    As released, a preposition that is met twice is told twice: "fly up and down", with "down"
    joined to "up", is "fly up down down".
    """
    for verb in known.of_kind("verb"):
        if is_state(known, verb):
            hanging = prepositions_of(known, verb)
            text = known.syntax.phrase(known.tokens([verb, *sorted(hanging)]))
            tokens = known.tokens([verb, *hanging])
            for entity in known.entities(verb, "subject"):
                yield Sighting(verb, entity, text, tokens)


def actions(known: Components, used: set[int]) -> Iterator[Connection]:
    """What verbs relate; adds the prepositions that they take up to ``used``."""
    for verb in known.of_kind("verb"):
        if not known.links.ends(verb, "subject"):
            continue
        if known.links.ends(verb, "object"):
            yield from placed_objects(known, verb, used)
            yield from transitive_actions(known, verb, used)
        else:
            yield from placed_actions(known, verb, used)


def places(known: Components, prepositions: Iterable[int]) -> list[int]:
    """What prepositions lead to, in text order; twice if two ways lead there."""
    return sorted([place for i in prepositions for place in known.links.ends(i, "place")])


def placed_objects(known: Components, verb: int, used: set[int]) -> list[Connection]:
    """Where a verb's prepositions put its direct objects.

    "She shields her eyes with a hand": (eyes, with, hand). A verb that does not stand between
    subject and object goes with the prepositions: "she has no shoes and gazes at us", where
    "gazes" shares the object of "has", gives (shoes, gazes at, us). What has placed one object
    places no other; ``mended``: joined objects are all placed. Places are gone through in text
    order: "shook hands and went *out of* the hall and *into* the street" is (hands, went out of,
    hall) before "into" is used up.
    """
    hanging = prepositions_of(known, verb)
    words = [verb, *sorted(set(hanging))]
    found: list[Connection] = []
    taken: set[int] = set()
    objects = sorted(known.links.ends(verb, "object"))
    for source, target in product(objects, places(known, hanging)):
        bring = [
            i
            for i in between(bringing(known, words, target), source, target)
            if i == verb or (i not in used and (known.mended or i not in taken))
        ]
        connection = connected(known, verb, source, target, bring)
        found += connection
        taken.update(bring if connection else ())
    used |= taken - {verb}
    return found


def transitive_actions(known: Components, verb: int, used: set[int]) -> list[Connection]:
    """What a verb with a direct object relates: "she shields her eyes", (she, shields, eyes).

    What stands between the two is used up, but not for the places of the verb's own objects:
    "She puts the cup *in* the box and the plate" is (cup, in, box), (She, puts, cup) and (She,
    puts in, plate).
    """
    words = [verb, *sorted(set(prepositions_of(known, verb)))]
    found: list[Connection] = []
    subjects = sorted(known.links.ends(verb, "subject"))
    for subject, target in product(subjects, sorted(known.links.ends(verb, "object"))):
        bring = between(bringing(known, words, target), subject, target)
        found += connected(known, verb, subject, target, bring)
        used.update(bring)
    return found


def placed_actions(known: Components, verb: int, used: set[int]) -> list[Connection]:
    """Where a subject acts: "rain falls on roofs by us" is (rain, falls on by, us) for "us".

    In text order over all prepositions: "a vest adorned with buckles on one *side* and a
    *belt*", with "belt" joined to "buckles", tells of the side before the belt.
    """
    hanging = prepositions_of(known, verb)
    words = [verb, *sorted(set(hanging))]
    found: list[Connection] = []
    for subject, target in product(
        sorted(known.links.ends(verb, "subject")), places(known, hanging)
    ):
        bring = between(bringing(known, words, target), subject, target)
        connection = connected(known, verb, subject, target, bring)
        found += connection
        used.update(bring if connection else ())
    return found


def bringing(known: Components, words: Sequence[int], target: int) -> Sequence[int]:
    """A verb and those of its prepositions that lead to an object.

    All of them in the release: "sits on a chair *at* a table" is "sits on at". In preset
    "mended" not those with other objects: "sits at".
    """
    if not known.mended:
        return words
    places = {i: known.links.ends(i, "place") for i in words}
    return [i for i in words if not places[i] or target in places[i]]


def between(components: Iterable[int], first: int, last: int) -> list[int]:
    """Those components that stand after one and before another."""
    return [i for i in components if first < i < last]


def connected(
    known: Components, verb: int, subject: int, target: int, words: Sequence[int]
) -> list[Connection]:
    """The connection that words make between two components, if those are entities."""
    if not words or subject not in known.entity_of or target not in known.entity_of:
        return []
    tokens = known.tokens(words)
    first, second = known.entity_of[subject], known.entity_of[target]
    return [Connection(verb, first, second, known.syntax.phrase(tokens), "verb", tokens)]


def positions(known: Components, used: set[int]) -> Iterator[Connection]:
    """What the prepositions relate that no verb took up: "a cup *on* a table"."""
    for i in known.of_kind("preposition"):
        if i in used:
            continue
        tokens = known.components[i].tokens
        text = known.syntax.phrase(tokens)
        heads, places = known.entities(i, "place_of"), known.entities(i, "place")
        for head, place in product(heads, places):
            yield Connection(i, head, place, text, "prep", tokens)


def relations(known: Components, connections: Iterable[Connection]) -> tuple[Relation, ...]:
    """Relations in order of their first connection: equal triples are one, with all spans."""
    found: dict[tuple[int, int, str], tuple[RelationSource, Evidence]] = {}
    for component, subject, target, text, source, tokens in connections:
        _, evidence = found.setdefault((subject, target, text), (source, Evidence()))
        evidence.add(known, component, tokens)
    return tuple(
        Relation(subject, target, text, source, tuple(evidence.sentences), tuple(evidence.spans))
        for (subject, target, text), (source, evidence) in found.items()
    )
