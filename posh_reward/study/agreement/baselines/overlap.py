"""Scene graphs compared without a judge, after SPICE and CAPTURE, on our own graphs.

Both say what of a graph is in the other: things, attributes of things, relations between things.
Words match if their dictionary forms are equal or share a WordNet synset. These are likenesses, not
the published programs: their parsers differ, and CAPTURE's soft matching by embeddings is left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache

from posh_reward.graph.reader import Reader
from posh_reward.lexicon.wordnet import wordnet
from posh_reward.study.agreement.items import Given, Pair
from posh_reward.types import Description, Failure, SceneGraph

CAPTURE_WEIGHTS = {"things": 5, "attributes": 5, "relations": 2}
"""Of the three F1s in CAPTURE's mean (its paper, section 3)."""

Parts = dict[str, list[tuple[str, ...]]]
"""Kind -> elements, each as its words: a thing; thing and attribute; thing, relation, thing."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Matched elements of two graphs, by direction."""

    found: int
    given: int
    recalled: int
    sought: int

    @property
    def precision(self) -> float:
        """Share of the generation's elements that the reference has; 0 without any."""
        return self.found / self.given if self.given else 0.0

    @property
    def recall(self) -> float:
        """Share of the reference's elements that the generation has; 0 without any."""
        return self.recalled / self.sought if self.sought else 0.0

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
        """What the graphs depend on."""
        return f"{self.name}|parser:{self._reader.parser_name}|coref:{self._reader.coref.name}"

    def score(self, pairs: Sequence[Pair]) -> list[Given]:
        """Precision, recall and F1 of matched elements."""
        generations = self._reader.read([pair.generation for pair in pairs], keep=True)
        references = self._reader.read([pair.reference for pair in pairs], keep=True)
        return [self._given(*each) for each in zip(generations, references, strict=True)]

    def _given(self, generation: Description | Failure, reference: Description | Failure) -> Given:
        for read in (generation, reference):
            if isinstance(read, Failure):
                return Given(failure=read)
        assert isinstance(generation, Description)
        assert isinstance(reference, Description)
        ours, theirs = parts(generation.graph), parts(reference.graph)
        by_kind = {kind: matched(ours[kind], theirs[kind]) for kind in CAPTURE_WEIGHTS}
        if self._weighted:
            return _weighted(by_kind)
        together = Counts(*map(sum, zip(*map(astuple, by_kind.values()), strict=True)))
        return Given(together.precision, together.recall, together.f1)


def _weighted(by_kind: dict[str, Counts]) -> Given:
    """Weighted means over the kinds that either text has."""
    weights = {k: w for k, w in CAPTURE_WEIGHTS.items() if by_kind[k].given or by_kind[k].sought}
    total = sum(weights.values()) or 1

    def mean(name: str) -> float:
        return float(sum(w * getattr(by_kind[k], name) for k, w in weights.items()) / total)

    return Given(mean("precision"), mean("recall"), mean("f1"))


def parts(graph: SceneGraph) -> Parts:
    """The distinct elements of a graph, without those of the viewer ("our left")."""
    names = [entity.head for entity in graph.entities]
    shown = [not entity.flagged for entity in graph.entities]
    found: Parts = {"things": [], "attributes": [], "relations": []}
    for entity in graph.entities:
        if not entity.flagged:
            found["things"].append((entity.head,))
            found["attributes"] += [(entity.head, each.text) for each in entity.attributes]
    found["relations"] += [
        (names[each.subject], each.text, names[each.object])
        for each in graph.relations
        if shown[each.subject] and shown[each.object]
    ]
    return {kind: list(dict.fromkeys(elements)) for kind, elements in found.items()}


def matched(ours: Sequence[tuple[str, ...]], theirs: Sequence[tuple[str, ...]]) -> Counts:
    """How many elements of each side the other has."""

    def known(some: Sequence[tuple[str, ...]], others: Sequence[tuple[str, ...]]) -> int:
        return sum(any(all(map(same_word, a, b)) for b in others) for a in some)

    return Counts(known(ours, theirs), len(ours), known(theirs, ours), len(theirs))


def same_word(one: str, other: str) -> bool:
    """Whether two words or phrases are the same, or synonyms."""
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
