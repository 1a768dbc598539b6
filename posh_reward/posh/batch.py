"""Run the examinations of many pairs side by side, with one call to the judge per turn."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, TypeVar

from posh_reward.errors import JudgeError, PoshError
from posh_reward.models.model import check_reply
from posh_reward.posh.examine import Examination, Steps
from posh_reward.posh.judge import Judge, Witness
from posh_reward.posh.search import Answers, Request, check_grade
from posh_reward.types import Failure, Phrase, Question, Reply, Verdict

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


def run_batched(
    examinations: Sequence[Steps],
    judge: Judge,
    rewriter: Callable[[Sequence[Phrase]], list[Reply]],
    witness: Witness | None = None,
) -> list[Examination]:
    """Run examinations side by side, with one call per turn; results in order."""
    results: dict[int, Examination] = {}
    waiting: dict[int, Request] = {}

    def advance(index: int, answers: Answers | None) -> None:
        steps = examinations[index]
        try:
            if answers is None:
                waiting[index] = next(steps)
            else:
                waiting[index] = steps.send(answers)
        except StopIteration as end:
            results[index] = end.value

    for index in range(len(examinations)):
        advance(index, None)
    while waiting:
        # Answer only the earliest turn. An examination that is ahead waits, so that each pass is
        # one call for the whole batch instead of one call per pair.
        turn = min(request.turn for request in waiting.values())
        now = [index for index, request in waiting.items() if request.turn == turn]
        items = {index: waiting.pop(index).items for index in now}
        for index, answers in _answer_turn(items, judge, rewriter, witness).items():
            advance(index, answers)
    return [results[index] for index in range(len(examinations))]


def _answer_turn(
    items: Mapping[int, list[Phrase] | list[Question]],
    judge: Judge,
    rewriter: Callable[[Sequence[Phrase]], list[Reply]],
    witness: Witness | None,
) -> Mapping[int, Answers]:
    """Answer one turn: all rewrites, all questions about texts, or all questions about images."""
    first = next(iter(items.values()))[0]
    if isinstance(first, Phrase):
        return _answer_in_one_call(items, rewriter, check_reply, Reply)
    answerer = judge if first.image is None else witness
    assert answerer is not None, "only a witness is asked about images"
    return _answer_in_one_call(items, answerer.grade, check_grade, Verdict)


def _answer_in_one_call(
    items: Mapping[int, Sequence[Any]],
    answer: Callable[[list[Any]], Sequence[object]],
    check: Callable[[object], A],
    record: Callable[[None, Failure], A],
) -> dict[int, list[A]]:
    """Answer all questions with one call; each examination gets its own answers.

    A judge should not raise. If one does, each examination is answered alone, so that only the
    one at fault fails.
    """
    try:
        # One flat list for the whole batch; each examination gets a slice as long as its own.
        flat = list(chain.from_iterable(items.values()))
        answers = list(map(check, answer(flat)))
    except (PoshError, MemoryError):  # these would recur for each examination
        raise
    except Exception as error:
        results: dict[int, list[A]] = {}
        if len(items) > 1:
            for index, own in items.items():
                results |= _answer_in_one_call({index: own}, answer, check, record)
            return results
        failure = Failure("error", f"the judge raised {type(error).__name__}: {error}")
        for index, own in items.items():
            results[index] = [record(None, failure) for _ in own]
        return results
    if len(answers) != len(flat):
        raise JudgeError(f"the judge gave {len(answers)} answers to {len(flat)} questions")
    remaining = iter(answers)
    return {index: list(islice(remaining, len(own))) for index, own in items.items()}
