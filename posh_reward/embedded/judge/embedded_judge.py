"""The embedded judge: answers from the target's own scene graph, on a CPU.

It looks for the corresponding thing (by head noun, attributes, neighbours), then for support *for
that thing*, by lemma, synonym, genus, number, colour and side. It is no language model: its scores
are not POSH's published ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import comb
from typing import Any, TypeVar

from posh_reward.embedded.judge.alignment import Matching
from posh_reward.embedded.judge.encoder_features import Affinity, Phrases, load_weights
from posh_reward.embedded.judge.features import WEIGHTS, PairFacts, Weights, overrule, weigh
from posh_reward.embedded.judge.index import Reading
from posh_reward.embedded.judge.relation_features import Facts
from posh_reward.errors import InputError
from posh_reward.models.encoders import (
    EncodeTokens,
    load_token_encoder,
    token_encoder_name,
)
from posh_reward.types import LABELS, Description, Phrase, Question, Reply, Usage, Verdict

VERSION = "embedded-13"
CAPACITY = 1024  # readings, and pairs of them, kept while awake: enough for 256 pairs at once
RESTING = 128  # the same from one batch to the next
ENCODED = 64
"""Texts whose vectors are kept: a group's reference, not a batch; each may take a megabyte."""
CERTAIN = 0.995  # maximum value, as a share of the way from the worst to the best label

T = TypeVar("T")


class EmbeddedJudge:
    """A judge without a language model: no GPU, and the same answer every time.

    Args:
        encoder: a small encoder whose vectors become facts: a sentence-transformers model by
            folder or hub name, ``module:function``, or a function. None: no download.
        weights: JSON file with weights for this encoder, as ``research/calibrate_judge.py``
            writes it; None: those fitted for all-MiniLM-L6-v2.

    Raises:
        InputError: the encoder is unknown, or the weights do not fit.
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
        # By text, oldest first, with the description that each was made from.
        self._readings: dict[str, tuple[Description, Reading]] = {}
        self._phrases: dict[str, tuple[Description, Phrases]] = {}
        self._pair_facts: dict[tuple[str, str], PairFacts] = {}
        self._affinities: dict[tuple[str, str], Affinity] = {}

    def __getstate__(self) -> dict[str, Any]:
        caches = ("_readings", "_phrases", "_pair_facts", "_affinities")
        return {**self.__dict__, **{cache: {} for cache in caches}}

    takes_images = False

    @property
    def works_in_processes(self) -> bool:
        """True if worker processes can answer as this judge does: it is the default one."""
        return type(self) is EmbeddedJudge and self._encode is None

    @property
    def name(self) -> str:
        """Version of the rules and the lexicon, and the digests of an encoder and its weights."""
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
        """``small dog`` -> ``the small dog``: the words are already in order."""
        self.usage.rewrites += len(phrases)
        return [Reply(f"the {phrase.text}") for phrase in phrases]

    def sleep(self) -> None:
        """Forget all but the latest readings."""
        trim(self._readings, RESTING)
        trim(self._pair_facts, RESTING)
        trim(self._affinities, RESTING)

    def wake(self) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Forget all readings."""
        for cache in (self._readings, self._phrases, self._pair_facts, self._affinities):
            cache.clear()

    def _value(self, question: Question) -> float:
        pair_facts = self._facts_between(question.source, question.target)
        value = weigh(self.weights[question.kind], self._facts(pair_facts, question))
        return overrule(pair_facts.matching, question, value)

    def _facts(self, pair_facts: PairFacts, question: Question) -> Facts:
        facts = pair_facts.about(question)
        if self._encode is None:
            return facts
        affinity = self._affinity(question.source, question.target)
        return facts | affinity.facts(pair_facts.matching, question, facts)

    def _affinity(self, source: Description, target: Description) -> Affinity:
        affinity = self._affinities.get((source.text, target.text))
        if affinity is None:
            ours, theirs = self._vectors(source), self._vectors(target)
            # Both directions at once: the vectors may be gone when the other is asked about.
            self._affinities[target.text, source.text] = Affinity(theirs, ours)
            affinity = self._affinities[source.text, target.text] = Affinity(ours, theirs)
            trim(self._affinities, CAPACITY)
        return affinity

    def _vectors(self, description: Description) -> Phrases:
        encode = self._encode
        assert encode is not None, "facts from vectors need an encoder"
        return cached(self._phrases, description, lambda d: Phrases(d, encode), ENCODED)

    def _facts_between(self, source: Description, target: Description) -> PairFacts:
        a = cached(self._readings, source, Reading, CAPACITY)
        b = cached(self._readings, target, Reading, CAPACITY)
        facts = self._pair_facts.get((source.text, target.text))
        if facts is None or (facts.matching.source, facts.matching.target) != (a, b):
            facts = self._pair_facts[source.text, target.text] = PairFacts(Matching(a, b))
            self._affinities.pop((source.text, target.text), None)  # of other readings
            trim(self._pair_facts, CAPACITY)
        return facts


def cached(
    cache: dict[str, tuple[Description, T]],
    description: Description,
    make: Callable[[Description], T],
    capacity: int,
) -> T:
    """Return what was made of an equal description, or make it.

    The text alone is not enough: another parser may have read it differently.
    """
    entry = cache.get(description.text)
    if entry is not None and entry[0] is description:
        return entry[1]
    if entry is None or not reads_alike(entry[0], description):
        entry = description, make(description)
    cache[description.text] = description, entry[1]
    trim(cache, capacity)
    return entry[1]


def trim(cache: dict[Any, Any], capacity: int) -> None:
    """Drop the oldest entries beyond ``capacity``; a dict keeps the order of insertion."""
    while len(cache) > capacity:
        del cache[next(iter(cache))]


def reads_alike(one: Description, other: Description) -> bool:
    """Return True if two descriptions of one text differ at most in the white space around it.

    Otherwise a generation that equals its reference but for a final line break would be read
    again for each question, because it and the reference would alternate.
    """
    return (one.graph, one.tokens, one.clusters) == (other.graph, other.tokens, other.clusters)


@lru_cache(maxsize=10_000)
def distribution(value: float, labels: int) -> tuple[float, ...]:
    """Binomial over the labels; its mean lies ``value``, 0 to 1, of the way from worst to best."""
    last = labels - 1
    share = min(CERTAIN, max(1 - CERTAIN, value))
    return tuple(comb(last, k) * share**k * (1 - share) ** (last - k) for k in range(labels))
