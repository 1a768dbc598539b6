"""Rewrites are remembered: by text, for a while, and only those that succeeded."""

import logging
from collections.abc import Sequence

import pytest

from posh_reward.metrics.posh.judges.fake_judge import FakeJudge
from posh_reward.metrics.posh.posh import Rewriter
from posh_reward.types import Failure, Phrase, Reply

ODD = Failure("reply", "too odd")


class Writer(FakeJudge):
    """Notes what it rewrites, and fails at "bad"."""

    def __init__(self) -> None:
        super().__init__()
        self.phrases: list[str] = []

    def rewrite(self, questions: Sequence[Phrase]) -> list[Reply]:
        self.phrases += [question.text for question in questions]
        return [Reply(None, ODD) if r.text == "bad" else Reply(f"the {r.text}") for r in questions]


def phrases(*texts: str) -> list[Phrase]:
    return [Phrase(text, "attribute") for text in texts]


def test_a_phrase_is_rewritten_once() -> None:
    judge = Writer()
    rewriter = Rewriter(judge)
    for _ in range(2):
        answers = rewriter(phrases("red dog", "old man", "red dog"))
        assert [a.text for a in answers] == ["the red dog", "the old man", "the red dog"]
    assert judge.phrases == ["red dog", "old man"]


def test_a_failure_is_tried_again() -> None:
    judge = Writer()
    rewriter = Rewriter(judge)
    for _ in range(2):
        assert [a.failure for a in rewriter(phrases("bad", "red dog"))] == [ODD, None]
    assert judge.phrases == ["bad", "red dog", "bad"]


def test_what_was_wanted_longest_ago_is_forgotten_first() -> None:
    judge = Writer()
    rewriter = Rewriter(judge, capacity=2)
    for text in ("reference", "first", "reference", "second", "reference", "first"):
        rewriter(phrases(text))
    assert judge.phrases == ["reference", "first", "second", "first"]


class Babbler(FakeJudge):
    """Rewrites each phrase into the same sentence, as SmolLM2-135M does."""

    def rewrite(self, questions: Sequence[Phrase]) -> list[Reply]:
        return [Reply("The small dog is a small dog.") for _ in questions]


def test_rewrites_about_something_else_are_counted_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    judge = Babbler()
    rewriter = Rewriter(judge)
    with caplog.at_level(logging.WARNING):
        rewriter(phrases("plum shawl", "dogs brown", "the", *(f"man {i}" for i in "abcdef")))
        assert not caplog.messages, "nine are too few"
        rewriter(phrases("red coat"))
        rewriter(phrases("red hat"))
    assert judge.usage.unrelated_rewrites == 9, "dogs are a dog, and articles have no content"
    [said] = caplog.messages
    assert "8 of 10 rewrites share no word with their phrase" in said
    assert "'red coat' became 'The small dog is a small dog.'" in said
