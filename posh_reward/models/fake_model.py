"""A fake language model for tests, ours and users'.

Its answers depend only on the prompt: they are the same in any order, batch or process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from posh_reward.models.model import Prompt
from posh_reward.types import Failure, Reply, Usage, Verdict

Grader = Callable[[Prompt], "float | Failure"]
"""Prompt -> mean label, counted from 1, or a failure."""
Writer = Callable[[Prompt], "str | Failure"]  # prompt -> reply or failure


def quoted_words(prompt: Prompt) -> float:
    """1 plus 4 times the share of words quoted in the suffix that occur in the prefix's line 1."""
    quotations = " ".join(re.findall(r'"(.*?)"', prompt.suffix))
    quoted = set(re.findall(r"\w+", quotations.lower()))
    if not quoted:
        return 1.0
    first_line = set(re.findall(r"\w+", prompt.prefix.partition("\n")[0].lower()))
    return 1 + 4 * len(quoted & first_line) / len(quoted)


def quote_suffix(prompt: Prompt) -> str:
    """The suffix's first quotation, preceded by "the"."""
    match = re.search('"([^"]*)"', prompt.suffix)
    quotation = match[1] if match else ""
    return f"the {quotation}"


class Recorder:
    """A name, usage totals and a record of calls."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.usage = Usage()
        self.events: list[str] = []  # calls of sleep, wake and close, in order

    def sleep(self) -> None:
        self.events.append("sleep")

    def wake(self) -> None:
        self.events.append("wake")

    def close(self) -> None:
        self.events.append("close")


class FakeModel(Recorder):
    """A model that answers by pure functions of the prompt and records every prompt."""

    few_calls = False

    def __init__(
        self,
        grader: Grader = quoted_words,
        writer: Writer = quote_suffix,
        name: str = "fake-model-1",
        *,
        sees: bool = False,
    ) -> None:
        super().__init__(name)
        self.sees = sees
        self.prompts: list[Prompt] = []  # every prompt so far, in order
        self._grader = grader
        self._writer = writer

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        self.prompts.extend(prompts)
        return [make_fake_verdict(self._grader(prompt), len(labels)) for prompt in prompts]

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        self.prompts.extend(prompts)
        replies = []
        for answer in map(self._writer, prompts):
            if isinstance(answer, Failure):
                replies.append(Reply(None, answer))
            else:
                replies.append(Reply(answer))
        return replies


def make_fake_verdict(answer: float | Failure, labels: int = 5) -> Verdict:
    """A verdict with this mean, or with this failure."""
    if isinstance(answer, Failure):
        return Verdict(None, answer)
    return Verdict(between_labels(answer, labels))


def between_labels(grade: float, labels: int = 5) -> tuple[float, ...]:
    """The narrowest distribution over labels 1..n with this mean."""
    low = min(max(int(grade), 1), labels - 1)
    share = min(max(grade - low, 0.0), 1.0)
    probabilities = [0.0] * labels
    probabilities[low - 1 : low + 1] = [1.0 - share, share]
    return tuple(probabilities)
