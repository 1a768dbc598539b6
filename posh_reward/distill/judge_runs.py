"""Judges x pairs -> scores, answers to the same questions, and costs.

The search asks what earlier answers leave open, so different judges get different questions. To
compare them question by question, each then answers the other's questions as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from posh_reward.errors import InputError
from posh_reward.graph.reader import Reader
from posh_reward.models.model import check_reply, keep_awake
from posh_reward.posh.judge import Judge
from posh_reward.posh.load_judge import load_judge
from posh_reward.posh.posh import PoSh
from posh_reward.posh.search import Pace, check_grade, get_pace
from posh_reward.posh.wording import PRESETS, check_preset
from posh_reward.process.progress import progress_bar
from posh_reward.settings import SETTINGS_SUFFIXES, read_settings
from posh_reward.store import Store
from posh_reward.types import Direction, Kind, Phrase, Question, Reply, Scores, Usage, Verdict


class ScoredPair(NamedTuple):
    """A text and its reference. Texts with the same reference are siblings."""

    generation: str
    reference: str


class QuestionKey(NamedTuple):
    """Identity of a question, also across different scene graphs."""

    direction: Direction
    kind: Kind
    identifier: str
    text: str | None
    other: str | None
    source: str
    target: str
    entity: int  # two entities of a text may share an identifier
    other_entity: int | None

    @property
    def pair(self) -> ScoredPair:
        """The pair that is asked about: in precision's questions the text is the source."""
        if self.direction == "precision":
            return ScoredPair(self.source, self.target)
        return ScoredPair(self.target, self.source)


def question_key(question: Question) -> QuestionKey:
    """Return the key of a question; descriptions are identified by their texts."""
    return QuestionKey(
        question.direction, question.kind, question.identifier, question.text, question.other,
        question.source.text, question.target.text, question.entity, question.other_entity,
    )  # fmt: skip


class QuestionLog:
    """Answers as ``judge`` does, and records each question and phrase once."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.questions: dict[QuestionKey, Question] = {}
        self.verdicts: dict[QuestionKey, Verdict] = {}
        """Includes failures; the last answer to a repeated question."""
        self.replies: dict[Phrase, Reply] = {}

    @property
    def name(self) -> str:
        return self.judge.name

    @property
    def usage(self) -> Usage:
        return self.judge.usage

    @property
    def pace(self) -> Pace:
        return get_pace(self.judge)

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        verdicts = list(map(check_grade, self.judge.grade(questions)))
        keys = list(map(question_key, questions))
        self.questions.update(zip(keys, questions, strict=True))
        self.verdicts.update(zip(keys, verdicts, strict=True))
        return verdicts

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        replies = list(map(check_reply, self.judge.rewrite(phrases)))
        self.replies.update(zip(phrases, replies, strict=True))
        return replies

    def clear(self) -> None:
        for each in (self.questions, self.verdicts, self.replies):
            each.clear()

    def sleep(self) -> None:
        self.judge.sleep()

    def wake(self) -> None:
        self.judge.wake()

    def close(self) -> None:
        self.judge.close()


QUESTIONS_PER_CALL = 1024  # of other judges' searches
SECOND_RUN_SUFFIX = " again"  # of the first judge's label


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """A judge to compare."""

    label: str  # as the user wrote it
    judge: str | Mapping[str, Any]
    preset: str


@dataclass(frozen=True, slots=True)
class JudgeRun:
    """One judge's scores and answers."""

    label: str
    signature: str
    scores: Sequence[Scores]  # one per pair
    questions: Mapping[QuestionKey, Question]  # of its own search
    verdicts: Mapping[QuestionKey, Verdict]  # also on questions of the judge compared with
    usage: Usage  # of its own search; answers from a store count as cache hits


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of reading and judging pairs."""

    parser: str = "embedded"
    coref: str = "rules"
    store: Path | None = None  # file of answers; the first judge's second run uses STORE.again
    batch: int = 64  # pairs at once
    floor: bool = True  # run the first judge twice
    quiet: bool = False


def judge_choice(text: str) -> JudgeChoice:
    """Parse a command-line argument ``JUDGE`` or ``JUDGE@PRESET``.

    ``JUDGE`` is a judge's name or settings file, or a file of the metric's settings.
    """
    judge, at, preset = text.rpartition("@")
    if not at or Path(text).exists():
        judge, preset = text, ""
    settings: Mapping[str, Any] = {}
    if judge.lower().endswith(SETTINGS_SUFFIXES):
        settings = read_settings(Path(judge))
    preset = check_preset(preset or str(settings.get("preset", PRESETS[0])))
    if "judge" in settings and "name" not in settings:
        return JudgeChoice(text, settings["judge"], preset)
    return JudgeChoice(text, judge, preset)


def run_judges(
    choices: Sequence[JudgeChoice], pairs: Sequence[ScoredPair], settings: RunSettings
) -> list[JudgeRun]:
    """Score all pairs with each judge, then have each answer the other's questions."""
    if len(choices) < 2:
        raise InputError("a comparison needs two judges: name two or more")
    labels = [choice.label for choice in choices]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"{label!r} is named twice: the floor shows a judge against itself")
    reader = _read_texts(pairs, settings)
    store = Store(settings.store) if settings.store else None
    metrics = [build_logged_metric(choice, reader, store) for choice in choices]
    runs = [
        _run_search(label, *metric, pairs, settings)
        for label, metric in zip(labels, metrics, strict=True)
    ]
    if settings.floor:
        again = None
        if path := settings.store:
            again = Store(path.with_name(path.name + ".again"))
        metrics.append(build_logged_metric(choices[0], reader, again))
        # The same batches would give the judge the same prompts in the same order.
        twice = replace(settings, batch=max(1, min(settings.batch, len(pairs)) // 3))
        label = labels[0] + SECOND_RUN_SUFFIX
        backward = _run_search(label, *metrics[-1], pairs[::-1], twice)
        runs.append(replace(backward, scores=backward.scores[::-1]))
    others: dict[QuestionKey, Question] = {}
    for run in runs[1:]:
        others.update(run.questions)
    for (_, log), run in zip(metrics, runs, strict=True):
        _answer_missing(run.label, log, others if run is runs[0] else runs[0].questions, settings)
        log.close()
    return runs


def build_logged_metric(
    choice: JudgeChoice, reader: Reader, store: Store | None
) -> tuple[PoSh, QuestionLog]:
    """Return a metric with the log of its judge's questions."""
    log = QuestionLog(load_judge(choice.judge, choice.preset, store))
    metric = PoSh(log, preset=choice.preset, store=store)
    metric.graph_reader = reader
    return metric, log


def _read_texts(pairs: Sequence[ScoredPair], settings: RunSettings) -> Reader:
    """Read all texts; the reader keeps them, so that none is parsed twice."""
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    store = Store(settings.store) if settings.store else None
    reader = Reader(settings.parser, settings.coref, capacity=len(texts), store=store)
    with progress_bar("reading", len(texts), "text", settings.quiet) as bar:
        for start in range(0, len(texts), settings.batch):
            some = texts[start : start + settings.batch]
            reader.read(some, keep=True)
            bar.update(len(some))
    return reader


def _run_search(
    label: str, metric: PoSh, log: QuestionLog, pairs: Sequence[ScoredPair], settings: RunSettings
) -> JudgeRun:
    scores: list[Scores] = []
    with progress_bar(label, len(pairs), "pair", settings.quiet) as bar:
        for start in range(0, len(pairs), settings.batch):
            generations, references = zip(*pairs[start : start + settings.batch], strict=True)
            scores += metric.score(generations, references)
            bar.update(len(generations))
    usage = replace(metric.usage)
    # The verdicts are the log's, to which the answers to others' questions are added.
    return JudgeRun(label, metric.signature, scores, dict(log.questions), log.verdicts, usage)


def _answer_missing(
    label: str, log: QuestionLog, questions: Mapping[QuestionKey, Question], settings: RunSettings
) -> None:
    missing = [question for key, question in questions.items() if key not in log.verdicts]
    title = f"{label}, others' questions"
    with (
        keep_awake(*[log] if missing else ()),
        progress_bar(title, len(missing), "question", settings.quiet) as bar,
    ):
        for start in range(0, len(missing), QUESTIONS_PER_CALL):
            some = missing[start : start + QUESTIONS_PER_CALL]
            log.grade(some)
            bar.update(len(some))
