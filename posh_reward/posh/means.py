"""Graded elements -> scores (paper, section 3, step 3), their coverage, and figures for logs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from posh_reward.errors import ConfigError
from posh_reward.metrics.metric import mean
from posh_reward.posh.examine import MIN_SUPPORTED_GRADE
from posh_reward.posh.loose_words import measure_coverage
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

    def find_weight(self, element: Element) -> float:
        weight: float = getattr(self, element.kind)
        return weight


EQUAL_WEIGHTS = Weights()


def read_weights(settings: Weights | Mapping[str, float]) -> Weights:
    """Weights from settings such as ``{"relation": 0.5}``."""
    if isinstance(settings, Weights):
        return settings
    return Weights(**check_settings(Weights, settings, "weights"))


def mean_score(
    elements: Sequence[Element], weights: Weights = EQUAL_WEIGHTS, unmentioned: float = 1.0
) -> float | None:
    """Weighted mean grade / 5, 0.2 to 1; None if a judgment failed.

    Without elements it is 1, as in the release: no element is wrong.

    Args:
        elements: of one direction.
        weights: of kinds of elements.
        unmentioned: weight of those that are neither supported nor contradicted.
    """
    total = 0.0
    weight = 0.0
    for element in elements:
        if element.grade is None:
            return None
        own = weights.find_weight(element)
        if element.grade < MIN_SUPPORTED_GRADE and element.decided_by is None:
            own *= unmentioned
        total += own * element.grade
        weight += own
    if not weight:
        return 1.0
    return total / weight / HIGHEST_GRADE


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
    found: dict[str, float] = {}
    for name in columns([]):
        found[name] = mean([read_counted_score(score, name) for score in scores])
    for direction, kind in product(DIRECTIONS, KINDS):
        found[f"{direction}_{kind}"] = mean(
            [score_kind(score, direction, kind) for score in scored]
        )
    return found | {
        "generation_elements": mean([score.generation_elements for score in scored]),
        "reference_elements": mean([score.reference_elements for score in scored]),
        "elements_per_100_words": mean(list(map(_elements_per_100_words, scored))),
        "length_ratio": mean(list(map(length_ratio, scored))),
        "silent_share": mean([float(not score.generation_elements) for score in scored]),
        "coverage": mean(list(map(measure_coverage, scored))),
        "unparsed": float(sum(score.unparsed for score in scores)),
    }


def read_counted_score(score: Scores, axis: str) -> float | None:
    """Return a score as it counts in means (``score_in_means``)."""
    return score_in_means(partial(getattr, score), axis)


def sentence_figures(scores: Sequence[Scores]) -> dict[str, float]:
    """Return the share of sentences that the reference contradicts, and of those it supports."""
    values = [sentence.value for score in scores for sentence in score.sentences]
    return {
        "contradicted_share": mean([float(value == "contradicted") for value in values]),
        "supported_share": mean([float(value == "supported") for value in values]),
    }


def witness_figures(scores: Sequence[Scores]) -> dict[str, float]:
    """Return what the image contributed to one call.

    Mean number of elements per generation about which the image was asked, the share of them whose
    grade it raised, and the number that it did not settle.
    """
    scored = [score for score in scores if score.f1 is not None]
    asked: list[float] = []  # by score
    raised: list[float] = []  # by element
    unanswered = 0
    for score in scored:
        elements = [element for element in score.elements if element.image_grade is not None]
        asked.append(len(elements))
        for element in elements:
            raised.append(float(element.witness == "image"))
            unanswered += element.image_grade is not None and element.image_grade.grade is None
    return {
        "image_asked": mean(asked),
        "image_raised": mean(raised),
        "image_unanswered": float(unanswered),
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
    if not words:
        return None
    return 100 * scores.generation_elements / words


def score_kind(scores: Scores, direction: Direction, kind: Kind) -> float | None:
    """Return a precision or recall over elements of one kind alone; None without any."""
    elements = [e for e in scores.elements if (e.direction, e.kind) == (direction, kind)]
    if not elements:
        return None
    return mean_score(elements)
