"""What becomes of a batch when the child dies: who is asked again, and who is given up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posh_reward.child import ChildFailureError
from posh_reward.errors import JudgeError
from posh_reward.judge.llm.colocated.answers import Answer
from posh_reward.judge.llm.colocated.process import EngineProcess
from posh_reward.judge.render import Prompt

logger = logging.getLogger(__name__)

PARTS = 16
"""Into how many parts prompts are divided, one of which the child dies of."""
REMEDY = (
    "`memory_gb` and `max_model_len` say what memory it takes beside the weights, `python` and "
    "`model` what it loads"
)

Group = tuple[list[int], int]
"""Places of prompts that are asked together, and how many children died over them."""


class Supervisor:
    """Keeps a child at work. It starts when first needed.

    What a dead child has answered is kept. The rest is asked again, all of it once, then in ever
    smaller parts, until the prompts that children die of are alone: those fail, now and later.

    Args:
        start: makes a child, or raises ``ChildFailureError``.
        max_restarts: deaths, and starts that failed, that one batch may cost.
    """

    def __init__(self, start: Callable[[], EngineProcess], max_restarts: int) -> None:
        self._start = start
        self._max_restarts = max_restarts
        self._process: EngineProcess | None = None
        self._worked = False
        self._failures = 0  # of the batch at hand
        self._given_up: str | None = None
        self._deadly: dict[Prompt, str] = {}

    def answers(self, prompts: Sequence[Prompt], what: Mapping[str, Any]) -> list[Answer]:
        """One answer per prompt, in order. ``what`` is the rest of the request.

        Raises:
            JudgeError: a child has never started, and does not.
        """
        answers = {
            place: Answer(failure=self._deadly[prompt])
            for place, prompt in enumerate(prompts)
            if prompt in self._deadly
        }
        waiting: list[Group] = parts(
            [place for place in range(len(prompts)) if place not in answers], 0
        )
        self._failures = 0
        while waiting and self._ready():
            places, deaths = waiting.pop(0)
            try:
                self._ask(prompts, places, what, answers)
            except ChildFailureError as failure:
                self._count(failure)
                left = [place for place in places if place not in answers]
                if len(left) == 1 and deaths:
                    answers[left[0]] = self._give_up(prompts[left[0]], failure)
                else:
                    waiting[:0] = parts(left, deaths + 1)
            except BaseException:  # an interrupt: what it was asked is nobody's question any more
                self.end()
                raise
        unanswered = Answer(failure=self._given_up)
        return [answers.get(place, unanswered) for place in range(len(prompts))]

    def wake(self) -> None:
        """Starts a child, or has it take its memory again.

        Raises:
            JudgeError: none has ever started, and none does; the message says why.
        """
        if self._worked:
            self.tell("wake")  # one that is gone is started with the next batch
        else:
            self._ready()

    def tell(self, what: str) -> None:
        """Has the child sleep or wake, if there is one."""
        if self._process is None:
            return
        try:
            self._process.tell(what)
        except ChildFailureError as failure:  # its memory is free now, too
            logger.warning("vLLM's process did not %s and will be started anew: %s", what, failure)
            self.end()

    def end(self) -> None:
        """Ends the child, if there is one."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def _ask(
        self,
        prompts: Sequence[Prompt],
        places: Sequence[int],
        what: Mapping[str, Any],
        answers: dict[int, Answer],
    ) -> None:
        """Fills in the answers to some of the prompts, as they come."""
        assert self._process is not None
        for place, answer in self._process.ask([prompts[place] for place in places], what):
            answers[places[place]] = answer

    def _ready(self) -> bool:
        """Whether a child runs; starts one, if need be and if it may."""
        while self._process is None and self._given_up is None:
            try:
                self._process = self._start()
                self._worked = True
            except ChildFailureError as failure:
                if not self._worked:
                    told = f"vLLM's process {failure.reason}. {REMEDY}. Its last words:"
                    raise JudgeError(f"{told}\n{failure.last_words}") from None
                self._count(failure)
        return self._given_up is None

    def _give_up(self, prompt: Prompt, failure: ChildFailureError) -> Answer:
        self._deadly[prompt] = f"vLLM's process fails on this prompt: it {failure.reason}"
        return Answer(failure=self._deadly[prompt])

    def _count(self, failure: ChildFailureError) -> None:
        logger.warning("vLLM's process failed: %s", failure)
        self.end()
        self._failures += 1
        if self._failures > self._max_restarts:
            self._given_up = (
                f"the judge has given up: vLLM's process failed {self._failures} times in one "
                f"batch; at last it {failure.reason}"
            )
            logger.error("%s", self._given_up)


def parts(places: list[int], deaths: int) -> list[Group]:
    """Places in the groups in which to ask them: together at first, and again after one death."""
    size = -(-len(places) // PARTS) if deaths > 1 else len(places)
    return [(places[i : i + size], deaths) for i in range(0, len(places), size or 1)]
