"""A judge's reply -> points, or an error that the judge can act on; replies are untrusted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posh_reward.metrics.rubric.rubric import Rubric, RubricMetric
from posh_reward.models.model import savable
from posh_reward.settings import brief
from posh_reward.types import Failure


@dataclass(frozen=True, slots=True)
class MetricPoints:
    """Points on one metric."""

    metric: str
    title: str
    points: int
    """Higher is better."""
    lowest: int
    highest: int
    feedback: str
    """The judge's reason. Written by a model: escape it in web pages."""


@dataclass(frozen=True, slots=True)
class RubricScores:
    """Points of one text on all metrics of a rubric."""

    total: int | None
    """Sum of the points, higher is better; None if judging failed."""
    share: float | None
    """The total, scaled from 0 (fewest points) to 1 (most)."""
    signature: str
    """Settings and versions needed to reproduce the points."""
    metric_points: tuple[MetricPoints, ...] = ()
    """One per metric, in the rubric's order; empty if judging failed."""
    failure: Failure | None = None
    """Reason for missing points; None if there are points."""
    repaired: bool = False
    """True if the points come from a second reply, because the first was unusable."""
    generation: str = ""
    """The stripped text."""

    @property
    def points(self) -> dict[str, int]:
        return {each.metric: each.points for each in self.metric_points}


LONGEST_FEEDBACK = 2_000  # characters; longer reasons are cut


class ReplyError(ValueError):
    """Unusable reply. The judge is shown the message and asked again."""


def read_points(reply: str, rubric: Rubric) -> tuple[MetricPoints, ...]:
    """Read one number of points per metric from a reply.

    Text or a code fence around the JSON object is ignored. The object must have exactly the
    rubric's metrics as keys, each scored with points that the rubric allows.

    Raises:
        ReplyError: it does not.
    """
    values = _object(reply)
    names = [metric.name for metric in rubric.metrics]
    missing = [name for name in names if name not in values]
    if missing:
        raise ReplyError(f"{', '.join(missing)} missing")
    unknown = [name for name in values if name not in names]
    if unknown:
        raise ReplyError(f"{brief(unknown[0])} is not a criterion")
    return tuple(_metric_points(metric, values[metric.name]) for metric in rubric.metrics)


def _object(reply: str) -> Mapping[str, Any]:
    start = reply.find("{")
    if start < 0:
        raise ReplyError("there is no JSON object in it")
    decoder = json.JSONDecoder(object_pairs_hook=_once_each, parse_constant=_no_constant)
    try:
        values, _ = decoder.raw_decode(reply, start)
    except ReplyError:
        raise
    except RecursionError:
        raise ReplyError("its JSON is nested too deeply") from None
    except ValueError as error:
        raise ReplyError(f"its JSON is broken: {error}") from None
    assert isinstance(values, dict)
    return values


def _once_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ReplyError("it gives a name twice")
    return values


def _no_constant(name: str) -> float:
    raise ReplyError(f"{name} is not a number of points")


def _metric_points(metric: RubricMetric, content: object) -> MetricPoints:
    if not isinstance(content, dict) or set(content) != {"score", "feedback"}:
        raise ReplyError(f'{metric.name} is not an object of "score" and "feedback"')
    score, feedback = content["score"], content["feedback"]
    if isinstance(score, bool) or not isinstance(score, int | float) or score not in metric.points:
        allowed = ", ".join(map(str, sorted(metric.points)))
        raise ReplyError(f"the score of {metric.name} is {brief(score)}, not one of {allowed}")
    if not isinstance(feedback, str):
        raise ReplyError(f"the feedback on {metric.name} is not a text")
    reason = savable(feedback.strip()[:LONGEST_FEEDBACK])
    return MetricPoints(
        metric.name, metric.title, int(score), metric.lowest, metric.highest, reason
    )
