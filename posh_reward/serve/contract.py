"""Contract of server and client: a row's fields, a metric's description, the key's variable."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

KEY = "POSH_REWARD_KEY"
"""Environment variable with the key, for server and client."""
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
