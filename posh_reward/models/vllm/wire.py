"""What crosses the pipe: one JSON object a line.

child:   {"ready": true}                           or {"fatal": "why"}, and it exits
         {"ready": true, "sizes": [28, 3136, 1003520]}    it sees, images in such sizes
         {"refused": "why, and the remedy"}        and it exits: the settings are at fault
parent:  {"id": 7, "do": "choose", "labels": ["1", ...], "prompts": [["prefix", "suffix"], ...]}
         {"id": 8, "do": "write", "max_tokens": 20, "prompts": [...]}
         with images: "prompts": [["prefix", "suffix", "digest", ...], ...],
                        "images": {"digest": [width, height, "RGB bytes in base64"], ...}
         {"id": 9, "do": "sleep"}                  or "wake"
child:   {"id": 7, "beat": true}                   it is alive; twice a second while it works
         {"id": 7, "answers": [[0, {"masses": [0.1, ...], ...}], ...]}   as they come
         {"id": 7, "done": true}                   there are no more answers to 7
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from posh_reward.types import Failure


@dataclass(frozen=True, slots=True)
class EngineReply:
    """The engine's answer to one prompt: masses, a text, or a failure."""

    masses: tuple[float, ...] | None = None
    """Probability of each label."""
    text: str | None = None
    failure: Failure | None = None
    submitted: int = 0
    """Tokens of the prompt."""
    computed: int = 0
    """Those whose state was not in a cache."""
    decoded: int = 0


def written(answer: EngineReply) -> dict[str, Any]:
    """An answer as JSON, without its empty fields."""
    return {name: value for name, value in asdict(answer).items() if value not in (None, 0)}


def read(answer: Mapping[str, Any], labels: int) -> EngineReply:
    """Undoes ``written``.

    Args:
        answer: what came over the pipe.
        labels: how many masses were asked for; 0 if a text was.

    Raises:
        TypeError: it is not an answer.
        ValueError: it answers another question.
    """
    masses, failure = answer.get("masses"), answer.get("failure")
    found = EngineReply(
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
