"""A language model's own scores, 0 to 5 as JSON, by the paper's prompts (A.3.4)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Literal

from posh_reward.metrics.metric import fill, wording
from posh_reward.models.asker import Asker
from posh_reward.models.model import Model, Prompt
from posh_reward.models.prompt_images import image_of
from posh_reward.store import Store
from posh_reward.study.agreement.metric_scores import AxisScores, TextPair
from posh_reward.types import Failure, Reply

Source = Literal["reference", "image", "both"]
"""The model compares a generation with the reference, the image, or both."""
LONGEST_REPLY = 256  # tokens; the JSON has about thirty
KEYS = ("precision", "recall", "overall_quality")
JSON_OBJECT = re.compile(r"\{[^{}]*\}")


class LlmScores:
    """A model's own scores of each pair; several references are joined into one text.

    ``model`` must accept images unless ``source`` is "reference". ``store`` keeps its replies.
    """

    def __init__(self, model: Model, source: Source = "reference", store: Store | None = None):
        self.name = f"LLM ({source})"
        self.signature = f"{model.name}|prompt:{source}"
        self.sees = source != "reference"
        self._asker = Asker(model, store)
        self._prompt = wording(__package__ or "", source).strip()

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """Precision, recall and overall quality, 0 to 5; an unreadable reply is a failure."""
        prompts = [self._prompt_for(pair) for pair in pairs]
        valid = [prompt for prompt in prompts if isinstance(prompt, Prompt)]
        with self._asker.awake(valid):
            replies = iter(self._asker.write(valid, LONGEST_REPLY))
        return [
            AxisScores(failure=prompt)
            if isinstance(prompt, Failure)
            else read_scores(next(replies))
            for prompt in prompts
        ]

    def _prompt_for(self, pair: TextPair) -> Prompt | Failure:
        texts = {"reference": pair.reference, "generation": pair.generation}
        if not self.sees:
            return Prompt("", fill(self._prompt, texts))
        image = image_of(pair.image)
        if isinstance(image, Failure):
            return image
        return Prompt("", fill(self._prompt, texts), (image,))


def read_scores(reply: Reply) -> AxisScores:
    """Read the three scores from the JSON anywhere in a reply; a failure if there are none."""
    if reply.text is None:
        return AxisScores(failure=reply.failure)
    for values in _objects(reply.text):
        precision, recall, overall = (_score(values.get(key)) for key in KEYS)
        if precision is not None and recall is not None and overall is not None:
            return AxisScores(precision, recall, overall)
    why = "the model's reply has no JSON with three scores from 0 to 5"
    return AxisScores(failure=Failure("reply", why))


def _objects(text: str) -> Iterator[dict[str, object]]:
    """Innermost JSON objects in a text, also with Python's single quotes."""
    for match in JSON_OBJECT.findall(text):
        for variant in (match, match.replace("'", '"')):
            with suppress(ValueError):
                yield json.loads(variant)
                break


def _score(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 5 else None  # None for nan
