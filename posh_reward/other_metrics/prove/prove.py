"""PROVE: helpfulness and truthfulness of answers about images (paper, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import fsum
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np

from posh_reward.errors import InputError
from posh_reward.metrics.metric import as_lists, build_signature, check_lengths, check_sizes
from posh_reward.models import encoders
from posh_reward.models.asker import READING_VERSION as REPLY_VERSION
from posh_reward.models.asker import CachingModel
from posh_reward.models.model import Model, Prompt, read_distribution, resolve_model
from posh_reward.models.prompt_images import IMAGE_MISSING, load_prompt_images
from posh_reward.other_metrics.prove.tuples import (
    WORDING_EDITION,
    Tuple,
    ask_verdicts,
    build_prompt,
    join_parts,
    load_tuple_source,
    read_graph_cell,
    read_graph_tuples,
    subtract_tuples,
)
from posh_reward.store import Store, open_store
from posh_reward.types import Failure, PromptImage, Verdict

ENTAILMENT_LABELS = ("no", "yes")


class Entailment:
    """A vision model's probability of "yes" against "no" for statements about images.

    The paper uses OFA, fine-tuned for visual entailment.
    """

    def __init__(self, asker: CachingModel) -> None:
        self.asker = asker

    def probabilities(
        self, statements: Sequence[tuple[str, PromptImage | Failure]]
    ) -> list[float | Failure]:
        """Probability that each statement is true of its image; failures of images are kept."""
        prompts: list[Prompt] = []
        for text, image in statements:
            if isinstance(image, PromptImage):
                prompts.append(build_prompt("entailment", {"statement": text}, (image,)))
        verdicts = iter(ask_verdicts(self.asker, prompts, ENTAILMENT_LABELS))
        results: list[float | Failure] = []
        for _, image in statements:
            if isinstance(image, Failure):
                results.append(image)
            else:
                results.append(_read_probability(next(verdicts)))
        return results


def _read_probability(verdict: Verdict) -> float | Failure:
    masses = read_distribution(verdict)
    if isinstance(masses, Failure):
        return masses
    return masses[ENTAILMENT_LABELS.index("yes")]


def load_entailment(
    model: str | Mapping[str, Any] | Model | None, store: Store | None
) -> Entailment | None:
    """Make the judge for a model; None without a model."""
    if model is None:
        return None
    return Entailment(CachingModel(resolve_model(model, sees=True), store))


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


def state_tuple(parts: Tuple) -> str:
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


COSINE_TOLERANCE = 1e-9
"""By which rounding may put the cosine of equal tuples below 1."""


class Closest(NamedTuple):
    """The most similar of some tuples."""

    tuple: Tuple
    similarity: float
    """At most 1."""


class TupleSimilarity:
    """Cosine similarities of tuples' vectors; each tuple is encoded once."""

    def __init__(self, encoder: encoders.Encoder, tuples: Iterable[Tuple]) -> None:
        texts = list(dict.fromkeys(map(join_parts, tuples)))
        self._row = {text: row for row, text in enumerate(texts)}
        self._vectors = encoders.unit_vectors(encoder, texts)

    def find_closest(self, tuples: Sequence[Tuple], among: Sequence[Tuple]) -> list[Closest | None]:
        """Most similar of ``among`` for each tuple; None if ``among`` is empty."""
        if not tuples or not among:
            return [None] * len(tuples)
        alike = self._select_vectors(tuples) @ self._select_vectors(among).T
        # Without this, rounding would make equal tuples differ, and the image be judged for them.
        alike = np.where(alike > 1 - COSINE_TOLERANCE, 1.0, alike)
        places = alike.argmax(axis=1)
        return [
            Closest(among[place], float(row[place]))
            for row, place in zip(alike, places, strict=True)
        ]

    def _select_vectors(self, tuples: Sequence[Tuple]) -> encoders.Floats:
        rows = [self._row[join_parts(each)] for each in tuples]
        vectors: encoders.Floats = self._vectors[rows]
        return vectors


ReadTuples = tuple[Tuple, ...] | Failure  # the tuples of a text

NO_NEW_ANSWER = Failure("text", "the answer says nothing that the question does not")
NO_CLAIM = Failure("text", "the response makes no claim")
NO_WITNESS = Failure("text", "there is no caption to compare the response with")


@dataclass(frozen=True, slots=True)
class ResponseItem:
    """One response and the texts and image that it is compared with."""

    response: ReadTuples
    answer: ReadTuples
    question: ReadTuples
    caption: ReadTuples
    image: PromptImage | Failure | None
    """None without an entailment judge."""

    def list_tuples(self) -> list[Tuple]:
        texts = (self.response, self.answer, self.question, self.caption)
        return list(chain.from_iterable(map(_tuples_or_none, texts)))


def _tuples_or_none(read: ReadTuples) -> tuple[Tuple, ...]:
    if isinstance(read, Failure):
        return ()
    return read


def score_answer_tuples(item: ResponseItem, similarity: TupleSimilarity) -> tuple[AnswerTuple, ...]:
    """Tuples of g(A) - g(Q), each with the closest tuple of the response (eq. 1)."""
    new = subtract_tuples(_tuples_or_none(item.answer), _tuples_or_none(item.question))
    closest = similarity.find_closest(new, _tuples_or_none(item.response))
    answer_tuples: list[AnswerTuple] = []
    for each, nearest in zip(new, closest, strict=True):
        if nearest:
            answer_tuples.append(AnswerTuple(each, nearest.similarity, nearest.tuple))
        else:
            answer_tuples.append(AnswerTuple(each, 0.0, None))
    return tuple(answer_tuples)


def score_claims(item: ResponseItem, similarity: TupleSimilarity) -> tuple[ResponseClaim, ...]:
    """Tuples of the response, each with the closest tuple of the caption (eq. 2)."""
    response_tuples = _tuples_or_none(item.response)
    closest = similarity.find_closest(response_tuples, _tuples_or_none(item.caption))
    claims: list[ResponseClaim] = []
    for each, nearest in zip(response_tuples, closest, strict=True):
        if nearest:
            score = nearest.similarity
            claims.append(ResponseClaim(each, score, "caption", nearest.tuple, score))
        else:
            claims.append(ResponseClaim(each, None, None, None, None))
    return tuple(claims)


def needs_image(claim: ResponseClaim) -> bool:
    """Return True if the image could support a claim better than the caption does."""
    return claim.caption is None or claim.caption < 1


def add_image(claim: ResponseClaim, probability: float | Failure) -> ResponseClaim:
    """Add the probability that the image shows a claim, or the failure to judge it."""
    if isinstance(probability, Failure):  # the caption's similarity is only a lower bound
        return replace(claim, score=None, witness=None, failure=probability)
    if claim.caption is not None and claim.caption >= probability:
        return replace(claim, image=probability)
    return replace(claim, score=probability, witness="image", image=probability)


def build_scores(
    item: ResponseItem,
    answer_tuples: Sequence[AnswerTuple],
    claims: Sequence[ResponseClaim],
    signature: str,
) -> ProveScores:
    """Both means, and the first reason for a missing one."""
    unhelpful = explain_no_helpfulness(item, answer_tuples)
    untrue = explain_no_truthfulness(item, claims)
    helpfulness, truthfulness = None, None
    if not unhelpful:
        helpfulness = fsum(each.score for each in answer_tuples) / len(answer_tuples)
    if not untrue:
        truthfulness = fsum(each.score or 0 for each in claims) / len(claims)
    return ProveScores(
        helpfulness,
        truthfulness,
        signature=signature,
        answer_tuples=tuple(answer_tuples),
        claims=tuple(claims),
        failure=unhelpful or untrue,
    )


def explain_no_helpfulness(
    item: ResponseItem, answer_tuples: Sequence[AnswerTuple]
) -> Failure | None:
    """Explain why eq. 1 has no value; None if it has one, such as 0 for an empty response."""
    for read in (item.response, item.answer, item.question):
        if isinstance(read, Failure):
            return read
    if not answer_tuples:
        return NO_NEW_ANSWER
    return None


def explain_no_truthfulness(item: ResponseItem, claims: Sequence[ResponseClaim]) -> Failure | None:
    """Explain why eq. 2 has no value, as for an empty response; None if it has one."""
    for read in (item.response, item.caption):
        if isinstance(read, Failure):
            return read
    if not claims:
        return NO_CLAIM
    if not item.caption and item.image is None:
        return NO_WITNESS
    return next((claim.failure for claim in claims if claim.failure), None)


TEXT_NAMES = ("response", "answer", "question", "caption")


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
        self.encoder_name = encoders.text_encoder_name(encoder)
        self.tuples = load_tuple_source(tuples, parser, self.store)
        self.entailment = load_entailment(entailment, self.store)
        self._items_at_once = items_at_once

    @property
    def signature(self) -> str:
        """``prove|encoder:...|tuples:graph|parser:...|...|entailment:...|version:...``."""
        return self.signature_for(())

    def signature_for(self, graphs: Iterable[str]) -> str:
        """Signature of scores in which the named ``TEXT_NAMES`` had their own graphs."""
        fields = {"encoder": self.encoder_name, **self.tuples.fields, "entailment": "none"}
        if texts := ",".join(sorted(graphs)):
            fields["graphs"] = texts
        if self.entailment is not None:
            judge = self.entailment.asker.model.name
            fields |= {
                "entailment": judge,
                "wording": WORDING_EDITION,
                "replies": str(REPLY_VERSION),
            }
        return build_signature(self.name, fields)

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
            images: in any form that ``load_prompt_image`` reads; required with an entailment
                judge, and refused without one.
            graphs: "caption", "answer", "question" or "response" -> scene graphs or tuples to use
                instead of parsing, such as the authors' own (``tuples.read_graph``). Texts
                whose graph is None are parsed.

        Raises:
            InputError: the lists differ in length, one is a bare string, or images are missing.
            JudgeError: a model does not work at all.
            ValueError: the encoder returned something other than vectors.
        """
        graphs = graphs or {}
        if unknown := sorted(set(graphs) - set(TEXT_NAMES)):
            raise InputError(f"graphs has {unknown[0]!r}: choose among {', '.join(TEXT_NAMES)}")
        lists = read_inputs(
            self.entailment, images, responses=responses, answers=answers, questions=questions,
            captions=captions, **{f"graphs of {name}": each for name, each in graphs.items()},
        )  # fmt: skip
        columns = dict(zip(TEXT_NAMES, lists, strict=False))
        graphs = dict(zip(graphs, lists[len(TEXT_NAMES) :], strict=True))
        signature = self.signature_for(graphs)
        scores: list[ProveScores] = []
        for start in range(0, len(lists[0]), self._items_at_once):
            part = slice(start, start + self._items_at_once)
            own_columns = {name: texts[part] for name, texts in columns.items()}
            own_graphs = {name: cells[part] for name, cells in graphs.items()}
            read = self._read_tuples(own_columns, own_graphs)
            prompt_images = (
                [None] * len(read[0]) if images is None else load_prompt_images(images[part])
            )
            items = [ResponseItem(*each) for each in zip(*read, prompt_images, strict=True)]
            scores += self._score_items(items, signature)
        return scores

    def _read_tuples(
        self, columns: Mapping[str, Sequence[object]], graphs: Mapping[str, Sequence[object]]
    ) -> list[list[ReadTuples]]:
        own: dict[str, list[object]] = {}
        parsed: list[object] = []
        for name, texts in columns.items():
            own[name] = list(map(read_graph_cell, graphs.get(name, [None] * len(texts))))
            for text, graph in zip(texts, own[name], strict=True):
                if graph is None:
                    parsed.append("" if name == "caption" and text is None else text)
        # One call for all texts of all columns: a model as reader gets one batch.
        read = iter(self.tuples.read(parsed))
        columns_read: list[list[ReadTuples]] = []
        for name, cells in own.items():
            column: list[ReadTuples] = []
            for graph in cells:
                tuples = next(read) if graph is None else read_graph_tuples(graph)
                if isinstance(tuples, Failure):
                    tuples = tuples.about(f"the {name}")
                column.append(tuples)
            columns_read.append(column)
        return columns_read

    def _score_items(self, items: Sequence[ResponseItem], signature: str) -> list[ProveScores]:
        tuples = chain.from_iterable(item.list_tuples() for item in items)
        similarity = TupleSimilarity(self.encoder, tuples)
        claims = [score_claims(item, similarity) for item in items]
        if self.entailment is not None:
            claims = _judge_images(self.entailment, items, claims)
        scores: list[ProveScores] = []
        for item, item_claims in zip(items, claims, strict=True):
            answer_tuples = score_answer_tuples(item, similarity)
            scores.append(build_scores(item, answer_tuples, item_claims, signature))
        return scores


def _judge_images(
    entailment: Entailment, items: Sequence[ResponseItem], claims: Sequence[Sequence[ResponseClaim]]
) -> list[tuple[ResponseClaim, ...]]:
    """Judge by the image each claim that the caption does not fully support."""
    statements: list[tuple[str, PromptImage | Failure]] = []
    for item, item_claims in zip(items, claims, strict=True):
        for claim in filter(needs_image, item_claims):
            statements.append((state_tuple(claim.tuple), item.image or IMAGE_MISSING))
    results = iter(entailment.probabilities(statements))
    judged: list[tuple[ResponseClaim, ...]] = []
    for item_claims in claims:
        own = list(item_claims)
        for place, claim in enumerate(item_claims):
            if needs_image(claim):
                own[place] = add_image(claim, next(results))
        judged.append(tuple(own))
    return judged
