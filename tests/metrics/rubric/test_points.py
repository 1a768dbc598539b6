"""Replies of a judge, which are anybody's text."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posh_reward.metrics.rubric_judge import ReplyError, load_rubric, read_points

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
