"""Graded elements -> scores (paper, section 3, step 3), their coverage, and figures for logs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from posh_reward.errors import ConfigError
from posh_reward.metrics.metric import mean
from posh_reward.posh.loose_words import coverage
from posh_reward.settings import check_settings
from posh_reward.types import (
    DIRECTIONS,
    HIGHEST_GRADE,
    KINDS,
    Direction,
    Element,
    Kind,
    Scores,
    score_in_means,
)


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each kind of element in the means; all 1 in the paper."""

    entity: float = 1.0
    attribute: float = 1.0
    relation: float = 1.0

    def __post_init__(self) -> None:
        for kind in KINDS:
            weight = getattr(self, kind)
            if not 0 <= weight < math.inf:
                raise ConfigError(f"the weight of {kind} is {weight}: use a number from 0")
            object.__setattr__(self, kind, float(weight))  # NumPy's would round all means
        if not any(getattr(self, kind) for kind in KINDS):  # every mean would be 1
            raise ConfigError(f"the weights of {', '.join(KINDS)} are all 0: set one above 0")

    def of(self, element: Element) -> float:
        weight: float = getattr(self, element.kind)
        return weight


EQUAL = Weights()


def weights_of(settings: Weights | Mapping[str, float]) -> Weights:
    """Weights from settings such as ``{"relation": 0.5}``."""
    if isinstance(settings, Weights):
        return settings
    return Weights(**check_settings(Weights, settings, "weights"))


def mean_score(elements: Sequence[Element], weights: Weights = EQUAL) -> float | None:
    """Weighted mean grade / 5, 0.2 to 1; None if a judgment failed.

    Without elements it is 1, as in the release: no element is wrong.
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
    """The paper's overall quality; None if either score is."""
    if precision is None or recall is None:
        return None
    return 2 * precision * recall / (precision + recall)


def figures(scores: Sequence[Scores]) -> dict[str, float]:
    """Return the figures of one call, in the order in which they are logged.

    ``unparsed`` is the number of replies read as the lowest label. The others are means over the
    scores that have the figure, and NaN if none has; precision, over texts with elements.
    """
    scored = [score for score in scores if score.f1 is not None]
    return {
        **{name: mean([counted(score, name) for score in scores]) for name in columns([])},
        **{
            f"{direction}_{kind}": mean([_sub_score(each, direction, kind) for each in scored])
            for direction in DIRECTIONS
            for kind in KINDS
        },
        "generation_elements": mean([score.generation_elements for score in scored]),
        "reference_elements": mean([score.reference_elements for score in scored]),
        "elements_per_100_words": mean([_elements_per_100_words(score) for score in scored]),
        "length_ratio": mean([length_ratio(score) for score in scored]),
        "silent_share": mean([float(not score.generation_elements) for score in scored]),
        "coverage": mean([coverage(score) for score in scored]),
        "unparsed": float(sum(score.unparsed for score in scores)),
    }


def counted(score: Scores, axis: str) -> float | None:
    """Return a score as it counts in means (``score_in_means``)."""
    return score_in_means(partial(getattr, score), axis)


def witness_figures(scores: Sequence[Scores]) -> dict[str, float]:
    """Return what the image contributed to one call.

    Mean number of elements per generation about which the image was asked, the share of them whose
    grade it raised, and the number that it did not settle.
    """
    scored = [score for score in scores if score.f1 is not None]
    by_score = [[e for e in score.elements if e.image_grade is not None] for score in scored]
    elements = [element for some in by_score for element in some]
    open_grades = [e.image_grade for e in elements if e.image_grade and e.image_grade.grade is None]
    return {
        "picture_asked": mean([len(some) for some in by_score]),
        "picture_raised": mean([float(element.witness == "image") for element in elements]),
        "picture_unanswered": float(len(open_grades)),
    }


def columns(scores: Sequence[Scores]) -> dict[str, list[float | None]]:
    """Figures of each completion: name -> one value per completion."""
    names = ("precision", "recall", "f1")
    return {name: [getattr(score, name) for score in scores] for name in names}


def length_ratio(scores: Scores) -> float:
    """Words of the generation per word of the reference."""
    return len(scores.generation.split()) / max(len(scores.reference.split()), 1)


def _elements_per_100_words(scores: Scores) -> float | None:
    words = len(scores.generation.split())
    return 100 * scores.generation_elements / words if words else None


def _sub_score(scores: Scores, direction: Direction, kind: Kind) -> float | None:
    elements = [e for e in scores.elements if (e.direction, e.kind) == (direction, kind)]
    return mean_score(elements) if elements else None
