"""Run in an environment with DeepSpeed: a recipe under its ZeRO-3, on a machine without cards.

    launch_zero3.py build FOLDER
    launch_zero3.py sft [flags of recipes/sft.py]
    launch_zero3.py dapo [flags of recipes/dapo_posh.py]
    launch_zero3.py dying [flags of recipes/dapo_posh.py]

"dying" is "dapo" with a judge that is gone after the second step.
"build" writes a tiny Qwen2.5-VL whose matrices are above DeepSpeed's threshold of 100,000 elements:
smaller parameters stay whole on each rank.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import accelerate.state
import transformers.training_args

from posh_reward import PoSh, PoshReward
from posh_reward.metrics.posh.judges.fake_judge import FakeJudge
from posh_reward.training.launch import run
from posh_reward.training.resume import is_partitioned
from posh_reward.types import Failure
from recipes import dapo_posh, sft, tiny_qwen


def main() -> None:
    command, *flags = sys.argv[1:]
    if command == "build":
        tiny_qwen.WIDTH = 384
        tiny_qwen.build(Path(flags[0]), warm_up_steps=0, pretrain_steps=0)
        return
    go_without_cards()
    if command == "dying":
        dapo_posh.make_reward = DyingReward
    recipe = sft if command == "sft" else dapo_posh
    trainer = recipe.main(flags)
    assert any(map(is_partitioned, trainer.model.parameters())), "nothing is partitioned"


class DyingReward(PoshReward):
    """Has no judge from the third step on."""

    def __init__(self, script: dapo_posh.DapoScriptArguments) -> None:
        self.step = 0
        judge = FakeJudge(lambda _: 3.0 if self.step < 2 else Failure("engine", "gone"))
        super().__init__(PoSh(judge), max_failed_calls=script.max_failed_calls)

    def __call__(self, *args: Any, **columns: Any) -> list[float | None]:
        self.step = columns["trainer_state"].global_step
        rewards = super().__call__(*args, **columns)
        # Longer is better, so that the groups differ.
        lengths = map(len, columns["completion_ids"])
        return [
            None if reward is None else reward * length
            for reward, length in zip(rewards, lengths, strict=True)
        ]


def go_without_cards() -> None:
    """Replaces the two checks that ask for a card; DeepSpeed itself runs on CPUs, over gloo."""

    def over_gloo(*arguments: Any, **options: Any) -> tuple[str, accelerate.DistributedType]:
        return "gloo", accelerate.DistributedType.MULTI_GPU

    accelerate.state.PartialState._prepare_backend = over_gloo
    transformers.training_args.is_torch_bf16_gpu_available = lambda: True


if __name__ == "__main__":
    run(main)
