"""Parts that all adapters share; no framework is needed."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from posh_reward import ConfigError, MissingDependencyError, PoSh, PoshReward, Shaping
from posh_reward.adapters.completion_results import (
    framework,
    one_objective,
    results,
    reward_of,
    separate_advantages,
    with_group_means,
)
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.types import Failure, Question, Verdict
from tests.adapters.groups import FAILED, REASON, REFERENCE, REWARD, TEXTS, rewards
from tests.adapters.two_objectives import CASES, GROUPS, WEIGHTS

COLUMNS = {"reference": [REFERENCE] * len(TEXTS)}


def test_results_are_those_of_a_direct_call() -> None:
    outcomes = results(REWARD, TEXTS, COLUMNS)
    assert [each.reward for each in outcomes] == rewards()
    assert REASON in str(outcomes[FAILED].failure)
    assert outcomes[FAILED].row["failed"] == 1
    assert set(outcomes[0].row) == {"posh_precision", "posh_recall", "posh_f1", "failed"}


def test_a_failed_completion_gets_the_mean_of_its_own_siblings(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        filled = with_group_means([0.2, None, 0.4, 1.0, None, None], [1, 1, 1, 2, 2, 3])
    assert filled == pytest.approx([0.2, 0.3, 0.4, 1.0, 1.0, 0.65])
    assert "3 of 6 completions" in caplog.text
    assert with_group_means([None, None], "ab") == [0.2, 0.2]


def test_separate_objectives_add_as_in_trl() -> None:
    # Within group 1: -0.1 and 0.1 by 0.1414; over the batch: -0.707 and 0.707 by 0.577.
    rows: list[list[float] | None] = [[0.2, 0.5], [0.4, 0.5], [0.6, 0.3], [0.6, 0.3]]
    advantages = separate_advantages(rows, [1, 1, 2, 2], [1, 1])
    assert advantages == pytest.approx([-1.2247, 1.2247, 0, 0], abs=1e-3)
    lost = separate_advantages([*rows, None], [1, 1, 2, 2, 2], [1, 1])
    assert lost == [*advantages, 0]
    assert separate_advantages([None, [0.2, 0.9], None], "aab", [1, 1]) == [0, 0, 0]
    for given, trls in CASES:
        assert separate_advantages(given, GROUPS, WEIGHTS) == pytest.approx(trls, abs=1e-4)


class Recovering(FakeJudge):
    """A judge whose first calls fail."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures, self.calls = failures, 0

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        self.calls += 1
        verdicts = super().grade(questions)
        if self.calls > self.failures:
            return verdicts
        return [Verdict(None, Failure("engine", "busy")) for _ in verdicts]


def test_what_an_engine_failed_on_is_tried_again() -> None:
    [outcome] = results(PoshReward(PoSh(Recovering(1))), TEXTS[:1], {"reference": [REFERENCE]})
    assert outcome.reward is not None
    judge = Recovering(99)
    gone, missing = results(
        PoshReward(PoSh(judge)), [TEXTS[0], None], {"reference": [REFERENCE] * 2}
    )
    assert str(gone.failure).endswith("busy")
    assert missing.failure is not None
    assert missing.failure.kind == "text"
    once = Recovering(99)
    results(PoshReward(PoSh(once)), TEXTS[:1], {"reference": [REFERENCE]}, tries=1)
    assert judge.calls == 2 * once.calls


def test_rewards_by_name(tmp_path: Path) -> None:
    assert reward_of("tests.adapters.groups:REWARD") is REWARD
    settings = tmp_path / "reward.yaml"
    settings.write_text("reference_column: caption\n")
    named = reward_of(str(settings))
    assert isinstance(named, PoshReward)
    assert named.reference_column == "caption"
    for name in ("tests.adapters.groups:ABSENT", "absent:REWARD", "posh"):
        with pytest.raises(ConfigError, match="unknown reward"):
            reward_of(name)
    with pytest.raises(ConfigError, match="not a metric's reward"):
        reward_of("tests.adapters.groups:METRIC")
    with pytest.raises(ConfigError, match="posh_precision and posh_recall"):
        one_objective(PoshReward(shaping=Shaping("separate")))


def test_a_missing_framework_is_named_with_its_install_line() -> None:
    wanted = r"could not import absent.*pip install 'absent==1.2'"
    with pytest.raises(MissingDependencyError, match=wanted), framework("absent==1.2"):
        import absent  # type: ignore[import-not-found] # noqa: F401
