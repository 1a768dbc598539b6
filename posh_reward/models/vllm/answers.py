"""What crosses the pipe: one JSON object a line.

child:   {"ready": true}                           or {"fatal": "why"}, and it exits
         {"refused": "why, and what mends it"}     likewise: the settings are at fault
parent:  {"id": 7, "do": "choose", "labels": ["1", ...], "prompts": [["prefix", "suffix"], ...]}
         {"id": 8, "do": "write", "max_tokens": 20, "prompts": [...]}
         {"id": 9, "do": "sleep"}                  or "wake"
child:   {"id": 7, "beat": true}                   it lives; twice a second meanwhile
         {"id": 7, "answers": [[0, {"masses": [0.1, ...], ...}], ...]}   as they come
         {"id": 7, "done": true}                   nothing more to 7
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from posh_reward.types import Failure


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine made of one prompt: masses, a text, or a failure."""

    masses: tuple[float, ...] | None = None
    """Probability of each label."""
    text: str | None = None
    failure: Failure | None = None
    submitted: int = 0
    """Tokens of the prompt."""
    computed: int = 0
    """Those whose state was in no cache."""
    decoded: int = 0


def written(answer: Answer) -> dict[str, Any]:
    """An answer as JSON, what is empty left out."""
    return {name: value for name, value in asdict(answer).items() if value not in (None, 0)}


def read(answer: Mapping[str, Any], labels: int) -> Answer:
    """Undoes ``written``.

    Args:
        answer: what came over the pipe.
        labels: how many masses are due; 0 if a text is.

    Raises:
        TypeError: it is not an answer.
        ValueError: it answers another question.
    """
    masses, failure = answer.get("masses"), answer.get("failure")
    found = Answer(
        **{
            **answer,
            "masses": None if masses is None else tuple(map(float, masses)),
            "failure": None if failure is None else Failure(**failure),
        }
    )
    text = isinstance(found.text, str) and not labels
    numbers = found.masses is not None and len(found.masses) == labels > 0
    if not (found.failure or text or numbers):
        raise ValueError(f"not an answer: {answer}")
    return found
