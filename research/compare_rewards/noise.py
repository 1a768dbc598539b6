"""A judge with added noise."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

from posh_reward import PoSh
from posh_reward.metrics.posh.judges.judge import Judge
from posh_reward.models.fake_model import verdict_of
from posh_reward.types import HIGHEST_GRADE, LOWEST_GRADE, Phrase, Question, Reply, Usage, Verdict


class NoisyJudge:
    """Add a normal error to a judge's grades, always the same for the same question."""

    def __init__(self, judge: Judge, deviation: float) -> None:
        self._judge = judge
        self._deviation = deviation
        self.name = f"{judge.name}-noise-{deviation:g}"

    @property
    def usage(self) -> Usage:
        """The judge's usage."""
        return self._judge.usage

    def grade(self, requests: Sequence[Question]) -> list[Verdict]:
        """Return the judge's verdicts with their errors."""
        return list(map(self._disturb, requests, self._judge.grade(requests)))

    def _disturb(self, request: Question, verdict: Verdict) -> Verdict:
        if verdict.grade is None:
            return verdict
        fields = (
            request.direction, request.kind, request.identifier, request.text, request.other,
            request.source.text, request.target.text,
        )  # fmt: skip
        rng = random.Random(hashlib.sha256(repr(fields).encode()).digest())
        grade = verdict.grade + rng.gauss(0.0, self._deviation)
        return verdict_of(min(max(grade, LOWEST_GRADE), HIGHEST_GRADE))

    def rewrite(self, requests: Sequence[Phrase]) -> list[Reply]:
        """Rewrite as the judge does."""
        return self._judge.rewrite(requests)

    def sleep(self) -> None:
        """Let the judge sleep."""
        self._judge.sleep()

    def wake(self) -> None:
        """Wake the judge."""
        self._judge.wake()

    def close(self) -> None:
        """Close the judge."""
        self._judge.close()


def noisy(posh: PoSh, deviation: float) -> PoSh:
    """Return the metric with a noisy judge; with deviation 0 unchanged."""
    if not deviation:
        return posh
    return PoSh(NoisyJudge(posh.judge, deviation), witness=posh.witness)
