"""Captions -> questions that programs verify (paper, section 3.1).

::

    caption --tuples--> scene graph --writer--> candidates: question, answer, program
    checks: program over the graph == answer, but not over other graphs;
            taboo, trivial, review, image, duplicate

Each candidate is kept, or dropped for the first check that fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from os import PathLike
from typing import Any

from posh_reward.errors import InputError
from posh_reward.metrics.metric import check_lists, signature
from posh_reward.metrics.prove.equations import check_inputs, entailment_of
from posh_reward.metrics.prove.programs.program_scene import Nodes
from posh_reward.metrics.prove.programs.sandbox import Sandbox
from posh_reward.metrics.prove.prove_prompts import (
    EDITION,
    LONGEST_REPLY,
    read_candidate,
    read_candidates,
    replies_of,
    writing_prompt,
)
from posh_reward.metrics.prove.sifting import (
    SIFTING,
    CaptionQuestions,
    QuestionPair,
    once_each,
    review,
    sift_images,
    sift_words,
    verify_candidates,
)
from posh_reward.metrics.prove.tuples import TupleSource, scenes_of, tuple_source
from posh_reward.models.asker import READING_VERSION, Asker
from posh_reward.models.encoders import EMBEDDED, Encoder, load_encoder, name_of
from posh_reward.models.model import Model, model_of
from posh_reward.models.prompt_images import images_of
from posh_reward.store import Store, store_of
from posh_reward.types import Failure, Reply

DUPLICATE = 0.95  # minimum similarity at which two questions about one image are duplicates
NOTHING_THERE = Failure("text", "the caption is empty, or names nothing to ask about")


class PairMaker:
    """A maker of verified questions with answers, from captions.

    Args:
        writer: the model that writes questions, answers and programs (the paper: GPT-4o), as a
            name, a settings file, a mapping, or a ``Model``. It may be text-only.
        reviewer: a model that drops trivial, incomplete and unnatural pairs (the paper: GPT-4o).
            None: only pairs whose answer adds no word to the question are dropped.
        entailment: a vision model that drops pairs that the image does not show.
        tuples: source of scene graphs: "graph" for ours, or a model.
        encoder: finds duplicate questions; see ``Prove``.
        taboo: words that no pair may contain. The paper's list is not published.
        parser: for our scene graphs: "embedded", or an installed spaCy pipeline.
        store: a file (or a ``Store``) that keeps models' answers across runs.
        seconds: processor time of one program.

    Raises:
        InputError: a name is unknown, or the model for entailment does not take images.
        ConfigError: a model's settings are invalid.
    """

    def __init__(
        self,
        writer: str | Mapping[str, Any] | Model,
        reviewer: str | Mapping[str, Any] | Model | None = None,
        entailment: str | Mapping[str, Any] | Model | None = None,
        tuples: str | Mapping[str, Any] | Model = "graph",
        *,
        encoder: str | Encoder = EMBEDDED,
        taboo: Sequence[str] = (),
        parser: str = "embedded",
        store: str | PathLike[str] | Store | None = None,
        seconds: float = 2.0,
    ) -> None:
        if isinstance(taboo, str):
            raise InputError(f"taboo is one string: pass a list of words, [{taboo[:40]!r}]")
        self.store = store_of(store)
        self.writer = Asker(model_of(writer), self.store)
        self.reviewer = None if reviewer is None else Asker(model_of(reviewer), self.store)
        self.entailment = entailment_of(entailment, self.store)
        self.tuples: TupleSource = tuple_source(tuples, parser, self.store)
        self.encoder = load_encoder(encoder)
        self.encoder_name = name_of(encoder)
        self.taboo = frozenset(word.casefold() for word in taboo)
        self.programs = Sandbox(seconds)

    @property
    def signature(self) -> str:
        """``prove-pairs|writer:...|reviewer:...|entailment:...|tuples:...|encoder:...|...``."""
        judge = None if self.entailment is None else self.entailment.asker
        return signature(
            "prove-pairs",
            {
                "writer": self.writer.model.name,
                "reviewer": "none" if self.reviewer is None else self.reviewer.model.name,
                "entailment": "none" if judge is None else judge.model.name,
                **self.tuples.fields,
                "encoder": self.encoder_name,
                "wording": EDITION,
                "sifting": SIFTING,
                "replies": str(READING_VERSION),
                **({"taboo": ",".join(sorted(self.taboo))} if self.taboo else {}),
            },
        )

    def make(
        self,
        captions: Sequence[str | None],
        images: Sequence[object] | None = None,
        graphs: Sequence[object] | None = None,
    ) -> list[CaptionQuestions]:
        """Return all candidates about each image, kept and dropped, in order.

        Args:
            captions: detailed true descriptions of images.
            images: in any form that ``image_of`` reads; required with an entailment judge, and
                refused without one.
            graphs: scene graphs or tuples of the captions, such as the authors' own
                (``tuple_scenes.read_graph``); captions whose graph is None are parsed.

        Raises:
            InputError: the lists differ in length, or images are missing.
            JudgeError: a model does not work at all.
        """
        columns = {"captions": captions} | ({} if graphs is None else {"graphs": graphs})
        check_inputs(self.entailment, images, **columns)
        questions = self._write_drafts(captions, graphs)
        flat = [pair for each in questions for pair in each.pairs]
        if self.reviewer is not None:
            flat = review(flat, self.reviewer)
        if self.entailment is not None and images is not None:
            visible = [
                p for p, each in zip(images_of(images), questions, strict=True) for _ in each.pairs
            ]
            flat = sift_images(flat, self.entailment, visible)
        rest = iter(flat)
        return [
            replace(
                each,
                pairs=tuple(
                    once_each(list(islice(rest, len(each.pairs))), self.encoder, DUPLICATE)
                ),
            )
            for each in questions
        ]

    def close(self) -> None:
        """End the process that runs programs."""
        self.programs.close()

    def _write_drafts(
        self, captions: Sequence[str | None], graphs: Sequence[object] | None
    ) -> list[CaptionQuestions]:
        """Ask the writer about each caption; verify by programs and by words."""
        scenes = scenes_of(self.tuples, captions, graphs)
        prompts = {
            place: writing_prompt(str(captions[place] or "").strip(), nodes)
            for place, nodes in enumerate(scenes)
            if nodes and not isinstance(nodes, Failure)
        }
        replies = replies_of(self.writer, list(prompts.values()), LONGEST_REPLY)
        by_place = dict(zip(prompts, replies, strict=True))
        return [self._draft(nodes, by_place.get(place)) for place, nodes in enumerate(scenes)]

    def _draft(self, nodes: Nodes | Failure, reply: Reply | None) -> CaptionQuestions:
        if isinstance(nodes, Failure):
            return CaptionQuestions((), nodes.about("the caption"))
        if reply is None:
            return CaptionQuestions((), NOTHING_THERE)
        if reply.text is None:
            return CaptionQuestions((), reply.failure)
        pairs = verify_candidates(read_candidates(reply.text), nodes, self.programs)
        return CaptionQuestions(tuple(sift_words(pairs, self.taboo)))


class PairVerifier:
    """A check of pairs, such as the authors' or edited ones, by their programs, without a model.

    Args:
        tuples: "graph" for our scene graphs, or a model that reads captions into tuples.
        parser: "embedded", or an installed spaCy pipeline; for our scene graphs.
        store: a file (or a ``Store``) that keeps scene graphs and models' answers across runs.
        seconds: of computing for one program.

    Raises:
        InputError: a name is unknown.
        ConfigError: a model's settings are invalid.
    """

    def __init__(
        self,
        tuples: str | Mapping[str, Any] | Model = "graph",
        *,
        parser: str = "embedded",
        store: str | PathLike[str] | Store | None = None,
        seconds: float = 2.0,
    ) -> None:
        self.tuples: TupleSource = tuple_source(tuples, parser, store_of(store))
        self.programs = Sandbox(seconds)

    @property
    def signature(self) -> str:
        """``prove-programs|tuples:...|...|sifting:3|version:...``."""
        return signature("prove-programs", {**self.tuples.fields, "sifting": SIFTING})

    def verify(
        self,
        questions: Sequence[str | None],
        answers: Sequence[str | None],
        programs: Sequence[str | None],
        captions: Sequence[str | None],
        graphs: Sequence[object] | None = None,
    ) -> list[QuestionPair | Failure]:
        """Run each program over its caption's graph, and two others, and compare with the answer.

        Args:
            questions: one per pair, like all lists.
            answers: the stated answers.
            programs: source of functions of the scene graph.
            captions: detailed true descriptions of images.
            graphs: scene graphs or tuples of the captions (``tuple_scenes.read_graph``); captions
                whose graph is None are parsed.

        Returns:
            Pairs with their programs' values, ``dropped`` if the answer is not verified; a failure
            if the caption has no graph.

        Raises:
            InputError: the lists differ in length.
        """
        columns = {"questions": questions, "answers": answers, "programs": programs}
        columns["captions"] = captions
        check_lists(**columns, **({} if graphs is None else {"graphs": graphs}))
        scenes = scenes_of(self.tuples, captions, graphs)
        cells = zip(questions, answers, programs, scenes, strict=True)
        return [self._verify(*each) for each in cells]

    def close(self) -> None:
        """End the process that runs programs."""
        self.programs.close()

    def _verify(
        self, question: object, answer: object, program: object, nodes: Nodes | Failure
    ) -> QuestionPair | Failure:
        if isinstance(nodes, Failure):
            return nodes.about("the caption")
        candidate = read_candidate({"question": question, "answer": answer, "program": program})
        # One pair per call: each has its own budget of processor time.
        [pair] = sift_words(verify_candidates([candidate], nodes, self.programs), frozenset())
        return pair
