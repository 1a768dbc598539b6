"""Scene graphs compared without a judge, after SPICE and CAPTURE, on our own graphs.

Both measure how much of a graph is in the other: things, attributes of things, relations between
things. Words match if their dictionary forms are equal or share a WordNet synset. These are
likenesses, not the published programs: their parsers differ, and CAPTURE's soft matching by
embeddings is left out. Several references are read as one text, as both merge their graphs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache

from posh_reward.graph.reader import Reader
from posh_reward.lexicon.wordnet import wordnet
from posh_reward.study.agreement.metric_scores import AxisScores, TextPair
from posh_reward.types import Description, Failure, SceneGraph

CAPTURE_WEIGHTS = {"things": 5, "attributes": 5, "relations": 2}
"""Of the three F1s in CAPTURE's mean (its paper, section 3)."""

GraphWords = dict[str, list[tuple[str, ...]]]
"""Kind -> elements, each as its words: a thing; thing and attribute; thing, relation, thing."""


@dataclass(frozen=True, slots=True)
class ElementCounts:
    """Elements of two graphs, and those that the other graph has."""

    our_matches: int
    ours: int
    their_matches: int
    theirs: int

    @property
    def precision(self) -> float:
        """Share of the generation's elements that the reference has; 0 without any."""
        return self.our_matches / self.ours if self.ours else 0.0

    @property
    def recall(self) -> float:
        """Share of the reference's elements that the generation has; 0 without any."""
        return self.their_matches / self.theirs if self.theirs else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


class GraphOverlap:
    """SPICE-like or CAPTURE-like scores.

    Args:
        reader: reads the texts.
        weighted: CAPTURE's mean of three F1s; False: SPICE's F1 over all elements together.
    """

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
        return [self._score(*each) for each in zip(generations, references, strict=True)]

    def _score(
        self, generation: Description | Failure, reference: Description | Failure
    ) -> AxisScores:
        for text in (generation, reference):
            if isinstance(text, Failure):
                return AxisScores(failure=text)
        assert isinstance(generation, Description)
        assert isinstance(reference, Description)
        ours, theirs = graph_words(generation.graph), graph_words(reference.graph)
        by_kind = {kind: count_matches(ours[kind], theirs[kind]) for kind in CAPTURE_WEIGHTS}
        if self._weighted:
            return _weighted_means(by_kind)
        together = ElementCounts(*map(sum, zip(*map(astuple, by_kind.values()), strict=True)))
        return AxisScores(together.precision, together.recall, together.f1)


def _weighted_means(by_kind: dict[str, ElementCounts]) -> AxisScores:
    """Weighted means over the kinds that either text has."""
    weights = {k: w for k, w in CAPTURE_WEIGHTS.items() if by_kind[k].ours or by_kind[k].theirs}
    total = sum(weights.values()) or 1

    def mean(name: str) -> float:
        return float(sum(w * getattr(by_kind[k], name) for k, w in weights.items()) / total)

    return AxisScores(mean("precision"), mean("recall"), mean("f1"))


def graph_words(graph: SceneGraph) -> GraphWords:
    """The distinct elements of a graph, without those of the viewer ("our left")."""
    names = [entity.head for entity in graph.entities]
    visible = [not entity.flagged for entity in graph.entities]
    words: GraphWords = {"things": [], "attributes": [], "relations": []}
    for entity in graph.entities:
        if not entity.flagged:
            words["things"].append((entity.head,))
            words["attributes"] += [(entity.head, each.text) for each in entity.attributes]
    words["relations"] += [
        (names[each.subject], each.text, names[each.object])
        for each in graph.relations
        if visible[each.subject] and visible[each.object]
    ]
    return {kind: list(dict.fromkeys(elements)) for kind, elements in words.items()}


def count_matches(
    ours: Sequence[tuple[str, ...]], theirs: Sequence[tuple[str, ...]]
) -> ElementCounts:
    """Count the elements of each side that the other has."""

    def matches(some: Sequence[tuple[str, ...]], others: Sequence[tuple[str, ...]]) -> int:
        return sum(any(all(map(same_word, a, b)) for b in others) for a in some)

    return ElementCounts(matches(ours, theirs), len(ours), matches(theirs, ours), len(theirs))


def same_word(one: str, other: str) -> bool:
    """Tell if two words or phrases are the same, or synonyms."""
    return one.lower() == other.lower() or bool(meanings(one) & meanings(other))


@lru_cache(maxsize=100_000)
def meanings(text: str) -> frozenset[Hashable]:
    """Dictionary forms of a word, and its synsets; a phrase has those of its forms joined."""
    table = wordnet()
    words = text.lower().split()
    if len(words) != 1:
        return frozenset([" ".join((table.lemmas(word) or (word,))[0] for word in words)])
    lemmas = table.lemmas(words[0]) or (words[0],)
    return frozenset([*lemmas, *(synset for lemma in lemmas for synset, _ in table.senses(lemma))])
