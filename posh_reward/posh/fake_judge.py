"""A judge without a model, for our tests and those of our users.

Its answers depend only on the words of the question and the text, so they are the same in any
order, batch or process. It can be made to fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from posh_reward.models.fake_model import FakeModel, Recorder, make_fake_verdict
from posh_reward.models.fake_model import Grader as PromptGrader
from posh_reward.models.model import Prompt
from posh_reward.types import Failure, Phrase, Question, Reply, Verdict

Grader = Callable[[Question], "float | Failure"]
"""Returns a grade (1-5), or the reason why the judgment fails."""


def shared_words(question: Question) -> float:
    """1 plus 4 times the share of the question's words that are in the target."""
    text = " ".join(filter(None, (question.text or question.identifier, question.other)))
    words = _split_words(text) - {"the", "a", "an", "of", "with", "relation"}
    if not words:
        return 1.0
    return 1 + 4 * len(words & _split_words(question.target.text)) / len(words)


def _split_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


class FakeJudge(Recorder):
    """A judge that grades by a pure function of the question, and records every question."""

    def __init__(self, grader: Grader = shared_words, name: str = "fake-shared-words-1") -> None:
        super().__init__(name)
        self.questions: list[Question] = []  # every question asked so far, in order
        self._grader = grader

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        self.questions.extend(questions)
        self.usage.requests += len(questions)
        self.usage.images += sum(each.image is not None for each in questions)
        verdicts = [make_fake_verdict(self._grader(question)) for question in questions]
        self.usage.count_failures(verdicts)
        return verdicts

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        self.usage.rewrites += len(phrases)
        return [Reply(f"the {phrase.text}".replace('"', "")) for phrase in phrases]


def quoted_words(prompt: Prompt) -> float:
    """For a ``FakeModel``: 1 plus 4 times the share of quoted words that are in the target."""
    question = prompt.suffix.partition("\n\n")[0]
    words = _split_words(" ".join(re.findall(r'"(.*?)"', question)))
    target = prompt.prefix.partition("DESCRIPTION")[2].partition("DESCRIPTION 2:")[0]
    if not words:
        return 1.0
    return 1 + 4 * len(words & _split_words(target)) / len(words)


def raw_phrase(prompt: Prompt) -> str:
    """For a ``FakeModel``: "the", and the phrase that a prompt asks to rewrite."""
    match = re.search(r'Phrase: "(.*)"\Z|\ARewrite "(.*)" into a gram', prompt.text, re.DOTALL)
    phrase = (match[1] or match[2] or "") if match else ""
    return f"the {phrase}".replace('"', "")


def fake_model(grader: PromptGrader = quoted_words, name: str = "fake-model-1") -> FakeModel:
    """A fake language model that knows the wording of POSH's prompts."""
    return FakeModel(grader, raw_phrase, name)
