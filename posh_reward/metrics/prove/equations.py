"""The paper's two equations (section 3.2), for one response, and p(I |= t') by a vision model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, Literal, NamedTuple

import numpy as np

from posh_reward.errors import InputError
from posh_reward.metrics.metric import check_lists
from posh_reward.metrics.prove.prove_prompts import prompt_of, verdicts_of
from posh_reward.metrics.prove.tuples import Tuple, phrase, without
from posh_reward.models.asker import Asker
from posh_reward.models.encoders import Encoder, Floats, unit_vectors
from posh_reward.models.labels import distribution
from posh_reward.models.model import Model, model_of
from posh_reward.store import Store
from posh_reward.types import Failure, PromptImage, Verdict

LABELS = ("no", "yes")


class Entailment:
    """A vision model's probability of "yes" against "no" for statements about images.

    The paper uses OFA, fine-tuned for visual entailment.
    """

    def __init__(self, asker: Asker) -> None:
        self.asker = asker

    def probabilities(
        self, statements: Sequence[tuple[str, PromptImage | Failure]]
    ) -> list[float | Failure]:
        """Probability that each statement is true of its image; failures of images are kept."""
        prompts = [
            prompt_of("entailment", {"statement": text}, (image,))
            for text, image in statements
            if isinstance(image, PromptImage)
        ]
        verdicts = iter(verdicts_of(self.asker, prompts, LABELS))
        return [
            image if isinstance(image, Failure) else _probability(next(verdicts))
            for _, image in statements
        ]


def _probability(verdict: Verdict) -> float | Failure:
    masses = distribution(verdict)
    return masses if isinstance(masses, Failure) else masses[LABELS.index("yes")]


def entailment_of(
    model: str | Mapping[str, Any] | Model | None, store: Store | None
) -> Entailment | None:
    """Make the judge for a model; None without a model.

    Raises:
        InputError: the model is unknown or does not take images.
        ConfigError: its settings are invalid.
    """
    return None if model is None else Entailment(Asker(model_of(model, sees=True), store))


def check_inputs(
    entailment: Entailment | None, images: Sequence[object] | None, **texts: Sequence[object]
) -> None:
    """Check that all lists match, and that images and the entailment judge come together.

    Raises:
        InputError: they do not.
    """
    check_lists(**texts, **({} if images is None else {"images": images}))
    if images is not None and entailment is None:
        raise InputError("images need a model that judges them: pass entailment=...")
    if images is None and entailment is not None:
        raise InputError("the entailment judge needs images: pass images=...")


def statement(parts: Tuple) -> str:
    """A tuple as a statement about an image."""
    if len(parts) == 1:
        return f'the image shows "{parts[0]}"'
    if len(parts) == 2:
        return f'"{parts[0]}" can be described as "{parts[1]}"'
    return f'"{parts[0]}" {parts[1]} "{parts[2]}"'


@dataclass(frozen=True, slots=True)
class AnswerTuple:
    """A tuple of the answer that is not in the question: a helpful response states it."""

    tuple: Tuple
    score: float
    """Similarity to the closest tuple of the response, at most 1; 0 if the response has none."""
    closest: Tuple | None
    """That tuple of the response."""


@dataclass(frozen=True, slots=True)
class ResponseClaim:
    """A tuple of the response: the caption or image of a truthful one supports it."""

    tuple: Tuple
    score: float | None
    """The larger of ``caption`` and ``image``; None if judging the image failed."""
    witness: Literal["caption", "image"] | None
    """The one that supports it better."""
    closest: Tuple | None
    """The most similar tuple of the caption."""
    caption: float | None
    """Similarity to that tuple, at most 1; None without a caption."""
    image: float | None = None
    """Probability that the image shows it; None if it was not judged."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class ProveScores:
    """Helpfulness and truthfulness of one response; higher is better, 1 is best.

    Either is None if it has nothing to average or a judgment failed; ``failure`` has the reason.
    """

    helpfulness: float | None
    """hscore (paper, eq. 1): how much of the answer the response states."""
    truthfulness: float | None
    """tscore (paper, eq. 2): how much of the response the caption or the image supports."""
    signature: str
    """Settings and versions needed to reproduce the scores."""
    answer_tuples: tuple[AnswerTuple, ...] = ()
    claims: tuple[ResponseClaim, ...] = ()
    failure: Failure | None = None

    @property
    def average(self) -> float | None:
        """Mean of the two (paper, Table 1); None if either is."""
        if self.helpfulness is None or self.truthfulness is None:
            return None
        return (self.helpfulness + self.truthfulness) / 2


ROUNDING = 1e-9  # tolerance for the cosine of equal tuples


class Closest(NamedTuple):
    """The most similar of some tuples."""

    tuple: Tuple
    similarity: float
    """At most 1."""


class Likeness:
    """Similarities among tuples; each is encoded once."""

    def __init__(self, encoder: Encoder, tuples: Iterable[Tuple]) -> None:
        texts = list(dict.fromkeys(map(phrase, tuples)))
        self._row = {text: row for row, text in enumerate(texts)}
        self._vectors = unit_vectors(encoder, texts)

    def closest(self, tuples: Sequence[Tuple], among: Sequence[Tuple]) -> list[Closest | None]:
        """Most similar of ``among`` for each tuple; None if ``among`` is empty."""
        if not tuples or not among:
            return [None] * len(tuples)
        alike = self._of(tuples) @ self._of(among).T
        # Without this, rounding would make equal tuples differ, and the image be judged for them.
        alike = np.where(alike > 1 - ROUNDING, 1.0, alike)
        places = alike.argmax(axis=1)
        return [
            Closest(among[place], float(row[place]))
            for row, place in zip(alike, places, strict=True)
        ]

    def _of(self, tuples: Sequence[Tuple]) -> Floats:
        rows: Floats = self._vectors[[self._row[phrase(each)] for each in tuples]]
        return rows


Read = tuple[Tuple, ...] | Failure  # the tuples of a text

NOTHING_NEW = Failure("text", "the answer says nothing that the question does not")
NO_CLAIM = Failure("text", "the response makes no claim")
NO_WITNESS = Failure("text", "there is no caption to compare the response with")


@dataclass(frozen=True, slots=True)
class ResponseItem:
    """One response and the texts and image that it is compared with."""

    response: Read
    answer: Read
    question: Read
    caption: Read
    image: PromptImage | Failure | None
    """None without an entailment judge."""

    def tuples(self) -> list[Tuple]:
        texts = (self.response, self.answer, self.question, self.caption)
        return [each for read in texts for each in _of(read)]


def _of(read: Read) -> tuple[Tuple, ...]:
    return () if isinstance(read, Failure) else read


def answer_tuples_of(item: ResponseItem, likeness: Likeness) -> tuple[AnswerTuple, ...]:
    """Tuples of g(A) - g(Q), each with the closest tuple of the response (eq. 1)."""
    new = without(_of(item.answer), _of(item.question))
    return tuple(
        AnswerTuple(each, nearest.similarity, nearest.tuple)
        if nearest
        else AnswerTuple(each, 0.0, None)
        for each, nearest in zip(new, likeness.closest(new, _of(item.response)), strict=True)
    )


def claims_of(item: ResponseItem, likeness: Likeness) -> tuple[ResponseClaim, ...]:
    """Tuples of the response, each with the closest tuple of the caption (eq. 2)."""
    response_tuples = _of(item.response)
    return tuple(
        ResponseClaim(each, nearest.similarity, "caption", nearest.tuple, nearest.similarity)
        if nearest
        else ResponseClaim(each, None, None, None, None)
        for each, nearest in zip(
            response_tuples, likeness.closest(response_tuples, _of(item.caption)), strict=True
        )
    )


def needs_image(claim: ResponseClaim) -> bool:
    """Return True if the image could support a claim better than the caption does."""
    return claim.caption is None or claim.caption < 1


def with_image(claim: ResponseClaim, probability: float | Failure) -> ResponseClaim:
    """Add the probability that the image shows a claim, or the failure to judge it."""
    if isinstance(probability, Failure):  # the caption's similarity is only a lower bound
        return replace(claim, score=None, witness=None, failure=probability)
    if claim.caption is not None and claim.caption >= probability:
        return replace(claim, image=probability)
    return replace(claim, score=probability, witness="image", image=probability)


def scores_of(
    item: ResponseItem,
    answer_tuples: Sequence[AnswerTuple],
    claims: Sequence[ResponseClaim],
    signature: str,
) -> ProveScores:
    """Both means, and the first reason for a missing one."""
    unhelpful, untrue = why_no_helpfulness(item, answer_tuples), why_no_truthfulness(item, claims)
    return ProveScores(
        helpfulness=None
        if unhelpful
        else fsum(each.score for each in answer_tuples) / len(answer_tuples),
        truthfulness=None if untrue else fsum(each.score or 0 for each in claims) / len(claims),
        signature=signature,
        answer_tuples=tuple(answer_tuples),
        claims=tuple(claims),
        failure=unhelpful or untrue,
    )


def why_no_helpfulness(item: ResponseItem, answer_tuples: Sequence[AnswerTuple]) -> Failure | None:
    """Explain why eq. 1 has no value; None if it has one, such as 0 for an empty response."""
    for read in (item.response, item.answer, item.question):
        if isinstance(read, Failure):
            return read
    return None if answer_tuples else NOTHING_NEW


def why_no_truthfulness(item: ResponseItem, claims: Sequence[ResponseClaim]) -> Failure | None:
    """Explain why eq. 2 has no value, as for an empty response; None if it has one."""
    for read in (item.response, item.caption):
        if isinstance(read, Failure):
            return read
    if not claims:
        return NO_CLAIM
    if not item.caption and item.image is None:
        return NO_WITNESS
    return next((claim.failure for claim in claims if claim.failure), None)
