"""Graded elements -> scores (paper, section 3, step 3). Means and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from posh_reward.errors import ConfigError
from posh_reward.settings import checked
from posh_reward.types import HIGHEST_GRADE, Element


@dataclass(frozen=True, slots=True)
class Weights:
    """How much an element of each kind counts in its mean; the paper has 1 for all."""

    entity: float = 1.0
    attribute: float = 1.0
    relation: float = 1.0

    def __post_init__(self) -> None:
        for kind in ("entity", "attribute", "relation"):
            weight = getattr(self, kind)
            if not 0 <= weight < math.inf:
                raise ConfigError(f"the weight of {kind} is {weight}: give a number from 0")

    def of(self, element: Element) -> float:
        """The weight of one element."""
        weight: float = getattr(self, element.kind)
        return weight


EQUAL = Weights()


def weights_of(given: Weights | Mapping[str, float]) -> Weights:
    """Weights from settings such as ``{"relation": 0.5}``.

    Raises:
        ConfigError: a kind is unknown, or a weight is not a number from 0.
    """
    if isinstance(given, Weights):
        return given
    return Weights(**checked(Weights, given, "weights"))


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
    return total / weight / HIGHEST_GRADE if weight else 1.0


def harmonic_mean(precision: float | None, recall: float | None) -> float | None:
    """The paper's overall quality; None if either side is."""
    if precision is None or recall is None:
        return None
    return 2 * precision * recall / (precision + recall)


def of_kind(elements: Iterable[Element], kind: str) -> list[Element]:
    """The elements of one kind, for sub-scores."""
    return [element for element in elements if element.kind == kind]
