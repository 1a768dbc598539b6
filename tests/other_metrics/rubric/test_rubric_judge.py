"""A rubric's judge, on a fake model."""

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posh_reward import ConfigError, RubricJudge, RubricReward
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.other_metrics.rubric_judge import ReplyError, load_rubric, read_points
from posh_reward.types import Failure

METRICS: list[dict[str, Any]] = [
    {"name": "truth", "title": "No mistakes", "points": {1: "None.", -1: "Some."}}
]
EXAMPLE = {"truth": "t", "answer": "a", "scores": {"truth": 5}, "feedback": {}}


def test_the_papers_rubric_has_its_ranges() -> None:
    rubric = load_rubric("animals")
    ranges = {metric.name: (metric.lowest, metric.highest) for metric in rubric.metrics}
    assert ranges == {"M1": (0, 2), "M2": (0, 3), "M3": (0, 5), "M4": (0, 2), "M5": (0, 3)}
    assert (rubric.lowest, rubric.highest, len(rubric.examples)) == (0, 15, 3)


def test_no_example_is_an_item_of_the_papers_test() -> None:
    """Tables A7 and A8: a judge that has seen an answer's points does not judge it."""
    items = (
        "Bustard Eagle Paradise Stork Parrot Flamingo Ostrich Crane Macaw Gull Albatross Finch "
        "Penguin Roadrunner Parakeet Hummingbird Cockatoo Peafowl Peacock Toucan Booby"
    ).split()
    for example in load_rubric("animals").examples:
        text = f"{example.truth} {example.answer}".casefold()
        assert [name for name in items if name.casefold() in text] == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "rubric: metrics .* field required"),
        ({"metrics": []}, "metrics is .* at least 1 item"),
        ({"metric": METRICS, "metrics": METRICS}, "metric is .* not permitted"),
        ({"metrics": {"a": 1}}, "metrics is .* valid tuple"),
        ({"metrics": METRICS * 2}, "two metrics have the same name: truth, truth"),
        ({"metrics": METRICS * 101}, "at most 100 items"),
        ({"metrics": [METRICS[0] | {"name": "\x1b[2J"}]}, r"metrics 1 name is '.x1b.2J': use prin"),
        ({"metrics": [METRICS[0] | {"name": 'a": 1, "b'}]}, "without quotes"),
        ({"metrics": [METRICS[0] | {"points": {"two": "x", 1: "y"}}]}, "points two .* integer"),
        ({"metrics": [METRICS[0] | {"points": {1: "x"}}]}, "at least 2"),
        ({"metrics": [METRICS[0] | {"title": 3}]}, "metrics 1 title is 3: input should be"),
        ({"metrics": METRICS, "steps": [""]}, "steps 1 is '': .* at least 1 character"),
        ({"metrics": METRICS, "examples": [EXAMPLE]}, "1: truth has 5 points: use one of 1, -1"),
    ],
)
def test_what_is_wrong_with_a_rubric_is_said_where_it_is(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_rubric(settings)


RUBRIC = load_rubric("animals")
SOUND: dict[str, Any] = {
    f"M{number}": {"score": points, "feedback": f"because {number}"}
    for number, points in enumerate((2, 3, 5, 0, 1), start=1)
}


def changed(name: str, value: object) -> str:
    return json.dumps(SOUND | {name: value})


@pytest.mark.parametrize(
    "around", ["Here it is:\n%s", "```json\n%s\n```", "%s\nHope this helps {}"]
)
def test_words_around_the_object_do_no_harm(around: str) -> None:
    assert len(read_points(around % json.dumps(SOUND), RUBRIC)) == 5


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("2 points", "no JSON object"),
        ('{"M1": ', "broken"),
        ("{}", "M1, M2, M3, M4, M5 missing"),
        (json.dumps({k: v for k, v in SOUND.items() if k != "M4"}), "M4 missing"),
        (changed("M6", SOUND["M1"]), "'M6' is not a criterion"),
        (changed("M1", 2), 'M1 is not an object of "score" and "feedback"'),
        (changed("M1", {"score": 2}), "M1 is not an object"),
        (changed("M1", {"score": 3, "feedback": ""}), "score of M1 is 3, not one of 0, 1, 2"),
        (changed("M3", {"score": -1, "feedback": ""}), "score of M3 is -1"),
        (changed("M1", {"score": 1.5, "feedback": ""}), "score of M1 is 1.5"),
        (changed("M1", {"score": True, "feedback": ""}), "score of M1 is True"),
        (changed("M1", {"score": "2", "feedback": ""}), "score of M1 is '2'"),
        (changed("M1", {"score": [2], "feedback": ""}), r"score of M1 is \[2\]"),
        (changed("M1", {"score": float("nan"), "feedback": ""}), "NaN is not a number of points"),
        (changed("M1", {"score": 2, "feedback": None}), "feedback on M1 is not a text"),
        ('{"M1": {"score": 1e999, "feedback": ""}}', "M2, M3, M4, M5 missing"),
        ('{"M1": 1, "M1": 2}', "a name twice"),
        ("{" + '"a":{' * 100_000, "nested too deeply|broken"),
        ('{"M1": ' + "9" * 10_000 + "}", "broken|missing"),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong(reply: str, why: str) -> None:
    with pytest.raises(ReplyError, match=why):
        read_points(reply, RUBRIC)


POINTS = st.fixed_dictionaries(
    {"score": st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)},
    optional={"feedback": st.none() | st.text(max_size=3)},
)


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=20) | st.dictionaries(st.sampled_from([*SOUND]), POINTS).map(json.dumps))
def test_no_reply_raises_anything_else(reply: str) -> None:
    try:
        points = read_points(reply, RUBRIC)
    except ReplyError:
        return
    assert [each.metric for each in points] == list(SOUND)


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
    reasons = [str(score.failure) for score in scores[1:]]
    assert reasons == ["the text is missing", "the reference is missing"]


def test_any_form_of_a_text_is_judged_and_kept_as_that_text() -> None:
    answers = ["Bird", ["Bird"], "['Bird']"]
    once: Any = iter(answers)
    truths: Any = (truth for truth in [TRUTH] * 3)
    scores = judge().score(once, truths)
    assert [(score.total, score.generation) for score in scores] == [(3, "Bird")] * 3


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
            completions=["Bald eagle", "Bird", "Fish", "..."], reference=[TRUTH] * 4,
            log_metric=seen.__setitem__, log_extra=seen.__setitem__,
        )  # fmt: skip
    assert rewards == [1.0, 0.2, None, None]
    assert seen["rubric/total"] == 9.0
    assert seen["rubric/M3"] == 2.5
    assert seen["rubric/failed_share"] == 0.5
    assert seen["rubric_total"] == [15, 3, None, None]
    assert "2 of 4 completions have no reward" in caplog.text
    generous = RubricReward(judge(lambda prompt: FULL))
    assert generous(completions=["..."], reference=[TRUTH]) == [0.0], "though the judge liked it"
    generous.check()
