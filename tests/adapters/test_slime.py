"""The reward in slime's own reward hub and normalisation (from its repository), and in miles'."""

import asyncio
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from posh_reward import ConfigError, PoshReward, Shaping
from tests.adapters.groups import FAILED, METRIC, REFERENCE, TEXTS, rewards, scores
from tests.adapters.stand_ins import stand_in
from tests.adapters.two_objectives import CASES, GROUPS, WEIGHTS

pytestmark = pytest.mark.adapters
SEPARATE = PoshReward(METRIC, Shaping("separate", *WEIGHTS))
FUNCTIONS = "posh_reward.adapters.reward_functions"
ARGS: dict[str, Any] = {
    "custom_rm_path": f"{FUNCTIONS}.custom_rm",
    "posh_reward": "tests.adapters.groups:REWARD",
    "reward_key": "reward",
    "advantage_estimator": "grpo",
    "rewards_normalization": True,
    "grpo_std_normalization": True,
    "n_samples_per_prompt": 4,
    "rollout_batch_size": 1,
}
TWO = {
    **ARGS,
    "posh_reward": f"{__name__}:SEPARATE",
    "custom_reward_post_process_path": f"{FUNCTIONS}.separate_rewards",
}


@pytest.fixture(params=["slime", "miles"])
def trainer(request: pytest.FixtureRequest) -> str:
    """Each has the other's interfaces; one is in this environment."""
    pytest.importorskip(request.param, reason="not in this environment: slime needs --source")
    return str(request.param)


def scored(trainer: str, args: dict[str, Any]) -> list[Any]:
    """A group, as ``generate_and_rm_group`` leaves it."""
    hub = import_module(f"{trainer}.rollout.rm_hub")
    make = import_module(f"{trainer}.utils.types").Sample
    group: list[Any] = [
        make(group_index=0, index=i, response=text, label=REFERENCE) for i, text in enumerate(TEXTS)
    ]
    found = asyncio.run(hub.batched_async_rm(SimpleNamespace(**args), group))
    for sample, reward in zip(group, found, strict=True):
        sample.reward = reward
    return group


def normalised(trainer: str, args: dict[str, Any], group: list[Any]) -> list[float]:
    """By the rollout manager, whose module also imports its engine, which needs a GPU."""
    stand_in("sglang", "sglang_router", "wandb", f"{trainer}.backends.sglang_utils")
    rollout = import_module(f"{trainer}.ray.rollout")
    manager = getattr(rollout.RolloutManager, "__ray_metadata__", None)
    manager = rollout.RolloutManager if manager is None else manager.modified_class
    path = args.get("custom_reward_post_process_path")
    self = SimpleNamespace(
        args=SimpleNamespace(**args),
        custom_reward_post_process_func=path and rollout.load_function(path),
    )
    _, advantages = manager._post_process_rewards(self, group)
    return list(advantages)


def test_a_failed_row_has_no_advantage_and_no_loss(trainer: str) -> None:
    group = scored(trainer, ARGS)
    for sample, expected, score in zip(group, rewards(), scores(), strict=True):
        assert sample.remove_sample == (expected is None)
        if expected is not None:
            assert sample.reward["reward"] == expected
            assert sample.reward["posh_recall"] == score.recall
            assert sample.metadata["elements"]
    advantages = normalised(trainer, ARGS, group)
    assert advantages[FAILED] == pytest.approx(0, abs=1e-5)
    print(f"{trainer}: advantages {advantages}")


@pytest.mark.parametrize(("rows", "expected"), CASES)
def test_its_advantages_of_two_objectives_are_trls(
    trainer: str, rows: list[list[float] | None], expected: list[float]
) -> None:
    names = ("posh_precision_reward", "posh_recall_reward")
    group = [
        SimpleNamespace(
            group_index=name,
            reward={
                **dict(zip(names, row or (float("nan"),) * 2, strict=True)),
                "reward": 0.5,
                "failed": float(row is None),
            },
        )
        for name, row in zip(GROUPS, rows, strict=True)
    ]
    found = normalised(trainer, TWO, group)
    print(f"{trainer}: {[round(each, 4) for each in found]}")
    assert found == pytest.approx(expected, abs=1e-4)


def test_two_objectives_leave_a_failed_row_without_an_update(trainer: str) -> None:
    group = scored(trainer, TWO)
    assert [each.remove_sample for each in group] == [False, False, True, False]
    advantages = normalised(trainer, TWO, group)
    assert advantages[FAILED] == 0
    assert sum(advantages) == pytest.approx(0, abs=1e-6)
    assert len({*advantages}) > 2
    with pytest.raises(ConfigError, match="choose objective f1 or weighted"):
        scored(trainer, {**ARGS, "posh_reward": TWO["posh_reward"]})
