"""Which thing of a drawing each entity of a text is.

A noun has to agree; place, properties and relations decide between things of one noun. A thing is
one entity's only, so that of "a dog ... another dog" one is not in a drawing with a single dog.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from posh_reward.datasets.scenes.subjects import Thing
from posh_reward.metrics.posh.judges.oracle.depiction import FRONT, PLACES, has, joined
from posh_reward.types import Description, Token

PLACE, RELATION, PROPERTY = 4, 3, 1
"""What agreement counts for in the choice between things of one noun; disagreement, against."""
OTHERS = frozenset("her his its their".split())
"""Whose right: "to *her* right" is the slot after the one before."""


@dataclass(frozen=True, slots=True)
class Grounding:
    """A text, seen in a drawing."""

    things: Sequence[Thing]
    nouns: Sequence[str]
    """Of each entity, the lemma of its head."""
    slots: Sequence[int | None]
    """Of each entity, the slot that its sentence is about."""
    of: dict[int, int] = field(default_factory=dict)
    """Entity -> the thing that it is. Others are places, or not in the drawing."""


def ground(source: Description, things: Sequence[Thing]) -> Grounding:
    """Assigns things to entities: the figures first, then what agrees best."""
    sentences = _slots(source.tokens)
    entities = source.graph.entities
    nouns = [_noun(source, entity) for entity in range(len(entities))]
    slots = [sentences.get(entity.sentences[0]) if entity.sentences else None
             for entity in entities]  # fmt: skip
    known = Grounding(things, nouns, slots)
    while pairs := list(_free(known)):
        entity, thing = max(pairs, key=lambda pair: _rank(source, known, *pair))
        known.of[entity] = thing
    for relation in source.graph.relations:
        if nouns[relation.subject] == FRONT and relation.object in known.of:
            known.of.setdefault(relation.subject, known.of[relation.object])
    return known


def _free(known: Grounding) -> Iterator[tuple[int, int]]:
    """Pairs of an entity and a thing of its noun that are both unassigned."""
    taken = set(known.of.values())
    for entity, noun in enumerate(known.nouns):
        if entity not in known.of:
            for place, thing in enumerate(known.things):
                if thing.noun == noun and place not in taken:
                    yield entity, place


def _rank(source: Description, known: Grounding, entity: int, place: int) -> tuple[float, ...]:
    """How well an entity and a thing agree; of equals, the earlier in the text comes first."""
    thing = known.things[place]
    slot = known.slots[entity]
    score = 0 if slot is None else PLACE * _sign(slot == thing.slot)
    for attribute in source.graph.entities[entity].attributes:
        score += PROPERTY * _sign(has(thing, attribute.text))
    for relation in source.graph.relations:
        if relation.subject == entity and relation.object in known.of:
            told = joined(known.things, place, relation.text, known.of[relation.object])
            score += RELATION * _sign(told)
        elif relation.object == entity and relation.subject in known.of:
            told = joined(known.things, known.of[relation.subject], relation.text, place)
            score += RELATION * _sign(told)
    return thing.role == "figure", score, -entity, -place


def _sign(known: bool | None) -> int:
    return 0 if known is None else 1 if known else -1


def _noun(source: Description, entity: int) -> str:
    """The lemma of the last word of an entity's first mention."""
    spans = source.graph.entities[entity].spans
    if not spans:
        return ""
    within = [t for t in source.tokens if spans[0][0] <= t.span[0] and t.span[1] <= spans[0][1]]
    return within[-1].lemma.lower() if within else ""


def _slots(tokens: Sequence[Token]) -> dict[int, int | None]:
    """Sentence -> the one slot that it names; one that names none goes on about the last."""
    named: dict[int, list[Token]] = {}
    for token in tokens:
        named.setdefault(token.sentence, [])
        if token.lemma.lower() in PLACES and token.pos in ("NOUN", "PROPN"):
            named[token.sentence].append(token)
    others = {token.head for token in tokens if token.text.lower() in OTHERS}
    relative = {tokens[head].span for head in others}
    slots: dict[int, int | None] = {}
    last: int | None = None
    for sentence, places in named.items():
        found = {_slot(each, last, each.span in relative) for each in places} or {last}
        last = found.pop() if len(found) == 1 else None
        slots[sentence] = last
    return slots


def _slot(place: Token, last: int | None, relative: bool) -> int | None:
    """The slot that a place names: "our right" is the last, "her right" the next."""
    slot = PLACES[place.lemma.lower()]
    if not relative:
        return slot
    return None if last is None else last + _step(slot)


def _step(slot: int) -> int:
    """From the middle."""
    return slot - PLACES["middle"]
