"""A witness that is sometimes wrong, as real ones are."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

from posh_reward.metrics.posh.judges.oracle import Oracle
from posh_reward.types import Question, Verdict


class ErringWitness(Oracle):
    """The oracle, with a share ``rate`` of its answers flipped, always the same ones."""

    def __init__(self, dataset: str, rate: float) -> None:
        super().__init__(dataset)
        self._rate = rate

    @property
    def name(self) -> str:
        """The oracle's name, and the error rate."""
        return f"{super().name}-erring-{self._rate:g}"

    def grade(self, requests: Sequence[Question]) -> list[Verdict]:
        """Return the oracle's verdicts, some of them flipped."""
        verdicts = super().grade(requests)
        return [self._report(*each) for each in zip(requests, verdicts, strict=True)]

    def _report(self, request: Question, verdict: Verdict) -> Verdict:
        if verdict.probabilities is None or request.image is None:
            return verdict
        fields = (request.kind, request.identifier, request.text, request.other,
                 request.source.text, request.image.digest)  # fmt: skip
        rng = random.Random(hashlib.sha256(repr(fields).encode()).digest())
        return Verdict(verdict.probabilities[::-1]) if rng.random() < self._rate else verdict
