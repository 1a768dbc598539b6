"""Judges x pairs -> scores, answers to the same questions, and what they cost.

The search asks what earlier answers leave open, so judges that differ are asked different
questions. To compare them question by question, each is put the other's as well, afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from posh_reward.errors import InputError
from posh_reward.graph.reader import Reader
from posh_reward.metrics.posh.judges.load_judge import load_judge
from posh_reward.metrics.posh.posh import PoSh
from posh_reward.metrics.posh.presets import PRESET, PRESETS, check_preset
from posh_reward.models.model import awake
from posh_reward.process.progress import progress_bar
from posh_reward.settings import ENDINGS, read_settings
from posh_reward.store import Store
from posh_reward.study.judges.question_log import QuestionKey, QuestionLog
from posh_reward.types import Question, Scores, Usage, Verdict

AT_ONCE = 1024  # questions of other judges' searches that are put in one call
AGAIN = " again"  # after the name of the judge that is asked twice


class ScoredPair(NamedTuple):
    """A text and the reference that it is scored against. Those of one reference are siblings."""

    generation: str
    reference: str


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """A judge to compare."""

    label: str  # its name on the page: as the user wrote it
    judge: str | Mapping[str, Any]
    preset: str


@dataclass(frozen=True, slots=True)
class JudgeRun:
    """All that one judge said about the pairs."""

    label: str
    signature: str
    scores: Sequence[Scores]  # of each pair
    own: frozenset[QuestionKey]  # questions of its own search
    questions: dict[QuestionKey, Question]
    # Also those of the search of the judge that it is compared with.
    verdicts: dict[QuestionKey, Verdict]
    usage: Usage  # of its own search. Answers from a store cost nothing and are counted as such


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of reading and judging pairs."""

    parser: str = "embedded"
    coref: str = "rules"
    # File of answers. The second asking of the first judge keeps its own, with ``.again``.
    store: Path | None = None
    batch: int = 64  # pairs at once
    floor: bool = True  # ask the first judge twice
    quiet: bool = False


def judge_choice(text: str) -> JudgeChoice:
    """The judge that a word of the command line names: ``JUDGE`` or ``JUDGE@PRESET``.

    ``JUDGE`` is a judge's name or settings file, or a file with the metric's settings.

    Raises:
        InputError: there is no such preset.
        ConfigError: a file cannot be read.
    """
    judge, at, preset = text.rpartition("@")
    if not at or Path(text).exists():
        judge, preset = text, ""
    settings = read_settings(Path(judge)) if judge.lower().endswith(ENDINGS) else {}
    preset = check_preset(preset or str(settings.get("preset", PRESETS[0])))
    if "judge" in settings and "name" not in settings:
        return JudgeChoice(text, settings["judge"], preset)
    return JudgeChoice(text, judge, preset)


def run_judges(
    choices: Sequence[JudgeChoice], pairs: Sequence[ScoredPair], settings: RunSettings
) -> list[JudgeRun]:
    """Score all pairs with each judge, then put to each what the other's search asked.

    Args:
        choices: at least two; all are compared with the first.
        pairs: to be scored.
        settings: how.

    Returns:
        A run for each choice, in order; with ``floor`` one more at the end, of the first judge
        again: pairs in reverse, in batches of another size, without the answers of its first run.

    Raises:
        InputError: there are fewer than two judges.
        JudgeError: a judge cannot work; what the others answered is in the store.
    """
    if len(choices) < 2:
        raise InputError("one judge is not a comparison: name two or more")
    labels = [choice.label for choice in choices]
    if twins := [label for label in dict.fromkeys(labels) if labels.count(label) > 1]:
        raise InputError(f"{twins[0]!r} is named twice: the floor shows a judge against itself")
    readers = _readers(choices, pairs, settings)
    store = Store(settings.store) if settings.store else None
    metrics = [metric_of(choice, readers, store) for choice in choices]
    runs = [
        _search(choice.label, metric, pairs, settings)
        for choice, metric in zip(choices, metrics, strict=True)
    ]
    if settings.floor:
        path = settings.store
        again = Store(path.with_name(path.name + ".again")) if path else None
        first = replace(choices[0], label=choices[0].label + AGAIN)
        metrics.append(metric_of(first, readers, again))
        # In the same batches a judge would be put the same prompts in the same order.
        twice = replace(settings, batch=max(1, min(settings.batch, len(pairs)) // 3))
        backward = _search(first.label, metrics[-1], pairs[::-1], twice)
        runs.append(replace(backward, scores=backward.scores[::-1]))
    others = {key: question for run in runs[1:] for key, question in run.questions.items()}
    for metric, run in zip(metrics, runs, strict=True):
        _put(run.label, metric, others if run is runs[0] else runs[0].questions, settings)
        metric.judge.close()
    return [
        replace(run, questions=log.questions, verdicts=log.verdicts)
        for run, log in zip(runs, map(_log, metrics), strict=True)
    ]


def metric_of(choice: JudgeChoice, readers: Mapping[bool, Reader], store: Store | None) -> PoSh:
    """The metric with one of the judges, which notes what it is asked."""
    judge = QuestionLog(load_judge(choice.judge, choice.preset, store))
    metric = PoSh(judge, preset=choice.preset, store=store)
    metric.reader = readers[PRESET[choice.preset].mended]
    return metric


def _readers(
    choices: Iterable[JudgeChoice], pairs: Sequence[ScoredPair], settings: RunSettings
) -> dict[bool, Reader]:
    """A reader for each kind of scene graph, which keeps every text: each is parsed once."""
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    readers = {}
    for mended in dict.fromkeys(PRESET[choice.preset].mended for choice in choices):
        store = Store(settings.store) if settings.store else None
        readers[mended] = Reader(
            settings.parser, settings.coref, mended=mended, capacity=len(texts), store=store
        )
        with progress_bar("reading", len(texts), "text", settings.quiet) as bar:
            for start in range(0, len(texts), settings.batch):
                some = texts[start : start + settings.batch]
                readers[mended].read(some, keep=True)
                bar.update(len(some))
    return readers


def _search(
    label: str, metric: PoSh, pairs: Sequence[ScoredPair], settings: RunSettings
) -> JudgeRun:
    scores: list[Scores] = []
    with progress_bar(label, len(pairs), "pair", settings.quiet) as bar:
        for start in range(0, len(pairs), settings.batch):
            generations, references = zip(*pairs[start : start + settings.batch], strict=True)
            scores += metric.score(generations, references)
            bar.update(len(generations))
    log = _log(metric)
    own = dict(log.questions)
    usage = replace(metric.usage)
    return JudgeRun(label, metric.signature, scores, frozenset(own), own, log.verdicts, usage)


def _put(
    label: str, metric: PoSh, questions: Mapping[QuestionKey, Question], settings: RunSettings
) -> None:
    """Put those questions to a judge that its own search did not ask."""
    log = _log(metric)
    missing = [question for key, question in questions.items() if key not in log.verdicts]
    with (
        awake(*[log] if missing else ()),
        progress_bar(
            f"{label}, others' questions", len(missing), "question", settings.quiet
        ) as bar,
    ):
        for start in range(0, len(missing), AT_ONCE):
            some = missing[start : start + AT_ONCE]
            log.grade(some)
            bar.update(len(some))


def _log(metric: PoSh) -> QuestionLog:
    assert isinstance(metric.judge, QuestionLog), "made by metric_of"
    return metric.judge
