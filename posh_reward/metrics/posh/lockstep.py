"""Many examinations side by side, so that each call to the judge serves all of them."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from posh_reward.errors import JudgeError, PoshError
from posh_reward.lexicon.function_words import LIGHT
from posh_reward.metrics.posh.aggregate import WORD, lacks
from posh_reward.metrics.posh.examine import Examination, Steps
from posh_reward.metrics.posh.judges.judge import Judge, Witness, base_judge, checked_grade
from posh_reward.metrics.posh.search import Answers, Ask
from posh_reward.models.model import checked_reply
from posh_reward.settings import brief
from posh_reward.types import Failure, Phrase, Question, Reply, Verdict

logger = logging.getLogger(__name__)

ENOUGH = 10  # rewrites before judging whether they keep to their phrases
MANY = 0.1  # share of rewrites that share no word with their phrase, above which it is said
PATIENCE = 20_000  # new objects between two collections; Python's own is 700 to 2,000


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Collect cyclic garbage less often, and restore the threshold afterwards.

    A batch makes hundreds of thousands of records that live until its end, and hardly any cycles.
    Each collection walks them, and now and then everything that libraries have loaded: a quarter of
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


A = TypeVar("A", Reply, Verdict)

Rewrites = Callable[[Sequence[Phrase]], list[Reply]]
"""Rewrites phrases, in order: a ``Rewriter``, or a judge's own ``rewrite``."""


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
    words = [word for word in WORD.findall(phrase) if word.lower() not in LIGHT]
    return bool(words) and all(lacks(rewrite, word) for word in words)


def run_together(
    examinations: Sequence[Steps],
    judge: Judge,
    rewriter: Rewrites,
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
    rewriter: Rewrites,
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
    sound: Callable[[object], A],
    record: Callable[[None, Failure], A],
) -> dict[int, list[A]]:
    """Answer all questions with one call; each examination gets its own answers.

    A judge should not raise. If one does, each examination is answered alone, so that only the
    one at fault fails.
    """
    try:
        # One flat list for the whole batch; each examination gets a slice as long as its ask.
        answers = list(map(sound, answer([item for ask in asks.values() for item in ask])))
    except (PoshError, MemoryError):  # these would recur for each examination
        raise
    except Exception as error:
        if len(asks) > 1:
            alone = (
                _answer_in_one_call({i: ask}, answer, sound, record) for i, ask in asks.items()
            )
            return {i: each for batch in alone for i, each in batch.items()}
        failure = Failure("error", f"the judge raised {type(error).__name__}: {error}")
        return {i: [record(None, failure) for _ in ask] for i, ask in asks.items()}
    total = sum(map(len, asks.values()))
    if len(answers) != total:
        raise JudgeError(f"the judge gave {len(answers)} answers to {total} questions")
    remaining = iter(answers)
    return {index: list(islice(remaining, len(ask))) for index, ask in asks.items()}
