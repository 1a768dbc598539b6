"""Scores of one call -> what a training log shows of them.

The metric names its own figures; what is added here is true of any metric: the share of failures,
and what the call cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from posh_reward.metrics.base import Figures, S
from posh_reward.types import Usage

CALL = ("failed_share", "seconds", "judge_requests", "judge_cached_share", "judge_doubtful_share")
"""Logged of each call besides the metric's own figures: the share of completions without a score,
how long scoring took, how many questions and rewrites it needed, which share of them was answered
without asking, and which share of the replies did not hold a grade."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one call cost."""

    seconds: float
    """Wall time, parsing included."""
    requests: int
    """Questions and rewrites."""
    cached: int
    """Of these, those answered without asking."""
    doubtful: int
    """Of these, those whose reply was mostly not a label."""

    @classmethod
    def between(cls, before: Usage, after: Usage, seconds: float) -> Work:
        """The difference of two readings of a judge's running total."""
        return cls(
            seconds,
            after.requests + after.rewrites - before.requests - before.rewrites,
            after.cache_hits - before.cache_hits,
            after.doubtful - before.doubtful,
        )

    def share(self, part: int) -> float:
        """``part`` of the requests; NaN if there were none."""
        return part / self.requests if self.requests else math.nan


def usage_now(usage: Usage) -> Usage:
    """A running total as it stands."""
    return replace(usage)


def metrics(metric: Figures[S], scores: Sequence[S], work: Work) -> dict[str, float]:
    """The figures of one call, such as ``posh/precision``: the same names at every call."""
    failed = sum(score.failure is not None for score in scores)
    call = dict(
        zip(
            CALL,
            (
                failed / len(scores) if scores else math.nan,
                work.seconds,
                float(work.requests),
                work.share(work.cached),
                work.share(work.doubtful),
            ),
            strict=True,
        )
    )
    values = {**metric.figures(scores), **call}
    return {f"{metric.name}/{name}": value for name, value in values.items()}


def extras(metric: Figures[S], scores: Sequence[S]) -> dict[str, list[Any]]:
    """One value per completion, such as ``posh_f1``; ``posh_failure`` is "" where there is none."""
    columns: dict[str, list[Any]] = {**metric.columns(scores)}
    columns["failure"] = [str(score.failure or "") for score in scores]
    return {f"{metric.name}_{name}": values for name, values in columns.items()}
