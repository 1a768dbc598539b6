"""POSH: how truthful and how complete a description is against a reference (paper, section 3)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import astuple, replace
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, Any

from posh_reward.errors import InputError, JudgeError, PoshError
from posh_reward.graph.coreference import Coreferencer, load_coref
from posh_reward.graph.reader import GRAPH_VERSION, MAX_CHARACTERS, Reader
from posh_reward.metrics.metric import (
    as_lists,
    build_signature,
    check_lengths,
    check_sizes,
)
from posh_reward.models.asker import READING_VERSION as REPLY_VERSION
from posh_reward.models.model import keep_awake
from posh_reward.posh import means
from posh_reward.posh.batch import fewer_collections, run_batched
from posh_reward.posh.examine import MIN_SUPPORTED_GRADE, Examination, Steps, examine
from posh_reward.posh.judge import (
    SENTENCE_WORDING,
    Answerer,
    Judge,
    PromptJudge,
    SentenceReader,
    Witness,
    find_base_judge,
    list_stages,
)
from posh_reward.posh.load_judge import check_prompts_match, load_judge, resolve_witness
from posh_reward.posh.load_reader import resolve_reader
from posh_reward.posh.names import ASKING_VERSION, MIN_PRESENT_GRADE
from posh_reward.posh.pairs import (
    DescriptionPair,
    PairTask,
    list_usable,
    make_tasks,
    pair_descriptions,
)
from posh_reward.posh.rewriter import Rewriter
from posh_reward.posh.search import get_pace
from posh_reward.posh.sentences import check_sentence
from posh_reward.posh.wording import PRESET, check_preset
from posh_reward.process.locks import at_work
from posh_reward.store import Store, open_store
from posh_reward.types import (
    HIGHEST_GRADE,
    LOWEST_GRADE,
    Description,
    Failure,
    Scores,
    Sentence,
    Usage,
)

if TYPE_CHECKING:
    from posh_reward.posh.pooled_reader import PooledReader

logger = logging.getLogger(__name__)


Reference = str | Sequence[str] | None


class PoSh:
    """The metric. Its parts are loaded on first use and kept.

    Args:
        judge: a name ("embedded"), a settings file or a mapping (``load_judge``), or a
            ``Judge``. The embedded default needs no download; its scores are not POSH's
            published ones.
        parser: "embedded", or an installed spaCy pipeline (the paper: "en_core_web_trf").
        coref: a name ("rules", "none") or a ``Coreferencer``.
        preset: wording of the questions to LLM judges; see ``wording.PRESET``.
        parser_device: "auto", the GPU for a transformer pipeline if it works there; or "cpu".
        reader: reads each sentence of a generation against its reference as a whole
            (docs/sentences.md). "judge"; "embedded"; an NLI cross-encoder, a language model
            (``load_reader``), or a ``SentenceReader``. None: only elements are judged, as in
            the paper.
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
        reader: str | Mapping[str, Any] | SentenceReader | None = None,
        weights: means.Weights | Mapping[str, float] = means.EQUAL_WEIGHTS,
        witness: str | Mapping[str, Any] | Witness | None = None,
        supported: float = MIN_SUPPORTED_GRADE,
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
        self.store = open_store(store)
        if isinstance(judge, str | Mapping):
            judge = load_judge(judge, preset, self.store)
        self.judge: Judge = judge
        if not hasattr(self.judge, "grade"):
            raise InputError(f"judge is {judge!r}: pass a name, a settings file or a Judge")
        base = find_base_judge(self.judge)
        self.witness: Witness | None = None
        if witness is not None:
            self.witness = resolve_witness(witness, base, preset, self.store)
        self._supported = supported
        self.sentence_reader: SentenceReader | None = None
        self._judge_reads = reader == "judge"  # the judge is the reader, too
        if reader is not None:
            self.sentence_reader = resolve_reader(reader, base, preset, self.store)
        judges = (*list_stages(self.judge), self.witness, self.sentence_reader)
        prompters = [each for each in judges if isinstance(each, PromptJudge)]
        for each in prompters:
            check_prompts_match(each, preset, self.store)
        self._uses_models = bool(prompters)
        self.weights = means.read_weights(weights)
        resolver = load_coref(coref) if isinstance(coref, str) else coref
        reading: dict[str, Any] = {
            "parser_device": parser_device, "max_characters": max_characters, "store": self.store,
        }  # fmt: skip
        self._pool: PooledReader | None = None
        if processes != 1:  # one process alone needs nothing of the others
            from posh_reward.posh.pooled_reader import make_pooled_reader

            shared = {"preset": preset, "weights": astuple(self.weights)}
            if self._judge_reads:
                shared["reader"] = "judge"
            self._pool = make_pooled_reader(processes, shared, parser, resolver, **reading)
        self.graph_reader: Reader = self._pool or Reader(parser, resolver, **reading)
        self._pairs_at_once = pairs_at_once
        self._rewriter = Rewriter(self.judge)

    def __repr__(self) -> str:
        parts = f"parser={self.graph_reader.parser}, coref={self.graph_reader.coref.name}"
        return f"PoSh(judge={self.judge.name}, {parts}, preset={self.preset})"

    name = "posh"
    """First word of signatures, and prefix of names in logs."""

    @property
    def signature(self) -> str:
        """``posh|preset:released|judge:...|parser:...|coref:...|rules:...|present:2|version:...``."""
        return self._build_signature(joined=False)

    def _build_signature(self, *, joined: bool) -> str:
        edition = PRESET[self.preset].edition
        fields = {"preset": self.preset}
        if edition > 1:
            fields["wording"] = str(edition)
        fields["judge"] = self.judge.name
        if self._uses_models:
            fields["replies"] = str(REPLY_VERSION)
        fields |= {
            "parser": self.graph_reader.parser_name,
            "coref": self.graph_reader.coref.name,
            "rules": f"{GRAPH_VERSION}.{ASKING_VERSION}",
            "present": f"{MIN_PRESENT_GRADE:g}",
        }
        if self.weights != means.EQUAL_WEIGHTS:
            fields["weights"] = ",".join(f"{weight:g}" for weight in astuple(self.weights))
        if self.sentence_reader is not None:
            fields["reader"] = self.sentence_reader.name
            if isinstance(self.sentence_reader, PromptJudge):
                fields["sentences"] = SENTENCE_WORDING
        if self.witness is not None:
            fields |= {"witness": self.witness.name, "supported": f"{self._supported:g}"}
        if joined:
            fields["references"] = "joined"
        return build_signature(self.name, fields)

    def with_each_judge(self) -> list[PoSh]:
        """Return this metric once for each judge of a cascade, which then answers everything.

        Without the reader of sentences, which would hide what a judge cannot do.
        """
        metrics: list[PoSh] = []
        for judge in list_stages(self.judge):
            metric = copy(self)
            metric.judge, metric._rewriter = judge, Rewriter(judge)
            metric.sentence_reader = None
            metric._pool = None  # the workers score with the whole metric
            metrics.append(metric)
        return metrics

    @property
    def asks_models(self) -> bool:
        """True if a language model answers some of the questions."""
        return self._uses_models

    @property
    def usage(self) -> Usage:
        first, *others = self._list_answerers()
        total = first.usage
        for other in others:
            total = total + other.usage
        return total

    def _list_answerers(self) -> list[Answerer]:
        """List judge, witness and reader; a model that is several, with one usage, comes once."""
        answerers: list[Answerer] = [self.judge]
        known = [find_base_judge(self.judge).usage]
        for each in (self.witness, self.sentence_reader):
            if each is not None and not any(each.usage is usage for usage in known):
                answerers.append(each)
                known.append(each.usage)
        return answerers

    @property
    def wants_images(self) -> bool:
        """True with a witness, for which ``score`` needs ``images``."""
        return self.witness is not None

    @property
    def reads_sentences(self) -> bool:
        """True with a reader of sentences."""
        return self.sentence_reader is not None

    def figures(self, scores: Sequence[Scores]) -> dict[str, float]:
        figures = means.figures(scores)
        if self.sentence_reader is not None:
            figures |= means.sentence_figures(scores)
        if self.witness is not None:
            figures |= means.witness_figures(scores)
        return figures

    def columns(self, scores: Sequence[Scores]) -> dict[str, list[float | None]]:
        return means.columns(scores)

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
            return self.score_tasks(make_tasks(texts, truths, None))
        if images is None:
            raise InputError("this metric has a witness, which looks at images: pass images=...")
        check_lengths(generations=texts, images=images)
        scores: list[Scores] = []
        for start in range(0, len(texts), self._pairs_at_once):  # bounds images in memory
            batch = slice(start, start + self._pairs_at_once)
            scores += self.score_tasks(make_tasks(texts[batch], truths[batch], images[batch]))
        return scores

    @property
    def processes(self) -> int:
        """Number of worker processes; 1: none."""
        return 1 if self._pool is None else self._pool.workers.processes

    def start(self) -> None:
        """Start the worker processes, if there are to be any, before the first call needs them."""
        if self._pool is not None:
            self._pool.start_workers()

    def score_tasks(self, tasks: Sequence[PairTask]) -> list[Scores]:
        """Score pairs, equal ones once, since policies repeat themselves."""
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
            return [Scores.failed(failure, self._build_signature(joined=tasks[0].joined))]

    def _score_together(self, tasks: list[PairTask]) -> list[Scores]:
        scores = self._score_in_workers(tasks)
        left = [task for task in tasks if task not in scores]
        if left:
            scores.update(zip(left, self._score_here(left), strict=True))
        return [scores[task] for task in tasks]

    def _score_in_workers(self, tasks: list[PairTask]) -> dict[PairTask, Scores]:
        """Score those pairs that the workers take: none unless the judge is the embedded one."""
        pool = self._pool
        if pool is None or not self._judged_by_workers:
            return {}
        readable = [t for t in tasks if pool.can_read(t.generation) and pool.can_read(t.reference)]
        if len(readable) < 2 or not pool.should_share(2 * len(readable), self.signature):
            return {}
        pairs = [(str(task.generation), str(task.reference), task.joined) for task in readable]
        scores: dict[PairTask, Scores] = {}
        found = pool.score_pairs(pairs, self.judge.usage)
        for task, each in zip(readable, found, strict=True):
            if isinstance(each, Failure):
                signature = self._build_signature(joined=task.joined)
                scores[task] = Scores.failed(each.about("the pair"), signature)
            elif each is not None:
                scores[task] = each
        return scores

    @property
    def _judged_by_workers(self) -> bool:
        """True if workers can do all of a pair: its judge and its resolver are those they have."""
        if self._pool is None or self.witness is not None:
            return False
        if self.sentence_reader is not None and not self._judge_reads:
            return False
        return self._pool.workers_resolve and bool(getattr(self.judge, "works_in_processes", False))

    def _score_here(self, tasks: list[PairTask]) -> list[Scores]:
        generations = self._read_texts([task.generation for task in tasks])
        # Keep the references' graphs: they recur every epoch, generations hardly ever.
        references = self._read_texts([task.reference for task in tasks], keep=True)
        pairs = list(map(pair_descriptions, generations, references, tasks))
        if any(isinstance(pair, DescriptionPair) for pair in pairs):
            # Once for all questions: a model that sleeps between calls may take seconds to wake.
            with keep_awake(*self._list_answerers()):
                pairs = self._read_sentences(pairs)
                examinations = self._examine_pairs(list_usable(pairs))
        signatures = {joined: self._build_signature(joined=joined) for joined in (False, True)}
        scores: list[Scores] = []
        for pair, task in zip(pairs, tasks, strict=True):
            signature = signatures[task.joined]
            if isinstance(pair, Failure):
                scores.append(Scores.failed(pair, signature))
            else:
                precision, recall = next(examinations)
                scores.append(self._build_scores(pair, precision, recall, signature))
        return scores

    def _read_sentences(
        self, pairs: list[DescriptionPair | Failure]
    ) -> list[DescriptionPair | Failure]:
        """Read the generations' sentences, and leave out the contradicted ones."""
        if self.sentence_reader is None:
            return pairs
        sentences: list[Sentence] = []
        for usable in list_usable(pairs):
            text, reference, *_ = usable
            sentences += [Sentence(text, reference, span) for span in text.sentences]
        answers = self.sentence_reader.read(sentences)
        if len(answers) != len(sentences):
            raise JudgeError(f"the reader gave {len(answers)} answers to {len(sentences)}")
        verdicts = iter(map(check_sentence, answers))
        read: list[DescriptionPair | Failure] = []
        for pair in pairs:
            if isinstance(pair, Failure):
                read.append(pair)
            else:
                own = list(islice(verdicts, len(pair.generation.sentences)))
                read.append(pair.with_sentences(own))
        return self._read_excerpts(read)

    def _read_excerpts(
        self, pairs: list[DescriptionPair | Failure]
    ) -> list[DescriptionPair | Failure]:
        """Read what is left of each generation without its contradicted sentences."""
        cut = [pair for pair in list_usable(pairs) if pair.excerpt is not None]
        texts = [pair.excerpt.text for pair in cut if pair.excerpt is not None]
        descriptions = iter(self.graph_reader.read(texts))
        read: list[DescriptionPair | Failure] = []
        for pair in pairs:
            if isinstance(pair, DescriptionPair) and pair.excerpt is not None:
                left = next(descriptions)
                if isinstance(left, Failure):
                    read.append(left.about("the generation without a contradicted sentence"))
                else:
                    read.append(pair._replace(examined=left))
            else:
                read.append(pair)
        return read

    def _read_texts(
        self, texts: Sequence[str | Failure], *, keep: bool = False
    ) -> list[Description | Failure]:
        results = self.graph_reader.read(texts, keep=keep)
        for i, (read, text) in enumerate(zip(results, texts, strict=True)):
            if isinstance(read, Description) and isinstance(text, str) and read.text != text:
                results[i] = replace(read, original=text)
        return results

    def _examine_pairs(
        self, pairs: list[DescriptionPair]
    ) -> Iterator[tuple[Examination, Examination]]:
        """Return (precision, recall) of each pair."""
        pace = get_pace(self.judge)
        steps: list[Steps] = []
        for pair in pairs:
            text = pair.generation if pair.examined is None else pair.examined
            precision = examine(
                text, pair.reference, "precision", pace=pace, sentences=pair.list_examined(),
                image=pair.image, supported=self._supported,
            )  # fmt: skip
            steps += precision, examine(pair.reference, text, "recall", pace=pace)
        # Both directions of all pairs run side by side, so that they share the judge's calls.
        results = run_batched(steps, self.judge, self._rewriter, self.witness)
        return zip(results[::2], results[1::2], strict=True)

    def _build_scores(
        self, pair: DescriptionPair, precision: Examination, recall: Examination, signature: str
    ) -> Scores:
        stated = pair.complete(precision.elements)
        precision_score = means.mean_score(stated, self.weights)
        recall_score = means.mean_score(recall.elements, self.weights)
        doubtful = precision.doubtful + recall.doubtful
        return Scores(
            precision=precision_score,
            recall=recall_score,
            f1=means.harmonic_mean(precision_score, recall_score),
            signature=signature,
            elements=stated + recall.elements,
            failure=precision.failure or recall.failure,
            unparsed=precision.unparsed + recall.unparsed,
            doubtful_share=doubtful / max(precision.replies + recall.replies, 1),
            generation=pair.generation.text,
            reference=pair.reference.text,
            sentences=pair.sentences,
        )
