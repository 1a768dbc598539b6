"""POSH: how truthful and how complete a description is against a reference (paper, section 3)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from os import PathLike
from typing import Any, NamedTuple

from posh_reward.errors import InputError, PoshError
from posh_reward.graph.coref import Coreferencer
from posh_reward.graph.reader import GRAPH_VERSION, MAX_CHARACTERS, Reader
from posh_reward.metrics.metric import check_lists, check_sizes, joined_references, signature
from posh_reward.metrics.posh.aggregate import (
    EQUAL,
    Weights,
    columns,
    figures,
    harmonic_mean,
    mean_score,
    weights_of,
    witness_figures,
)
from posh_reward.metrics.posh.examine import SUPPORTED, Examination, check_supported, examine
from posh_reward.metrics.posh.judges.judge import (
    Judge,
    Witness,
    base_judge,
    one_model,
    pace_of,
    stages,
    who_wakes,
)
from posh_reward.metrics.posh.judges.load_judge import check_asks_alike, load_judge, witness_of
from posh_reward.metrics.posh.judges.prompt_judge import PromptJudge
from posh_reward.metrics.posh.lockstep import Rewriter, patient_collector, run_together
from posh_reward.metrics.posh.presets import PRESET, check_preset
from posh_reward.metrics.posh.questions import ASKING_VERSION, PRESENT
from posh_reward.models.asker import READING_VERSION as REPLY_VERSION
from posh_reward.models.model import awake
from posh_reward.models.prompt_images import images_of
from posh_reward.process.fork_guard import at_work
from posh_reward.store import Store, store_of
from posh_reward.types import (
    Description,
    Failure,
    PromptImage,
    Scores,
    Usage,
)

logger = logging.getLogger(__name__)


class PairTask(NamedTuple):
    """One pair to be scored, as ``score`` received it; equal ones are judged once."""

    generation: str | None
    reference: str | None
    image: PromptImage | Failure | None
    joined: bool = False
    """Several references stand in ``reference``."""

    @property
    def hashable(self) -> bool:
        """False where a text is of another type, such as a list or NaN."""
        return isinstance(self.generation, str) and isinstance(self.reference, str)


class DescriptionPair(NamedTuple):
    """A pair that can be examined."""

    generation: Description
    reference: Description
    image: PromptImage | None


Reference = str | Sequence[str] | None


def pair_tasks(
    generations: Sequence[str | None],
    references: Sequence[Reference],
    images: Sequence[object] | None,
) -> list[PairTask]:
    """The pairs of a call; several references of one pair become one text."""
    prompt_images = [None] * len(generations) if images is None else images_of(images)
    tasks = []
    for generation, reference, image in zip(generations, references, prompt_images, strict=True):
        if isinstance(reference, list | tuple) and {str} == set(map(type, reference)):
            joined = len(reference) > 1
            tasks.append(PairTask(generation, joined_references(reference), image, joined))
        else:  # what is no text fails in the reader, with its reason
            tasks.append(PairTask(generation, reference, image))  # type: ignore[arg-type]
    return tasks


def description_pair(
    generation: Description | Failure, reference: Description | Failure, task: PairTask
) -> DescriptionPair | Failure:
    """The pair, or the reason why it cannot be examined."""
    for name, text in (("reference", reference), ("generation", generation)):
        if isinstance(text, Failure):
            return text.about(f"the {name}")
    if isinstance(task.image, Failure):
        return task.image
    assert isinstance(generation, Description)
    assert isinstance(reference, Description)
    if not reference.text:
        return Failure("text", "the reference is empty")
    return DescriptionPair(generation, reference, task.image)


class PoSh:
    """The metric. Loads what it needs on first use, and keeps it.

    Args:
        judge: a name ("embedded"), a settings file or a mapping (``load_judge``), or a
            ``Judge``. The embedded default needs no download; its scores are not POSH's
            published ones.
        parser: "embedded", or an installed spaCy pipeline (the paper: "en_core_web_trf").
        coref: a name ("rules", "none") or a ``Coreferencer``.
        preset: wording of the questions to LLM judges, and whether scene graphs are mended;
            see ``presets.PRESET``.
        weights: weights of entities, attributes and relations in the means; a mapping such
            as ``{"relation": 0.5}`` leaves the others at 1.
        witness: who answers about the image where the reference does not support an element
            (docs/witness.md): a name, a settings file or a mapping (``load_witness``), a
            ``Witness``, or "judge" for a judge that sees. None: nobody, as in the paper.
        supported: the reference's grade from which on the image is not asked.
        store: a file (or a ``Store``) that keeps scene graphs and language models' answers
            across runs and processes.
        max_characters: a longer text fails its pair.
        pairs_at_once: how many pairs share each call to the judge, and with a witness have their
            images in memory; bounds it.

    Raises:
        InputError: a name is unknown, a size is below 1, the judge that was passed in does
            not go with the preset or the store, or the witness takes no images.
        ConfigError: settings of the judge or the weights cannot be used.
    """

    def __init__(
        self,
        judge: str | Mapping[str, Any] | Judge = "embedded",
        parser: str = "embedded",
        coref: str | Coreferencer = "rules",
        preset: str = "released",
        *,
        weights: Weights | Mapping[str, float] = EQUAL,
        witness: str | Mapping[str, Any] | Witness | None = None,
        supported: float = SUPPORTED,
        store: str | PathLike[str] | Store | None = None,
        max_characters: int = MAX_CHARACTERS,
        pairs_at_once: int = 256,
    ) -> None:
        check_sizes(max_characters=max_characters, pairs_at_once=pairs_at_once)
        self.preset = check_preset(preset)
        mended = PRESET[preset].mended
        self.store = store_of(store)
        self.reader = Reader(
            parser, coref, mended=mended, max_characters=max_characters, store=self.store
        )
        self.judge: Judge = (
            load_judge(judge, preset, self.store) if isinstance(judge, str | Mapping) else judge
        )
        if not hasattr(self.judge, "grade"):
            raise InputError(f"judge is {judge!r}: give a name, a settings file or a Judge")
        base = base_judge(self.judge)
        self.witness = None if witness is None else witness_of(witness, base, preset, self.store)
        self._supported = check_supported(supported)
        prompt_judges = [
            each for each in (*stages(self.judge), self.witness) if isinstance(each, PromptJudge)
        ]
        self._asks_models = bool(prompt_judges)
        for each in prompt_judges:
            check_asks_alike(each, preset, self.store)
        self.weights = weights_of(weights)
        self._pairs_at_once = pairs_at_once
        self._rewriter = Rewriter(self.judge)

    def __repr__(self) -> str:
        """``PoSh(judge=embedded-..., parser=..., coref=..., preset=released)``."""
        parts = f"parser={self.reader.parser_name}, coref={self.reader.coref.name}"
        return f"PoSh(judge={self.judge.name}, {parts}, preset={self.preset})"

    name = "posh"
    """First word of signatures, and what names in logs begin with."""

    @property
    def signature(self) -> str:
        """``posh|preset:released|judge:...|parser:...|coref:...|rules:3.2|present:2|version:...``."""
        return self._signature(joined=False)

    def _signature(self, *, joined: bool) -> str:
        edition = PRESET[self.preset].edition
        fields = {
            "preset": self.preset,
            **({"wording": str(edition)} if edition > 1 else {}),
            "judge": self.judge.name,
            **({"replies": str(REPLY_VERSION)} if self._asks_models else {}),
            "parser": self.reader.parser_name,
            "coref": self.reader.coref.name,
            "rules": f"{GRAPH_VERSION}.{ASKING_VERSION}",
            "present": f"{PRESENT:g}",
        }
        if self.weights != EQUAL:
            fields["weights"] = ",".join(f"{weight:g}" for weight in astuple(self.weights))
        if self.witness is not None:
            fields |= {"witness": self.witness.name, "supported": f"{self._supported:g}"}
        if joined:
            fields["references"] = "joined"
        return signature(self.name, fields)

    @property
    def usage(self) -> Usage:
        """Questions, tokens and seconds of the judge and the witness together."""
        if self.witness is None or one_model(self.judge, self.witness):
            return self.judge.usage
        return self.judge.usage + self.witness.usage

    @property
    def wants_images(self) -> bool:
        """True with a witness: ``score`` then needs ``images``."""
        return self.witness is not None

    def figures(self, scores: Sequence[Scores]) -> dict[str, float]:
        """Figures of one call for a training log; see ``FIGURES`` and ``WITNESS``."""
        return figures(scores) | (witness_figures(scores) if self.witness is not None else {})

    def columns(self, scores: Sequence[Scores]) -> dict[str, list[float | None]]:
        """Figures of each completion for a training log; see ``COLUMNS``."""
        return columns(scores)

    def score(
        self,
        generations: Sequence[str | None],
        references: Sequence[Reference],
        images: Sequence[object] | None = None,
    ) -> list[Scores]:
        """Score each generation against its reference, in order.

        A pair that cannot be scored has ``None`` scores and a ``failure``; it never touches
        its neighbours. Equal pairs are judged once, with a witness once in each
        ``pairs_at_once``.

        Several references of one image (a list in place of a text) are joined into one text, each
        as a sentence: what any of them says supports the generation, and what any of them says is
        to be found in it. The pair's signature then has ``references:joined``.

        A text fails that is missing (None, NaN), not a string, too long or not parseable, an empty
        reference, and with a witness an image that is missing or cannot be read. An empty
        generation is scored as the release does: precision 1, since it makes no mistake. It has no
        elements (``count("precision")`` is 0), for which a reward gives it the worst.

        Args:
            generations: descriptions to be scored.
            references: what each is scored against, a text or a list of texts; as many as
                ``generations``.
            images: the image that each describes, in any form that ``models.prompt_images`` reads.
                Needed with a witness; without one they are not looked at.

        Raises:
            InputError: the lists differ in length, one is a bare string, or there is a witness and
                no ``images``.
            JudgeError: the judge or the witness cannot work at all.
            ForkError: this process was forked while another thread was scoring.
        """
        check_lists(generations=generations, references=references)
        if self.witness is None:
            return self._score_tasks(pair_tasks(generations, references, None))
        if images is None:
            raise InputError("this metric has a witness, which looks at images: pass images=...")
        check_lists(generations=generations, images=images)
        scores: list[Scores] = []
        for start in range(0, len(generations), self._pairs_at_once):  # images take memory
            batch = slice(start, start + self._pairs_at_once)
            scores += self._score_tasks(
                pair_tasks(generations[batch], references[batch], images[batch])
            )
        return scores

    def _score_tasks(self, tasks: list[PairTask]) -> list[Scores]:
        # Policies repeat themselves: equal pairs are one task. What is no string may have no hash
        # (a list), or not equal itself (NaN).
        distinct = list(dict.fromkeys(task for task in tasks if task.hashable))
        scores: dict[PairTask, Scores] = {}
        with patient_collector(), at_work():
            for start in range(0, len(distinct), self._pairs_at_once):
                batch = distinct[start : start + self._pairs_at_once]
                scores.update(zip(batch, self._score_batch(batch), strict=True))
        return [scores[task] if task.hashable else self._score_batch([task])[0] for task in tasks]

    def _score_batch(self, tasks: list[PairTask]) -> list[Scores]:
        """Scores of a batch; if scoring raises, it is halved until the pair at fault is alone."""
        try:
            return self._score_together(tasks)
        except (PoshError, MemoryError):
            raise
        except Exception as error:
            if len(tasks) > 1:
                middle = len(tasks) // 2
                return self._score_batch(tasks[:middle]) + self._score_batch(tasks[middle:])
            logger.exception("a pair could not be scored")
            why = Failure("error", f"scoring raised {type(error).__name__}: {error}")
            return [Scores.failed(why, self._signature(joined=tasks[0].joined))]

    def _score_together(self, tasks: list[PairTask]) -> list[Scores]:
        generations = self._read([task.generation for task in tasks])
        # References come back every epoch, generations never: only the former are kept.
        references = self._read([task.reference for task in tasks], keep=True)
        pairs = list(map(description_pair, generations, references, tasks))
        examinations = self._examine([pair for pair in pairs if not isinstance(pair, Failure)])
        signatures = {joined: self._signature(joined=joined) for joined in (False, True)}
        return [
            Scores.failed(pair, signatures[task.joined])
            if isinstance(pair, Failure)
            else self._scores(pair, *next(examinations), signatures[task.joined])
            for pair, task in zip(pairs, tasks, strict=True)
        ]

    def _read(
        self, texts: Sequence[str | None], *, keep: bool = False
    ) -> list[Description | Failure]:
        return [
            replace(read, original=text)
            if isinstance(read, Description) and read.text != text
            else read
            for read, text in zip(self.reader.read(texts, keep=keep), texts, strict=True)
        ]

    def _examine(self, pairs: list[DescriptionPair]) -> Iterator[tuple[Examination, Examination]]:
        """(precision, recall) of each pair; the judge is awake only meanwhile."""
        if not pairs:
            return iter(())
        mended = PRESET[self.preset].mended
        with awake(*who_wakes(self.judge, self.witness)):
            pace = pace_of(self.judge)
            steps = [
                examination
                for text, reference, image in pairs
                for examination in (
                    examine(text, reference, "precision", pace=pace, mended=mended,
                            image=image, supported=self._supported),
                    examine(reference, text, "recall", pace=pace, mended=mended),
                )
            ]  # fmt: skip
            # Both directions of all pairs run at once: precision and recall share calls, if not
            # questions.
            results = run_together(steps, self.judge, self._rewriter, self.witness)
        return zip(results[::2], results[1::2], strict=True)

    def _scores(
        self, pair: DescriptionPair, precision: Examination, recall: Examination, signature: str
    ) -> Scores:
        mistakes = mean_score(precision.elements, self.weights)
        omissions = mean_score(recall.elements, self.weights)
        return Scores(
            precision=mistakes,
            recall=omissions,
            f1=harmonic_mean(mistakes, omissions),
            signature=signature,
            elements=precision.elements + recall.elements,
            failure=precision.failure or recall.failure,
            unparsed=precision.unparsed + recall.unparsed,
            generation=pair.generation.text,
            reference=pair.reference.text,
        )
