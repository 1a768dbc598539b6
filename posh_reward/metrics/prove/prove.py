"""PROVE: helpfulness and truthfulness of answers about images (paper, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from posh_reward.errors import InputError
from posh_reward.metrics.metric import check_sizes, signature
from posh_reward.metrics.prove.equations import (
    Entailment,
    Likeness,
    ProveScores,
    Read,
    ResponseClaim,
    ResponseItem,
    answer_tuples_of,
    check_inputs,
    claims_of,
    entailment_of,
    needs_image,
    scores_of,
    statement,
    with_image,
)
from posh_reward.metrics.prove.prove_prompts import EDITION
from posh_reward.metrics.prove.tuples import graph_cell, tuple_source, tuples_of_graph
from posh_reward.models.asker import READING_VERSION as REPLY_VERSION
from posh_reward.models.encoders import EMBEDDED, Encoder, load_encoder, name_of
from posh_reward.models.model import Model
from posh_reward.models.prompt_images import MISSING, images_of
from posh_reward.store import Store, store_of
from posh_reward.types import Failure

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
        encoder: str | Encoder = EMBEDDED,
        entailment: str | Mapping[str, Any] | Model | None = None,
        tuples: str | Mapping[str, Any] | Model = "graph",
        *,
        parser: str = "embedded",
        store: str | PathLike[str] | Store | None = None,
        items_at_once: int = 64,
    ) -> None:
        check_sizes(items_at_once=items_at_once)
        self.store = store_of(store)
        self.encoder = load_encoder(encoder)
        self.encoder_name = name_of(encoder)
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
                instead of parsing, such as the authors' own (``tuple_scenes.read_graph``). Texts
                whose graph is None are parsed.

        Raises:
            InputError: the lists differ in length, one is a bare string, or images are missing.
            JudgeError: a model does not work at all.
            ValueError: the encoder returned something other than vectors.
        """
        graphs = graphs or {}
        if unknown := sorted(set(graphs) - set(TEXTS)):
            raise InputError(f"graphs has {unknown[0]!r}: choose among {', '.join(TEXTS)}")
        columns = dict(zip(TEXTS, (responses, answers, questions, captions), strict=True))
        check_inputs(
            self.entailment, images, responses=responses, answers=answers, questions=questions,
            captions=captions, **{f"graphs of {name}": each for name, each in graphs.items()},
        )  # fmt: skip
        signature = self.signature_for(graphs)
        scores: list[ProveScores] = []
        for start in range(0, len(responses), self._items_at_once):
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
