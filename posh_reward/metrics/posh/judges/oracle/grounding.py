"""Assignment of a text's entities to the objects of a drawing.

The noun has to match; place, properties and relations decide between objects of the same noun. An
object is assigned to one entity only: of "a dog ... another dog", one is not in a drawing with a
single dog.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from posh_reward.datasets.scenes.subjects import Thing
from posh_reward.metrics.posh.judges.oracle.depiction import FRONT, PLACES, has, joins
from posh_reward.types import Description, Token

PLACE, RELATION, PROPERTY = 4, 3, 1
"""Weights in the choice between objects of one noun: for agreement, or against disagreement."""
OTHERS = frozenset("her his its their".split())
"""Possessives that make a side relative: "to *her* right" is the slot after hers."""


@dataclass(frozen=True, slots=True)
class Grounding:
    """A text's entities with the objects of a drawing assigned to them."""

    things: Sequence[Thing]
    nouns: Sequence[str]  # per entity the lemma of its head
    slots: Sequence[int | None]  # per entity the slot that its sentence is about
    of: dict[int, int] = field(default_factory=dict)  # entity -> object; places have none


def ground(source: Description, things: Sequence[Thing]) -> Grounding:
    """Assign objects to entities greedily: figures first, then the best agreement."""
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
    """Rank of assigning an object to an entity; among equals, the earlier in the text wins."""
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


def _sign(agrees: bool | None) -> int:
    return 0 if agrees is None else 1 if agrees else -1


def _noun(source: Description, entity: int) -> str:
    """The lemma of the last word of an entity's first mention."""
    spans = source.graph.entities[entity].spans
    if not spans:
        return ""
    within = [t for t in source.tokens if spans[0][0] <= t.span[0] and t.span[1] <= spans[0][1]]
    return within[-1].lemma.lower() if within else ""


def _slots(tokens: Sequence[Token]) -> dict[int, int | None]:
    """Map each sentence to the slot it names; a sentence that names none continues the previous."""
    places_in: dict[int, list[Token]] = {}
    for token in tokens:
        places_in.setdefault(token.sentence, [])
        if token.lemma.lower() in PLACES and token.pos in ("NOUN", "PROPN"):
            places_in[token.sentence].append(token)
    relative = {tokens[token.head].span for token in tokens if token.text.lower() in OTHERS}
    slots: dict[int, int | None] = {}
    previous: int | None = None
    for sentence, places in places_in.items():
        possible = {_slot(each, previous, each.span in relative) for each in places} or {previous}
        previous = possible.pop() if len(possible) == 1 else None
        slots[sentence] = previous
    return slots


def _slot(place: Token, previous: int | None, relative: bool) -> int | None:
    """Slot that a place names: "our right" is the last slot, "her right" the one after hers."""
    slot = PLACES[place.lemma.lower()]
    if not relative:
        return slot
    return None if previous is None else previous + slot - PLACES["middle"]
