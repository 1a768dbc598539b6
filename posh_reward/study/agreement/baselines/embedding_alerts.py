"""4GramEmbed and SGEmbed: a piece unlike any in the other text is an error (paper, A.3.3).

The pieces of a text (its 4-grams, or the elements of its scene graph) are embedded; a piece's score
is its highest cosine similarity to a piece of the other text. The paper's encoder is
Qwen/Qwen3-Embedding-8B; any other works, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from posh_reward.graph.reader import Reader
from posh_reward.models.encoders import Encoder, unit_vectors
from posh_reward.study.agreement.localisation import Alerts
from posh_reward.study.agreement.metric_scores import TextPair
from posh_reward.study.statistics import Floats
from posh_reward.types import Description, Failure, Span

Piece = tuple[str, tuple[Span, ...]]  # text to embed, and its spans

WORD = re.compile(r"\S+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
GRAM = 4
GRAM_THRESHOLD, GRAPH_THRESHOLD = 0.7, 0.8  # the paper's; pieces below are errors


class EmbeddingAlerts:
    """Pieces of two texts compared by an encoder: graph elements, or 4-grams without a reader."""

    def __init__(self, encoder: Encoder, encoder_name: str, reader: Reader | None = None) -> None:
        self.name = "4GramEmbed" if reader is None else "SGEmbed"
        self.signature = f"{self.name}|encoder:{encoder_name}"
        self.threshold = GRAM_THRESHOLD if reader is None else GRAPH_THRESHOLD
        self._encoder = encoder
        self._reader = reader

    def alerts(self, pairs: Sequence[TextPair]) -> list[Alerts | Failure]:
        """Each piece's similarity to the other text."""
        generations = self._pieces([pair.generation for pair in pairs])
        references = self._pieces([pair.reference for pair in pairs])
        return list(map(self._similarities, generations, references))

    def _pieces(self, texts: Sequence[str]) -> list[list[Piece] | Failure]:
        if self._reader is None:
            return [grams(text) for text in texts]
        return [
            each if isinstance(each, Failure) else graph_pieces(each, text)
            for each, text in zip(self._reader.read(texts, keep=True), texts, strict=True)
        ]

    def _similarities(
        self, generation: list[Piece] | Failure, reference: list[Piece] | Failure
    ) -> Alerts | Failure:
        if isinstance(generation, Failure):
            return generation
        if isinstance(reference, Failure):
            return reference
        ours, theirs = (
            unit_vectors(self._encoder, [text for text, _ in pieces])
            for pieces in (generation, reference)
        )
        both = generation and reference
        # (our pieces, their pieces) cosines; a text without pieces has none, and ``initial`` counts
        cosines = ours @ theirs.T if both else np.zeros((len(ours), len(theirs)))
        return {
            "mistakes": _span_scores(generation, cosines.max(axis=1, initial=-1.0)),
            "omissions": _span_scores(reference, cosines.max(axis=0, initial=-1.0)),
        }


def _span_scores(pieces: Sequence[Piece], similarity: Floats) -> list[tuple[Span, float]]:
    return [
        (span, float(score))
        for (_, spans), score in zip(pieces, similarity, strict=True)
        for span in spans
    ]


def grams(text: str) -> list[Piece]:
    """All sequences of four words within sentences; shorter sentences as a whole."""
    pieces: list[Piece] = []
    start = 0
    for end in [*(match.end() for match in SENTENCE_END.finditer(text)), len(text)]:
        words = [match.span() for match in WORD.finditer(text, start, end)]
        for first in range(max(1, len(words) - GRAM + 1) if words else 0):
            span = words[first][0], words[first : first + GRAM][-1][1]
            pieces.append((text[slice(*span)], (span,)))
        start = end
    return pieces


def graph_pieces(description: Description, text: str) -> list[Piece]:
    """Entities, attributes with their entity, relations with both entities."""
    shift = len(text) - len(text.lstrip())
    entities, relations = description.graph.entities, description.graph.relations

    def places(spans: Sequence[Span]) -> tuple[Span, ...]:
        return tuple((start + shift, end + shift) for start, end in spans)

    pieces = [(entity.head, places(entity.spans)) for entity in entities]
    pieces += [
        (f"{each.text} {entity.head}", places(each.spans))
        for entity in entities
        for each in entity.attributes
    ]
    pieces += [
        (f"{entities[r.subject].head} {r.text} {entities[r.object].head}", places(r.spans))
        for r in relations
    ]
    return pieces
