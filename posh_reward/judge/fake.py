"""A judge that thinks nothing: for tests, of ours and of our users'.

Its answers depend on the words of the question and of the text alone, so they are the same in
any order, batch or process; and it can be told to fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from posh_reward.types import Request, Rewrite, RewriteRequest, Usage, Verdict

Grader = Callable[[Request], "float | str"]
"""Gives a grade (1-5), or a string: the reason why this judgment fails."""


def shared_words(request: Request) -> float:
    """1 plus 4 times the share of the asked words that the searched text has."""
    text = " ".join(filter(None, (request.text or request.identifier, request.other)))
    asked = set(re.findall(r"\w+", text.lower())) - {"the", "a", "an", "of", "with", "relation"}
    there = set(re.findall(r"\w+", request.target.text.lower()))
    return 1 + 4 * len(asked & there) / len(asked) if asked else 1.0


class FakeJudge:
    """Grades by ``grader`` and records every request that it gets.

    Args:
        grader: a pure function of the request; by default the share of words found.
        name: what the signature says.
    """

    def __init__(self, grader: Grader = shared_words, name: str = "fake-shared-words-1") -> None:
        self.name = name
        self.usage = Usage()
        self.requests: list[Request] = []
        """Every question asked so far, in order."""
        self.events: list[str] = []
        """Calls of ``sleep``, ``wake`` and ``close``, in order."""
        self._grader = grader

    def grade(self, requests: Sequence[Request]) -> list[Verdict]:
        """One verdict per request; the grader decides which fail."""
        self.requests.extend(requests)
        self.usage.requests += len(requests)
        return [self._verdict(self._grader(request)) for request in requests]

    def rewrite(self, requests: Sequence[RewriteRequest]) -> list[Rewrite]:
        """Puts "the" in front."""
        self.usage.rewrites += len(requests)
        return [Rewrite(f"the {request.text}".replace('"', "")) for request in requests]

    def sleep(self) -> None:
        """Recorded, nothing else."""
        self.events.append("sleep")

    def wake(self) -> None:
        """Recorded, nothing else."""
        self.events.append("wake")

    def close(self) -> None:
        """Recorded, nothing else."""
        self.events.append("close")

    def _verdict(self, answer: float | str) -> Verdict:
        if isinstance(answer, str):
            self.usage.failures[answer] = self.usage.failures.get(answer, 0) + 1
            return Verdict(None, failure=answer)
        return Verdict(between_labels(answer))


def between_labels(grade: float, labels: int = 5) -> tuple[float, ...]:
    """The distribution over labels 1..n that has this mean and as little spread as it can."""
    low = min(max(int(grade), 1), labels - 1)
    share = min(max(grade - low, 0.0), 1.0)
    return tuple(
        1.0 - share if rank == low else share if rank == low + 1 else 0.0
        for rank in range(1, labels + 1)
    )
