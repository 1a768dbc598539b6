"""Scores by chance: what any metric has to beat (paper, Table 2)."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from posh_reward.study.agreement.items import Given, Pair
from posh_reward.study.agreement.localise import Alerts
from posh_reward.study.agreement.spans import token_spans
from posh_reward.types import Failure, Span


class Random:
    """A random number for each text, and for each token; the same in every run."""

    name = "random"
    signature = "uniform, seeded by the texts"
    threshold = 0.5

    def score(self, pairs: Sequence[Pair]) -> list[Given]:
        """Three random numbers for each pair."""
        return [self._given(pair) for pair in pairs]

    def _given(self, pair: Pair) -> Given:
        mistakes, omissions, overall = _generator(pair).random(3).tolist()
        return Given(mistakes, omissions, overall)

    def alerts(self, pairs: Sequence[Pair]) -> list[Alerts | Failure]:
        """A random number for each token."""
        return [self._alerts(pair) for pair in pairs]

    def _alerts(self, pair: Pair) -> Alerts:
        generator = _generator(pair)

        def tokens(text: str) -> list[tuple[Span, float]]:
            return [(span, float(generator.random())) for span in token_spans(text)]

        return {"mistakes": tokens(pair.generation), "omissions": tokens(pair.reference)}


def _generator(pair: Pair) -> np.random.Generator:
    text = f"{pair.generation}\0{pair.reference}".encode("utf-8", "surrogatepass")
    return np.random.default_rng(int.from_bytes(blake2b(text, digest_size=8).digest(), "big"))
