"""What PROVE makes of one response. All records are frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from posh_reward.types import Failure

Tuple = tuple[str, ...]
"""(entity), (entity, attribute) or (entity, relation, entity) (paper, section 3.1)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A tuple of the answer, the question's left out: what a helpful response says."""

    tuple: Tuple
    score: float
    """Similarity to the closest tuple of the response, up to 1; 0 if it has none."""
    closest: Tuple | None
    """That tuple of the response."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A tuple of the response: what a truthful response can show for itself."""

    tuple: Tuple
    score: float | None
    """The larger one of ``caption`` and ``image``; None if the image's judgment failed."""
    witness: Literal["caption", "picture"] | None
    """Which of the two bears it out better."""
    closest: Tuple | None
    """The most similar tuple of the caption."""
    caption: float | None
    """Similarity to that tuple, up to 1; None without a caption."""
    image: float | None = None
    """Probability that the image shows it; None if no judge that sees was asked."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class ProveScores:
    """How helpful and how truthful one response is; higher is better, 1 is best.

    Both are None where there is nothing to take the mean of, or where a judgment that they rest on
    failed; ``failure`` then says why.
    """

    helpfulness: float | None
    """hscore (paper, eq. 1): how much of the answer the response says."""
    truthfulness: float | None
    """tscore (paper, eq. 2): how much of the response the caption or the image bears out."""
    signature: str
    """Everything that another run needs to reproduce the figures."""
    wanted: tuple[Wanted, ...] = ()
    claims: tuple[Claim, ...] = ()
    failure: Failure | None = None

    @property
    def average(self) -> float | None:
        """Mean of the two (paper, Table 1); None unless both are there."""
        if self.helpfulness is None or self.truthfulness is None:
            return None
        return (self.helpfulness + self.truthfulness) / 2
