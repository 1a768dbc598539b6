"""Answer a batch although the child may die: resend prompts, fail those that kill it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posh_reward.errors import JudgeError
from posh_reward.models.model import Note, Prompt, ignore
from posh_reward.models.vllm.engine_process import EngineProcess
from posh_reward.models.vllm.wire import EngineReply
from posh_reward.process import ChildFailureError
from posh_reward.types import Failure

logger = logging.getLogger(__name__)

PAYING = 100  # answers of a batch per additional restart; a start takes as long as thousands
REMEDY = (
    "`memory_gb` and `max_model_len` determine its memory in addition to the weights, `python` "
    "and `model` what it loads"
)
DEADLY = Failure("engine", "this prompt crashes vLLM")
STICKING = Failure("engine", "vLLM does not answer this prompt in time")
ENDED = Failure("engine", "vLLM failed too often in one batch")
GIVEN_UP = Failure("engine", "the judge has given up: vLLM failed too often in two batches")

Part = tuple[list[int], int]
"""Indices of prompts that are asked together, and their level of suspicion: 0 at first, 1 after a
death, 2 once divided, 3 alone."""


class Supervisor:
    """A child that is started when needed and restarted when it dies.

    Answers that a child gave before it died are kept. The rest is asked again: all of it once (not
    if the child hung, which costs a whole timeout), then in parts, then the prompts of a part that
    killed it one by one. Prompts that kill children fail, now and later. More suspicious parts come
    last, so that they are lost if the batch ends early.

    Args:
        start: makes a child, or raises ``ChildFailureError``.
        max_restarts: failures allowed in a batch, plus one per ``PAYING`` answers; half as many may
            be timeouts. Then the batch ends. After two such batches in a row with most prompts
            unanswered, nothing is asked any more.
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

    def answers(
        self, prompts: Sequence[Prompt], what: Mapping[str, Any], note: Note = ignore
    ) -> list[EngineReply]:
        """One answer per prompt, in order. ``what`` is the rest of the request.

        Raises:
            JudgeError: the first child cannot be started.
        """
        answers = {
            index: EngineReply(failure=self._deadly[prompt])
            for index, prompt in enumerate(prompts)
            if prompt in self._deadly
        }
        # A queue with more suspicious parts at its end: when a child dies of one of them, all
        # less suspicious ones have been answered.
        waiting = parts([index for index in range(len(prompts)) if index not in answers], 0)
        self._failures, self._slow, self._ended = 0, 0, False
        while waiting and (process := self._ready(len(answers))):
            indices, suspicion = waiting.pop(0)
            try:
                for place, answer in process.ask([prompts[index] for index in indices], what):
                    answers[indices[place]] = answer
                    note(indices[place], answer)
            except ChildFailureError as failure:
                self._count(failure, len(answers))
                # The culprit is among the unanswered, but several were in flight: convict only a
                # prompt that was alone in its part, and not for the first time.
                left = [index for index in indices if index not in answers]
                if len(left) == 1 and suspicion:
                    verdict = self._deadly[prompts[left[0]]] = STICKING if failure.slow else DEADLY
                    answers[left[0]] = EngineReply(failure=verdict)
                else:
                    # A death may be the GPU's fault, so try all together once more; a prompt that
                    # hung would cost another timeout, so divide at once.
                    waiting += parts(left, max(suspicion + 1, 2 if failure.slow else 1))
            except BaseException:  # an interrupt: nobody waits for these answers any more
                self.end()
                raise
        self._note_end(len(answers), len(prompts))
        unanswered = EngineReply(failure=GIVEN_UP if self._given_up else ENDED)
        return [answers.get(index, unanswered) for index in range(len(prompts))]

    def wake(self) -> None:
        """Start the first child, or have it allocate its memory again.

        Raises:
            JudgeError: the first child cannot be started; the message has the reason.
        """
        if self._worked:
            self.tell("wake")  # a dead one is restarted with the next batch
        else:
            self._ready()

    def tell(self, what: str) -> None:
        """Tell the child, if there is one, to "sleep" or "wake"."""
        if self._process is None:
            return
        try:
            self._process.tell(what)
        except ChildFailureError as failure:  # its memory is free, too
            logger.warning("vLLM's process did not %s and will be restarted: %s", what, failure)
            self.end()

    def end(self) -> None:
        """End the child, if there is one."""
        if self._process is not None:
            self._process.end()
            self._process = None

    @property
    def _given_up(self) -> bool:
        return self._lost > 1

    def _ready(self, answers: int = 0) -> EngineProcess | None:
        """The running child, started if need be; None if no more failures are allowed."""
        while self._process is None and not self._ended and not self._given_up:
            try:
                self._process = self._start()
                self._worked = True
            except ChildFailureError as failure:
                if not self._worked:
                    message = f"vLLM's process {failure.reason}. {REMEDY}. Its last output:"
                    raise JudgeError(f"{message}\n{failure.last_words}") from None
                self._count(failure, answers)
        return self._process

    def _count(self, failure: ChildFailureError, answers: int) -> None:
        """End the failed child, and the batch after too many failures."""
        logger.warning("vLLM's process failed: %s", failure)
        self.end()
        self._failures += 1
        self._slow += failure.slow
        allowed = self._max_restarts + answers // PAYING
        # Timeouts cost the most time, so fewer of them are allowed.
        self._ended = self._failures > allowed or self._slow > self._max_restarts / 2

    def _note_end(self, answers: int, prompts: int) -> None:
        """Count lost batches in a row; after the second, give up for good."""
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


def parts(indices: list[int], suspicion: int) -> list[Part]:
    """Divide prompts by suspicion: all together, about sqrt(n) parts of sqrt(n), or each alone.

    So two deaths find a single culprit, and a hundred small parts take less time than one start.
    """
    together, divided = len(indices), math.isqrt(len(indices))
    size = max(1, (together, together, divided, 1)[min(suspicion, 3)])
    return [(indices[i : i + size], suspicion) for i in range(0, len(indices), size)]
