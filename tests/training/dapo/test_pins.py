"""What is relied on in TRL. If this fails, DapoTrainer needs a look before the pin is raised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from trl import GRPOTrainer

from posh_reward.training.dapo.trainer import (
    conversations,
)
from tests.training.dapo.tiny import GROUP, make, rows


class Watching(GRPOTrainer):  # type: ignore[misc]  # TRL is not typed
    """Notes what goes through the methods that DapoTrainer overrides."""

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        self.prompts = prompts
        rollouts: tuple[Any, ...] = super()._generate(prompts)
        self.rollouts = rollouts
        return rollouts

    def _calculate_rewards(self, *given: Any) -> torch.Tensor:
        self.given = given
        rewards: torch.Tensor = super()._calculate_rewards(*given)
        self.rewards = rewards
        return rewards


def test_a_batch_is_made_in_the_order_that_is_relied_on(tiny: Path) -> None:
    trainer = make(tiny, Watching)
    trainer.model.train()
    inputs = rows(trainer, [0, 1])
    made = trainer._generate_and_score_completions(inputs)
    assert trainer.prompts == conversations(inputs)
    assert len(trainer.rollouts) == 8
    ids, completions = trainer.rollouts[1], trainer.rollouts[3]
    assert trainer.given[1:] == (trainer.prompts, completions, ids)
    assert trainer.rewards.shape == (2 * GROUP, 1)
    assert made["advantages"].shape == (2 * GROUP,)
    assert made["num_items_in_batch"] == sum(map(len, ids))
    for row, tokens in enumerate(ids):
        length = int(made["completion_mask"][row].sum())
        assert made["completion_ids"][row, :length].tolist() == tokens
