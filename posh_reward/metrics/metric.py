"""The contract of a metric with a reward, means of figures, and signatures (after sacrebleu)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
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


@cache
def package_version() -> str:
    """Our own version, or "unknown" when run from a folder that was never installed."""
    try:
        return version("posh-reward")
    except PackageNotFoundError:
        return "unknown"


def signature(metric: str, fields: Mapping[str, str]) -> str:
    """``metric|key:value|...|version:...``, the fields in the order given."""
    whole = {**fields, "version": package_version()}
    return f"{metric}|" + "|".join(f"{key}:{value}" for key, value in whole.items())


def field_of(signature: str, key: str) -> str | None:
    """What a signature says of one field; None if it does not have it."""
    found = re.search(rf"\|{re.escape(key)}:([^|]+)", signature)
    return found[1] if found else None
