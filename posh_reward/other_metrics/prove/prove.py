"""PROVE: helpfulness and truthfulness of answers about images (paper, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np

from posh_reward.errors import InputError
from posh_reward.metrics.metric import as_lists, check_lengths, check_sizes, signature
from posh_reward.models import encoders
from posh_reward.models.asker import READING_VERSION as REPLY_VERSION
from posh_reward.models.asker import Asker
from posh_reward.models.model import Model, distribution, model_of
from posh_reward.models.prompt_images import MISSING, images_of
from posh_reward.other_metrics.prove.tuples import (
    EDITION,
    Tuple,
    graph_cell,
    phrase,
    prompt_of,
    tuple_source,
    tuples_of_graph,
    verdicts_of,
    without,
)
from posh_reward.store import Store, open_store
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
    """Make the judge for a model; None without a model."""
    return None if model is None else Entailment(Asker(model_of(model, sees=True), store))


def read_inputs(
    entailment: Entailment | None, images: Sequence[object] | None, **texts: Sequence[object]
) -> list[list[Any]]:
    """Return all columns as lists; check that images and the entailment judge come together."""
    lists = as_lists(**texts)
    if images is not None:
        check_lengths(texts=lists[0], images=images)
    if images is not None and entailment is None:
        raise InputError("images need a model that judges them: pass entailment=...")
    if images is None and entailment is not None:
        raise InputError("the entailment judge needs images: pass images=...")
    return lists


def statement(parts: Tuple) -> str:
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

    def __init__(self, encoder: encoders.Encoder, tuples: Iterable[Tuple]) -> None:
        texts = list(dict.fromkeys(map(phrase, tuples)))
        self._row = {text: row for row, text in enumerate(texts)}
        self._vectors = encoders.unit_vectors(encoder, texts)

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

    def _of(self, tuples: Sequence[Tuple]) -> encoders.Floats:
        rows: encoders.Floats = self._vectors[[self._row[phrase(each)] for each in tuples]]
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


TEXTS = ("response", "answer", "question", "caption")


class Prove:
    """The metric. Models are loaded on first use and kept.

    Args:
        encoder: measures similarity of tuples: "embedded" (words, no synonyms), a model of
            sentence-transformers (the paper: Sentence-BERT), ``module:function``, or a function.
        entailment: a vision model that judges claims missing from the caption, as a name, a
            settings file, a mapping, or a ``Model``. None: claims missing from the caption count
            against the response.
        tuples: "graph" for our scene graphs, or a model that writes tuples, as in the paper.
        parser: for our scene graphs: "embedded", or an installed spaCy pipeline.
        store: a file (or a ``Store``) that keeps scene graphs and models' answers across runs.
        items_at_once: number of responses per call to a model; bounds memory.

    Raises:
        InputError: a name is unknown, or the model for entailment does not take images.
        ConfigError: a model's settings are invalid.
        MissingDependencyError: the encoder's library is not installed.
    """

    name = "prove"
    """First word of signatures."""

    def __init__(
        self,
        encoder: str | encoders.Encoder = encoders.EMBEDDED,
        entailment: str | Mapping[str, Any] | Model | None = None,
        tuples: str | Mapping[str, Any] | Model = "graph",
        *,
        parser: str = "embedded",
        store: str | PathLike[str] | Store | None = None,
        items_at_once: int = 64,
    ) -> None:
        check_sizes(items_at_once=items_at_once)
        self.store = open_store(store)
        self.encoder = encoders.load_encoder(encoder)
        self.encoder_name = encoders.name_of(encoder)
        self.tuples = tuple_source(tuples, parser, self.store)
        self.entailment = entailment_of(entailment, self.store)
        self._items_at_once = items_at_once

    @property
    def signature(self) -> str:
        """``prove|encoder:...|tuples:graph|parser:...|...|entailment:...|version:...``."""
        return self.signature_for(())

    def signature_for(self, graphs: Iterable[str]) -> str:
        """Signature of scores in which the named ``TEXTS`` had their own graphs."""
        fields = {"encoder": self.encoder_name, **self.tuples.fields, "entailment": "none"}
        if texts := ",".join(sorted(graphs)):
            fields["graphs"] = texts
        if self.entailment is not None:
            judge = self.entailment.asker.model.name
            fields |= {"entailment": judge, "wording": EDITION, "replies": str(REPLY_VERSION)}
        return signature(self.name, fields)

    def score(
        self,
        responses: Sequence[str | None],
        answers: Sequence[str | None],
        questions: Sequence[str | None],
        captions: Sequence[str | None],
        images: Sequence[object] | None = None,
        *,
        graphs: Mapping[str, Sequence[object]] | None = None,
    ) -> list[ProveScores]:
        """Score each response, in order; one that cannot be scored does not affect the others.

        Args:
            responses: replies of the model under test.
            answers: the true answers.
            questions: the questions; may be empty.
            captions: detailed true descriptions of the images; may be None if there are images.
            images: in any form that ``image_of`` reads; required with an entailment judge, and
                refused without one.
            graphs: "caption", "answer", "question" or "response" -> scene graphs or tuples to use
                instead of parsing, such as the authors' own (``tuples.read_graph``). Texts
                whose graph is None are parsed.

        Raises:
            InputError: the lists differ in length, one is a bare string, or images are missing.
            JudgeError: a model does not work at all.
            ValueError: the encoder returned something other than vectors.
        """
        graphs = graphs or {}
        if unknown := sorted(set(graphs) - set(TEXTS)):
            raise InputError(f"graphs has {unknown[0]!r}: choose among {', '.join(TEXTS)}")
        lists = read_inputs(
            self.entailment, images, responses=responses, answers=answers, questions=questions,
            captions=captions, **{f"graphs of {name}": each for name, each in graphs.items()},
        )  # fmt: skip
        columns = dict(zip(TEXTS, lists, strict=False))
        graphs = dict(zip(graphs, lists[len(TEXTS) :], strict=True))
        signature = self.signature_for(graphs)
        scores: list[ProveScores] = []
        for start in range(0, len(lists[0]), self._items_at_once):
            part = slice(start, start + self._items_at_once)
            read = self._read(
                {name: texts[part] for name, texts in columns.items()},
                {name: cells[part] for name, cells in graphs.items()},
            )
            prompt_images = [None] * len(read[0]) if images is None else images_of(images[part])
            scores += self._score_items(
                [ResponseItem(*each) for each in zip(*read, prompt_images, strict=True)], signature
            )
        return scores

    def _read(
        self, columns: Mapping[str, Sequence[object]], graphs: Mapping[str, Sequence[object]]
    ) -> list[list[Read]]:
        cells = [(name, text) for name, texts in columns.items() for text in texts]
        own = [
            graph_cell(cell)
            for name, texts in columns.items()
            for cell in graphs.get(name, [None] * len(texts))
        ]
        contents = [
            "" if name == "caption" and text is None else text
            for (name, text), graph in zip(cells, own, strict=True)
            if graph is None
        ]
        # One call for all texts of all columns: a model as reader gets one batch.
        read = iter(self.tuples.read(contents))
        readings = iter(next(read) if graph is None else tuples_of_graph(graph) for graph in own)
        return [
            [_name_text(name, next(readings)) for _ in texts] for name, texts in columns.items()
        ]

    def _score_items(self, items: Sequence[ResponseItem], signature: str) -> list[ProveScores]:
        likeness = Likeness(self.encoder, (each for item in items for each in item.tuples()))
        claims = [claims_of(item, likeness) for item in items]
        if self.entailment is not None:
            claims = _judge_images(self.entailment, items, claims)
        return [
            scores_of(item, answer_tuples_of(item, likeness), item_claims, signature)
            for item, item_claims in zip(items, claims, strict=True)
        ]


def _name_text(name: str, read: Read) -> Read:
    return read.about(f"the {name}") if isinstance(read, Failure) else read


def _judge_images(
    entailment: Entailment, items: Sequence[ResponseItem], claims: Sequence[Sequence[ResponseClaim]]
) -> list[tuple[ResponseClaim, ...]]:
    """Judge by the image each claim that the caption does not fully support."""
    statements = [
        (statement(claim.tuple), item.image or MISSING)
        for item, item_claims in zip(items, claims, strict=True)
        for claim in item_claims
        if needs_image(claim)
    ]
    results = iter(entailment.probabilities(statements))
    return [
        tuple(
            with_image(claim, next(results)) if needs_image(claim) else claim
            for claim in item_claims
        )
        for item_claims in claims
    ]
