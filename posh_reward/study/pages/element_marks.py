"""Graded elements -> marked stretches of text and sentences about them, for pages and terminals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

from posh_reward.metrics.metric import field_of
from posh_reward.metrics.posh.presets import PRESETS, question
from posh_reward.types import (
    Description,
    Direction,
    Element,
    ImageGrade,
    Kind,
    Question,
    SceneGraph,
    Scores,
)

Level = Literal["absent", "weak", "partial", "clear", "failed", "seen", "none"]

UNASKED = {
    "attribute": '"{text}" was not asked about: "{identifier}" is absent.',
    "relation": '"{text}" was not asked about: "{identifier}" or "{other}" is absent.',
}
FAILED = '"{text}" could not be judged: {failure}'
NAMES = ("text", "identifier", "other", "failure", "stated", "looked")
"""Blanks of a wording: of an element, and the grades of the reference and of the image."""
SUPPORT = 3.0  # the grade from which on a witness bears an element out, if the signature names none
IN_IMAGE = "In the image, not in the reference (reference {stated}, image {looked}). "
IN_NEITHER = "Neither in the reference nor in the image (reference {stated}, image {looked}). "
UNCLEAR = "Not in the reference ({stated}), and the image does not tell. "
"""Beginnings of the sentence about an element that the witness graded."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring characters that the same elements rest on."""

    text: str
    elements: tuple[Element, ...]

    @property
    def lowest(self) -> float | None:
        """The grade of the worst of its elements; None if none was judged."""
        grades = [element.grade for element in self.elements if element.grade is not None]
        return min(grades, default=None)

    @property
    def level(self) -> Level:
        """Level of its worst element."""
        if not self.elements:
            return "none"
        if self.lowest is None:
            return "failed"
        # The worst element gives a stretch its colour: a true adjective does not mend a false noun.
        level = level_of(self.lowest)
        by_image = any(element.witness == "picture" for element in self.elements)
        return "seen" if level == "clear" and by_image else level

    @property
    def has_mark(self) -> bool:
        """True if there is a mistake, an omission or a failure to point out."""
        return self.level not in ("none", "clear")

    @property
    def digit(self) -> str:
        """The lowest grade, rounded down so that 1 is absent, 2 weak, 3 partial; "*": seen."""
        if self.level == "seen":
            return "*"
        return "?" if self.lowest is None else str(int(self.lowest))


def level_of(grade: float) -> Level:
    """A grade in words: below 2 absent, below 3 weak, below 4 partial, else clear."""
    if grade < 2:
        return "absent"
    if grade < 3:
        return "weak"
    return "partial" if grade < 4 else "clear"


def worst_first(elements: Sequence[Element]) -> list[Element]:
    """Failed ones, then by grade, lowest first."""
    return sorted(elements, key=lambda element: element.grade or 0.0)


def stretches(scores: Scores, direction: Direction) -> Iterator[Stretch]:
    """Cut the generation (precision) or the reference (recall) where its elements change.

    The stretches' texts, joined, are the whole text again.
    """
    text = scores.generation if direction == "precision" else scores.reference
    elements = [element for element in scores.elements if element.direction == direction]
    # Spans of elements overlap ("the old man" and "old"), while marks on a page may not: so the
    # text is cut at every end of a span, and a stretch has all elements that lie over it. White
    # space between two words of the same elements ("carved into") belongs to them.
    edges = {0, len(text)}
    for element in elements:
        for start, end in element.spans:
            edges |= {start, end}
    cuts = sorted(edge for edge in edges if 0 <= edge <= len(text))
    elements_over = _elements_over(elements, cuts)
    pieces = [
        Stretch(text[start:end], tuple(elements_over[index]))
        for index, (start, end) in enumerate(pairwise(cuts))
    ]
    return _join(pieces)


def _join(pieces: Sequence[Stretch]) -> Iterator[Stretch]:
    """The pieces, those made one that only white space keeps apart."""
    runs: list[Stretch] = []
    for piece in pieces:
        between = runs and not runs[-1].elements and not runs[-1].text.strip()
        if between and len(runs) > 1 and piece.elements and runs[-2].elements == piece.elements:
            first, space = runs[-2:]
            runs[-2:] = [Stretch(first.text + space.text + piece.text, piece.elements)]
        else:
            runs.append(piece)
    return iter(runs)


def _elements_over(elements: Sequence[Element], cuts: Sequence[int]) -> list[list[Element]]:
    """For each stretch between two cuts, the elements with a span over it."""
    position = {cut: index for index, cut in enumerate(cuts)}
    elements_of: list[list[Element]] = [[] for _ in cuts]
    for element in elements:
        over = {
            index
            for start, end in element.spans
            for index in range(position.get(start, 0), position.get(end, 0))
        }
        for index in over:
            elements_of[index].append(element)
    return elements_of


def preset_of(signature: str) -> str:
    """The wording that a signature names; the released one if it names none that we know."""
    preset = field_of(signature, "preset")
    return preset if preset in PRESETS else PRESETS[0]


def support_of(signature: str) -> float:
    """The grade that a signature names as the one from which on a witness bears something out."""
    try:
        return float(field_of(signature, "supported") or SUPPORT)
    except ValueError:
        return SUPPORT


def wording(element: Element, signature: str = "") -> str:
    """The question about an element, with its ``{text}`` and names still blank."""
    preset = preset_of(signature)
    if element.failure is not None:
        return FAILED
    if element.image_grade is not None:
        verdict = _verdict(element.image_grade, support_of(signature))
        return verdict + _question(element.kind, element.direction, preset)
    if not element.direct and element.kind in UNASKED:
        return UNASKED[element.kind]
    return _question(element.kind, element.direction, preset)


def _verdict(image: ImageGrade, support: float) -> str:
    if image.grade is None:
        return UNCLEAR
    return IN_IMAGE if image.grade >= support else IN_NEITHER


@cache
def _question(kind: Kind, direction: Direction, preset: str) -> str:
    nothing = Description("", SceneGraph((), ()))
    request = Question(
        direction, kind, "{identifier}", nothing, nothing, 0, text="{text}", other="{other}"
    )
    whole = question(request, preset)
    return whole.removeprefix("Q: ").partition("? Consider")[0] + "?"


def question_about(element: Element, signature: str = "") -> str:
    """Return the question about an element, or why there was none, in one sentence."""
    values = dict(zip(NAMES, names(element), strict=True))
    return re.sub(r"\{(\w+)\}", lambda match: values[match[1]] or "", wording(element, signature))


def names(element: Element) -> list[str | None]:
    """Return the contents of a wording's blanks, in the order of ``NAMES``."""
    failure = None if element.failure is None else str(element.failure)
    image = element.image_grade
    grades = (None, None) if image is None else (image.reference_grade, image.grade)
    numbers = [None if grade is None else f"{grade:.1f}" for grade in grades]
    return [element.text, element.identifier, element.other, failure, *numbers]
