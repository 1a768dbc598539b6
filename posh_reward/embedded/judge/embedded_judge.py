"""The embedded judge: monolingual alignment of two scene graphs, on a CPU.

It aligns the entities of two descriptions (by head noun, attributes, neighbours), computes
hand-made features of each question, such as support for an attribute *at that entity*, and predicts
the probability of "present" by logistic regression. It is no language model: its scores are not
POSH's published ones. Files, in the order to read::

    index              one description: its entities, and what is said of each
    same_sentences     what both say in the same words
    negation           words that a text denies
    alignment          which entities and words of two descriptions correspond
    relation_features  features of relations and places
    features           features of all questions, the regression (weights.json), and overrides
    encoder_features   further features from an encoder's vectors, if there is one
    contradictions     what contradicts a whole sentence for certain
    embedded_judge     the protocol: questions -> distributions over grades
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from math import comb
from typing import Any, TypeVar

from posh_reward.embedded.judge.alignment import Alignment
from posh_reward.embedded.judge.contradictions import (
    CONTRADICTED,
    UNMENTIONED,
    find_contradictions,
)
from posh_reward.embedded.judge.encoder_features import (
    EncodedDescription,
    EncoderFeatures,
    load_weights,
)
from posh_reward.embedded.judge.features import (
    WEIGHTS,
    PairFeatures,
    Weights,
    apply_overrides,
    predict,
)
from posh_reward.embedded.judge.index import DescriptionIndex
from posh_reward.embedded.judge.relation_features import Features
from posh_reward.embedded.judge.same_sentences import says_the_same
from posh_reward.errors import InputError
from posh_reward.models.encoders import EncodeTokens, load_token_encoder, token_encoder_name
from posh_reward.types import LABELS, Description, Phrase, Question, Reply, Sentence, Usage, Verdict

VERSION = "embedded-16"
MAX_CACHED_WHILE_AWAKE = 1024  # indexes, and pairs of them: enough for 256 pairs at once
MAX_CACHED_WHILE_ASLEEP = 128  # of these, from one batch to the next
MAX_ENCODED_TEXTS = 64
"""Texts whose vectors are kept: a group's reference, not a batch; each may take a megabyte."""
MAX_VALUE = 0.995  # as a share of the way from the worst to the best label

T = TypeVar("T")


class EmbeddedJudge:
    """A judge without a language model: no GPU, and the same answer every time.

    Args:
        encoder: a small encoder whose vectors become features: a sentence-transformers model by
            folder or hub name, ``module:function``, or a function. None: no download.
        weights: JSON file with weights for this encoder, as ``research/calibrate_judge.py``
            writes it; None: those fitted for all-MiniLM-L6-v2.

    Raises:
        InputError: the encoder is unknown, or the weights do not fit.
        MissingDependencyError: the encoder's library is not installed.
    """

    takes_images = False

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
        self._indexes: dict[str, tuple[Description, DescriptionIndex]] = {}
        self._encoded: dict[str, tuple[Description, EncodedDescription]] = {}
        self._pair_features: dict[tuple[str, str], PairFeatures] = {}
        self._encoder_features: dict[tuple[str, str], EncoderFeatures] = {}

    def __getstate__(self) -> dict[str, Any]:
        caches = ("_indexes", "_encoded", "_pair_features", "_encoder_features")
        return {**self.__dict__, **{cache: {} for cache in caches}}

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
        values = map(self._predict_value, questions)
        verdicts = [Verdict(binomial_distribution(value, len(LABELS))) for value in values]
        self.usage.requests += len(questions)
        self.usage.seconds += time.perf_counter() - start
        return verdicts

    def read(self, sentences: Sequence[Sentence]) -> list[Verdict]:
        """One verdict per sentence, in order: contradicted for certain, or unmentioned."""
        start = time.perf_counter()
        verdicts: list[Verdict] = []
        for (source, target), group in groupby(sentences, key=lambda each: each[:2]):
            places = list(find_contradictions(self.compare(source, target).alignment))
            for sentence in group:
                first, last = sentence.span
                found = any(first <= place < last for place in places)
                verdicts.append(CONTRADICTED if found else UNMENTIONED)
        self.usage.requests += len(sentences)
        self.usage.seconds += time.perf_counter() - start
        return verdicts

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        """``small dog`` -> ``the small dog``: the words are already in order."""
        self.usage.rewrites += len(phrases)
        return [Reply(f"the {phrase.text}") for phrase in phrases]

    def sleep(self) -> None:
        """Forget all but the latest indexes and features."""
        drop_oldest(self._indexes, MAX_CACHED_WHILE_ASLEEP)
        drop_oldest(self._pair_features, MAX_CACHED_WHILE_ASLEEP)
        drop_oldest(self._encoder_features, MAX_CACHED_WHILE_ASLEEP)

    def wake(self) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Forget all indexes and features."""
        for cache in (self._indexes, self._encoded, self._pair_features, self._encoder_features):
            cache.clear()

    def _predict_value(self, question: Question) -> float:
        pair_features = self.compare(question.source, question.target)
        source, target = pair_features.alignment.source, pair_features.alignment.target
        if says_the_same(source.statements, target.statements, question):
            return 1.0
        features = self._compute_features(pair_features, question)
        value = predict(self.weights[question.kind], features)
        value = apply_overrides(pair_features.alignment, question, value)
        return min(value, self._bound_relation(pair_features.alignment, list_ends(question)))

    def _bound_relation(self, alignment: Alignment, ends: Sequence[Question]) -> float:
        """Bound a relation by what it joins: where there is no monkey, no monkey holds a kite.

        It is no likelier than the better known of its ends, nor than one without a counterpart.
        """
        if not ends:
            return 1.0
        presence = {end.entity: self._predict_presence(end) for end in ends}
        alone = [value for end, value in presence.items() if not alignment.candidates(end)]
        return min([max(presence.values()), *alone])

    def _predict_presence(self, end: Question) -> float:
        """Predict how far an end of a relation is there.

        1 for places and pronouns, which are as far there as what is said of them.
        """
        features = self.compare(end.source, end.target).compute_features(end)
        if "nameless" in features or "place" in features:
            return 1.0
        return self._predict_value(end)

    def _compute_features(self, pair_features: PairFeatures, question: Question) -> Features:
        features = pair_features.compute_features(question)
        if self._encode is None:
            return features
        encoder = self._load_encoder_features(question.source, question.target)
        return features | encoder.compute_features(pair_features.alignment, question, features)

    def _load_encoder_features(self, source: Description, target: Description) -> EncoderFeatures:
        features = self._encoder_features.get((source.text, target.text))
        if features is None:
            ours, theirs = self._encode_description(source), self._encode_description(target)
            # Both directions at once: the vectors may be gone when the other is asked about.
            self._encoder_features[target.text, source.text] = EncoderFeatures(theirs, ours)
            features = EncoderFeatures(ours, theirs)
            self._encoder_features[source.text, target.text] = features
            drop_oldest(self._encoder_features, MAX_CACHED_WHILE_AWAKE)
        return features

    def _encode_description(self, description: Description) -> EncodedDescription:
        encode = self._encode
        assert encode is not None, "features from vectors need an encoder"
        return get_or_make(
            self._encoded, description, lambda d: EncodedDescription(d, encode), MAX_ENCODED_TEXTS
        )

    def compare(self, source: Description, target: Description) -> PairFeatures:
        """Return the features of ``source``'s elements from ``target``, kept for further calls."""
        a = get_or_make(self._indexes, source, DescriptionIndex, MAX_CACHED_WHILE_AWAKE)
        b = get_or_make(self._indexes, target, DescriptionIndex, MAX_CACHED_WHILE_AWAKE)
        features = self._pair_features.get((source.text, target.text))
        if features is None or (features.alignment.source, features.alignment.target) != (a, b):
            features = PairFeatures(Alignment(a, b))
            self._pair_features[source.text, target.text] = features
            self._encoder_features.pop((source.text, target.text), None)  # of other indexes
            drop_oldest(self._pair_features, MAX_CACHED_WHILE_AWAKE)
        return features


def list_ends(question: Question) -> list[Question]:
    """List the questions about the two entities of a relation; none of any other kind."""
    if question.other is None or question.other_entity is None:
        return []
    end = question._replace(kind="entity", text=None, other=None, other_entity=None)
    return [end, end._replace(identifier=question.other, entity=question.other_entity)]


def get_or_make(
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
    drop_oldest(cache, capacity)
    return entry[1]


def drop_oldest(cache: dict[Any, Any], capacity: int) -> None:
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
def binomial_distribution(value: float, labels: int) -> tuple[float, ...]:
    """Binomial over the labels; its mean lies ``value``, 0 to 1, of the way from worst to best."""
    last = labels - 1
    share = min(MAX_VALUE, max(1 - MAX_VALUE, value))
    return tuple(comb(last, k) * share**k * (1 - share) ** (last - k) for k in range(labels))
