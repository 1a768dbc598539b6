"""Asking a language model: each distinct prompt once, in an order that is its own."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from posh_reward import ConfigError, JudgeError, PoSh, PoshReward
from posh_reward.cli import EXIT_JUDGE_FAILED, EXIT_OK, main
from posh_reward.embedded.judge import EmbeddedJudge
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt, make_verdict
from posh_reward.posh.cascade import Cascade
from posh_reward.posh.check import PROBES, check_judge
from posh_reward.posh.fake_judge import FakeJudge, fake_model
from posh_reward.posh.judge import Judge, PromptJudge
from posh_reward.posh.load_judge import load_judge
from posh_reward.posh.rewriter import Rewriter
from posh_reward.store import Store
from posh_reward.types import Description, Failure, Phrase, Question, Reply, SceneGraph, Verdict

SOURCE = Description("A red dog.", SceneGraph((), ()))
TARGET = Description("A red cat sleeps.", SceneGraph((), ()))
TEXTS = (
    ["A tall man in a red coat holds a cup.", "Two dogs sleep. The small dog is brown."],
    ["A man in a coat holds a red cup.", "A brown dog sleeps beside a white dog."],
)


def ask(identifier: str, text: str | None = None) -> Question:
    kind = "attribute" if text else "entity"
    return Question("precision", kind, identifier, SOURCE, TARGET, 0, text)  # type: ignore[arg-type]


def test_equal_prompts_are_asked_once_and_sorted() -> None:
    model = fake_model()
    judge = PromptJudge(model)
    verdicts = judge.grade([ask("dog"), ask("cat"), ask("dog")])
    assert [verdict.grade for verdict in verdicts] == [1.0, 5.0, 1.0]
    assert [prompt.suffix.split('"')[1] for prompt in model.prompts] == ["cat", "dog"]
    assert (judge.usage.requests, judge.usage.cache_hits) == (3, 1)


def test_a_phrase_is_rewritten_once_in_the_life_of_a_metric() -> None:
    model = fake_model()
    posh = PoSh(PromptJudge(model))
    generations, references = TEXTS
    for step in (generations, [f"{text} It rains." for text in generations]):
        posh.score(step, references)
    written = [prompt.text for prompt in model.prompts if prompt.text.startswith("Rewrite")]
    assert len(written) == len(set(written)) > 0


def test_replies_without_a_label_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    class Vague(FakeModel):
        def choose(self, prompts: object, labels: object) -> list[Verdict]:
            return [Verdict((1.0, 0.0, 0.0, 0.0, 0.0), mass=0.2) for _ in prompts]  # type: ignore[attr-defined]

    judge = PromptJudge(Vague())
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            judge.grade([ask(f"dog {i}") for i in range(50)])
    assert judge.usage.doubtful == 200
    assert len(caplog.records) == 1
    assert "Turn thinking off" in caplog.text


SERVER = {"name": "server", "base_urls": "http://localhost:1/v1", "model": "m"}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({**SERVER, "timeout": "6e1"}, "server: timeout is '6e1': use a number .*write 0.5"),
        ({"name": "vllm", "model": "m", "memory_gb": "8 GB"}, "memory_gb is '8 GB': use a number"),
        ({"name": "transformers", "model": 7}, "model is 7: use a text"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_judge(settings)


class Silent(FakeModel):
    """Writes nothing where a phrase was asked for."""

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        return [Reply(" ") for _ in prompts]


def test_an_empty_phrase_is_a_failure_and_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    asked = [Phrase("dog small", "attribute")]
    [rewrite] = PromptJudge(Silent(), store=store).rewrite(asked)
    assert (rewrite.text, str(rewrite.failure)) == (None, "the model wrote nothing")
    assert PromptJudge(fake_model(), store=store).rewrite(asked)[0].text == "the dog small"


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


HONEST = FakeModel.choose


class Thinker(FakeModel):
    """Puts nearly everything on "<think>", and the rest on a grade that would be right."""

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        sound = HONEST(fake_model(), prompts, labels)
        return [make_verdict([p * 0.01 for p in each.probabilities or ()]) for each in sound]


def slightly_better(question: object) -> float:
    """As SmolLM2-135M: it prefers identical texts by less than .05."""
    return 1.5 if "dog" in str(question) else 1.4


@pytest.mark.parametrize(
    "judge",
    [EmbeddedJudge(), FakeJudge(), PromptJudge(fake_model()),
     Cascade(PromptJudge(fake_model()))],
    ids=lambda judge: judge.name,
)  # fmt: skip
def test_judges_that_tell_texts_apart_pass(judge: Judge) -> None:
    PoshReward(PoSh(judge)).check()


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        (PromptJudge(Thinker()), r"in 100% of its replies .*thinking off"),
        (Cascade(PromptJudge(Thinker())), "the judge fake-model-1 does not answer with a grade"),
        (FakeJudge(slightly_better), r"identical ones score 0.\d\d, unrelated ones 0.\d\d.* 135 m"),
        (FakeJudge(lambda question: Failure("engine", "gone")), "first pair: gone"),
    ],
)
def test_judges_that_cannot_judge_are_refused(judge: Judge, why: str) -> None:
    with pytest.raises(JudgeError, match=why):
        check_judge(PoSh(judge))


def test_a_score_carries_the_share_of_doubtful_replies() -> None:
    scores = PoSh(PromptJudge(Thinker())).score(PROBES, PROBES)
    assert [score.doubtful_share for score in scores] == [1.0, 1.0]
    assert [score.doubtful_share for score in PoSh().score(PROBES, PROBES)] == [0.0, 0.0]


def test_a_run_warns_from_ten_replies(caplog: pytest.LogCaptureFixture) -> None:
    judge = PromptJudge(Thinker())
    with caplog.at_level(logging.WARNING):
        PoSh(judge).score(["A dog."], ["A dog."])
        assert not caplog.messages, "two replies are too few"
        PoSh(judge).score(PROBES, PROBES)
    assert len([each for each in caplog.messages if "does not answer with a grade" in each]) == 1


def test_score_refuses_by_default_and_marks_rows_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeModel, "choose", Thinker.choose)
    monkeypatch.setenv("POSH_UNCHECKED", "")  # and so restored at the end
    table, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    row = {"generation": PROBES[0], "reference": PROBES[0]}
    table.write_text(json.dumps(row) + "\n")
    command = ["score", str(table), "--judge", "fake-model", "-o", str(out)]
    assert main(command) == EXIT_JUDGE_FAILED
    assert "does not answer with a grade" in capsys.readouterr().err
    assert not out.exists() or not out.read_text(), "nothing is scored"
    assert main([*command, "--unchecked"]) == EXIT_OK
    assert "do not rely on 1 (id 1): most replies of the judge" in capsys.readouterr().err
    [scored] = map(json.loads, out.read_text().splitlines())
    assert scored["doubtful_share"] == 1.0
