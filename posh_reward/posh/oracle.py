"""Questions about drawn images -> verdicts, from what was drawn."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from posh_reward.datasets.load_dataset import scene_options
from posh_reward.datasets.scenes import (
    COLORS,
    NOUNS,
    SPLITS,
    Posture,
    Role,
    Scene,
    Thing,
    draw,
    generate,
    things,
)
from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.models.prompt_images import image_of
from posh_reward.types import Description, Failure, Question, Token, Usage, Verdict

PLACES = {"left": 0, "center": 1, "centre": 1, "middle": 1, "right": 2}  # words for the slots
FRONT = "front"  # an entity of "in *front* of a house", as graphs have it
SIZES = {"small": "small", "little": "small", "large": "large", "big": "large"}
COUNTS = {"a": 1, "one": 1, "single": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
STANCES: dict[str, Posture] = {
    "stand": "stands", "stands": "stands", "standing": "stands", "stood": "stands",
    "sit": "sits", "sits": "sits", "sitting": "sits", "seated": "sits", "sat": "sits",
    "fly": "flies", "flies": "flies", "flying": "flies", "flew": "flies",
}  # fmt: skip
BEING = frozenset("is are was were be being".split())
LINKS: dict[Role, frozenset[str]] = {
    "worn": frozenset(("in", "wears", "wearing", "wear", "dressed in", "with", "has")),
    "held": frozenset(("holds", "holding", "hold", "carries", "carrying", "with", "has")),
    "backdrop": frozenset(("in front of", "before")),
}
"""Relations of a figure to its belongings."""
BACK_LINKS: dict[Role, frozenset[str]] = {
    "worn": frozenset(("part of", "of", "on")),
    "held": frozenset(("part of", "of", "held by")),
    "backdrop": frozenset(("behind",)),
}
"""Relations of belongings to their figure."""
AT = frozenset("on to at in".split())  # relations of an object to its place


def has(thing: Thing, text: str) -> bool | None:
    """Return True if an object has a property, such as "red", "two" or "stands"."""
    return every(_is(thing, word) for word in words_of(text) if word not in BEING)


def _is(thing: Thing, word: str) -> bool | None:
    if word in STANCES:
        return _takes(thing, STANCES[word])
    if word in COLORS and thing.color is not None:
        return thing.color == word
    if word in SIZES and thing.size is not None:
        return thing.size == SIZES[word]
    return thing.count == COUNTS[word] if word in COUNTS else None


def _takes(thing: Thing, posture: Posture) -> bool | None:
    """A wrong posture is false only of what has limbs: a house may "sit" on a meadow."""
    if thing.posture is None:
        return None
    limbs = thing.role == "figure" or thing.noun in ("dog", "bird")
    return thing.posture == posture or (False if limbs else None)


def joins(things: Sequence[Thing], first: int, text: str, second: int) -> bool | None:
    """Return True if a relation holds, such as "holds" or "sits in front of"."""
    stances, link = _stances_and_link(text)
    one, other = things[first], things[second]
    if one.role == "figure" and other.owner is not None:
        holds = other.owner == first if link in LINKS[other.role] else None
    elif other.role == "figure" and one.owner is not None:
        holds = one.owner == second if link in BACK_LINKS[one.role] else None
    elif one.role == "figure" and link in LINKS["backdrop"]:
        holds = False
    else:
        holds = None
    return every((holds, *(_takes(one, stance) for stance in stances)))


def stands_at(thing: Thing, text: str, slot: int | None) -> bool | None:
    """Return True if an object is in the slot that a place names, such as "stands on" the left."""
    stances, link = _stances_and_link(text)
    holds = thing.slot == slot if slot is not None and link in AT else None
    return every((holds, *(_takes(thing, stance) for stance in stances)))


def _stances_and_link(text: str) -> tuple[list[Posture], str]:
    """Split a relation's text: "sits in front of" -> (["sits"], "in front of")."""
    words = words_of(text)
    stances = [STANCES[word] for word in words if word in STANCES]
    return stances, " ".join(w for w in words if w not in STANCES and w not in BEING)


def every(truths: Iterable[bool | None]) -> bool | None:
    """Three-valued "and": False if one is; else None if one is unknown or there are none."""
    answers = list(truths)
    if False in answers:
        return False
    return True if answers and None not in answers else None


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


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


@lru_cache(maxsize=4)
def album(dataset: str) -> Mapping[str, Scene]:
    """Draw a dataset, in all splits: image digest -> scene. Takes about 1 ms per image."""
    options = scene_options(dataset)
    scenes: dict[str, Scene] = {}
    for split in SPLITS:
        count = options.train if split == "train" else options.heldout
        for scene in generate(split, count, options.seed, plain=bool(options.plain)):
            image = image_of(draw(scene, options.scale))
            if isinstance(image, Failure):
                raise MissingDependencyError(str(image))
            scenes[image.digest] = scene
    return scenes


YES = Verdict((0.0, 0.0, 0.0, 0.0, 1.0))
NO = Verdict((1.0, 0.0, 0.0, 0.0, 0.0))
UNDECIDED = Verdict(None, Failure("reply", "the drawing does not tell"))
UNKNOWN = Verdict(
    None,
    Failure(
        "error",
        "the oracle does not know this image: name the drawn images with all their options, "
        "as they were loaded",
    ),
)
NO_IMAGE = Verdict(None, Failure("prompt", "the oracle answers about images only"))


class Oracle:
    """A witness of drawn images. It grades 5 or 1, and fails if the drawing does not settle it.

    An image that was not drawn fails its pair, so that wrong options are noticed.

    Args:
        dataset: name of the drawn images, with the options that they were loaded with
            (``load_dataset.SceneOptions``). They are drawn again at the first question.

    Raises:
        InputError: an option of ``dataset`` is unknown.
    """

    def __init__(self, dataset: str = "scenes") -> None:
        scene_options(dataset)  # a wrong name fails here, not in the first batch
        self.usage = Usage()
        self._dataset = dataset

    @property
    def name(self) -> str:
        return f"oracle-1:{self._dataset}"

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        start = time.perf_counter()
        grounded: dict[tuple[str, str], Grounding | None] = {}
        verdicts = [self._answer(question, grounded) for question in questions]
        self.usage.requests += len(questions)
        self.usage.images += sum(question.image is not None for question in questions)
        self.usage.count_failures(verdicts)
        self.usage.seconds += time.perf_counter() - start
        return verdicts

    def _answer(
        self, question: Question, grounded: dict[tuple[str, str], Grounding | None]
    ) -> Verdict:
        if question.image is None:
            return NO_IMAGE
        key = question.source.text, question.image.digest
        if key not in grounded:
            scene = album(self._dataset).get(question.image.digest)
            grounded[key] = None if scene is None else ground(question.source, things(scene))
        grounding = grounded[key]
        if grounding is None:
            return UNKNOWN
        truth = is_true(grounding, question)
        return UNDECIDED if truth is None else YES if truth else NO

    def an_image(self) -> object:
        """One of the drawn images, to try the oracle on."""
        options = scene_options(self._dataset)
        for scene in album(self._dataset).values():
            return draw(scene, options.scale)
        raise InputError(f"{self._dataset!r} has no images: set train or heldout above 0")

    def sleep(self) -> None:
        """Nothing to free: the scenes are small."""

    def wake(self) -> None:
        """Nothing to get ready."""

    def close(self) -> None:
        """Nothing to release."""


def is_true(drawing: Grounding, question: Question) -> bool | None:
    """Return True if the drawing shows the element, False if not, None if it does not tell."""
    if question.kind == "entity":
        noun = drawing.nouns[question.entity]
        # Every image has a left, a middle and a right.
        if noun in PLACES or question.entity in drawing.of:
            return True
        return False if noun in NOUNS else None
    if question.kind == "attribute":
        if question.entity in drawing.of and drawing.nouns[question.entity] != FRONT:
            return has(drawing.things[drawing.of[question.entity]], question.text or "")
        return None
    assert question.other_entity is not None, "a relation has two ends"
    return _relation(drawing, question.entity, question.text or "", question.other_entity)


def _relation(drawing: Grounding, first: int, text: str, second: int) -> bool | None:
    """A relation of two objects, or of an object and its place."""
    one, other = drawing.of.get(first), drawing.of.get(second)
    if drawing.nouns[first] in (*PLACES, FRONT) and text in ("part of", "of"):
        return True if other is not None else None  # "her right", "the front of the house"
    if one is None:
        return None
    if drawing.nouns[second] in PLACES:
        return stands_at(drawing.things[one], text, drawing.slots[second])
    if other is None:
        return None
    link = f"{text} front of" if drawing.nouns[second] == FRONT else text
    return joins(drawing.things, one, link, other)
