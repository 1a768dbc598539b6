"""Graded elements -> scores under any weights, without asking the judge again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import nan
from typing import get_args

import numpy as np

from posh_reward.study.statistics import Floats
from posh_reward.types import HIGHEST_GRADE, Direction, Kind, Scores

KINDS: tuple[Kind, ...] = get_args(Kind)
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


@dataclass(frozen=True)
class Sums:
    """All that scores depend on besides the weights."""

    grades: Floats
    """(texts, directions, kinds) sum of grades; nan in a direction that has no score."""
    counts: Floats
    """(texts, directions, kinds) elements."""

    @classmethod
    def of(cls, scores: Iterable[Scores]) -> Sums:
        """Adds up the elements of each text."""
        added = [_added(each) for each in scores]
        shape = (-1, 2, len(DIRECTIONS), len(KINDS))
        both = np.array(added, dtype=np.float64).reshape(shape)
        return cls(both[:, 0], both[:, 1])

    def means(self, weights: Floats) -> Floats:
        """(texts, directions) precision and recall, as ``aggregate.mean_score`` has them.

        Args:
            weights: (kinds,) how much an element of each kind counts; above 0.
        """
        total = self.counts @ weights
        mean = self.grades @ weights / np.where(total, total, 1) / HIGHEST_GRADE
        found: Floats = np.where((total == 0) & ~np.isnan(mean), 1.0, mean)
        return found


def overall(means: Floats, balance: Floats) -> Floats:
    """(texts, balances) weighted harmonic means of precision and recall, as ``Shaping`` has them.

    Args:
        means: (texts, directions).
        balance: (balances,) how many times as much precision counts as recall.
    """
    precision, recall = means[:, :1], means[:, 1:]
    found: Floats = (balance + 1) / (balance / precision + 1 / recall)
    return found


def _added(scores: Scores) -> list[list[list[float]]]:
    places = {direction: place for place, direction in enumerate(DIRECTIONS)}
    grades = [[0.0] * len(KINDS) for _ in DIRECTIONS]
    counts = [[0.0] * len(KINDS) for _ in DIRECTIONS]
    for element in scores.elements:
        direction, kind = places[element.direction], KINDS.index(element.kind)
        grades[direction][kind] += nan if element.grade is None else element.grade
        counts[direction][kind] += 1
    for direction, score in enumerate((scores.precision, scores.recall)):
        if score is None:
            grades[direction] = [nan] * len(KINDS)
    return [grades, counts]
