"""All questions about pairs of texts as arrays of features, to try weights quickly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posh_reward.embedded.judge import EmbeddedJudge
from posh_reward.embedded.judge.encoder_features import feature_names
from posh_reward.embedded.judge.features import WEIGHTS, apply_overrides
from posh_reward.embedded.judge.relation_features import Features
from posh_reward.models.encoders import EncodeTokens, load_token_encoder
from posh_reward.types import (
    KINDS,
    LABELS,
    LOWEST_GRADE,
    Element,
    Kind,
    Question,
    Scores,
    Span,
    Verdict,
)  # fmt: skip

MIN_PRESENT = 0.25  # value of grade 2, the lowest at which an entity's attributes are asked about

BARELY_PRESENT = Verdict((1 - MIN_PRESENT - 1e-6, *[0.0] * (len(LABELS) - 2), MIN_PRESENT + 1e-6))
"""Grade 2, slightly above for rounding."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Recorder(EmbeddedJudge):
    """The embedded judge, but finding every entity present, so that all questions are asked."""

    def __init__(self, encoder: str | EncodeTokens | None = None) -> None:
        super().__init__()
        if encoder is not None:  # shipped weights may be for other features
            self._encode = load_token_encoder(encoder)
            self.weights = {
                kind: {name: WEIGHTS[kind].get(name, 0.0) for name in names}
                for kind, names in feature_names().items()
            }
        self.features: dict[tuple[object, ...], Features] = {}
        self.ruled: dict[tuple[object, ...], tuple[float, float]] = {}
        """Values that the rules make of 0 and of 1, linear in between."""
        self.matched: dict[tuple[object, ...], bool] = {}
        """True for an entity with a counterpart."""

    def grade(self, requests: Sequence[Question]) -> list[Verdict]:
        """Grade as the judge does, but raise absent entities to the lowest grade of presence."""
        for request in requests:
            pair_features = self.compare(request.source, request.target)
            self.features[key_of(request)] = self._compute_features(pair_features, request)
            is_matched = bool(pair_features.alignment.candidates(request.entity))
            self.matched[key_of(request)] = is_matched
            low, high = (
                apply_overrides(pair_features.alignment, request, value) for value in (0.0, 1.0)
            )
            self.ruled[key_of(request)] = low, high
        return [
            verdict if (verdict.grade or 0) > 2 or request.kind != "entity" else BARELY_PRESENT
            for request, verdict in zip(requests, super().grade(requests), strict=True)
        ]


def key_of(question: Question | Element) -> tuple[object, ...]:
    """Return the identity that a question and its element share, within one pair."""
    text = question.identifier if question.kind == "entity" else question.text
    return (question.direction, question.kind, text, question.identifier, question.other)


@dataclass(frozen=True)
class Questions:
    """Elements of all pairs, one after another."""

    side: Ints  # (elements,): 2 x the pair, plus 1 for recall
    rows: dict[Kind, Ints]  # indices of each kind's elements
    features: dict[Kind, Floats]  # (elements of the kind, weights); the first column is 1
    ends: Ints  # (elements, 2): the element's entities, or the element itself
    spans: list[tuple[Span, ...]]
    scores: list[Scores]
    names: dict[Kind, list[str]]  # names of the features, bias first
    ruled: Floats  # (elements, 2): values that the judge's rules make of 0 and of 1
    named: NDArray[np.bool_]  # (elements,): entities that bound relations: no places or pronouns
    matched: NDArray[np.bool_]  # (elements,): entities with a counterpart


def ask_about(metric: Any, pairs: Iterable[tuple[str, str]]) -> Questions:
    """Collect all questions about the pairs, with ``metric`` a ``PoSh`` judged by ``Recorder``."""
    side: list[int] = []
    ends, spans, scores, ruled, named, matched = [], [], [], [], [], []
    rows: dict[Kind, list[int]] = {kind: [] for kind in KINDS}
    features: dict[Kind, list[list[float]]] = {kind: [] for kind in KINDS}
    feature_names = {kind: list(metric.judge.weights[kind]) for kind in KINDS}
    for number, (generation, reference) in enumerate(pairs):
        metric.judge.features.clear()
        metric.judge.ruled.clear()
        metric.judge.matched.clear()
        (pair_scores,) = metric.score([generation], [reference])
        scores.append(pair_scores)
        entities = {
            (element.direction, element.identifier): len(side) + i
            for i, element in enumerate(pair_scores.elements)
            if element.kind == "entity"
        }
        for element in pair_scores.elements:
            here = len(side)
            side.append(2 * number + (element.direction == "recall"))
            names = (element.identifier, element.other)
            ends.append([entities.get((element.direction, name), here) for name in names])
            spans.append(element.spans)
            ruled.append(metric.judge.ruled.get(key_of(element), (0.0, 1.0)))
            rows[element.kind].append(here)
            values = metric.judge.features.get(key_of(element), {})
            matched.append(metric.judge.matched.get(key_of(element), True))
            named.append(values.keys().isdisjoint(("nameless", "place")))
            others = feature_names[element.kind][1:]
            features[element.kind].append([1.0, *(values.get(name, 0.0) for name in others)])
    return Questions(
        np.array(side),
        {kind: np.array(rows[kind]) for kind in KINDS},
        {kind: np.array(features[kind]) for kind in KINDS},
        np.array(ends),
        spans,
        scores,
        feature_names,
        np.array(ruled),
        np.array(named),
        np.array(matched),
    )


@dataclass(frozen=True)
class Answers:
    """Grades and scores under some weights."""

    logits: Floats  # after the rules
    slope: Floats  # of ``logits`` by the weighted sums of the features
    grades: Floats
    means: Floats  # (pairs, 3): precision, recall, f1
    deciding: Ints  # (elements,): the element that decides the grade: itself, or its least entity


def answers(
    questions: Questions, weights: dict[Kind, Floats], deciding: Ints | None = None
) -> Answers:
    """Compute grades and scores under some weights, as the metric does.

    Args:
        questions: all elements.
        weights: of each kind's features.
        deciding: keep these deciding elements, so that the result is smooth in the weights.
    """
    logits = np.empty(len(questions.side))
    for kind in KINDS:
        logits[questions.rows[kind]] = questions.features[kind] @ weights[kind]
    weighed = 1 / (1 + np.exp(-logits))
    low, high = questions.ruled.T
    free = (low == 0) & (high == 1)
    values = np.where(free, weighed, low + (high - low) * weighed)
    slope = np.where(free, 1.0, (high - low) * weighed * (1 - weighed) / (values * (1 - values)))
    logits = np.where(free, logits, np.log(values / (1 - values)))
    values = np.clip(values, 0.005, 0.995)
    if deciding is None:
        deciding = np.arange(len(values))
        related = np.isin(np.arange(len(values)), questions.rows["relation"])
        first, second = questions.ends.T
        bounding = np.where(questions.named, values, 1.0)
        better = np.where(bounding[first] > bounding[second], first, second)
        for end, bounds in (
            (better, True), (first, ~questions.matched[first]), (second, ~questions.matched[second])
        ):  # fmt: skip
            lower = related & bounds & (bounding[end] < values[deciding])
            deciding[lower] = end[lower]
        for end in questions.ends.T:
            absent = values[end] < MIN_PRESENT
            deciding[absent] = end[absent]
    is_absent = (deciding != np.arange(len(values))) & (values[deciding] < MIN_PRESENT)
    grades = np.where(is_absent, LOWEST_GRADE, LOWEST_GRADE + 4 * values[deciding])
    count = np.bincount(questions.side, minlength=2 * len(questions.scores))
    total = np.bincount(questions.side, grades, minlength=len(count))
    mean = np.where(count > 0, total / np.maximum(count, 1) / 5, 1.0).reshape(-1, 2)
    f1 = 2 * mean[:, 0] * mean[:, 1] / mean.sum(1)
    return Answers(logits, slope, grades, np.c_[mean, f1], deciding)
