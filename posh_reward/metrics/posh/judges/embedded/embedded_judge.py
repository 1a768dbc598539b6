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

from posh_reward.errors import InputError
from posh_reward.metrics.posh.judges.embedded.affinity import Affinity, Phrases, load_weights
from posh_reward.metrics.posh.judges.embedded.evidence import (
    WEIGHTS,
    Facts,
    Weights,
    facts_of,
    overrule,
    weigh,
)
from posh_reward.metrics.posh.judges.embedded.matching import Matching
from posh_reward.metrics.posh.judges.embedded.reading import Reading
from posh_reward.models.token_encoder import (
    EncodeTokens,
    load_token_encoder,
    token_encoder_name,
)
from posh_reward.types import LABELS, Description, Phrase, Question, Reply, Usage, Verdict

VERSION = "embedded-7"
CAPACITY = 1024  # readings and matchings that are kept while awake: enough for 256 pairs at once
RESTING = 128  # the same from one batch to the next
ENCODED = 64
"""Texts whose vectors are kept: a group's reference, not a batch; each may hold a megabyte."""
CERTAIN = 0.995  # most of the way from the worst to the best label that a grade can lie


class EmbeddedJudge:
    """A judge without a language model: no GPU, the same answer every time.

    Args:
        encoder: a small encoder, whose vectors become facts: a model of sentence-transformers by
            folder or name on the hub, ``module:function``, or a function. None: no download.
        weights: JSON file with weights for this encoder, as ``research/calibrate_judge.py``
            writes it; None: those fitted for all-MiniLM-L6-v2.

    Raises:
        InputError: there is no such encoder, or the weights do not fit.
        MissingDependencyError: the encoder's library is not installed.
    """

    def __init__(
        self, encoder: str | EncodeTokens | None = None, weights: str | None = None
    ) -> None:
        self.usage = Usage()
        self._encode = None if encoder is None else load_token_encoder(encoder)
        self.weights: Weights = WEIGHTS
        self._name = VERSION
        if self._encode is not None:
            self.weights, digest = load_weights(weights)
            self._name = f"{VERSION}+encoder:{token_encoder_name(self._encode)}/{digest}"
        elif weights is not None:
            raise InputError("weights are given without an encoder: name one, or leave them out")
        self._phrases: OrderedDict[str, tuple[Description, Phrases]] = OrderedDict()
        self._affinities: OrderedDict[tuple[str, str], tuple[Matching, Affinity]] = OrderedDict()
        self._readings: OrderedDict[str, tuple[Description, Reading]] = OrderedDict()
        self._matchings: OrderedDict[tuple[str, str], Matching] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        caches = ("_readings", "_matchings", "_phrases", "_affinities")
        return {**self.__dict__, **{cache: OrderedDict() for cache in caches}}

    @property
    def name(self) -> str:
        """Version of the rules and of the word table; the encoder's digest and the weights'."""
        return self._name

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
        for cache in (self._readings, self._matchings, self._phrases, self._affinities):
            cache.clear()

    def _value(self, question: Question) -> float:
        matching = self._matching(question.source, question.target)
        value = weigh(self.weights[question.kind], self._facts(matching, question))
        return overrule(matching, question, value)

    def _facts(self, matching: Matching, question: Question) -> Facts:
        facts = facts_of(matching, question)
        if self._encode is None:
            return facts
        affinity = self._affinity(matching, question.source, question.target)
        return facts | affinity.facts(matching, question, facts)

    def _affinity(self, matching: Matching, source: Description, target: Description) -> Affinity:
        earlier, affinity = self._affinities.get((source.text, target.text), (None, None))
        if affinity is None or earlier is not matching:
            ours, theirs = self._vectors(source), self._vectors(target)
            # Both ways at once: by the time the other is asked about, the vectors are forgotten.
            back = self._matching(target, source), Affinity(theirs, ours)
            self._affinities[target.text, source.text] = back
            affinity = Affinity(ours, theirs)
            self._affinities[source.text, target.text] = matching, affinity
            self._trim(CAPACITY)
        return affinity

    def _vectors(self, description: Description) -> Phrases:
        assert self._encode is not None, "facts of vectors need an encoder"
        earlier, phrases = self._phrases.get(description.text, (None, None))
        if phrases is None or earlier is None or not reads_alike(earlier, description):
            phrases = Phrases(description, self._encode)
        self._phrases[description.text] = description, phrases
        while len(self._phrases) > ENCODED:
            self._phrases.popitem(last=False)
        return phrases

    def _matching(self, source: Description, target: Description) -> Matching:
        a, b = self._reading(source), self._reading(target)
        matching = self._matchings.get((source.text, target.text))
        if matching is None or matching.source is not a or matching.target is not b:
            matching = self._matchings[source.text, target.text] = Matching(a, b)
            self._trim(CAPACITY)
        return matching

    def _reading(self, description: Description) -> Reading:
        earlier, reading = self._readings.get(description.text, (None, None))
        if reading is not None and earlier is description:
            return reading
        # An equal description that was read anew is the same one; its text alone is not enough.
        if reading is None or earlier is None or not reads_alike(earlier, description):
            reading = Reading(description)
        self._readings[description.text] = (description, reading)
        self._trim(CAPACITY)
        return reading

    def _trim(self, most: int) -> None:
        for cache in (self._readings, self._matchings, self._affinities):
            while len(cache) > most:
                cache.popitem(last=False)


def reads_alike(one: Description, other: Description) -> bool:
    """True if two descriptions of one text differ at most in white space around it.

    A generation that equals its reference but for a final line break would otherwise be read anew
    for each question, in turns with the reference.
    """
    return (one.graph, one.tokens, one.clusters) == (other.graph, other.tokens, other.clusters)


@lru_cache(maxsize=10_000)
def distribution(value: float, labels: int) -> tuple[float, ...]:
    """Binomial over the labels, with its mean at ``value`` of the way from worst to best."""
    last = labels - 1
    share = min(CERTAIN, max(1 - CERTAIN, value))
    return tuple(comb(last, k) * share**k * (1 - share) ** (last - k) for k in range(labels))
