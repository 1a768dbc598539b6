"""The embedded judge: answers from the target's own scene graph, on a CPU.

It looks for the thing that corresponds (head noun, attributes, neighbours), and then for support
*of that thing*, by lemma, synonym, genus, number, colour and side. It is no language model: its
scores are not POSH's published ones.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from math import comb
from typing import Any

from posh_reward.metrics.posh.judges.embedded.evidence import facts_of, ruled, weighed
from posh_reward.metrics.posh.judges.embedded.matching import Matching
from posh_reward.metrics.posh.judges.embedded.reading import Reading
from posh_reward.types import LABELS, Description, Phrase, Question, Reply, Usage, Verdict

KEPT = 1024
"""Readings and matchings that are kept while awake: enough for 256 pairs at once."""
RESTING = 128
"""The same from one batch to the next."""
CERTAIN = 0.995
"""Most of the way from the worst to the best label that a grade can lie."""


class EmbeddedJudge:
    """A judge without a model: no download, no GPU, the same answer every time."""

    def __init__(self) -> None:
        self.usage = Usage()
        self._readings: OrderedDict[str, tuple[Description, Reading]] = OrderedDict()
        self._matchings: OrderedDict[tuple[str, str], Matching] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readings": OrderedDict(), "_matchings": OrderedDict()}

    @property
    def name(self) -> str:
        """Version of the rules and of the word table."""
        return "embedded-6"

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        """One verdict per question, in order; it never abstains."""
        start = time.perf_counter()
        verdicts = [
            Verdict(distribution(self._value(question), len(LABELS))) for question in questions
        ]
        self.usage.requests += len(questions)
        self.usage.seconds += time.perf_counter() - start
        return verdicts

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        """``small dog`` -> ``the small dog``: the words are in order already."""
        self.usage.rewrites += len(phrases)
        return [Reply(f"the {phrase.text}") for phrase in phrases]

    def sleep(self) -> None:
        """Forget all but the latest readings."""
        self._trim(RESTING)

    def wake(self) -> None:
        """Nothing to get ready."""

    def close(self) -> None:
        """Forget what was read."""
        self._readings.clear()
        self._matchings.clear()

    def _value(self, question: Question) -> float:
        matching = self._matching(question.source, question.target)
        value = weighed(question.kind, facts_of(matching, question))
        return ruled(matching, question, value)

    def _matching(self, source: Description, target: Description) -> Matching:
        a, b = self._reading(source), self._reading(target)
        matching = self._matchings.get((source.text, target.text))
        if matching is None or matching.source is not a or matching.target is not b:
            matching = self._matchings[source.text, target.text] = Matching(a, b)
            self._trim(KEPT)
        return matching

    def _reading(self, description: Description) -> Reading:
        earlier, reading = self._readings.get(description.text, (None, None))
        if reading is not None and earlier is description:
            return reading
        # An equal description that was read anew is the same one; its text alone is not enough.
        if reading is None or earlier != description:
            reading = Reading(description)
        self._readings[description.text] = (description, reading)
        self._trim(KEPT)
        return reading

    def _trim(self, most: int) -> None:
        for cache in (self._readings, self._matchings):
            while len(cache) > most:
                cache.popitem(last=False)


@lru_cache(maxsize=10_000)
def distribution(value: float, labels: int) -> tuple[float, ...]:
    """Binomial over the labels, with its mean at ``value`` of the way from worst to best."""
    last = labels - 1
    share = min(CERTAIN, max(1 - CERTAIN, value))
    return tuple(comb(last, k) * share**k * (1 - share) ** (last - k) for k in range(labels))
