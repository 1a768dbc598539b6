"""A rubric's judge, on a fake model."""

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

from posh_reward import RubricJudge, RubricReward
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.types import Failure

TRUTH = "Class: Bird, Family: Eagle, Species: Bald Eagle"
GONE = Failure("engine", "gone")


def reply(*points: int) -> str:
    return json.dumps(
        {f"M{n}": {"score": each, "feedback": f"why {n}"} for n, each in enumerate(points, start=1)}
    )


FULL, HALF = reply(2, 3, 5, 2, 3), reply(2, 0, 0, 0, 1)


def asked_about(prompt: Prompt) -> str:
    """The answer that a prompt asks about."""
    return prompt.suffix.partition("\nAnswer:\n")[2].partition("\n\n")[0]


def by_answer(prompt: Prompt) -> str | Failure:
    replies: dict[str, str | Failure] = {"Bald eagle": FULL, "Bird": HALF, "Gone": GONE}
    return replies.get(asked_about(prompt), "I would say 2 points.")


def judge(writer: Any = by_answer, **settings: Any) -> RubricJudge:
    return RubricJudge(FakeModel(writer=writer), **settings)


def test_points_by_metric_in_total_and_as_a_share() -> None:
    full, half = judge().score(["Bald eagle", "Bird"], [TRUTH, TRUTH])
    assert (full.total, full.share) == (15, 1.0)
    assert (half.total, half.share) == (3, 0.2)
    assert half.points == {"M1": 2, "M2": 0, "M3": 0, "M4": 0, "M5": 1}
    assert half.metric_points[0].feedback == "why 1"
    assert full.signature.startswith("rubric|model:fake-model-1|rubric:animals-")


def test_a_reply_that_cannot_be_used_is_asked_for_once_more_with_the_reason() -> None:
    def writer(prompt: Prompt) -> str:
        said = "But the reply cannot be used: the score of M1 is 7, not one of 0, 1, 2. Reply again"
        return FULL if said in prompt.suffix else reply(7, 0, 0, 0, 0)

    judged = judge(writer)
    [score] = judged.score(["Bird"], [TRUTH])
    assert score.total == 15
    assert score.repaired
    assert judged.usage.rewrites == 2


def test_a_second_bad_reply_is_a_failure_for_its_text_alone() -> None:
    judged = judge()
    good, bad, gone = judged.score(["Bird", "Fish", "Gone"], [TRUTH] * 3)
    assert good.total == 3
    assert not good.repaired
    assert bad.total is bad.share is None
    assert str(bad.failure) == "the reply cannot be used: there is no JSON object in it"
    assert gone.failure == GONE
    assert judged.usage.rewrites == 4, "what failed is not asked again"


def test_what_cannot_be_asked_fails_with_its_reason() -> None:
    judged = judge()
    scores = judged.score(["Bird", None, "Bird"], [TRUTH, TRUTH, None])
    assert scores[0].total == 3
    assert [str(s.failure) for s in scores[1:]] == [
        "the text is missing",
        "the reference is missing",
    ]


def test_questions_of_a_call_and_of_the_rubric() -> None:
    model = FakeModel(writer=by_answer)
    RubricJudge(model).score(["Bird"], [TRUTH])
    RubricJudge(model).score(["Bird"], [TRUTH], ["Who flies?"])
    assert "Question:\nWhat kind of animal is that?" in model.prompts[0].suffix
    assert "Question:\nWho flies?" in model.prompts[1].suffix


def test_a_text_cannot_reach_into_the_prompt() -> None:
    """Names in braces are not filled in twice."""
    model = FakeModel(writer=by_answer)
    RubricJudge(model).score(["{truth} {0}"], ["The {answer}"])
    assert "Ground Truth:\nThe {answer}\nAnswer:\n{truth} {0}" in model.prompts[0].suffix


def test_equal_texts_are_judged_once_and_kept(tmp_path: Path) -> None:
    for expected in (1, 0):
        model = FakeModel(writer=by_answer)
        judged = RubricJudge(model, store=tmp_path / "store")
        assert [s.total for s in judged.score(["Bird"] * 3, [TRUTH] * 3)] == [3, 3, 3]
        assert len(model.prompts) == expected


def test_it_rewards_the_share_of_the_points(caplog: pytest.LogCaptureFixture) -> None:
    reward = pickle.loads(pickle.dumps(RubricReward(judge())))
    seen: dict[str, Any] = {}
    with caplog.at_level(logging.WARNING):
        rewards = reward(
            completions=["Bald eagle", "Bird", "Fish", "..."],
            reference=[TRUTH] * 4,
            log_metric=seen.__setitem__,
            log_extra=seen.__setitem__,
        )
    assert rewards == [1.0, 0.2, None, None]
    assert seen["rubric/total"] == 9.0
    assert seen["rubric/M3"] == 2.5
    assert seen["rubric/failed_share"] == 0.5
    assert seen["rubric_total"] == [15, 3, None, None]
    assert "2 of 4 completions have no reward" in caplog.text
    generous = RubricReward(judge(lambda prompt: FULL))
    assert generous(completions=["..."], reference=[TRUTH]) == [0.0], "though the judge liked it"
    generous.check()
