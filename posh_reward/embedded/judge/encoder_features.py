"""Cosines of a description's elements with another description, by an encoder's vectors.

Vectors relate words that no dictionary joins: a toddler in a paddling pool, a small child in
shallow water. The cosines become further features of each question, with weights of their own
(``encoder_weights.json``).
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from itertools import chain
from math import fsum, isfinite
from pathlib import Path

import numpy as np

from posh_reward.embedded.judge.alignment import Alignment
from posh_reward.embedded.judge.features import FOLDER, WEIGHTS, Weights
from posh_reward.embedded.judge.relation_features import Features
from posh_reward.errors import InputError
from posh_reward.models.encoders import DIGEST_DIGITS, EncodeTokens, Floats32
from posh_reward.types import Description, Kind, Question, Span

ElementKey = tuple[int, str | None, int | None]
"""Identity of an element: entity, text of an attribute or relation, other entity."""

SUPPRESSING_FEATURES = ("denied", "mixed_up", "opposed", "excluded", "turned_round")
"""Features that suppress the cosines: vectors confuse antonyms, colours and roles."""
ENCODER_FEATURES = ("near", "near_its_own", "words_near", "least_word_near", "sentences_near")
"""Names of the features. For entities each is split in two, by how far the name was found."""


class EncodedDescription:
    """Elements, words and sentences of one description as vectors of length 1.

    Words outside all elements are left out, as everywhere in this judge, except in the mean of a
    sentence.

    Raises:
        ValueError: the encoder did not return one finite vector per span.
    """

    def __init__(self, description: Description, encode: EncodeTokens) -> None:
        spans, vectors, means = _token_vectors(description, encode)
        self.rows: dict[ElementKey, list[int]] = defaultdict(list)
        """Element -> rows; an entity has one for each mention but pronouns."""
        self.entities: list[set[int]] = []  # per row the entities that it is about
        row_tokens: list[list[int]] = []
        for key, entities, places in _list_elements(description):
            own = _find_overlapping(spans, places)
            if own:
                self.rows[key].append(len(row_tokens))
                self.entities.append(entities)
                row_tokens.append(own)
        means_of_rows = [vectors[own].mean(axis=0) for own in row_tokens]
        self.vectors = scale_to_unit_length(means_of_rows)  # (rows, dimensions)
        covered = sorted(set(chain.from_iterable(row_tokens)))
        self.words = scale_to_unit_length(vectors[covered])  # (covered tokens, dimensions)
        # Per row its rows of ``words``, that is the places of its tokens among the covered ones.
        self.row_words = [np.searchsorted(covered, own).tolist() for own in row_tokens]
        self.sentences = scale_to_unit_length(means)  # (sentences, dimensions)


def _token_vectors(
    description: Description, encode: EncodeTokens
) -> tuple[list[Span], Floats32, list[Floats32]]:
    places: dict[int, Span] = {}  # sentence -> its span
    for token in description.tokens:
        start, _ = places.get(token.sentence, token.span)
        places[token.sentence] = start, token.span[1]
    encoded = encode([description.text[start:end] for start, end in places.values()])
    spans: list[Span] = []
    parts: list[Floats32] = []
    for (start, _), sentence in zip(places.values(), encoded, strict=True):
        vectors = np.asarray(sentence.vectors, dtype=np.float32)
        one_each = vectors.ndim == 2 and len(vectors) == len(sentence.spans)
        if not (one_each and np.isfinite(vectors).all()):
            raise ValueError(f"the encoder gave no finite vector for each of {sentence.spans}")
        if len(vectors):
            spans += [(start + a, start + b) for a, b in sentence.spans]
            parts.append(vectors)
    means = [part.mean(axis=0) for part in parts]
    return spans, np.concatenate(parts or [np.zeros((0, 1), np.float32)]), means


def _find_overlapping(spans: list[Span], places: tuple[Span, ...]) -> list[int]:
    """Indices of the spans that overlap one of the places."""
    indices = []
    for index, (start, end) in enumerate(spans):
        if any(start < place_end and place_start < end for place_start, place_end in places):
            indices.append(index)
    return indices


def _list_elements(description: Description) -> list[tuple[ElementKey, set[int], tuple[Span, ...]]]:
    """Identity of each element, the entities that it is about, and its spans."""
    pronouns = {token.span for token in description.tokens if token.pos == "PRON"}
    elements: list[tuple[ElementKey, set[int], tuple[Span, ...]]] = []
    for number, entity in enumerate(description.graph.entities):
        for span in entity.spans:
            if span not in pronouns:
                elements.append(((number, None, None), {number}, (span,)))
        for attribute in entity.attributes:
            elements.append(((number, attribute.text, None), {number}, attribute.spans))
    for relation in description.graph.relations:
        ends = relation.subject, relation.object
        elements.append(((ends[0], relation.text, ends[1]), set(ends), relation.spans))
    return elements


def scale_to_unit_length(vectors: Floats32 | list[Floats32]) -> Floats32:
    """Scale vectors to length 1; zeros stay zeros."""
    array = np.asarray(vectors, dtype=np.float32)
    if array.ndim != 2:
        return np.zeros((0, 1), np.float32)
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    scaled: Floats32 = array / np.where(lengths > 0, lengths, np.float32(1))
    return scaled


def cosine_matrix(ours: Floats32, theirs: Floats32) -> Floats32:
    """Cosines, (ours, theirs), of vectors of length 1; zeros if a side has none."""
    if not (len(ours) and len(theirs)):
        return np.zeros((len(ours), len(theirs)), np.float32)
    product: Floats32 = ours @ theirs.T
    return product


class EncoderFeatures:
    """Cosines of the source's elements with the target; does not keep the vectors."""

    def __init__(self, source: EncodedDescription, target: EncodedDescription) -> None:
        self._rows, self._target_entities = source.rows, target.entities
        self._cosines = cosine_matrix(source.vectors, target.vectors)
        best = cosine_matrix(source.words, target.words).max(axis=1, initial=0.0)
        self._words = [best[own] for own in source.row_words]
        near = cosine_matrix(source.sentences, target.sentences).max(axis=1, initial=0.0)
        self._sentences = float(near.mean()) if len(near) else 0.0

    def compute_features(
        self, alignment: Alignment, question: Question, features: Features
    ) -> Features:
        """Compute cosines of a question's element, given its other ``features``.

        Contradictions scale them down. For entities each is split in two: as far as the name was
        found, and as far as not.
        """
        near = self._element_cosines(alignment, question)
        if question.kind != "entity":
            suppression = fsum(features.get(name, 0.0) for name in SUPPRESSING_FEATURES)
            open_share = max(0.0, 1 - suppression)
            return {feature: open_share * value for feature, value in near.items()}
        if "nameless" in features or "place" in features:
            return {}
        found = features.get("name", 0.0)
        split = {}
        for feature, value in near.items():
            split[f"{feature}_found"] = found * value
            split[f"{feature}_unfound"] = (1 - found) * value
        return split

    def _element_cosines(self, alignment: Alignment, question: Question) -> Features:
        near = {"sentences_near": self._sentences}
        rows = self._rows.get((question.entity, question.text, question.other_entity))
        if not rows:
            return near
        candidates = dict(alignment.candidates(question.entity))
        if question.other_entity is not None:
            candidates.update(alignment.candidates(question.other_entity))
        own = [i for i, each in enumerate(self._target_entities) if each & candidates.keys()]
        near["near"] = float(self._cosines[rows].max(initial=0.0))
        near["near_its_own"] = float(self._cosines[np.ix_(rows, own)].max(initial=0.0))
        near["words_near"] = max(float(self._words[row].mean()) for row in rows)
        near["least_word_near"] = max(float(self._words[row].min()) for row in rows)
        return near


def load_weights(path: str | None) -> tuple[Weights, str]:
    """Load the weights of all features, and a digest that identifies them.

    Args:
        path: JSON file; None: the shipped one, for all-MiniLM-L6-v2.

    Raises:
        InputError: the file cannot be read, or lacks a finite weight for a feature.
    """
    try:
        file = FOLDER / "encoder_weights.json" if path is None else Path(path)
        text = file.read_text(encoding="utf-8")
        weights: Weights = json.loads(text)
        fits = all(
            list(weights[kind]) == list(names) and all(map(isfinite, weights[kind].values()))
            for kind, names in feature_names().items()
        )
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise InputError(f"the weights {path!r} cannot be read: {error}") from None
    if not fits:
        raise InputError(
            f"the weights {path!r} are not of this judge's features: fit them again with "
            "research/calibrate_judge.py --encoder"
        )
    return weights, hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def feature_names() -> dict[Kind, tuple[str, ...]]:
    """Kind of question -> all features that have weights with an encoder, ``bias`` first."""
    names: dict[Kind, tuple[str, ...]] = {}
    for kind in WEIGHTS:
        names[kind] = (*WEIGHTS[kind], *ENCODER_FEATURES)
    found = [f"{feature}_found" for feature in ENCODER_FEATURES]
    unfound = [f"{feature}_unfound" for feature in ENCODER_FEATURES]
    names["entity"] = (*WEIGHTS["entity"], *found, *unfound)
    return names
