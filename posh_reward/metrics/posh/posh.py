"""POSH: how truthful and how complete a description is against a reference (paper, section 3)."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import astuple, replace
from itertools import islice
from os import PathLike
from typing import Any, NamedTuple, TypeVar

from posh_reward.errors import InputError, JudgeError, PoshError
from posh_reward.graph.coref import Coreferencer, load_coref
from posh_reward.graph.reader import GRAPH_VERSION, MAX_CHARACTERS, Reader
from posh_reward.lexicon.function_words import LIGHT
from posh_reward.metrics.metric import (
    as_lists,
    check_lengths,
    check_sizes,
    joined_references,
    signature,
)
from posh_reward.metrics.posh import aggregate
from posh_reward.metrics.posh.examine import SUPPORTED, Examination, Steps, examine
from posh_reward.metrics.posh.judges.embedded import EmbeddedJudge
from posh_reward.metrics.posh.judges.embedded.embedded_judge import VERSION as EMBEDDED
from posh_reward.metrics.posh.judges.judge import (
    Judge,
    PromptJudge,
    Witness,
    base_judge,
    check_prompts_match,
    load_judge,
    stages,
    witness_of,
)
from posh_reward.metrics.posh.pooled_reader import PooledReader, name_there
from posh_reward.metrics.posh.questions import ASKING_VERSION, PRESENT, PRESET, check_preset
from posh_reward.metrics.posh.search import Answers, Ask, checked_grade, pace_of
from posh_reward.metrics.posh.workers import WorkerPair, Workers
from posh_reward.models.asker import READING_VERSION as REPLY_VERSION
from posh_reward.models.model import awake, checked_reply
from posh_reward.models.prompt_images import images_of
from posh_reward.process.locks import at_work
from posh_reward.settings import brief
from posh_reward.store import Store, store_of
from posh_reward.text_values import read_text, read_texts
from posh_reward.types import (
    HIGHEST_GRADE,
    LOWEST_GRADE,
    Description,
    Failure,
    Phrase,
    PromptImage,
    Question,
    Reply,
    Scores,
    Usage,
    Verdict,
)

logger = logging.getLogger(__name__)


ENOUGH = 10  # rewrites before judging whether they keep to their phrases
MANY = 0.1  # share of rewrites that share no word with their phrase, above which it is said
OBJECTS_PER_COLLECTION = 50_000
"""New objects between two collections of garbage; Python's own is 700 to 2,000. With 20,000, calls
of 200 pairs take 7 % more of our own time; with 100,000, no less."""


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Collect cyclic garbage less often; a collector that is off or more patient is left alone.

    A batch makes hundreds of thousands of records that live until its end, and hardly any cycles.
    Walking them takes a quarter of the time (``python -m tools.bench.text speed``).
    """
    first, *others = gc.get_threshold()
    if not 0 < first < OBJECTS_PER_COLLECTION:
        yield
        return
    gc.set_threshold(OBJECTS_PER_COLLECTION, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)


A = TypeVar("A", Reply, Verdict)


class Rewriter:
    """A judge's rewrites, cached by text, since they do not depend on the descriptions.

    Beyond ``capacity`` phrases the least recently used one is dropped, so that phrases of
    references outlive those of many steps' generations.
    """

    def __init__(self, judge: Judge, capacity: int = 100_000) -> None:
        self._judge = judge
        self._capacity = capacity
        self._cache: dict[Phrase, Reply] = {}
        self._rewritten = self._unrelated = 0
        self._warned = False

    def __call__(self, phrases: Sequence[Phrase]) -> list[Reply]:
        """One rewrite per phrase, in order; failures are not cached."""
        distinct = dict.fromkeys(phrases)
        new = [phrase for phrase in distinct if phrase not in self._cache]
        replies = map(checked_reply, self._judge.rewrite(new)) if new else ()
        fresh = dict(zip(new, replies, strict=True))
        self._count(fresh)
        # A dict keeps the order of insertion. Used phrases are taken out and put back at the end,
        # so the first key is the least recently used.
        answers = {p: fresh[p] if p in fresh else self._cache.pop(p) for p in distinct}
        self._cache.update((p, answer) for p, answer in answers.items() if answer.text is not None)
        while len(self._cache) > self._capacity:
            del self._cache[next(iter(self._cache))]
        return [answers[phrase] for phrase in phrases]

    def _count(self, fresh: Mapping[Phrase, Reply]) -> None:
        """Count rewrites about something else than their phrase; warn once if they are many."""
        about_else = [
            (phrase, reply.text)
            for phrase, reply in fresh.items()
            if reply.text is not None and shares_no_word(phrase.text, reply.text)
        ]
        self._rewritten += len(fresh)
        self._unrelated += len(about_else)
        base_judge(self._judge).usage.unrelated_rewrites += len(about_else)
        many = self._rewritten >= ENOUGH and self._unrelated > MANY * self._rewritten
        if about_else and many and not self._warned:
            self._warned = True
            phrase, text = about_else[0]
            logger.warning(
                "%s: %d of %d rewrites share no word with their phrase (%r became %s), and are "
                "asked about all the same: choose a larger model",
                *(self._judge.name, self._unrelated, self._rewritten, phrase.text, brief(text)),
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": {}}


def shares_no_word(phrase: str, rewrite: str) -> bool:
    """Return True if no content word of a phrase is in its rewrite in any form."""
    words = [word for word in aggregate.WORD.findall(phrase) if word.lower() not in LIGHT]
    return bool(words) and all(aggregate.lacks(rewrite, word) for word in words)


def run_together(
    examinations: Sequence[Steps],
    judge: Judge,
    rewriter: Callable[[Sequence[Phrase]], list[Reply]],
    witness: Witness | None = None,
) -> list[Examination]:
    """Run examinations side by side, with one call per turn; results in order."""
    results: dict[int, Examination] = {}
    waiting: dict[int, Ask] = {}

    def advance(index: int, answers: Answers | None) -> None:
        steps = examinations[index]
        try:
            waiting[index] = next(steps) if answers is None else steps.send(answers)
        except StopIteration as end:
            results[index] = end.value

    for index in range(len(examinations)):
        advance(index, None)
    while waiting:
        # Answer only the earliest turn. An examination that is ahead waits, so that each pass is
        # one call for the whole batch instead of one call per pair.
        turn = min(ask.turn for ask in waiting.values())
        now = [index for index, ask in waiting.items() if ask.turn == turn]
        asks = {index: waiting.pop(index).items for index in now}
        for index, answers in _answer(asks, judge, rewriter, witness).items():
            advance(index, answers)
    return [results[index] for index in range(len(examinations))]


def _answer(
    asks: Mapping[int, list[Phrase] | list[Question]],
    judge: Judge,
    rewriter: Callable[[Sequence[Phrase]], list[Reply]],
    witness: Witness | None,
) -> Mapping[int, Answers]:
    """Answer one turn: all rewrites, all questions about texts, or all questions about images."""
    first = next(iter(asks.values()))[0]
    if isinstance(first, Phrase):
        return _answer_in_one_call(asks, rewriter, checked_reply, Reply)
    answerer = judge if first.image is None else witness
    assert answerer is not None, "only a witness is asked about images"
    return _answer_in_one_call(asks, answerer.grade, checked_grade, Verdict)


def _answer_in_one_call(
    asks: Mapping[int, Sequence[Any]],
    answer: Callable[[list[Any]], Sequence[object]],
    check: Callable[[object], A],
    record: Callable[[None, Failure], A],
) -> dict[int, list[A]]:
    """Answer all questions with one call; each examination gets its own answers.

    A judge should not raise. If one does, each examination is answered alone, so that only the
    one at fault fails.
    """
    try:
        # One flat list for the whole batch; each examination gets a slice as long as its ask.
        answers = list(map(check, answer([item for ask in asks.values() for item in ask])))
    except (PoshError, MemoryError):  # these would recur for each examination
        raise
    except Exception as error:
        if len(asks) > 1:
            alone = (
                _answer_in_one_call({i: ask}, answer, check, record) for i, ask in asks.items()
            )
            return {i: each for batch in alone for i, each in batch.items()}
        failure = Failure("error", f"the judge raised {type(error).__name__}: {error}")
        return {i: [record(None, failure) for _ in ask] for i, ask in asks.items()}
    total = sum(map(len, asks.values()))
    if len(answers) != total:
        raise JudgeError(f"the judge gave {len(answers)} answers to {total} questions")
    remaining = iter(answers)
    return {index: list(islice(remaining, len(ask))) for index, ask in asks.items()}


class PairTask(NamedTuple):
    """One pair to score; equal tasks are scored once."""

    generation: str | Failure
    reference: str | Failure
    image: PromptImage | Failure | None
    joined: bool = False  # ``reference`` consists of several


class DescriptionPair(NamedTuple):
    """A pair ready to be examined."""

    generation: Description
    reference: Description
    image: PromptImage | None


Reference = str | Sequence[str] | None


def pair_tasks(
    generations: Sequence[object], references: Sequence[object], images: Sequence[object] | None
) -> list[PairTask]:
    """Pair the arguments of a call; several references of one pair become one text."""
    prompt_images = [None] * len(generations) if images is None else images_of(images)
    tasks = []
    for generation, reference, image in zip(generations, references, prompt_images, strict=True):
        texts = read_texts(reference)
        joined = not isinstance(texts, Failure) and len(texts) > 1
        whole = texts if isinstance(texts, Failure) else joined_references(texts)
        tasks.append(PairTask(read_text(generation), whole, image, joined))
    return tasks


def description_pair(
    generation: Description | Failure, reference: Description | Failure, task: PairTask
) -> DescriptionPair | Failure:
    """Return the pair, or the reason why it cannot be examined."""
    if isinstance(reference, Failure):
        return reference.about("the reference")
    if isinstance(generation, Failure):
        return generation.about("the generation")
    if isinstance(task.image, Failure):
        return task.image
    if not reference.text:
        return Failure("text", "the reference is empty")
    return DescriptionPair(generation, reference, task.image)


class PoSh:
    """The metric. Its parts are loaded on first use and kept.

    Args:
        judge: a name ("embedded"), a settings file or a mapping (``load_judge``), or a
            ``Judge``. The embedded default needs no download; its scores are not POSH's
            published ones.
        parser: "embedded", or an installed spaCy pipeline (the paper: "en_core_web_trf").
        coref: a name ("rules", "none") or a ``Coreferencer``.
        preset: wording of the questions to LLM judges; see ``questions.PRESET``.
        parser_device: "auto", the GPU for a transformer pipeline if it works there; or "cpu".
        weights: weights of entities, attributes and relations in the means; a mapping such
            as ``{"relation": 0.5}`` leaves the others at 1.
        witness: looks at the image where the reference does not support an element
            (docs/witness.md): a name, a settings file or a mapping (``load_witness``), a
            ``Witness``, or "judge" if the judge takes images. None: no witness, as in the paper.
        supported: grade of the reference at which the image is no longer consulted.
        store: a file (or a ``Store``) that keeps scene graphs and language models' answers
            across runs and processes.
        max_characters: longer texts fail their pair.
        pairs_at_once: pairs that share each call to the judge. Bounds memory; with a witness
            their images are held, too.
        processes: worker processes that read texts, and judge by the embedded judge; scores are
            those of one. None: as many as this process has cores and memory for, once they are
            worth starting; 1: none.

    Raises:
        InputError: a name is unknown, a number is out of range, the judge does not match the
            preset or the store, or the witness takes no images.
        ConfigError: settings of the judge or the weights cannot be used.
    """

    def __init__(
        self,
        judge: str | Mapping[str, Any] | Judge = "embedded",
        parser: str = "embedded",
        coref: str | Coreferencer = "rules",
        preset: str = "released",
        *,
        parser_device: str = "auto",
        weights: aggregate.Weights | Mapping[str, float] = aggregate.EQUAL,
        witness: str | Mapping[str, Any] | Witness | None = None,
        supported: float = SUPPORTED,
        store: str | PathLike[str] | Store | None = None,
        max_characters: int = MAX_CHARACTERS,
        pairs_at_once: int = 256,
        processes: int | None = None,
    ) -> None:
        check_sizes(max_characters=max_characters, pairs_at_once=pairs_at_once)
        if processes is not None:
            check_sizes(processes=processes)
        if not LOWEST_GRADE < supported <= HIGHEST_GRADE:
            raise InputError(f"supported is {supported}: use a grade above 1, up to 5")
        self.preset = check_preset(preset)
        self.store = store_of(store)
        self.judge: Judge = (
            load_judge(judge, preset, self.store) if isinstance(judge, str | Mapping) else judge
        )
        if not hasattr(self.judge, "grade"):
            raise InputError(f"judge is {judge!r}: pass a name, a settings file or a Judge")
        base = base_judge(self.judge)
        self.witness = None if witness is None else witness_of(witness, base, preset, self.store)
        self._supported = supported
        judges = (*stages(self.judge), self.witness)
        prompt_judges = [each for each in judges if isinstance(each, PromptJudge)]
        for each in prompt_judges:
            check_prompts_match(each, preset, self.store)
        self._uses_models = bool(prompt_judges)
        self.weights = aggregate.weights_of(weights)
        resolver = load_coref(coref) if isinstance(coref, str) else coref
        workers = Workers(processes, {
            "parser": parser, "coref": name_there(resolver) or "none", "preset": preset,
            "parser_device": "cpu", "weights": astuple(self.weights),
            "max_characters": int(max_characters),
        })  # fmt: skip
        self.reader: Reader = PooledReader(
            workers, parser, resolver, parser_device=parser_device,
            max_characters=max_characters, store=self.store,
        )  # fmt: skip
        self._pairs_at_once = pairs_at_once
        self._rewriter = Rewriter(self.judge)

    def __repr__(self) -> str:
        parts = f"parser={self.reader.parser}, coref={self.reader.coref.name}"
        return f"PoSh(judge={self.judge.name}, {parts}, preset={self.preset})"

    name = "posh"
    """First word of signatures, and prefix of names in logs."""

    @property
    def signature(self) -> str:
        """``posh|preset:released|judge:...|parser:...|coref:...|rules:4.2|present:2|version:...``."""
        return self._signature(joined=False)

    def _signature(self, *, joined: bool) -> str:
        edition = PRESET[self.preset].edition
        fields = {
            "preset": self.preset,
            **({"wording": str(edition)} if edition > 1 else {}),
            "judge": self.judge.name,
            **({"replies": str(REPLY_VERSION)} if self._uses_models else {}),
            "parser": self.reader.parser_name,
            "coref": self.reader.coref.name,
            "rules": f"{GRAPH_VERSION}.{ASKING_VERSION}",
            "present": f"{PRESENT:g}",
        }
        if self.weights != aggregate.EQUAL:
            fields["weights"] = ",".join(f"{weight:g}" for weight in astuple(self.weights))
        if self.witness is not None:
            fields |= {"witness": self.witness.name, "supported": f"{self._supported:g}"}
        if joined:
            fields["references"] = "joined"
        return signature(self.name, fields)

    def with_each_judge(self) -> list[PoSh]:
        """Return this metric once for each judge of a cascade, which then answers everything."""
        metrics = [copy(self) for _ in stages(self.judge)]
        for metric, judge in zip(metrics, stages(self.judge), strict=True):
            metric.judge, metric._rewriter = judge, Rewriter(judge)
        return metrics

    @property
    def asks_models(self) -> bool:
        """True if a language model answers some of the questions."""
        return self._uses_models

    @property
    def usage(self) -> Usage:
        first, *second = self._awake()
        return first.usage + second[0].usage if second else first.usage

    def _awake(self) -> list[Witness]:
        """The judge and the witness; a model that is both, with one total of usage, once."""
        if self.witness is None or base_judge(self.judge).usage is self.witness.usage:
            return [self.judge]
        return [self.judge, self.witness]

    @property
    def wants_images(self) -> bool:
        """True with a witness, for which ``score`` needs ``images``."""
        return self.witness is not None

    def figures(self, scores: Sequence[Scores]) -> dict[str, float]:
        seen = {} if self.witness is None else aggregate.witness_figures(scores)
        return aggregate.figures(scores) | seen

    def columns(self, scores: Sequence[Scores]) -> dict[str, list[float | None]]:
        return aggregate.columns(scores)

    def score(
        self,
        generations: Sequence[str | None],
        references: Sequence[Reference],
        images: Sequence[object] | None = None,
    ) -> list[Scores]:
        """Score each generation against its reference, in order.

        A pair that cannot be scored has ``None`` scores and a ``failure``, and does not affect
        the others. Equal pairs are judged once (with a witness, once per ``pairs_at_once``).

        Several references of one image (a list in place of a text) are joined into one text, each
        as a sentence: any of them may support the generation, and the generation should contain
        what each of them says. The pair's signature then contains ``references:joined``.

        A pair fails if a text is missing (None, NaN), not a text (``text_values``), too long or
        unparseable, if the reference is empty, or if a witness cannot read its image. An empty
        generation is scored as in the release: precision 1, since it makes no mistakes. It has no
        elements (``generation_elements`` is 0), so rewards pay it the minimum.

        Args:
            generations: descriptions to score.
            references: for each generation, a text or a list of texts; see ``text_values``.
            images: the described images, in any form that ``models.prompt_images`` reads.
                Required with a witness, ignored without.

        Raises:
            InputError: the lists differ in length, one is a bare string or a mapping, or a witness
                lacks ``images``.
            JudgeError: the judge or the witness cannot work at all.
            ForkError: this process was forked while another thread was scoring.
        """
        texts, truths = as_lists(generations=generations, references=references)
        if self.witness is None:
            return self.score_tasks(pair_tasks(texts, truths, None))
        if images is None:
            raise InputError("this metric has a witness, which looks at images: pass images=...")
        check_lengths(generations=texts, images=images)
        scores: list[Scores] = []
        for start in range(0, len(texts), self._pairs_at_once):  # bounds images in memory
            batch = slice(start, start + self._pairs_at_once)
            scores += self.score_tasks(pair_tasks(texts[batch], truths[batch], images[batch]))
        return scores

    @property
    def processes(self) -> int:
        """Number of worker processes; 1: none."""
        return self.reader.workers.processes if isinstance(self.reader, PooledReader) else 1

    def start(self) -> None:
        """Start the worker processes, if there are to be any, before the first call needs them."""
        if isinstance(self.reader, PooledReader):
            self.reader.start_workers()

    def score_tasks(self, tasks: Sequence[PairTask]) -> list[Scores]:
        """Score pairs, equal ones once."""
        # Policies repeat themselves, so score equal pairs once.
        distinct = list(dict.fromkeys(tasks))
        scores: dict[PairTask, Scores] = {}
        with fewer_collections(), at_work():
            for start in range(0, len(distinct), self._pairs_at_once):
                batch = distinct[start : start + self._pairs_at_once]
                scores.update(zip(batch, self._score_batch(batch), strict=True))
        return [scores[task] for task in tasks]

    def _score_batch(self, tasks: list[PairTask]) -> list[Scores]:
        """Score a batch; if that raises, halve it until the pair at fault is alone."""
        try:
            return self._score_together(tasks)
        except (PoshError, MemoryError):
            raise
        except Exception as error:
            if len(tasks) > 1:
                middle = len(tasks) // 2
                return self._score_batch(tasks[:middle]) + self._score_batch(tasks[middle:])
            logger.exception("a pair could not be scored")
            failure = Failure("error", f"scoring raised {type(error).__name__}: {error}")
            return [Scores.failed(failure, self._signature(joined=tasks[0].joined))]

    def _score_together(self, tasks: list[PairTask]) -> list[Scores]:
        scores = self._score_in_workers(tasks)
        left = [task for task in tasks if task not in scores]
        scores.update(zip(left, self._score_here(left) if left else (), strict=True))
        return [scores[task] for task in tasks]

    def _score_in_workers(self, tasks: list[PairTask]) -> dict[PairTask, Scores]:
        """Score those pairs that the workers take: none unless the judge is the embedded one."""
        reader = self.reader
        if not (self._judged_by_workers and isinstance(reader, PooledReader)):
            return {}
        texts = [t for t in tasks if reader.can_read(t.generation) and reader.can_read(t.reference)]
        if len(texts) < 2 or not reader.shares(2 * len(texts), self.signature):
            return {}
        rows = reader.rows([str(task.reference) for task in texts])
        pairs = [
            WorkerPair(str(t.generation), str(t.reference), t.joined, rows.get(str(t.reference)))
            for t in texts
        ]
        found = zip(texts, reader.workers.score(pairs, self.judge.usage), strict=True)
        return {
            task: Scores.failed(each.about("the pair"), self._signature(joined=task.joined))
            if isinstance(each, Failure)
            else each
            for task, each in found
            if each is not None
        }

    @property
    def _judged_by_workers(self) -> bool:
        """True if workers can do all of a pair: its judge and its resolver are those they have."""
        return (
            type(self.judge) is EmbeddedJudge
            and self.judge.name == EMBEDDED  # without an encoder
            and self.witness is None
            and name_there(self.reader.coref) is not None
        )

    def _score_here(self, tasks: list[PairTask]) -> list[Scores]:
        generations = self._read([task.generation for task in tasks])
        # Keep the references' graphs: they recur every epoch, generations hardly ever.
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
        self, texts: Sequence[str | Failure], *, keep: bool = False
    ) -> list[Description | Failure]:
        return [
            replace(read, original=text)
            if isinstance(read, Description) and isinstance(text, str) and read.text != text
            else read
            for read, text in zip(self.reader.read(texts, keep=keep), texts, strict=True)
        ]

    def _examine(self, pairs: list[DescriptionPair]) -> Iterator[tuple[Examination, Examination]]:
        """Return (precision, recall) of each pair; the judge is awake only during the call."""
        if not pairs:
            return iter(())
        with awake(*self._awake()):
            pace = pace_of(self.judge)
            steps = [
                examination
                for text, reference, image in pairs
                for examination in (
                    examine(text, reference, "precision", pace=pace,
                            image=image, supported=self._supported),
                    examine(reference, text, "recall", pace=pace),
                )
            ]  # fmt: skip
            # Both directions of all pairs run side by side, so that they share the judge's calls.
            results = run_together(steps, self.judge, self._rewriter, self.witness)
        return zip(results[::2], results[1::2], strict=True)

    def _scores(
        self, pair: DescriptionPair, precision: Examination, recall: Examination, signature: str
    ) -> Scores:
        supported = aggregate.mean_score(precision.elements, self.weights)
        covered = aggregate.mean_score(recall.elements, self.weights)
        return Scores(
            precision=supported,
            recall=covered,
            f1=aggregate.harmonic_mean(supported, covered),
            signature=signature,
            elements=precision.elements + recall.elements,
            failure=precision.failure or recall.failure,
            unparsed=precision.unparsed + recall.unparsed,
            doubtful_share=(precision.doubtful + recall.doubtful)
            / max(precision.replies + recall.replies, 1),
            generation=pair.generation.text,
            reference=pair.reference.text,
        )
