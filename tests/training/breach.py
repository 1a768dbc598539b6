"""Run by a launcher, on each rank: a recipe in which something breaks what it promises.

    breach.py FAULT sft|dapo [flags of the recipe]

A FAULT is a function of this file, or "none" where the flags are the fault. Under DeepSpeed, run in
its environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from transformers import TrainerCallback

from posh_reward import PoSh, PoshReward
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.training import launch
from posh_reward.types import Failure
from recipes import dapo_posh, sft


class Averages(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Changes the weights when training has ended, as some callbacks do."""

    def on_train_end(self, *args: Any, model: Any, **kwargs: Any) -> None:
        first = next(model.parameters())
        with gathered(first):
            first.data.mul_(0.5)


def averaged() -> None:
    """Save other weights than the last checkpoint's."""
    add_to_trainers(lambda trainer: trainer.add_callback(Averages()))


def gathered(parameter: Any) -> AbstractContextManager[None]:
    """Make a parameter whole for a change, which ZeRO-3 spreads over the ranks again."""
    if not is_under_deepspeed():
        return nullcontext()
    from deepspeed import zero

    made: AbstractContextManager[None] = zero.GatheredParameters([parameter], modifier_rank=0)
    return made


def is_under_deepspeed() -> bool:
    return os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"


def loaded_by_name() -> None:
    """Load the best checkpoint as transformers does, which finds one tensor of 57 by its name."""
    launch.load_best_by_any_name = lambda trainer: None  # type: ignore[attr-defined]


def lost_updates() -> None:
    """Let the optimizer work on copies, as after a wrapper that copies the model."""

    class Idle(TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, *args: Any, optimizer: Any, **kwargs: Any) -> None:
            for group in optimizer.param_groups:
                group["params"] = [
                    torch.nn.Parameter(each.data.clone()) for each in group["params"]
                ]

    add_to_trainers(lambda trainer: trainer.add_callback(Idle()))


def unjudged_last_call() -> None:
    """Judge nothing in the last of the four calls of each step."""
    dapo_posh.make_reward = LongerIsBetter


class LongerIsBetter(PoshReward):
    """Gives a reward in three of four calls."""

    def __init__(self, script: dapo_posh.DapoScriptArguments) -> None:
        self.calls = 0
        gone = Failure("engine", "gone")
        super().__init__(PoSh(FakeJudge(lambda _: gone if self.calls % 4 == 0 else 3.0)))

    def check(self) -> None:
        """Accept a judge that gives all the same grade."""

    def __call__(self, *args: Any, **columns: Any) -> list[float | None]:
        self.calls += 1
        rewards = super().__call__(*args, **columns)
        lengths = [len(set(ids)) for ids in columns["completion_ids"]]
        return [r and r * length for r, length in zip(rewards, lengths, strict=True)]


def add_to_trainers(change: Callable[[Any], None]) -> None:
    """Change the trainer of either recipe once it is made."""
    for recipe in (sft, dapo_posh):
        make_trainer = recipe.make_trainer

        def make_changed(*settings: Any, make: Any = make_trainer) -> Any:
            trainer = make(*settings)
            change(trainer)
            return trainer

        recipe.make_trainer = make_changed  # type: ignore[attr-defined]


FAULTS = {
    each.__name__: each for each in (averaged, loaded_by_name, lost_updates, unjudged_last_call)
}


def main() -> None:
    fault, recipe, *flags = sys.argv[1:]
    if is_under_deepspeed():
        from tests.training.launch_zero3 import go_without_gpus

        go_without_gpus()
    if fault != "none":
        FAULTS[fault]()
    {"sft": sft, "dapo": dapo_posh}[recipe].main(flags)


if __name__ == "__main__":
    launch.run(main)
