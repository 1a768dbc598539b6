"""Questions about drawn images -> verdicts, from what was drawn."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache

from posh_reward.datasets.load_dataset import scene_options
from posh_reward.datasets.scenes.drawing import draw
from posh_reward.datasets.scenes.generate_scenes import SPLITS, generate
from posh_reward.datasets.scenes.subjects import NOUNS, Scene, things
from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.metrics.posh.judges.oracle.depiction import FRONT, PLACES, has, joins, stands_at
from posh_reward.metrics.posh.judges.oracle.grounding import Grounding, ground
from posh_reward.models.prompt_images import image_of
from posh_reward.types import Failure, Question, Usage, Verdict


@lru_cache(maxsize=4)
def album(dataset: str) -> Mapping[str, Scene]:
    """Draw a dataset, in all splits: image digest -> scene. Takes about 1 ms per image.

    Args:
        dataset: name with options, as for ``datasets.load_dataset``.

    Raises:
        InputError: an option is unknown.
        MissingDependencyError: Pillow is not installed.
    """
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
        """Version of the rules, and the dataset."""
        return f"oracle-1:{self._dataset}"

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        """One verdict per question, in order."""
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
        """One of the drawn images, to try the oracle on.

        Raises:
            InputError: the dataset has no rows.
        """
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
