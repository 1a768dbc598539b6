"""How alike tuples are: the cosine of their vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from posh_reward.metrics.prove.records import Tuple
from posh_reward.metrics.prove.tuples import shown
from posh_reward.models.encoders import Encoder, Floats, unit_vectors

ROUNDING = 1e-9
"""By how much the cosine of equal tuples may miss 1."""


class Closest(NamedTuple):
    """The most similar of some tuples."""

    tuple: Tuple
    similarity: float
    """At most 1."""


class Likeness:
    """Similarities among some tuples, each of which is encoded once.

    Args:
        encoder: texts -> vectors.
        tuples: all that will be compared.
    """

    def __init__(self, encoder: Encoder, tuples: Iterable[Tuple]) -> None:
        texts = list(dict.fromkeys(map(shown, tuples)))
        self._row = {text: row for row, text in enumerate(texts)}
        self._vectors = unit_vectors(encoder, texts)

    def closest(self, tuples: Sequence[Tuple], among: Sequence[Tuple]) -> list[Closest | None]:
        """For each tuple the most similar of the others; None if there are no others."""
        if not tuples or not among:
            return [None] * len(tuples)
        alike = self._of(tuples) @ self._of(among).T
        alike = np.where(alike > 1 - ROUNDING, 1.0, alike)
        places = alike.argmax(axis=1)
        return [
            Closest(among[place], float(row[place]))
            for row, place in zip(alike, places, strict=True)
        ]

    def _of(self, tuples: Sequence[Tuple]) -> Floats:
        rows: Floats = self._vectors[[self._row[shown(each)] for each in tuples]]
        return rows
