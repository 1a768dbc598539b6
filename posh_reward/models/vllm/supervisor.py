"""A batch whose child dies: prompts that are sent again, prompts that fail."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posh_reward.errors import JudgeError
from posh_reward.models.model import Prompt
from posh_reward.models.vllm.engine_process import EngineProcess
from posh_reward.models.vllm.wire import EngineReply
from posh_reward.process import ChildFailureError
from posh_reward.types import Failure

logger = logging.getLogger(__name__)

PAYING = 100  # answers in a batch that allow for one more death: a start takes as long as thousands
REMEDY = (
    "`memory_gb` and `max_model_len` set what memory it takes on top of the weights, `python` and "
    "`model` what it loads"
)
DEADLY = Failure("engine", "this prompt crashes vLLM")
STICKING = Failure("engine", "vLLM does not answer this prompt in time")
ENDED = Failure("engine", "vLLM failed too often in one batch")
GIVEN_UP = Failure("engine", "the judge has given up: vLLM failed too often in two batches")

Part = tuple[list[int], int]
"""Places of prompts that are asked together, and suspicion of them: 0 at first, 1 after a death,
2 once divided, 3 alone."""


class Supervisor:
    """A child at work, which starts when first needed.

    What a child answered before it died is kept. The rest is asked again: all of it once (not
    after a child that hung, which costs its whole timeout), then in parts, then the prompts of a
    part that one died of, each alone. The prompts that children die of fail, now and later. Parts
    under more suspicion come last, so that they are the ones that lose if the batch ends.

    Args:
        start: makes a child, or raises ``ChildFailureError``.
        max_restarts: deaths, and starts that failed, that one batch may cost, and one more for
            every ``PAYING`` answers in it; half as many may be for being too slow. Then the batch
            ends. If two in a row ended with most of their prompts unanswered, that is for good.
    """

    def __init__(self, start: Callable[[], EngineProcess], max_restarts: int) -> None:
        self._start = start
        self._max_restarts = max_restarts
        self._process: EngineProcess | None = None
        self._worked = False
        self._failures = self._slow = 0  # of the current batch
        self._ended = False  # the current batch
        self._lost = 0  # batches in a row
        self._deadly: dict[Prompt, Failure] = {}

    def answers(self, prompts: Sequence[Prompt], what: Mapping[str, Any]) -> list[EngineReply]:
        """One answer per prompt, in order. ``what`` is the rest of the request.

        Raises:
            JudgeError: a child has never started, and does not.
        """
        answers = {
            place: EngineReply(failure=self._deadly[prompt])
            for place, prompt in enumerate(prompts)
            if prompt in self._deadly
        }
        # A queue: parts under more suspicion go to its end, so that a child that dies of one of
        # them has answered all that are above suspicion.
        waiting: list[Part] = parts(
            [place for place in range(len(prompts)) if place not in answers], 0
        )
        self._failures, self._slow, self._ended = 0, 0, False
        while waiting and self._ready(len(answers)):
            places, suspicion = waiting.pop(0)
            try:
                self._ask(prompts, places, what, answers)
            except ChildFailureError as failure:
                self._count(failure, len(answers))
                # The culprit is among the unanswered, but several were in flight: only a prompt
                # that was alone in its part, and not for the first time, is convicted.
                left = [place for place in places if place not in answers]
                if len(left) == 1 and suspicion:
                    verdict = self._deadly[prompts[left[0]]] = STICKING if failure.slow else DEADLY
                    answers[left[0]] = EngineReply(failure=verdict)
                else:
                    # A death may have been the card's, so all are tried together once more; a
                    # prompt that hung would hang again, at the cost of a whole timeout, so those
                    # are divided at once.
                    waiting += parts(left, max(suspicion + 1, 2 if failure.slow else 1))
            except BaseException:  # an interrupt: nobody waits for these answers any more
                self.end()
                raise
        self._note_end(len(answers), len(prompts))
        unanswered = EngineReply(failure=GIVEN_UP if self._given_up else ENDED)
        return [answers.get(place, unanswered) for place in range(len(prompts))]

    def wake(self) -> None:
        """Start a child, or have it take its memory again.

        Raises:
            JudgeError: none has ever started, and none does; the message says why.
        """
        if self._worked:
            self.tell("wake")  # one that is gone is started with the next batch
        else:
            self._ready()

    def tell(self, what: str) -> None:
        """Tell the child to sleep or wake, if there is one."""
        if self._process is None:
            return
        try:
            self._process.tell(what)
        except ChildFailureError as failure:  # which has freed its memory, too
            logger.warning("vLLM's process did not %s and will be restarted: %s", what, failure)
            self.end()

    def end(self) -> None:
        """End the child, if there is one."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def _ask(
        self,
        prompts: Sequence[Prompt],
        places: Sequence[int],
        what: Mapping[str, Any],
        answers: dict[int, EngineReply],
    ) -> None:
        assert self._process is not None
        for place, answer in self._process.ask([prompts[place] for place in places], what):
            answers[places[place]] = answer

    @property
    def _given_up(self) -> bool:
        return self._lost > 1

    def _ready(self, answers: int = 0) -> bool:
        """True if a child runs; starts one, if need be and if it may."""
        while self._process is None and not self._ended and not self._given_up:
            try:
                self._process = self._start()
                self._worked = True
            except ChildFailureError as failure:
                if not self._worked:
                    message = f"vLLM's process {failure.reason}. {REMEDY}. Its last words:"
                    raise JudgeError(f"{message}\n{failure.last_words}") from None
                self._count(failure, answers)
        return self._process is not None

    def _count(self, failure: ChildFailureError, answers: int) -> None:
        """End the child that failed, and the batch if that was one failure too many."""
        logger.warning("vLLM's process failed: %s", failure)
        self.end()
        self._failures += 1
        self._slow += failure.slow
        allowed = self._max_restarts + answers // PAYING
        # Hanging costs the most time of all, so fewer of those are allowed.
        self._ended = self._failures > allowed or self._slow > self._max_restarts / 2

    def _note_end(self, answers: int, prompts: int) -> None:
        """Count lost batches in a row; the second is the last."""
        if self._given_up or not prompts:
            return
        self._lost = self._lost + 1 if self._ended and answers < prompts / 2 else 0
        if answers < prompts:
            logger.error(
                "%s; it failed %d times, and %d of %d prompts have no answer",
                GIVEN_UP if self._given_up else ENDED,
                self._failures,
                prompts - answers,
                prompts,
            )


def parts(places: list[int], suspicion: int) -> list[Part]:
    """Places in the parts in which to ask them: together, in about equal parts, or alone.

    There are as many parts as each has prompts: two deaths find a single culprit, and asking a
    hundred small parts takes less time than one more start.
    """
    together, divided = len(places), math.isqrt(len(places))
    size = max(1, (together, together, divided, 1)[min(suspicion, 3)])
    return [(places[i : i + size], suspicion) for i in range(0, len(places), size)]
