"""Refusals before the first step of data that would fail or spoil a run in its middle."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from datasets import Dataset, Image
from PIL import Image as Picture
from trl import RLOOConfig

from posh_reward import PoSh, PoshReward
from posh_reward.errors import ConfigError, InputError
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.reward.objectives import settle_aggregation
from posh_reward.reward.shaping import Shaping
from posh_reward.training.dataset_check import check_datasets

SEES = SimpleNamespace(image_processor=None)
TALK = [{"role": "user", "content": "Describe."}, {"role": "assistant", "content": "A dog."}]


def rows(images: list[Any] | None = None, **columns: list[Any]) -> Dataset:
    """Four rows of references, with images where they are given."""
    shown = {} if images is None else {"image": images}
    made = Dataset.from_dict({"reference": ["A dog."] * 4, **shown, **columns})
    return made if images is None else made.cast_column("image", Image())


def picture() -> Picture.Image:
    return Picture.new("RGB", (8, 8))


def trainer(dataset: Dataset, *functions: Any, **more: Any) -> Any:
    functions = functions or (PoshReward(PoSh(FakeJudge())),)
    return SimpleNamespace(train_dataset=dataset, reward_funcs=[*functions], **more)


def brevity(completions: list[Any], **columns: Any) -> list[float]:
    return [1.0] * len(completions)


def own(environments: list[Any], **columns: Any) -> list[float]:
    return [each.get_reward() for each in environments]


PROBLEMS: dict[str, Callable[[], Any]] = {
    "rows 1, 3 have no image in column 'image'": lambda: trainer(
        rows([picture(), None, picture(), None]), processing_class=SEES
    ),
    "evaluation dataset 'test': 1 of 4 rows, such as row 2, have no text": lambda: trainer(
        rows(), eval_dataset={"test": rows(reference=["A", "B", "", "D"])}
    ),
    "the evaluation dataset has no column 'reference', which the training data has": lambda: (
        trainer(rows(), eval_dataset=rows().rename_column("reference", "caption"))
    ),
    "the evaluation dataset': the column 'reference' holds int64": lambda: trainer(
        rows(), eval_dataset=rows(reference=[1, 2, 3, 4])
    ),
    r"holds conversations, not texts.*\[-1\]\['content'\]": lambda: trainer(
        rows(reference=[TALK] * 4)
    ),
    "brevity would still pay where the judge fails": lambda: trainer(
        rows(), PoshReward(PoSh(FakeJudge())), brevity
    ),
    r"the environment's get_reward \(own\).*def own\(environments": lambda: trainer(
        rows(), PoshReward(PoSh(FakeJudge())), own
    ),
}


@pytest.mark.parametrize("message", PROBLEMS)
def test_it_is_said_before_the_first_step(message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_datasets(PROBLEMS[message]())


def test_rewards_that_fail_together_and_whole_columns_pass() -> None:
    reward = PoshReward(PoSh(FakeJudge()))
    check_datasets(
        trainer(rows([picture()] * 4), *reward.functions(brevity), processing_class=SEES)
    )


@pytest.mark.parametrize("column", ["prompt", "completion", "completion_ids"])
def test_a_reference_that_trl_withholds_has_to_be_renamed(column: str) -> None:
    with pytest.raises(InputError, match=rf"do not pass.*rename_column\('{column}'"):
        PoshReward(reference_column=column)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([1.0], "'mine' returned 1 rewards, and 2 were expected"),
        (None, "'mine' returned None"),
        ({"a": 1.0, "b": 2.0}, "'mine' returned {'a'"),
    ],
)
@pytest.mark.parametrize("waits", [False, True])
def test_a_function_that_returns_too_few_is_named(returned: Any, message: str, waits: bool) -> None:
    async def later(**columns: Any) -> Any:
        return returned

    mine: Any = partial(later) if waits else partial(lambda **columns: returned)
    mine.__name__ = "mine"
    _, function = PoshReward(PoSh(FakeJudge())).functions(mine)
    both = {"completions": ["A dog."] * 2, "reference": ["A dog."] * 2}

    def call() -> None:
        result = function(**both)
        result.send(None)  # awaits nothing, so it ends at once

    with pytest.raises(ConfigError, match=message):
        call()


def test_two_lambdas_get_names_by_which_they_are_told_apart() -> None:
    reward = PoshReward(PoSh(FakeJudge()))
    functions = [lambda **columns: [1.0], lambda **columns: [0.0]]
    with pytest.raises(ConfigError, match="set the __name__ of one of them"):
        reward.functions(*functions)
    functions[0].__name__ = "first"
    assert [each.__name__ for each in reward.functions(*functions)][1:] == ["first", "<lambda>"]


def test_a_reward_that_is_added_does_not_rename_ours() -> None:
    reward = PoshReward(PoSh(FakeJudge()))
    names = [[each.__name__ for each in reward.functions(*more)] for more in ((), (brevity,))]
    assert names == [["posh"], ["posh", "brevity"]]


def test_a_trainer_that_logs_nothing_is_said_to(caplog: pytest.LogCaptureFixture) -> None:
    reward = PoshReward(PoSh(FakeJudge()))
    for _ in range(2):
        reward(completions=["A dog."], reference=["A dog."], trainer_state=object())
    assert caplog.text.count("passes rewards no log_metric") == 1


def test_silence_earns_no_more_than_a_poor_answer() -> None:
    reward = PoshReward(PoSh(FakeJudge()), Shaping())
    call = [{"role": "assistant", "content": None, "tool_calls": [{"function": "zoom"}]}]
    assert reward(completions=[call, ""], reference=["A dog."] * 2) == [0.2, 0.2]
    unreadable = [{"role": "assistant", "content": 5}]  # of the trainer, not of the policy
    assert reward(completions=[unreadable], reference=["A dog."]) == [None]


def test_rloo_takes_one_reward_and_no_axes() -> None:
    settle_aggregation(RLOOConfig(use_cpu=True, bf16=False), Shaping())
    with pytest.raises(ConfigError, match="RLOOConfig only add rewards"):
        settle_aggregation(RLOOConfig(use_cpu=True, bf16=False), Shaping("separate"))
