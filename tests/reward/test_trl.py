"""A second metric is logged, and given up on, by the code that does so for POSH."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from posh_reward import JudgeError
from posh_reward.reward.trl import (
    CALL_FIGURES,
    MetricReward,
    build_call_columns,
    build_call_figures,
)
from posh_reward.types import Failure, Usage

GONE = Failure("engine", "gone")


@dataclass(frozen=True)
class OtherScore:
    fluency: float | None
    failure: Failure | None = None


class OtherMetric:
    """Scores a text by its length, and fails on an empty one."""

    name = "other"
    signature = "other|version:1"

    def __init__(self) -> None:
        self.usage = Usage()

    def score(self, texts: Sequence[str]) -> list[OtherScore]:
        self.usage.requests += len(texts)
        return [OtherScore(len(text) / 10) if text else OtherScore(None, GONE) for text in texts]

    def figures(self, scores: Sequence[OtherScore]) -> dict[str, float]:
        return {"longest": max((score.fluency or 0.0 for score in scores), default=math.nan)}

    def columns(self, scores: Sequence[OtherScore]) -> dict[str, list[float | None]]:
        return {"fluency": [score.fluency for score in scores]}


class OtherReward(MetricReward[OtherScore]):
    """The least that a reward has to say for itself."""

    metric = OtherMetric()
    objectives: ClassVar[Mapping[str, float | None]] = {"other": None}

    def _columns(self, columns: Mapping[str, Any], expected: int) -> tuple[list[Any] | None, ...]:
        return ()

    def _score(self, texts: list[Any], *columns: Any) -> list[OtherScore]:
        if "broken" in texts:
            raise ZeroDivisionError("by zero")
        return self.metric.score(texts)

    def _failed(self, why: Failure) -> OtherScore:
        return OtherScore(None, why)

    def _rewards(self, score: OtherScore) -> tuple[float | None, ...]:
        return (score.fluency,)


def test_its_figures_are_logged_under_its_name() -> None:
    metric = OtherMetric()
    texts = ["a dog", ""]
    scores = metric.score(texts)
    found = build_call_figures(metric, scores, texts, Usage(), 2.0)
    assert list(found) == ["other/longest", *(f"other/{name}" for name in CALL_FIGURES)]
    assert (found["other/longest"], found["other/failed_share"]) == (0.5, 0.5)
    assert (found["other/words"], found["other/repeated_share"]) == (1.0, 0.0)
    assert (found["other/judge_requests"], found["other/judge_cached_share"]) == (2.0, 0.0)
    assert build_call_columns(metric, scores) == {
        "other_fluency": [0.5, None],
        "other_failure": ["", "gone"],
    }
    assert list(build_call_figures(metric, [], [], metric.usage, 0.0)) == list(found), (
        "the same names at every call"
    )


def test_its_reward_gives_up_after_calls_without_a_score(caplog: pytest.LogCaptureFixture) -> None:
    reward = OtherReward(max_failed_calls=2)
    with caplog.at_level(logging.WARNING):
        assert reward(completions=["", "a dog"]) == [None, 0.5]
        assert reward(completions=[""]) == [None]
        assert reward(completions=["a dog"]) == [0.5], "which starts the count again"
        assert reward(completions=[""]) == [None]
        with pytest.raises(JudgeError, match=r"2 calls in a row.*gone"):
            reward(completions=[""])
    assert "1 of 2 completions have no reward: 1 x gone" in caplog.text


def test_scoring_that_raises_is_a_call_without_rewards() -> None:
    """A rank that raised alone would leave the others waiting."""
    reward = OtherReward(max_failed_calls=2)
    logged: dict[str, Any] = {}
    texts = ["broken", "a dog"]
    assert reward(completions=texts, log_extra=logged.__setitem__) == [None, None]
    assert logged["other_failure"] == ["scoring raised ZeroDivisionError: by zero"] * 2


def test_its_reward_leaves_stopping_to_a_supervisor() -> None:
    reward = OtherReward(max_failed_calls=1)
    reward.failures.begin(supervised=True)
    assert reward(completions=[""]) == [None]
    assert reward.failures.stopping
    assert reward.failures.stop_reason is not None
    reward.failures.begin(supervised=True)
    assert not reward.failures.stopping
