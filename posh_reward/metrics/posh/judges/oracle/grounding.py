"""Correspondence of a text's entities with the things of a drawing.

A noun has to agree; place, properties and relations decide between things of one noun. A thing is
one entity's only, so that of "a dog ... another dog" one is not in a drawing with a single dog.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from posh_reward.datasets.scenes.subjects import Thing
from posh_reward.metrics.posh.judges.oracle.depiction import FRONT, PLACES, has, joins
from posh_reward.types import Description, Token

PLACE, RELATION, PROPERTY = 4, 3, 1
"""Weights of agreement in the choice between things of one noun; disagreement counts against."""
OTHERS = frozenset("her his its their".split())
"""Possessives of another: "to *her* right" is the slot after hers."""


@dataclass(frozen=True, slots=True)
class Grounding:
    """A text's entities, with the things of a drawing that they are."""

    things: Sequence[Thing]
    nouns: Sequence[str]  # of each entity, the lemma of its head
    slots: Sequence[int | None]  # of each entity, the slot that its sentence is about
    of: dict[int, int] = field(default_factory=dict)  # entity -> thing; places have none


def ground(source: Description, things: Sequence[Thing]) -> Grounding:
    """Assign things to entities: the figures first, then what agrees best."""
    sentences = _slots(source.tokens)
    entities = source.graph.entities
    nouns = [_noun(source, entity) for entity in range(len(entities))]
    slots = [sentences.get(entity.sentences[0]) if entity.sentences else None
             for entity in entities]  # fmt: skip
    grounding = Grounding(things, nouns, slots)
    while pairs := list(_free(grounding)):
        entity, thing = max(pairs, key=lambda pair: _rank(source, grounding, *pair))
        grounding.of[entity] = thing
    for relation in source.graph.relations:
        if nouns[relation.subject] == FRONT and relation.object in grounding.of:
            grounding.of.setdefault(relation.subject, grounding.of[relation.object])
    return grounding


def _free(grounding: Grounding) -> Iterator[tuple[int, int]]:
    busy = set(grounding.of.values())
    for entity, noun in enumerate(grounding.nouns):
        if entity not in grounding.of:
            for place, thing in enumerate(grounding.things):
                if thing.noun == noun and place not in busy:
                    yield entity, place


def _rank(source: Description, grounding: Grounding, entity: int, place: int) -> tuple[float, ...]:
    """Agreement of an entity and a thing; of equals, the earlier in the text comes first."""
    thing = grounding.things[place]
    slot = grounding.slots[entity]
    score = 0 if slot is None else PLACE * _sign(slot == thing.slot)
    for attribute in source.graph.entities[entity].attributes:
        score += PROPERTY * _sign(has(thing, attribute.text))
    for relation in source.graph.relations:
        if relation.subject == entity and relation.object in grounding.of:
            holds = joins(grounding.things, place, relation.text, grounding.of[relation.object])
            score += RELATION * _sign(holds)
        elif relation.object == entity and relation.subject in grounding.of:
            holds = joins(grounding.things, grounding.of[relation.subject], relation.text, place)
            score += RELATION * _sign(holds)
    return thing.role == "figure", score, -entity, -place


def _sign(grounding: bool | None) -> int:
    return 0 if grounding is None else 1 if grounding else -1


def _noun(source: Description, entity: int) -> str:
    """The lemma of the last word of an entity's first mention."""
    spans = source.graph.entities[entity].spans
    if not spans:
        return ""
    within = [t for t in source.tokens if spans[0][0] <= t.span[0] and t.span[1] <= spans[0][1]]
    return within[-1].lemma.lower() if within else ""


def _slots(tokens: Sequence[Token]) -> dict[int, int | None]:
    """Sentence -> the one slot that it names; one that names none goes on about the last."""
    places_in: dict[int, list[Token]] = {}
    for token in tokens:
        places_in.setdefault(token.sentence, [])
        if token.lemma.lower() in PLACES and token.pos in ("NOUN", "PROPN"):
            places_in[token.sentence].append(token)
    others = {token.head for token in tokens if token.text.lower() in OTHERS}
    relative = {tokens[head].span for head in others}
    slots: dict[int, int | None] = {}
    last: int | None = None
    for sentence, places in places_in.items():
        here = {_slot(each, last, each.span in relative) for each in places} or {last}
        last = here.pop() if len(here) == 1 else None
        slots[sentence] = last
    return slots


def _slot(place: Token, last: int | None, relative: bool) -> int | None:
    """The slot that a place names: "our right" is the last, "her right" the next."""
    slot = PLACES[place.lemma.lower()]
    if not relative:
        return slot
    return None if last is None else last + _step(slot)


def _step(slot: int) -> int:
    return slot - PLACES["middle"]
