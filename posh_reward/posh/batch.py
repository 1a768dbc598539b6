"""Run the examinations of many pairs side by side, with one call to the judge per turn."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from posh_reward.errors import JudgeError, PoshError
from posh_reward.models.model import check_reply
from posh_reward.posh.examine import Examination, Steps
from posh_reward.posh.judge import Judge, Witness
from posh_reward.posh.search import Answers, Ask, checked_grade
from posh_reward.types import (
    Failure,
    Phrase,
    Question,
    Reply,
    Verdict,
)

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
        return _answer_in_one_call(asks, rewriter, check_reply, Reply)
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
