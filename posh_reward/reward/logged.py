"""Scores of one call -> what a training log shows of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from posh_reward.metric.aggregate import EQUAL, mean_score, of_kind
from posh_reward.reward.shaping import length_ratio
from posh_reward.types import Direction, Scores, Usage

METRICS = (
    "posh/precision",
    "posh/recall",
    "posh/f1",
    "posh/precision_entity",
    "posh/precision_attribute",
    "posh/precision_relation",
    "posh/recall_entity",
    "posh/recall_attribute",
    "posh/recall_relation",
    "posh/generation_elements",
    "posh/reference_elements",
    "posh/length_ratio",
    "posh/failed_share",
    "posh/unparsed",
    "posh/seconds",
    "posh/judge_requests",
    "posh/judge_cached_share",
    "posh/judge_doubtful_share",
)
"""Names given to ``log_metric``: all of them, on every rank, at every call. Means over the
completions of a call that have the figure; NaN if none has. ``posh/unparsed`` is a count. The
last four are about the call itself: how long it took, how many questions and rewrites it needed,
which share of them was answered without asking, and which share of the replies was no grade."""

EXTRAS = ("posh_precision", "posh_recall", "posh_f1", "posh_failure")
"""Columns given to ``log_extra``, one value per completion; None, or "" for no failure."""


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
    """Of these, those whose reply was mostly no label."""

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


def reading(usage: Usage) -> Usage:
    """A running total as it stands now."""
    return replace(usage)


def metrics(scores: Sequence[Scores], work: Work) -> dict[str, float]:
    """The figures of one call under the names of ``METRICS``, in their order."""
    judged = [score for score in scores if score.f1 is not None]
    values: dict[str, float] = {
        "posh/precision": _mean([score.precision for score in scores]),
        "posh/recall": _mean([score.recall for score in scores]),
        "posh/f1": _mean([score.f1 for score in scores]),
        "posh/generation_elements": _mean([score.count("precision") for score in judged]),
        "posh/reference_elements": _mean([score.count("recall") for score in judged]),
        "posh/length_ratio": _mean([length_ratio(score) for score in judged]),
        "posh/failed_share": _mean([float(score.failure is not None) for score in scores]),
        "posh/unparsed": float(sum(score.unparsed for score in scores)),
        "posh/seconds": work.seconds,
        "posh/judge_requests": float(work.requests),
        "posh/judge_cached_share": work.share(work.cached),
        "posh/judge_doubtful_share": work.share(work.doubtful),
    }
    for direction in ("precision", "recall"):
        for kind in ("entity", "attribute", "relation"):
            sub_scores = [_sub_score(score, direction, kind) for score in judged]
            values[f"posh/{direction}_{kind}"] = _mean(sub_scores)
    return {name: values[name] for name in METRICS}


def extras(scores: Sequence[Scores]) -> dict[str, list[Any]]:
    """The columns of one call under the names of ``EXTRAS``."""
    columns: tuple[list[Any], ...] = (
        [score.precision for score in scores],
        [score.recall for score in scores],
        [score.f1 for score in scores],
        [score.failure or "" for score in scores],
    )
    return dict(zip(EXTRAS, columns, strict=True))


def _sub_score(score: Scores, direction: Direction | str, kind: str) -> float | None:
    elements = [e for e in of_kind(score.elements, kind) if e.direction == direction]
    return mean_score(elements, EQUAL) if elements else None


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan
