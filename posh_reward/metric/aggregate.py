"""Graded elements -> scores (paper, section 3, step 3). Means and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from posh_reward.types import Element

TOP = 5
"""The highest grade: scores are grades divided by it."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much an element of each kind counts in its mean; the paper has 1 for all."""

    entity: float = 1.0
    attribute: float = 1.0
    relation: float = 1.0

    def of(self, element: Element) -> float:
        """The weight of one element."""
        weight: float = getattr(self, element.kind)
        return weight


EQUAL = Weights()


def mean_score(elements: Sequence[Element], weights: Weights = EQUAL) -> float | None:
    """Weighted mean grade / 5: 0.2 to 1; None if one of the judgments failed.

    With nothing to find, nothing is missing: 1.0, as in the release.
    """
    total = 0.0
    weight = 0.0
    for element in elements:
        if element.grade is None:
            return None
        total += weights.of(element) * element.grade
        weight += weights.of(element)
    return total / weight / TOP if weight else 1.0


def harmonic_mean(precision: float | None, recall: float | None) -> float | None:
    """The paper's overall quality; None if either side is."""
    if precision is None or recall is None:
        return None
    return 2 * precision * recall / (precision + recall)


def of_kind(elements: Iterable[Element], kind: str) -> list[Element]:
    """The elements of one kind, for sub-scores."""
    return [element for element in elements if element.kind == kind]
