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
    draw_scene,
    generate_scenes,
    list_things,
)
from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.models.prompt_images import load_prompt_image
from posh_reward.types import Description, Failure, Question, Token, Usage, Verdict

SLOT_WORDS = {"left": 0, "center": 1, "centre": 1, "middle": 1, "right": 2}
FRONT_NOUN = "front"  # an entity of "in *front* of a house", as graphs have it
SIZE_WORDS = {"small": "small", "little": "small", "large": "large", "big": "large"}
COUNT_WORDS = {"a": 1, "one": 1, "single": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
POSTURE_WORDS: dict[str, Posture] = {
    "stand": "stands", "stands": "stands", "standing": "stands", "stood": "stands",
    "sit": "sits", "sits": "sits", "sitting": "sits", "seated": "sits", "sat": "sits",
    "fly": "flies", "flies": "flies", "flying": "flies", "flew": "flies",
}  # fmt: skip
FORMS_OF_BE = frozenset("is are was were be being".split())
OWNER_RELATIONS: dict[Role, frozenset[str]] = {
    "worn": frozenset(("in", "wears", "wearing", "wear", "dressed in", "with", "has")),
    "held": frozenset(("holds", "holding", "hold", "carries", "carrying", "with", "has")),
    "backdrop": frozenset(("in front of", "before")),
}
"""Relations of a figure to its belongings."""
BELONGING_RELATIONS: dict[Role, frozenset[str]] = {
    "worn": frozenset(("part of", "of", "on")),
    "held": frozenset(("part of", "of", "held by")),
    "backdrop": frozenset(("behind",)),
}
"""Relations of belongings to their figure."""
PLACE_RELATIONS = frozenset("on to at in".split())  # relations of an object to its place


def has_property(thing: Thing, text: str) -> bool | None:
    """Return True if an object has a property, such as "red", "two" or "stands"."""
    words = [word for word in split_words(text) if word not in FORMS_OF_BE]
    return conjoin(_word_holds(thing, word) for word in words)


def _word_holds(thing: Thing, word: str) -> bool | None:
    if word in POSTURE_WORDS:
        return _takes_posture(thing, POSTURE_WORDS[word])
    if word in COLORS and thing.color is not None:
        return thing.color == word
    if word in SIZE_WORDS and thing.size is not None:
        return thing.size == SIZE_WORDS[word]
    if word in COUNT_WORDS:
        return thing.count == COUNT_WORDS[word]
    return None


def _takes_posture(thing: Thing, posture: Posture) -> bool | None:
    """Return True for an object's own posture; another one is false only of what has limbs.

    A house that stands may "sit" on a meadow, but a woman who stands does not sit.
    """
    if thing.posture is None:
        return None
    if thing.posture == posture:
        return True
    has_limbs = thing.role == "figure" or thing.noun in ("dog", "bird")
    return False if has_limbs else None


def relation_holds(objects: Sequence[Thing], first: int, text: str, second: int) -> bool | None:
    """Return True if a relation holds, such as "holds" or "sits in front of"."""
    postures, link = _split_relation(text)
    one, other = objects[first], objects[second]
    holds = None
    if one.role == "figure" and other.owner is not None:
        if link in OWNER_RELATIONS[other.role]:
            holds = other.owner == first
    elif other.role == "figure" and one.owner is not None:
        if link in BELONGING_RELATIONS[one.role]:
            holds = one.owner == second
    elif one.role == "figure" and link in OWNER_RELATIONS["backdrop"]:
        holds = False
    return conjoin((holds, *(_takes_posture(one, posture) for posture in postures)))


def stands_at(thing: Thing, text: str, slot: int | None) -> bool | None:
    """Return True if an object is in the slot that a place names, such as "stands on" the left."""
    postures, link = _split_relation(text)
    holds = None
    if slot is not None and link in PLACE_RELATIONS:
        holds = thing.slot == slot
    return conjoin((holds, *(_takes_posture(thing, posture) for posture in postures)))


def _split_relation(text: str) -> tuple[list[Posture], str]:
    """Split a relation's text: "sits in front of" -> (["sits"], "in front of")."""
    postures: list[Posture] = []
    link = []
    for word in split_words(text):
        if word in POSTURE_WORDS:
            postures.append(POSTURE_WORDS[word])
        elif word not in FORMS_OF_BE:
            link.append(word)
    return postures, " ".join(link)


def conjoin(truths: Iterable[bool | None]) -> bool | None:
    """Three-valued "and": False if one is; else None if one is unknown or there are none."""
    answers = list(truths)
    if False in answers:
        return False
    if not answers or None in answers:
        return None
    return True


def split_words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


PLACE_WEIGHT, RELATION_WEIGHT, PROPERTY_WEIGHT = 4, 3, 1
"""Weights of agreement with a text, where an object is chosen among those of one noun. Disagreement
subtracts them."""
POSSESSIVES = frozenset("her his its their".split())
"""Possessives that make a side relative: "to *her* right" is the slot after hers."""


@dataclass(frozen=True, slots=True)
class Grounding:
    """A text's entities with the objects of a drawing assigned to them."""

    objects: Sequence[Thing]
    nouns: Sequence[str]  # per entity the lemma of its head
    slots: Sequence[int | None]  # per entity the slot that its sentence is about
    assigned: dict[int, int] = field(default_factory=dict)  # entity -> object; places have none


def ground_entities(source: Description, objects: Sequence[Thing]) -> Grounding:
    """Assign objects to entities greedily: figures first, then the best agreement."""
    sentences = _find_slots(source.tokens)
    entities = source.graph.entities
    nouns = [_find_noun(source, entity) for entity in range(len(entities))]
    slots = []
    for each in entities:
        slots.append(sentences.get(each.sentences[0]) if each.sentences else None)
    grounding = Grounding(objects, nouns, slots)
    while pairs := list(_find_unassigned(grounding)):
        entity, place = max(pairs, key=lambda pair: _rank_assignment(source, grounding, *pair))
        grounding.assigned[entity] = place
    for relation in source.graph.relations:
        if nouns[relation.subject] == FRONT_NOUN and relation.object in grounding.assigned:
            grounding.assigned.setdefault(relation.subject, grounding.assigned[relation.object])
    return grounding


def _find_unassigned(grounding: Grounding) -> Iterator[tuple[int, int]]:
    """Yield each entity without an object, with each object of its noun that is left."""
    taken = set(grounding.assigned.values())
    for entity, noun in enumerate(grounding.nouns):
        if entity in grounding.assigned:
            continue
        for place, thing in enumerate(grounding.objects):
            if thing.noun == noun and place not in taken:
                yield entity, place


def _rank_assignment(
    source: Description, grounding: Grounding, entity: int, place: int
) -> tuple[float, ...]:
    """Rank of assigning an object to an entity; among equals, the earlier in the text wins."""
    objects, assigned = grounding.objects, grounding.assigned
    thing, slot = objects[place], grounding.slots[entity]
    score = 0
    if slot is not None:
        score += PLACE_WEIGHT * _weigh_agreement(slot == thing.slot)
    for attribute in source.graph.entities[entity].attributes:
        score += PROPERTY_WEIGHT * _weigh_agreement(has_property(thing, attribute.text))
    for relation in source.graph.relations:
        if relation.subject == entity and relation.object in assigned:
            holds = relation_holds(objects, place, relation.text, assigned[relation.object])
            score += RELATION_WEIGHT * _weigh_agreement(holds)
        elif relation.object == entity and relation.subject in assigned:
            holds = relation_holds(objects, assigned[relation.subject], relation.text, place)
            score += RELATION_WEIGHT * _weigh_agreement(holds)
    return thing.role == "figure", score, -entity, -place


def _weigh_agreement(agrees: bool | None) -> int:
    if agrees is None:
        return 0
    return 1 if agrees else -1


def _find_noun(source: Description, entity: int) -> str:
    """The lemma of the last word of an entity's first mention."""
    spans = source.graph.entities[entity].spans
    if not spans:
        return ""
    start, end = spans[0]
    for token in reversed(source.tokens):
        if start <= token.span[0] and token.span[1] <= end:
            return token.lemma.lower()
    return ""


def _find_slots(tokens: Sequence[Token]) -> dict[int, int | None]:
    """Map each sentence to the slot it names; a sentence that names none continues the previous."""
    places_in: dict[int, list[Token]] = {}
    for token in tokens:
        places_in.setdefault(token.sentence, [])
        if token.lemma.lower() in SLOT_WORDS and token.pos in ("NOUN", "PROPN"):
            places_in[token.sentence].append(token)
    relative = {tokens[token.head].span for token in tokens if token.text.lower() in POSSESSIVES}
    slots: dict[int, int | None] = {}
    previous: int | None = None
    for sentence, places in places_in.items():
        named = {_find_slot(each, previous, each.span in relative) for each in places}
        if len(named) == 1:
            previous = named.pop()
        elif named:  # several
            previous = None
        slots[sentence] = previous
    return slots


def _find_slot(place: Token, previous: int | None, relative: bool) -> int | None:
    """Slot that a place names: "our right" is the last slot, "her right" the one after hers."""
    slot = SLOT_WORDS[place.lemma.lower()]
    if not relative:
        return slot
    if previous is None:
        return None
    return previous + slot - SLOT_WORDS["middle"]


@lru_cache(maxsize=4)
def draw_album(dataset: str) -> Mapping[str, Scene]:
    """Draw a dataset, in all splits: image digest -> scene. Takes about 1 ms per image."""
    options = scene_options(dataset)
    scenes: dict[str, Scene] = {}
    for split in SPLITS:
        count = options.train if split == "train" else options.heldout
        for scene in generate_scenes(split, count, options.seed, plain=bool(options.plain)):
            image = load_prompt_image(draw_scene(scene, options.scale))
            if isinstance(image, Failure):
                raise MissingDependencyError(str(image))
            scenes[image.digest] = scene
    return scenes


YES = Verdict((0.0, 0.0, 0.0, 0.0, 1.0))
NO = Verdict((1.0, 0.0, 0.0, 0.0, 0.0))
UNDECIDED = Verdict(None, Failure("reply", "the drawing does not tell"))
UNKNOWN_IMAGE = Verdict(
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
        grounded: dict[tuple[str, str], Grounding] = {}  # by text and image
        verdicts = [self._answer_question(question, grounded) for question in questions]
        self.usage.requests += len(questions)
        self.usage.images += sum(question.image is not None for question in questions)
        self.usage.count_failures(verdicts)
        self.usage.seconds += time.perf_counter() - start
        return verdicts

    def _answer_question(
        self, question: Question, grounded: dict[tuple[str, str], Grounding]
    ) -> Verdict:
        if question.image is None:
            return NO_IMAGE
        key = question.source.text, question.image.digest
        if key not in grounded:
            scene = draw_album(self._dataset).get(question.image.digest)
            if scene is None:
                return UNKNOWN_IMAGE
            grounded[key] = ground_entities(question.source, list_things(scene))
        truth = is_true(grounded[key], question)
        if truth is None:
            return UNDECIDED
        return YES if truth else NO

    def an_image(self) -> object:
        """One of the drawn images, to try the oracle on."""
        options = scene_options(self._dataset)
        for scene in draw_album(self._dataset).values():
            return draw_scene(scene, options.scale)
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
        if noun in SLOT_WORDS or question.entity in drawing.assigned:
            return True
        return False if noun in NOUNS else None
    if question.kind == "attribute":
        if question.entity in drawing.assigned and drawing.nouns[question.entity] != FRONT_NOUN:
            thing = drawing.objects[drawing.assigned[question.entity]]
            return has_property(thing, question.text or "")
        return None
    assert question.other_entity is not None, "a relation has two ends"
    return _check_relation(drawing, question.entity, question.text or "", question.other_entity)


def _check_relation(drawing: Grounding, first: int, text: str, second: int) -> bool | None:
    """A relation of two objects, or of an object and its place."""
    one, other = drawing.assigned.get(first), drawing.assigned.get(second)
    if drawing.nouns[first] in (*SLOT_WORDS, FRONT_NOUN) and text in ("part of", "of"):
        return None if other is None else True  # "her right", "the front of the house"
    if one is None:
        return None
    if drawing.nouns[second] in SLOT_WORDS:
        return stands_at(drawing.objects[one], text, drawing.slots[second])
    if other is None:
        return None
    link = f"{text} front of" if drawing.nouns[second] == FRONT_NOUN else text
    return relation_holds(drawing.objects, one, link, other)
