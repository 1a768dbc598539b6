"""The reward in slime's own reward hub and normalisation (from its repository)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.adapters.groups import FAILED, REFERENCE, TEXTS, rewards, scores
from tests.adapters.stand_ins import stand_in

pytestmark = pytest.mark.adapters
ARGS = SimpleNamespace(
    custom_rm_path="posh_reward.adapters.slime.custom_rm",
    posh_reward="tests.adapters.groups:REWARD",
    reward_key="reward",
    advantage_estimator="grpo",
    rewards_normalization=True,
    grpo_std_normalization=True,
    n_samples_per_prompt=4,
    rollout_batch_size=1,
)


def test_a_failed_row_has_no_advantage_and_no_loss() -> None:
    hub = pytest.importorskip(
        "slime.rollout.rm_hub", reason="slime is not on PyPI: name a checkout by --source"
    )
    from slime.utils.types import Sample

    group: list[Any] = [
        Sample(group_index=0, index=i, response=text, label=REFERENCE)
        for i, text in enumerate(TEXTS)
    ]
    for sample, reward in zip(group, asyncio.run(hub.batched_async_rm(ARGS, group)), strict=True):
        sample.reward = reward  # as slime's generate_and_rm_group does
    for sample, expected, score in zip(group, rewards(), scores(), strict=True):
        assert sample.remove_sample == (expected is None)
        if expected is not None:
            assert sample.reward["reward"] == expected
            assert sample.reward["posh_recall"] == score.recall
            assert sample.metadata["elements"]
    advantages = normalised(group)
    assert advantages[FAILED] == pytest.approx(0, abs=1e-5)
    print(f"advantages {advantages}")


def normalised(group: list[Any]) -> list[float]:
    """By slime's rollout manager, whose module also imports its engine, which needs a card."""
    stand_in("sglang", "sglang_router", "wandb", "slime.backends.sglang_utils")
    from slime.ray.rollout import RolloutManager

    manager = getattr(RolloutManager, "__ray_metadata__", None)
    manager = RolloutManager if manager is None else manager.modified_class
    self = SimpleNamespace(args=ARGS, custom_reward_post_process_func=None)
    _, advantages = manager._post_process_rewards(self, group)
    return list(advantages)
