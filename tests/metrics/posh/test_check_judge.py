"""A judge that cannot judge is refused before anything is scored with it."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from posh_reward import JudgeError, PoSh, PoshReward
from posh_reward.cli import JUDGE, OK, main
from posh_reward.metrics.posh.judges.embedded import EmbeddedJudge
from posh_reward.metrics.posh.judges.fake_judge import FakeJudge, fake_model
from posh_reward.metrics.posh.judges.judge import PROBES, Cascade, Judge, PromptJudge, check_judge
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt, verdict
from posh_reward.types import Failure, Verdict

HONEST = FakeModel.choose


class Thinker(FakeModel):
    """Puts nearly everything on "<think>", and the rest on a grade that would be right."""

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        sound = HONEST(fake_model(), prompts, labels)
        return [verdict([p * 0.01 for p in each.probabilities or ()]) for each in sound]


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
        (
            PromptJudge(Thinker()),
            r"in 100% of its replies .*thinking off",
        ),
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
    assert main(command) == JUDGE
    assert "does not answer with a grade" in capsys.readouterr().err
    assert not out.exists() or not out.read_text(), "nothing is scored"
    assert main([*command, "--unchecked"]) == OK
    assert "do not rely on 1 (id 1): most replies of the judge" in capsys.readouterr().err
    [scored] = map(json.loads, out.read_text().splitlines())
    assert scored["doubtful_share"] == 1.0
