"""Graded elements -> marked stretches of text, for pages and terminals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from posh_reward.types import Direction, Element, Scores

Level = Literal["absent", "weak", "partial", "clear", "failed", "none"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring characters that the same elements rest on."""

    text: str
    elements: tuple[Element, ...]

    @property
    def level(self) -> Level:
        """How badly the worst of its elements was found."""
        if not self.elements:
            return "none"
        grades = [element.grade for element in self.elements if element.grade is not None]
        return level_of(min(grades)) if grades else "failed"


def level_of(grade: float) -> Level:
    """A grade in words: below 2 absent, below 3 weak, below 4 partial, else clear."""
    if grade < 2:
        return "absent"
    if grade < 3:
        return "weak"
    return "partial" if grade < 4 else "clear"


def stretches(scores: Scores, direction: Direction) -> Iterator[Stretch]:
    """Cuts the generation (precision) or the reference (recall) where its elements change.

    The stretches' texts, joined, are the whole text again.
    """
    text = scores.generation if direction == "precision" else scores.reference
    elements = [element for element in scores.elements if element.direction == direction]
    edges = {0, len(text)}
    for element in elements:
        for start, end in element.spans:
            edges |= {start, end}
    cuts = sorted(edge for edge in edges if 0 <= edge <= len(text))
    covering = _covering(elements, cuts)
    for index, (start, end) in enumerate(pairwise(cuts)):
        yield Stretch(text[start:end], tuple(covering[index]))


def _covering(elements: Sequence[Element], cuts: Sequence[int]) -> list[list[Element]]:
    """For each stretch between two cuts, the elements with a span over it."""
    position = {cut: index for index, cut in enumerate(cuts)}
    covering: list[list[Element]] = [[] for _ in cuts]
    for element in elements:
        over = {
            index
            for start, end in element.spans
            for index in range(position.get(start, 0), position.get(end, 0))
        }
        for index in sorted(over):
            covering[index].append(element)
    return covering
