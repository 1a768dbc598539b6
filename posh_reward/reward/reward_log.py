"""Figures of a training log from the scores of one call.

A metric names its own figures. What every metric has is added here: how long and how repetitive
the texts are, the share of failures, and what the call cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from posh_reward.metrics.metric import Figures, S
from posh_reward.reward.texts import repeated_share
from posh_reward.types import Usage

CALL = (
    "words",
    "repeated_share",
    "failed_share",
    "seconds",
    "judge_requests",
    "judge_cached_share",
    "judge_doubtful_share",
)
"""Logged for each call after the metric's own figures: mean words of a text, mean share of its
four-word sequences that repeat an earlier one, the share of completions without a score, how long
scoring took, how many questions and rewrites it needed, the share of them that was answered
without asking, and the share whose reply was mostly not a grade."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """Time and questions of one call."""

    seconds: float
    """Wall time, parsing included."""
    requests: int
    """Questions and rewrites."""
    cached: int
    """Of these, those answered without asking."""
    doubtful: int
    """Of these, those whose reply was mostly not a label."""

    @classmethod
    def between(cls, before: Usage, after: Usage, seconds: float) -> CallCost:
        """The difference of two readings of a judge's running total."""
        return cls(
            seconds,
            after.requests + after.rewrites - before.requests - before.rewrites,
            after.cache_hits - before.cache_hits,
            after.doubtful - before.doubtful,
        )


def metrics(
    metric: Figures[S], scores: Sequence[S], texts: Sequence[object], cost: CallCost
) -> dict[str, float]:
    """The figures of one call, such as ``posh/precision``: the same names at every call."""
    written = [text for text in texts if isinstance(text, str)]
    failed = sum(score.failure is not None for score in scores)
    of_the_call = (
        share(sum(len(text.split()) for text in written), len(written)),
        share(sum(map(repeated_share, written)), len(written)),
        share(failed, len(scores)),
        cost.seconds,
        float(cost.requests),
        share(cost.cached, cost.requests),
        share(cost.doubtful, cost.requests),
    )
    values = {**metric.figures(scores), **dict(zip(CALL, of_the_call, strict=True))}
    return {f"{metric.name}/{name}": value for name, value in values.items()}


def extras(metric: Figures[S], scores: Sequence[S]) -> dict[str, list[Any]]:
    """One value per completion, such as ``posh_f1``; ``posh_failure`` is "" where there is none."""
    columns: dict[str, list[Any]] = {**metric.columns(scores)}
    columns["failure"] = [str(score.failure or "") for score in scores]
    return {f"{metric.name}_{name}": values for name, values in columns.items()}


def share(part: float, whole: int) -> float:
    """``part`` of ``whole``; NaN if that is nothing."""
    return part / whole if whole else math.nan
