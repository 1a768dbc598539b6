"""What a reward needs of a metric, whichever it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeVar

from posh_reward.types import Failure, Usage


class Scored(Protocol):
    """What a metric makes of one pair, as far as all metrics agree."""

    @property
    def failure(self) -> Failure | None:
        """Why there is no score; None if there is."""
        ...


S = TypeVar("S", bound=Scored, contravariant=True)


class Figures(Protocol[S]):
    """How a metric names itself and what it tells a training log."""

    @property
    def name(self) -> str:
        """First word of its signatures, and what its names in logs begin with."""
        ...

    @property
    def signature(self) -> str:
        """What every score carries."""
        ...

    @property
    def usage(self) -> Usage:
        """What its judge has been asked so far."""
        ...

    def figures(self, scores: Sequence[S]) -> dict[str, float]:
        """Figures of one call; the same names at every call."""
        ...

    def columns(self, scores: Sequence[S]) -> dict[str, list[float | None]]:
        """Figures of each completion; the same names at every call."""
        ...


def mean(values: Sequence[float | None]) -> float:
    """Mean of those that are there; NaN if none is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan
