"""Run in an environment with DeepSpeed: a recipe under its ZeRO-3, on a machine without cards.

    launch_zero3.py build FOLDER
    launch_zero3.py sft [flags of recipes/sft.py]
    launch_zero3.py dapo [flags of recipes/dapo_posh.py]

"build" writes a tiny Qwen2.5-VL whose matrices are above DeepSpeed's threshold of 100,000 elements:
smaller parameters stay whole on each rank.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import accelerate.state
import transformers.training_args

from posh_reward.training.launch import run
from posh_reward.training.resume import is_partitioned
from recipes import dapo_posh, sft, tiny_qwen


def main() -> None:
    command, *flags = sys.argv[1:]
    if command == "build":
        tiny_qwen.WIDTH = 384
        tiny_qwen.build(Path(flags[0]), warm_up_steps=0, pretrain_steps=0)
        return
    go_without_cards()
    recipe = {"sft": sft, "dapo": dapo_posh}[command]
    trainer = recipe.main(flags)
    assert any(map(is_partitioned, trainer.model.parameters())), "nothing is partitioned"


def go_without_cards() -> None:
    """Replaces the two checks that ask for a card; DeepSpeed itself runs on CPUs, over gloo."""

    def over_gloo(*arguments: Any, **options: Any) -> tuple[str, accelerate.DistributedType]:
        return "gloo", accelerate.DistributedType.MULTI_GPU

    accelerate.state.PartialState._prepare_backend = over_gloo
    transformers.training_args.is_torch_bf16_gpu_available = lambda: True


if __name__ == "__main__":
    run(main)
