"""A judge, and a language model, that think nothing: for tests, of ours and of our users'.

Their answers depend on the words of the question and of the text alone, so they are the same in
any order, batch or process; and they can be told to fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from posh_reward.judge.render import Prompt
from posh_reward.types import Request, Rewrite, RewriteRequest, Usage, Verdict

Grader = Callable[[Request], "float | str"]
"""Gives a grade (1-5), or a string: the reason why this judgment fails."""


def shared_words(request: Request) -> float:
    """1 plus 4 times the share of the asked words that the searched text has."""
    text = " ".join(filter(None, (request.text or request.identifier, request.other)))
    asked = set(re.findall(r"\w+", text.lower())) - {"the", "a", "an", "of", "with", "relation"}
    there = set(re.findall(r"\w+", request.target.text.lower()))
    return 1 + 4 * len(asked & there) / len(asked) if asked else 1.0


class Recorder:
    """What a judge and a model have in common that hold nothing: a name, totals, and events."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.usage = Usage()
        self.events: list[str] = []
        """Calls of ``sleep``, ``wake`` and ``close``, in order."""

    def sleep(self) -> None:
        """Recorded, nothing else."""
        self.events.append("sleep")

    def wake(self) -> None:
        """Recorded, nothing else."""
        self.events.append("wake")

    def close(self) -> None:
        """Recorded, nothing else."""
        self.events.append("close")


class FakeJudge(Recorder):
    """Grades by ``grader`` and records every request that it gets.

    Args:
        grader: a pure function of the request; by default the share of words found.
        name: what the signature says.
    """

    def __init__(self, grader: Grader = shared_words, name: str = "fake-shared-words-1") -> None:
        super().__init__(name)
        self.requests: list[Request] = []
        """Every question asked so far, in order."""
        self._grader = grader

    def grade(self, requests: Sequence[Request]) -> list[Verdict]:
        """One verdict per request; the grader decides which fail."""
        self.requests.extend(requests)
        self.usage.requests += len(requests)
        return [self._verdict(self._grader(request)) for request in requests]

    def rewrite(self, requests: Sequence[RewriteRequest]) -> list[Rewrite]:
        """Puts "the" in front."""
        self.usage.rewrites += len(requests)
        return [Rewrite(f"the {request.text}".replace('"', "")) for request in requests]

    def _verdict(self, answer: float | str) -> Verdict:
        if isinstance(answer, str):
            self.usage.failures[answer] = self.usage.failures.get(answer, 0) + 1
            return Verdict(None, failure=answer)
        return Verdict(between_labels(answer))


PromptGrader = Callable[[Prompt], "float | str"]
"""Gives a grade (1-5), or a string: the reason why this judgment fails."""


def quoted_words(prompt: Prompt) -> float:
    """1 plus 4 times the share of the quoted words that the searched description has."""
    question = prompt.suffix.partition("\n\n")[0]
    asked = set(re.findall(r"\w+", " ".join(re.findall(r'"(.*?)"', question)).lower()))
    searched = prompt.prefix.partition("DESCRIPTION")[2].partition("DESCRIPTION 2:")[0]
    there = set(re.findall(r"\w+", searched.lower()))
    return 1 + 4 * len(asked & there) / len(asked) if asked else 1.0


def raw_phrase(prompt: Prompt) -> str:
    """What a prompt wants to have rewritten."""
    found = re.search(r'Phrase: "(.*)"\Z|\ARewrite "(.*)" into a gram', prompt.text, re.DOTALL)
    return (found[1] or found[2] or "") if found else ""


class FakeModel(Recorder):
    """A language model that grades by ``grader`` and records every prompt that it gets.

    Args:
        grader: a pure function of the prompt; by default the share of words found.
        name: what signatures and stores say.
    """

    def __init__(self, grader: PromptGrader = quoted_words, name: str = "fake-model-1") -> None:
        super().__init__(name)
        self.prompts: list[Prompt] = []
        """Every prompt so far, in order."""
        self._grader = grader

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """One verdict per prompt; the grader decides which fail."""
        self.prompts.extend(prompts)
        answers = [self._grader(prompt) for prompt in prompts]
        return [
            Verdict(None, failure=answer)
            if isinstance(answer, str)
            else Verdict(between_labels(answer, len(labels)))
            for answer in answers
        ]

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Rewrite]:
        """Puts "the" in front."""
        self.prompts.extend(prompts)
        return [Rewrite(f"the {raw_phrase(prompt)}".replace('"', "")) for prompt in prompts]


def between_labels(grade: float, labels: int = 5) -> tuple[float, ...]:
    """The distribution over labels 1..n that has this mean and as little spread as it can."""
    low = min(max(int(grade), 1), labels - 1)
    share = min(max(grade - low, 0.0), 1.0)
    return tuple(
        1.0 - share if rank == low else share if rank == low + 1 else 0.0
        for rank in range(1, labels + 1)
    )
