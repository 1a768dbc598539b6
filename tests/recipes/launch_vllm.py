"""Run in an environment with vLLM: ``recipes/dapo_posh.py``, its policy and its judge in vLLM.

    launch_vllm.py FOLDER build
    launch_vllm.py FOLDER CASE [flags of recipes/dapo_posh.py]

"build" trains a tiny policy of one head, a size that vLLM's CPU kernels know, to ``FOLDER/tiny``.
It has to be done here: a processor that was saved without torchvision cannot be loaded with it.
CASE is "well", or "unguarded": what TRL does without us, or what vLLM does wrong unless TRL and it
notice: "prompt", another text; "image", another image; "stale", the weights of the first step. Both
sides compute in float32. Writes to ``FOLDER/CASE-rank<R>.json`` what was logged, for each prompt
its tokens in the trainer and in vLLM, and why the run ended.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from trl.generation import vllm_generation

from posh_reward.training.rollouts import RolloutError
from recipes import dapo_posh, sft
from recipes.demo import tiny_qwen


def main() -> None:
    folder, case, *flags = sys.argv[1:]
    if case == "build":
        tiny_qwen.NUM_HEADS = 1
        tiny_qwen.build(Path(folder, "pretrained"), warm_up_steps=0, pretrain_steps=30)
        # So that it reads its prompt.
        sft.main(
            [
                *("--config", "configs/smoke/sft.yaml", "--max_steps", "100"),
                *("--dataset_name", "scenes:train=800:plain=1", "--eval_strategy", "no"),
                *("--model_name_or_path", str(Path(folder, "pretrained"))),
                *("--output_dir", str(Path(folder, "tiny"))),
            ]
        )
        return
    keep_weights_unpacked()
    # TRL passes no dtype, and vLLM would take bfloat16 for a float32 model.
    vllm_generation.LLM = partial(vllm_generation.LLM, dtype="float32")
    counted: list[tuple[int, int]] = []
    trainers: list[Any] = []
    recipe: Any = dapo_posh
    check = recipe.check_rollouts

    def checked(trainer: Any, *settings: Any) -> None:
        trainers.append(trainer)
        assert hasattr(trainer.vllm_generation.llm.llm_engine, "reset_encoder_cache")
        break_engine(trainer, case)
        if case != "unguarded":
            check(trainer, *settings)
        count_tokens(trainer.vllm_generation, counted)

    recipe.check_rollouts = checked
    recipe.PoshReward.check = lambda reward: None  # a judge of random weights would be refused
    ended = ""
    try:
        dapo_posh.main(flags)
    except RolloutError as error:
        ended = str(error)
    rank = os.environ.get("RANK", "0")
    steps = [line for line in trainers[0].state.log_history if "reward" in line]
    said = json.dumps({"steps": steps, "tokens": counted, "ended": ended})
    Path(folder, f"{case}-rank{rank}.json").write_text(said, encoding="utf-8")


def break_engine(trainer: Any, case: str) -> None:
    generation = trainer.vllm_generation
    generate, synchronise = generation.generate, generation.sync_weights

    def generate_wrong(prompts: Any, images: Any, **rest: Any) -> Any:
        if case == "prompt":
            ids, *results = generate(
                prompts=[backwards(each) for each in prompts], images=images, **rest
            )
            return [backwards(each) for each in ids], *results
        images = [[Image.effect_noise(each.size, 100).convert("RGB")] for [each] in images]
        return generate(prompts=prompts, images=images, **rest)

    def backwards(ids: list[int]) -> list[int]:
        """With the text after the image in the other direction."""
        after = len(ids) - list(ids)[::-1].index(trainer.processing_class.image_token_id)
        return [*ids[:after], *ids[: after - 1 : -1]]

    def synchronise_once() -> None:
        if trainer.state.global_step == 0:
            synchronise()

    if case in ("prompt", "image"):
        generation.generate = generate_wrong
    if case == "stale":
        generation.sync_weights = synchronise_once


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
