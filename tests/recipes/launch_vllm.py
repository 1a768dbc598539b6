"""Run in an environment with vLLM: ``recipes/dapo_posh.py``, its policy and its judge in vLLM.

    launch_vllm.py FOLDER build
    launch_vllm.py FOLDER CASE [flags of recipes/dapo_posh.py]

"build" writes a tiny policy of one head, a size that vLLM's CPU kernels know, to ``FOLDER/tiny``.
It has to be done here: a processor that was saved without torchvision cannot be loaded with it.
CASE is "well", or "unguarded": what TRL does without us. Writes to ``FOLDER/CASE-rank<R>.json``
what was logged, and for each prompt its tokens in the trainer and in vLLM.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from recipes import dapo_posh, tiny_qwen


def main() -> None:
    folder, case, *flags = sys.argv[1:]
    if case == "build":
        tiny_qwen.HEADS = 1
        tiny_qwen.build(Path(folder, "tiny"), warm_up_steps=0, pretrain_steps=30)
        return
    keep_weights_unpacked()
    counted: list[tuple[int, int]] = []
    recipe: Any = dapo_posh
    check = recipe.check_rollouts

    def checked(trainer: Any) -> None:
        if case == "well":
            check(trainer)
        count_tokens(trainer.vllm_generation, counted)

    recipe.check_rollouts = checked
    trainer = dapo_posh.main(flags)
    rank = os.environ.get("RANK", "0")
    steps = [line for line in trainer.state.log_history if "reward" in line]
    said = json.dumps({"steps": steps, "tokens": counted})
    Path(folder, f"{case}-rank{rank}.json").write_text(said, encoding="utf-8")


def keep_weights_unpacked() -> None:
    """vLLM's CPU build packs weights away, so that new ones could not be loaded into them."""
    from vllm.model_executor.layers import utils

    def plain(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    for module in list(sys.modules.values()):
        if getattr(module, "dispatch_cpu_unquantized_gemm", None) is not None:
            module.dispatch_cpu_unquantized_gemm = plain  # type: ignore[attr-defined]
    assert utils.dispatch_cpu_unquantized_gemm is plain


def count_tokens(generation: Any, counted: list[tuple[int, int]]) -> None:
    """Notes the trainer's and vLLM's number of tokens of each prompt."""
    generate = generation.generate

    def counting(prompts: list[list[int]], images: Any, **rest: Any) -> Any:
        result = generate(prompts=prompts, images=images, **rest)
        counted.extend(zip(map(len, prompts), map(len, result[0]), strict=True))
        same = list(map(list, prompts)) == list(map(list, result[0]))
        assert same or "unguarded" in sys.argv
        return result

    generation.generate = counting


if __name__ == "__main__":
    main()
