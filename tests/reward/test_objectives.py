"""Precision and recall as two reward functions of one scoring call."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from posh_reward import ConfigError, JudgeError, PoSh, PoshReward
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.reward.objectives import NORMALIZE_FIRST, settle_aggregation
from posh_reward.reward.shaping import Shaping
from posh_reward.types import Failure, Question, Scores

REFERENCE = "A tall woman in a red dress holds a basket."
TEXTS = ["A woman in a red dress.", "A man with a green hat."]
OTHERS = ["A basket.", "A woman holds a red hat."]
SEPARATE = Shaping("separate")
GONE = Failure("engine", "gone")


class CountedPoSh(PoSh):
    """Counts its calls."""

    def __init__(self, judge: FakeJudge | None = None) -> None:
        super().__init__(judge or FakeJudge())
        self.calls = 0

    def score(self, generations: Any, references: Any, images: Any = None) -> list[Scores]:
        self.calls += 1
        return super().score(generations, references, images)


@dataclass
class Separate:
    """Two functions of one reward, called as TRL does."""

    posh: CountedPoSh = field(default_factory=CountedPoSh)
    shaping: Shaping = SEPARATE
    logged: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.reward = PoshReward(self.posh, self.shaping, max_failed_calls=2)
        self.functions = self.reward.functions()

    def ask(self, function: Any, texts: list[Any]) -> list[float | None]:
        rewards: list[float | None] = function(
            prompts=["Describe."] * len(texts),
            completions=texts,
            completion_ids=[[1]] * len(texts),
            reference=[REFERENCE] * len(texts),
            trainer_state=None,
            log_metric=lambda name, value: self.logged.update([name]),
            log_extra=lambda name, values: self.logged.update([name]),
        )
        return rewards

    def __call__(self, texts: list[Any]) -> list[list[float | None]]:
        return [self.ask(function, texts) for function in self.functions]


def expected(texts: list[str]) -> list[list[float | None]]:
    scores = PoSh(FakeJudge()).score(texts, [REFERENCE] * len(texts))
    return [[s.precision for s in scores], [s.recall for s in scores]]


def test_they_are_precision_and_recall_of_one_scoring_call() -> None:
    separate = Separate()
    assert separate(TEXTS) == expected(TEXTS)
    assert separate.posh.calls == 1
    assert [f.__name__ for f in separate.functions] == [
        "posh_precision_reward",
        "posh_recall_reward",
    ]


def test_each_call_is_scored_once_whatever_came_before() -> None:
    """Training and evaluation alternate, and a batch may come twice."""
    separate = Separate()
    for calls, texts in enumerate((TEXTS, OTHERS, TEXTS, TEXTS), start=1):
        assert separate(texts) == expected(texts)
        assert separate.posh.calls == calls


def test_everything_is_logged_once_a_call_under_the_usual_names() -> None:
    together, separate = Separate(shaping=Shaping()), Separate()
    together(TEXTS)
    separate(TEXTS)
    assert separate.logged == together.logged
    assert set(separate.logged.values()) == {1}
    separate(OTHERS)
    assert set(separate.logged.values()) == {2}


def test_scoring_that_raises_leaves_nothing_behind() -> None:
    separate = Separate()
    first, second = separate.functions
    separate.ask(first, TEXTS)
    with pytest.raises(Exception, match="no column"):
        second(completions=TEXTS)
    assert separate.ask(second, TEXTS) == expected(TEXTS)[1]
    assert separate.posh.calls == 1


def test_failures_come_together() -> None:
    def grader(request: Question) -> float | Failure:
        gone = request.direction == "recall" and "green" in request.target.text
        return GONE if gone else 3.0

    separate = Separate(CountedPoSh(FakeJudge(grader)))
    precision, recall = separate(TEXTS)
    assert precision[1] is recall[1] is None
    assert None not in (precision[0], recall[0])


def test_a_dead_judge_is_counted_once_a_call() -> None:
    separate = Separate(CountedPoSh(FakeJudge(lambda request: GONE)))
    assert separate(TEXTS) == [[None, None], [None, None]]
    with pytest.raises(JudgeError, match="2 calls in a row"):
        separate(TEXTS)
    supervised = Separate(CountedPoSh(FakeJudge(lambda request: GONE)))
    supervised.reward.failures.begin(supervised=True)
    for _ in range(3):
        assert supervised(TEXTS) == [[None, None], [None, None]]
    assert supervised.reward.failures.stopping


def test_one_number_cannot_be_had_of_two_objectives() -> None:
    with pytest.raises(ConfigError, match=r"reward_funcs=reward\.functions\(\)"):
        PoshReward(shaping=SEPARATE)(completions=TEXTS, reference=[REFERENCE] * 2)
    one = PoshReward()
    assert one.functions() == [one]


def settings(**changed: Any) -> Any:
    usual = {
        "multi_objective_aggregation": "sum_then_normalize",
        "reward_weights": None,
        "scale_rewards": "group",
    }
    return SimpleNamespace(**(usual | changed))


def test_one_setting_makes_the_trainer_normalise_first() -> None:
    args = settings()
    for _ in range(2):
        settle_aggregation(args, Shaping("separate", precision_weight=2))
        assert args == settings(
            multi_objective_aggregation=NORMALIZE_FIRST, reward_weights=[2.0, 1.0]
        )
    other = settings(reward_weights=[1.0])
    settle_aggregation(other, Shaping())
    assert other == settings(reward_weights=[1.0])


@pytest.mark.parametrize(
    ("objective", "changed"),
    [
        ("f1", {"multi_objective_aggregation": NORMALIZE_FIRST}),
        ("separate", {"reward_weights": [1.0, 3.0]}),
        ("separate", {"scale_rewards": "none"}),
    ],
)
def test_settings_that_contradict_the_objective_are_refused(
    objective: Any, changed: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=next(iter(changed))):
        settle_aggregation(settings(**changed), Shaping(objective))


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        ({"multi_objective_aggregation": "sum_then_normalize"}, "settle_aggregation"),
        ({}, "only adds rewards: use Shaping"),  # RLOO
        (
            {"multi_objective_aggregation": NORMALIZE_FIRST, "reward_weights": [1.0, 1.0, 3.0]},
            "precision_weight is 2, but .* have 1",
        ),
    ],
)
def test_a_trainer_that_adds_the_axes_otherwise_is_refused(
    trainer: dict[str, Any], message: str
) -> None:
    """It would train, and log the same names, on another objective."""
    functions = PoshReward(CountedPoSh(), Shaping("separate", precision_weight=2)).functions(
        brevity
    )
    with pytest.raises(ConfigError, match=message):
        functions[0](
            completions=TEXTS,
            reference=[REFERENCE] * 2,
            log_metric=Trainer(reward_funcs=functions, **trainer).log,
        )
    settled = Trainer(
        reward_funcs=functions,
        multi_objective_aggregation=NORMALIZE_FIRST,
        reward_weights=[2.0, 1.0, 3.0],
    )
    for function in functions:
        function(completions=TEXTS, reference=[REFERENCE] * 2, log_metric=settled.log)


def brevity(completions: list[Any], **_: Any) -> list[float]:
    """A reward function of a user's own."""
    return [1 / len(text) for text in completions]


async def patience(completions: list[Any], **_: Any) -> list[float]:
    """One that waits for something."""
    await asyncio.sleep(0)
    return [float(len(text)) for text in completions]


def gone_for_green(question: Question) -> float | Failure:
    return GONE if "green" in question.source.text + question.target.text else 3.0


def test_other_functions_say_nothing_of_what_the_judge_could_not() -> None:
    """TRL leaves a completion out only if all functions do: 1 / 23 characters alone would count."""
    posh = CountedPoSh(FakeJudge(gone_for_green))
    functions = PoshReward(posh).functions(brevity, patience)
    assert [each.__name__ for each in functions] == ["posh", "brevity", "patience"]
    columns: dict[str, Any] = {"completions": TEXTS, "reference": [REFERENCE] * 2}
    posh_rewards, brief, patient = functions
    assert posh_rewards(**columns) == [0.6, None]  # 3 of 5 on both axes
    assert brief(**columns) == [1 / 23, None]
    assert asyncio.run(patient(**columns)) == [23.0, None]
    assert posh.calls == 1
    assert asyncio.run(patient(**columns)) == [23.0, None], "called alone, it scores itself"
    assert posh.calls == 2


@pytest.mark.parametrize("objective", ["f1", "separate"])
def test_functions_that_would_go_on_without_the_judge_are_refused_at_the_start(
    objective: Any,
) -> None:
    reward = PoshReward(CountedPoSh(), Shaping(objective))
    functions = reward.functions()
    trainer = Trainer(
        reward_funcs=[*functions, brevity],
        multi_objective_aggregation=NORMALIZE_FIRST,
        reward_weights=[1.0] * (len(functions) + 1),
    )
    with pytest.raises(ConfigError, match=r"brevity would still .*reward\.functions\(other"):
        functions[0](completions=TEXTS, reference=[REFERENCE] * 2, log_metric=trainer.log)


class Trainer(SimpleNamespace):
    """The part of TRL's trainer that a reward function can reach."""

    def log(self, name: str, value: float) -> None:
        """As ``GRPOTrainer._log_metric``."""


def test_the_weight_of_another_function_is_not_ignored() -> None:
    args = SimpleNamespace(
        multi_objective_aggregation="sum_then_normalize", reward_weights=None, scale_rewards="group"
    )
    settle_aggregation(args, Shaping(), 0.1)
    assert args.reward_weights == [1.0, 0.1]
    args.reward_weights = [1.0, 1.0]
    with pytest.raises(ConfigError, match="reward_weights is"):
        settle_aggregation(args, Shaping(), 0.1)
