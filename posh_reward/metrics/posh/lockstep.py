"""Many examinations side by side, so that each call to the judge serves all of them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from posh_reward.errors import JudgeError, PoshError
from posh_reward.metrics.posh.examine import Examination, Steps
from posh_reward.metrics.posh.judges.judge import Judge, Witness, sound_grade
from posh_reward.metrics.posh.search import Answers, Ask, is_rewrites
from posh_reward.models.model import sound_reply
from posh_reward.types import Failure, Phrase, Question, Reply, Verdict

PATIENCE = 20_000  # new objects between two collections; Python's own is 700 to 2,000


@contextmanager
def patient_collector() -> Iterator[None]:
    """Collect cyclic garbage less often, and restore the threshold afterwards.

    A batch makes hundreds of thousands of records that live until its end, and hardly a cycle;
    each collection walks them, and now and then all that the libraries have loaded: a quarter of
    the time (``python -m tools.bench.text speed``). A collector that is off or more patient
    already is left alone.
    """
    first, *others = gc.get_threshold()
    if not 0 < first < PATIENCE:
        yield
        return
    gc.set_threshold(PATIENCE, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)


Q = TypeVar("Q")
A = TypeVar("A")

Rewrites = Callable[[Sequence[Phrase]], list[Reply]]
"""Rewrites phrases, in order: a ``Rewriter``, or a judge's own ``rewrite``."""


class Rewriter:
    """A judge's rewrites, cached by text: they do not depend on the descriptions.

    Beyond ``capacity`` phrases the least recently used one is dropped, so that those of references
    outlive the generations of many steps.
    """

    def __init__(self, judge: Judge, capacity: int = 100_000) -> None:
        self._judge = judge
        self._capacity = capacity
        self._cache: dict[Phrase, Reply] = {}

    def __call__(self, questions: Sequence[Phrase]) -> list[Reply]:
        """One rewrite per phrase, in order; failures are not cached."""
        distinct = dict.fromkeys(questions)
        new = [r for r in distinct if r not in self._cache]
        replies = map(sound_reply, self._judge.rewrite(new)) if new else ()
        fresh = dict(zip(new, replies, strict=True))
        # Taken out and put back at the end: a dict keeps the order of insertion, so its first key
        # is the least recently used.
        answers = {r: fresh[r] if r in fresh else self._cache.pop(r) for r in distinct}
        self._cache.update((r, answer) for r, answer in answers.items() if answer.text is not None)
        while len(self._cache) > self._capacity:
            del self._cache[next(iter(self._cache))]
        return [answers[r] for r in questions]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": {}}


def run_together(
    examinations: Sequence[Steps],
    judge: Judge,
    rewriter: Rewrites,
    witness: Witness | None = None,
) -> list[Examination]:
    """Run examinations side by side, one call a turn; results in order. Images need a witness."""
    results: dict[int, Examination] = {}
    waiting: dict[int, Ask] = {}
    for index, steps in enumerate(examinations):
        _advance(index, steps, None, waiting, results)
    while waiting:
        # Only the earliest turn is answered: an examination that is ahead waits, so that each pass
        # is one call for the whole batch instead of one for each pair.
        turn = min(ask.turn for ask in waiting.values())
        now = {index: waiting.pop(index) for index in list(waiting) if waiting[index].turn == turn}
        for index, answer in _answer(now, judge, rewriter, witness).items():
            _advance(index, examinations[index], answer, waiting, results)
    return [results[index] for index in range(len(examinations))]


def _advance(
    index: int,
    steps: Steps,
    answers: Answers | None,
    waiting: dict[int, Ask],
    results: dict[int, Examination],
) -> None:
    """Send one examination its answers; files its next ask, or its result."""
    try:
        waiting[index] = next(steps) if answers is None else steps.send(answers)
    except StopIteration as end:
        results[index] = end.value


def _answer(
    asks: dict[int, Ask], judge: Judge, rewriter: Rewrites, witness: Witness | None
) -> dict[int, Answers]:
    """Answers of one turn, whose questions are all for the judge or all for the witness."""
    rewrites: dict[int, list[Phrase]] = {}
    questions: dict[int, list[Question]] = {}
    answerer: Witness = judge
    for index, ask in asks.items():
        if is_rewrites(ask.items):
            rewrites[index] = ask.items
        else:
            questions[index] = ask.items
            if ask.items[0].image is not None:
                assert witness is not None, "images are asked about only where there is a witness"
                answerer = witness
    return {
        **_in_one_call(
            rewrites,
            lambda phrases: [sound_reply(each) for each in rewriter(phrases)],
            lambda why: Reply(None, why),
        ),
        **_in_one_call(
            questions,
            lambda batch: [sound_grade(each) for each in answerer.grade(batch)],
            lambda why: Verdict(None, why),
        ),
    }


def _in_one_call(
    asks: dict[int, list[Q]],
    answer: Callable[[Sequence[Q]], list[A]],
    failure_of: Callable[[Failure], A],
) -> dict[int, list[A]]:
    """Answer all questions with one call; each examination gets its own answers.

    A judge should not raise, but if one does, each examination is answered alone, so that only
    the one that it stumbled over fails.
    """
    if not asks:
        return {}
    try:
        # One flat list for the whole batch; each examination gets back a slice as long as its ask.
        answers = answer([item for ask in asks.values() for item in ask])
    # A wrong setting, or too little memory, would fail for each examination alone, too.
    except (PoshError, MemoryError):
        raise
    except Exception as error:
        if len(asks) > 1:
            alone = (_in_one_call({i: ask}, answer, failure_of) for i, ask in asks.items())
            return {i: each for batch in alone for i, each in batch.items()}
        why = Failure("error", f"the judge raised {type(error).__name__}: {error}")
        return {i: [failure_of(why) for _ in ask] for i, ask in asks.items()}
    total = sum(map(len, asks.values()))
    if len(answers) != total:
        raise JudgeError(f"the judge gave {len(answers)} answers to {total} questions")
    each = iter(answers)
    return {index: list(islice(each, len(ask))) for index, ask in asks.items()}
