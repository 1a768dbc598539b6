"""Contract of server and client: a row's fields, a metric's records, the key's variable."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from posh_reward.errors import JudgeError

KEY = "POSH_REWARD_KEY"
"""Environment variable with the key, for server and client."""
RECORDS = {
    "posh": "posh_reward.types:Scores",
    "harmonic": "posh_reward.metrics.harmonic.harmonic_eval:HarmonicScores",
    "rubric": "posh_reward.metrics.rubric.rubric_judge:RubricScores",
}
"""Metric -> ``module:class`` of its scores."""
FIELDS = {
    "generations": "generation",
    "texts": "generation",
    "references": "reference",
    "images": "image",
    "questions": "question",
}
"""Arguments of a metric's ``score`` -> fields of a row."""


def fields_of(metric: Any) -> tuple[str, ...]:
    """Return the fields of a row that a metric scores, in the order of its arguments."""
    arguments = signature(metric.score).parameters.values()
    positional = [each for each in arguments if each.kind is not Parameter.KEYWORD_ONLY]
    names = (FIELDS[each.name] for each in positional if each.name in FIELDS)
    looks = getattr(metric, "wants_images", True)  # POSH looks only with a witness
    return tuple(name for name in names if name != "image" or looks)


def record_class(metric: str) -> type[Any]:
    """Return the class of a metric's scores.

    Raises:
        JudgeError: the metric is unknown.
    """
    if metric not in RECORDS:
        raise JudgeError(
            f"unknown metric {metric!r} on the server: expected one of {', '.join(RECORDS)}"
        )
    module, _, name = RECORDS[metric].partition(":")
    record: type[Any] = getattr(import_module(module), name)
    return record


@cache
def records_adapter(metric: str) -> Any:
    """Return pydantic's adapter for lists of a metric's scores."""
    from pydantic import TypeAdapter

    record: Any = record_class(metric)
    return TypeAdapter(list[record])


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A server's description of its metric."""

    name: str
    signature: str
    fields: tuple[str, ...]
    """Fields of a row, in the order of ``score``'s arguments: generation, reference, ..."""
    preset: str | None = None
    """POSH's wording, whose labels a reward removes from completions."""
    weights: dict[str, float] | None = None
    """POSH's weights of entities, attributes and relations."""
