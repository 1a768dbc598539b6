"""Affinity of a description's elements to another description, by an encoder's vectors.

Vectors relate words that no dictionary joins: a toddler in a paddling pool, a small child in
shallow water. The cosines become further facts about each question, with weights of their own
(``encoder_weights.json``).
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from math import fsum, isfinite
from pathlib import Path

import numpy as np

from posh_reward.embedded.judge.alignment import Matching
from posh_reward.embedded.judge.features import FOLDER, WEIGHTS, Weights
from posh_reward.embedded.judge.relation_features import Facts
from posh_reward.errors import InputError
from posh_reward.models.encoders import DIGEST_DIGITS, EncodeTokens, Floats32
from posh_reward.types import Description, Kind, Question, Span

Key = tuple[int, str | None, int | None]
"""Identity of an element: entity, text of an attribute or relation, other entity."""

CONTRADICTING = ("denied", "mixed_up", "opposed", "excluded", "turned_round")
"""Facts that suppress the affinities: vectors confuse antonyms, colours and roles."""
AFFINITIES = ("near", "near_its_own", "words_near", "least_word_near", "sentences_near")
"""Names of the facts. For entities each is split in two, by how far the name was found."""


class Phrases:
    """Elements, words and sentences of one description as vectors of length 1.

    Words outside all elements are left out, as everywhere in this judge, except in the mean of a
    sentence.

    Raises:
        ValueError: the encoder did not return one finite vector per span.
    """

    def __init__(self, description: Description, encode: EncodeTokens) -> None:
        spans, vectors, means = _token_vectors(description, encode)
        self.rows: dict[Key, list[int]] = defaultdict(list)
        """Element -> rows; an entity has one for each mention but pronouns."""
        self.things: list[set[int]] = []  # per row the entities that it is about
        pieces: list[list[int]] = []
        for key, things, places in _elements(description):
            own = [i for i, (a, b) in enumerate(spans) if any(a < t and s < b for s, t in places)]
            if own:
                self.rows[key].append(len(pieces))
                self.things.append(things)
                pieces.append(own)
        self.vectors = unit([vectors[own].mean(axis=0) for own in pieces])  # (rows, dimensions)
        covered = sorted({i for own in pieces for i in own})
        place = {i: number for number, i in enumerate(covered)}
        self.words = unit(vectors[covered])  # (covered tokens, dimensions)
        self.words_of = [[place[i] for i in own] for own in pieces]  # per row its rows of ``words``
        self.sentences = unit(means)  # (sentences, dimensions)


def _token_vectors(
    description: Description, encode: EncodeTokens
) -> tuple[list[Span], Floats32, list[Floats32]]:
    sentences: dict[int, list[Span]] = defaultdict(list)
    for token in description.tokens:
        sentences[token.sentence].append(token.span)
    places = [(tokens[0][0], tokens[-1][1]) for tokens in sentences.values()]
    encoded = encode([description.text[start:end] for start, end in places])
    spans: list[Span] = []
    parts: list[Floats32] = []
    for (start, _), sentence in zip(places, encoded, strict=True):
        vectors = np.asarray(sentence.vectors, dtype=np.float32)
        one_each = vectors.ndim == 2 and len(vectors) == len(sentence.spans)
        if not (one_each and np.isfinite(vectors).all()):
            raise ValueError(f"the encoder gave no finite vector for each of {sentence.spans}")
        if len(vectors):
            spans += [(start + a, start + b) for a, b in sentence.spans]
            parts.append(vectors)
    means = [part.mean(axis=0) for part in parts]
    return spans, np.concatenate(parts or [np.zeros((0, 1), np.float32)]), means


def _elements(description: Description) -> list[tuple[Key, set[int], tuple[Span, ...]]]:
    """Identity of each element, the entities that it is about, and its spans."""
    pronouns = {token.span for token in description.tokens if token.pos == "PRON"}
    elements: list[tuple[Key, set[int], tuple[Span, ...]]] = []
    for number, entity in enumerate(description.graph.entities):
        mentions = [span for span in entity.spans if span not in pronouns]
        elements += [((number, None, None), {number}, (span,)) for span in mentions]
        elements += [((number, a.text, None), {number}, a.spans) for a in entity.attributes]
    elements += [
        ((r.subject, r.text, r.object), {r.subject, r.object}, r.spans)
        for r in description.graph.relations
    ]
    return elements


def unit(vectors: Floats32 | list[Floats32]) -> Floats32:
    """Scale vectors to length 1; zeros stay zeros."""
    array = np.asarray(vectors, dtype=np.float32)
    if array.ndim != 2:
        return np.zeros((0, 1), np.float32)
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    scaled: Floats32 = array / np.where(lengths > 0, lengths, np.float32(1))
    return scaled


def cosines(ours: Floats32, theirs: Floats32) -> Floats32:
    """Cosines, (ours, theirs), of vectors of length 1; zeros if a side has none."""
    if not (len(ours) and len(theirs)):
        return np.zeros((len(ours), len(theirs)), np.float32)
    product: Floats32 = ours @ theirs.T
    return product


class Affinity:
    """Cosines of the source's elements with the target; does not keep the vectors."""

    def __init__(self, source: Phrases, target: Phrases) -> None:
        self._rows, self._things = source.rows, target.things
        self._cosines = cosines(source.vectors, target.vectors)
        best = cosines(source.words, target.words).max(axis=1, initial=0.0)
        self._words = [best[own] for own in source.words_of]
        near = cosines(source.sentences, target.sentences).max(axis=1, initial=0.0)
        self._sentences = float(near.mean()) if len(near) else 0.0

    def facts(self, matching: Matching, question: Question, facts: Facts) -> Facts:
        """Affinities of a question's element, given its other ``facts``.

        Contradictions scale them down. For entities each is split in two: as far as the name was
        found, and as far as not.
        """
        near = self._affinities(matching, question)
        if question.kind != "entity":
            open_share = max(0.0, 1 - fsum(facts.get(name, 0.0) for name in CONTRADICTING))
            return {fact: open_share * value for fact, value in near.items()}
        if "nameless" in facts or "place" in facts:
            return {}
        name = facts.get("name", 0.0)
        by_name = {f"{fact}_found": name * value for fact, value in near.items()}
        return by_name | {f"{fact}_unfound": (1 - name) * value for fact, value in near.items()}

    def _affinities(self, matching: Matching, question: Question) -> Facts:
        near = {"sentences_near": self._sentences}
        rows = self._rows.get((question.entity, question.text, question.other_entity))
        if not rows:
            return near
        ends = [end for end in (question.entity, question.other_entity) if end is not None]
        possible = {other for end in ends for other, _ in matching.cast(end)}
        own = [i for i, things in enumerate(self._things) if things & possible]
        near["near"] = float(self._cosines[rows].max(initial=0.0))
        near["near_its_own"] = float(self._cosines[np.ix_(rows, own)].max(initial=0.0))
        near["words_near"] = max(float(self._words[row].mean()) for row in rows)
        near["least_word_near"] = max(float(self._words[row].min()) for row in rows)
        return near


def load_weights(path: str | None) -> tuple[Weights, str]:
    """Load the weights of all facts, and a digest that identifies them.

    Args:
        path: JSON file; None: the shipped one, for all-MiniLM-L6-v2.

    Raises:
        InputError: the file cannot be read, or lacks a finite weight for a fact.
    """
    try:
        file = FOLDER / "encoder_weights.json" if path is None else Path(path)
        text = file.read_text(encoding="utf-8")
        weights: Weights = json.loads(text)
        fits = all(
            list(weights[kind]) == list(names) and all(map(isfinite, weights[kind].values()))
            for kind, names in fact_names().items()
        )
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise InputError(f"the weights {path!r} cannot be read: {error}") from None
    if not fits:
        raise InputError(
            f"the weights {path!r} are not of this judge's facts: fit them again with "
            "research/calibrate_judge.py --encoder"
        )
    return weights, hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def fact_names() -> dict[Kind, tuple[str, ...]]:
    """Kind of question -> all facts that have weights with an encoder, ``bias`` first."""
    split = [f"{fact}_{how}" for how in ("found", "unfound") for fact in AFFINITIES]
    return {
        kind: (*WEIGHTS[kind], *(split if kind == "entity" else AFFINITIES)) for kind in WEIGHTS
    }
