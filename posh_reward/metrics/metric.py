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
    """A metric's result for one pair, as far as all metrics agree."""

    @property
    def failure(self) -> Failure | None:
        """Reason why there is no score; None if there is one."""
        ...


S = TypeVar("S", bound=Scored, contravariant=True)


class Figures(Protocol[S]):
    """A metric's name, signature, usage, and figures for a training log."""

    @property
    def name(self) -> str:
        """First word of its signatures and of its names in logs."""
        ...

    @property
    def signature(self) -> str:
        """Settings and versions that reproduce a score; each score carries it."""
        ...

    @property
    def usage(self) -> Usage:
        """Questions, tokens and seconds of its judge so far."""
        ...

    def figures(self, scores: Sequence[S]) -> dict[str, float]:
        """Figures of one call; the same names at every call."""
        ...

    def columns(self, scores: Sequence[S]) -> dict[str, list[float | None]]:
        """Figures of each completion; the same names at every call."""
        ...


def mean(values: Sequence[float | None]) -> float:
    """Mean of those that are there; NaN if none is."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else math.nan


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
    """One field of a signature; None if it does not have it."""
    match = re.search(rf"\|{re.escape(key)}:([^|]+)", signature)
    return match[1] if match else None
