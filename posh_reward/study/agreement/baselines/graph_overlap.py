"""Scene graphs compared without a judge, like SPICE and CAPTURE, on our own graphs.

Both measure the overlap of two graphs: objects, their attributes, and relations between them. Words
match if their lemmas are equal or share a WordNet synset. These imitate the published programs,
whose parsers differ; CAPTURE's soft matching by embeddings is left out. Several references are
joined into one text, as both programs merge their graphs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from math import fsum
from operator import mul

import numpy as np

from posh_reward.graph.reader import Reader
from posh_reward.lexicon.wordnet import wordnet
from posh_reward.study.agreement.metric_scores import AxisScores, TextPair
from posh_reward.study.agreement.rater_agreement import Matches
from posh_reward.types import Description, Failure, SceneGraph

CAPTURE_WEIGHTS = {"objects": 5, "attributes": 5, "relations": 2}
"""Weights of the three F1s in CAPTURE's mean (its paper, section 3)."""

GraphWords = dict[str, list[tuple[str, ...]]]
"""Kind -> elements as words: (object,), (object, attribute), (object, relation, object)."""


class GraphOverlap:
    """CAPTURE-like scores (a weighted mean of three F1s), or SPICE-like (F1 of all elements)."""

    def __init__(self, reader: Reader, *, weighted: bool) -> None:
        self.name = "CAPTURE-like" if weighted else "SPICE-like"
        self._reader = reader
        self._weighted = weighted

    @property
    def signature(self) -> str:
        """Parser and coreference of the graphs."""
        return f"{self.name}|parser:{self._reader.parser_name}|coref:{self._reader.coref.name}"

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """Precision, recall and F1 of matching elements."""
        generations = self._reader.read([pair.generation for pair in pairs], keep=True)
        references = self._reader.read([pair.reference for pair in pairs], keep=True)
        return list(map(self._score, generations, references))

    def _score(
        self, generation: Description | Failure, reference: Description | Failure
    ) -> AxisScores:
        if isinstance(generation, Failure):
            return AxisScores(failure=generation)
        if isinstance(reference, Failure):
            return AxisScores(failure=reference)
        ours, theirs = graph_words(generation.graph), graph_words(reference.graph)
        by_kind = {kind: count_matches(ours[kind], theirs[kind]) for kind in CAPTURE_WEIGHTS}
        if self._weighted:
            return _weighted_means(by_kind)
        return AxisScores(*_scores(sum(by_kind.values(), Matches())))


def _scores(matches: Matches) -> tuple[float, float, float]:
    """Precision, recall and F1; 0 where a text has no elements."""
    precision, recall, f1 = np.nan_to_num([matches.precision, matches.recall, matches.f1]).tolist()
    return precision, recall, f1


def _weighted_means(by_kind: dict[str, Matches]) -> AxisScores:
    """Weighted means over the kinds that either text has."""
    weights = {k: w for k, w in CAPTURE_WEIGHTS.items() if by_kind[k].first or by_kind[k].second}
    if not weights:
        return AxisScores.same(0.0)
    by_axis = zip(*(_scores(by_kind[kind]) for kind in weights), strict=True)
    total = fsum(weights.values())
    precision, recall, f1 = (fsum(map(mul, weights.values(), s)) / total for s in by_axis)
    return AxisScores(precision, recall, f1)


def graph_words(graph: SceneGraph) -> GraphWords:
    """Distinct elements of a graph, without those of the viewer ("our left")."""
    entities = graph.entities
    visible = [entity for entity in entities if not entity.flagged]
    words: GraphWords = {
        "objects": [(entity.head,) for entity in visible],
        "attributes": [
            (entity.head, each.text) for entity in visible for each in entity.attributes
        ],
        "relations": [
            (entities[each.subject].head, each.text, entities[each.object].head)
            for each in graph.relations
            if not entities[each.subject].flagged and not entities[each.object].flagged
        ],
    }
    return {kind: list(dict.fromkeys(elements)) for kind, elements in words.items()}


def count_matches(ours: Sequence[tuple[str, ...]], theirs: Sequence[tuple[str, ...]]) -> Matches:
    """Count the elements of each side that match one of the other."""

    def matches(some: Sequence[tuple[str, ...]], others: Sequence[tuple[str, ...]]) -> int:
        return sum(any(all(map(same_word, a, b)) for b in others) for a in some)

    return Matches(matches(ours, theirs), len(ours), matches(theirs, ours), len(theirs))


def same_word(one: str, other: str) -> bool:
    """Test if two words or phrases are equal or synonyms."""
    return one.lower() == other.lower() or bool(meanings(one) & meanings(other))


@lru_cache(maxsize=100_000)
def meanings(text: str) -> frozenset[Hashable]:
    """Lemmas and synsets of a word; for a phrase its lemmas, joined."""
    table = wordnet()
    words = text.lower().split()
    if len(words) != 1:
        return frozenset([" ".join((table.lemmas(word) or (word,))[0] for word in words)])
    lemmas = table.lemmas(words[0]) or (words[0],)
    return frozenset([*lemmas, *(synset for lemma in lemmas for synset, _ in table.senses(lemma))])
