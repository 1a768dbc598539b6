"""Scores -> one number for the trainer.

A model tuned on POSH as published buys coverage with mistakes: against SFT, on a scale of -2 to 2
(higher is better), people gave it -0.243 for mistakes and +0.432 for omissions (paper, Table 7).
``Shaping`` moves that balance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from posh_reward.errors import ConfigError
from posh_reward.metrics.posh.figures import length_ratio
from posh_reward.types import HIGHEST_GRADE, LOWEST_GRADE, Scores

WORST = LOWEST_GRADE / HIGHEST_GRADE
"""The lowest possible score: every element graded 1 of 5."""


@dataclass(frozen=True, slots=True)
class Shaping:
    """How precision (few mistakes) and recall (few omissions) make a reward in [0.2, 1].

    Higher is better.
    """

    objective: Literal["f1", "weighted"] = "f1"
    """f1: the weighted harmonic mean, as in the paper. weighted: the weighted arithmetic mean."""
    precision_weight: float = 1.0
    recall_weight: float = 1.0
    mistake_floor: float | None = None
    """Below this precision the reward falls, down to the worst at precision 0.2."""
    length_limit: float | None = None
    """Words per word of the reference that cost nothing; twice as many get the worst reward."""

    def __post_init__(self) -> None:
        if self.objective not in ("f1", "weighted"):
            raise ConfigError(f"objective is {self.objective!r}: choose f1 or weighted")
        if min(self.precision_weight, self.recall_weight) < 0 or not self._weight:
            raise ConfigError(
                f"weights of precision and recall are {self.precision_weight:g} and "
                f"{self.recall_weight:g}: neither may be negative, nor both 0"
            )
        if self.mistake_floor is not None and not WORST < self.mistake_floor <= 1:
            raise ConfigError(f"mistake_floor is {self.mistake_floor:g}: give one in (0.2, 1]")
        if self.length_limit is not None and self.length_limit <= 0:
            raise ConfigError(f"length_limit is {self.length_limit:g}: give a ratio above 0")

    @property
    def _weight(self) -> float:
        return self.precision_weight + self.recall_weight


def shape(scores: Scores, shaping: Shaping) -> float | None:
    """The reward of one scored generation; None if it has no scores.

    A generation that says nothing (empty, blank, or without any element of a scene graph) makes
    no mistake, so POSH gives it precision 1. As a reward that would teach silence, so it gets the
    worst one.
    """
    precision, recall = scores.precision, scores.recall
    if precision is None or recall is None:
        return None
    if scores.count("precision") == 0:
        return WORST
    reward = _combined(precision, recall, shaping)
    if shaping.mistake_floor is not None and precision < shaping.mistake_floor:
        reward = _towards_worst(reward, (precision - WORST) / (shaping.mistake_floor - WORST))
    if shaping.length_limit is not None:
        excess = length_ratio(scores) / shaping.length_limit - 1
        reward = _towards_worst(reward, 1 - excess)
    return reward


def _combined(precision: float, recall: float, shaping: Shaping) -> float:
    p, r = shaping.precision_weight, shaping.recall_weight
    if shaping.objective == "f1":
        return (p + r) / (p / precision + r / recall)
    return (p * precision + r * recall) / (p + r)


def _towards_worst(reward: float, share: float) -> float:
    """Keeps ``share`` (clipped to 0-1) of the reward's distance from the worst."""
    return WORST + (reward - WORST) * min(max(share, 0.0), 1.0)
