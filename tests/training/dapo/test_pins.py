"""What is relied on in TRL. If this fails, DapoTrainer needs a look before the pin is raised."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer
from trl import GRPOTrainer

from posh_reward.training.dapo.trainer import (
    DapoTrainer,
    conversations,
)
from tests.training.dapo.tiny import GROUP, make, rows

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
]


def parameters(method: Any) -> list[str]:
    return list(inspect.signature(method).parameters)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("_generate_and_score_completions", ["self", "inputs"]),
        ("_generate", ["self", "prompts"]),
        (
            "_calculate_rewards",
            ["self", "inputs", "prompts", "completions", "completion_ids_list"],
        ),
        ("_get_train_sampler", ["self", "dataset"]),
    ],
)
def test_methods_that_are_overridden_take_what_they_took(name: str, wanted: list[str]) -> None:
    assert parameters(getattr(GRPOTrainer, name)) == wanted
    assert parameters(getattr(DapoTrainer, name)) == wanted


def test_the_dataloader_is_made_as_it_was() -> None:
    wanted = [
        "self", "dataset", "description", "batch_size", "sampler_fn", "is_training",
        "dataloader_key",
    ]  # fmt: skip
    assert parameters(Trainer._get_dataloader) == wanted


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
