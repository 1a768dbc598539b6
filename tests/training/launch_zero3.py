"""Run in an environment with DeepSpeed: a recipe under its ZeRO-3, on a machine without GPUs.

    launch_zero3.py build FOLDER
    launch_zero3.py sft [flags of recipes/sft.py]
    launch_zero3.py dapo [flags of recipes/dapo_posh.py]
    launch_zero3.py dying [flags of recipes/dapo_posh.py]
    launch_zero3.py FAULT [flags of recipes/dapo_posh.py]
    launch_zero3.py begin-sft [...], begin-dapo [...], begin-rounded [...]

"dying" is "dapo" with a judge that is gone after the second step. A FAULT is "dapo" with an
exception in that part, on the second rank alone, from the second step on. "begin-" ends before the
first step; "rounded" is "sft" without training/rotary.py. These, and any that save a checkpoint,
write to ``OUTPUT_DIR.plain.json`` how the model differs from ``from_pretrained`` of its weights.
"build" writes a tiny Qwen2.5-VL whose matrices are above DeepSpeed's threshold of 100,000 elements:
smaller parameters stay whole on each rank.
"""

import json
import sys
from pathlib import Path
from typing import Any

import accelerate.state
import deepspeed
import peft
import torch
import transformers.training_args
from transformers import Qwen2_5_VLForConditionalGeneration, TrainerCallback
from transformers.integrations import deepspeed as settings

from posh_reward import PoSh, PoshReward
from posh_reward.datasets.load_dataset import PAPER_PROMPT
from posh_reward.datasets.scenes import draw_scene, generate_scenes
from posh_reward.errors import JudgeError
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.training import rotary
from posh_reward.training.launch import finish, run
from posh_reward.training.processors import load_processor
from posh_reward.training.resume import ADAPTER_FILE
from posh_reward.training.rollouts import CheckedGenerate
from posh_reward.types import Failure
from recipes import dapo_posh, sft
from recipes.demo import tiny_qwen


def main() -> None:
    command, *flags = sys.argv[1:]
    if command == "build":
        tiny_qwen.HIDDEN_SIZE = 384
        tiny_qwen.build(Path(flags[0]), warm_up_steps=0, pretrain_steps=0)
        return
    go_without_gpus()
    if command == "dying":
        dapo_posh.make_reward = DyingReward
    if command == "begin-rounded":
        rotary.restore_rotary = lambda model: None
    recipe: Any = sft if command.endswith(("sft", "rounded")) else dapo_posh
    make_trainer = recipe.make_trainer

    def make_compared(script: Any, args: Any, model: Any) -> Any:
        trainer = make_trainer(script, args, model)
        begins = command.startswith("begin-")
        trainer.add_callback(Comparison(trainer, model.model_name_or_path, ends=begins))
        if command in FAULTS:
            break_second_rank(trainer, command)
        return trainer

    recipe.make_trainer = make_compared
    recipe.main(flags)


FAULTS = {
    "reward": "_calculate_rewards", "judge": "_calculate_rewards", "data": "data_collator",
    "generation": "_generate_single_turn", "prompts": "_generate_single_turn",
}  # fmt: skip
"""A fault, and the trainer's method in which it happens."""


def break_second_rank(trainer: Any, fault: str) -> None:
    work = getattr(trainer, FAULTS[fault])

    def faulty() -> bool:
        return bool(trainer.args.process_index == 1 and trainer.state.global_step >= 1)

    def failing(*args: Any, **kwargs: Any) -> Any:
        if fault == "prompts":
            checked(args[0], args[1], trainer.num_generations)
        elif faulty():
            raise (JudgeError if fault == "judge" else RuntimeError)(f"broken {fault}")
        return work(*args, **kwargs)

    def engine(prompts: Any, images: Any, **rest: Any) -> tuple[Any, ...]:
        """A vLLM that sleeps gets all weights before it generates: a collective."""
        with deepspeed.zero.GatheredParameters([trainer.model.lm_head.weight]):
            return ([[*ids, 0] for ids in prompts] if faulty() else prompts,)

    checked = CheckedGenerate(engine, frozenset())
    setattr(trainer, FAULTS[fault], failing)


class Comparison(TrainerCallback):  # type: ignore[misc]
    """Compares the policy, as it trains, with the plain model of the same weights."""

    def __init__(self, trainer: Any, base: str, *, ends: bool) -> None:
        self.trainer, self.base, self.ends = trainer, base, ends

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        partitioned = any(map(is_partitioned, self.trainer.model.parameters()))
        assert partitioned, "nothing is partitioned"
        if self.ends:
            resumed = Path(args.output_dir, f"checkpoint-{state.global_step}")
            self.note(resumed if resumed.is_dir() else Path(self.base))
            # DeepSpeed has learned to gather for another forward pass than the loss's.
            finish(self.trainer)
            sys.exit()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.note(Path(args.output_dir, f"checkpoint-{state.global_step}"))

    def note(self, weights: Path) -> None:
        torch.distributed.barrier()
        inputs = long_prompt(self.base)
        plain = self.plain(weights)
        model, engine = self.trainer.model, self.trainer.model_wrapped
        engine.eval()
        with torch.no_grad():
            ours, theirs = (each(**inputs).logits for each in (engine, plain))
        engine.train()
        # Small parameters are whole, and must stay so.
        partitioned = [each for each in model.parameters() if is_partitioned(each)]
        with deepspeed.zero.GatheredParameters(partitioned):
            tensors = [dict(named(each)) for each in (model, plain)]
            other = [
                name
                for name, value in tensors[1].items()
                if (own := tensors[0][name]).dtype != value.dtype or not torch.equal(own, value)
            ]
        difference = (ours.float() - theirs.float()).abs()
        said = {
            "tokens": inputs["input_ids"].shape[1], "tensors": len(tensors[1]), "other": other,
            "max": difference.max().item(), "mean": difference.mean().item(),
            "spread": theirs.float().std().item(),
        }  # fmt: skip
        if self.trainer.is_world_process_zero():
            path = Path(f"{self.trainer.args.output_dir}.plain.json")
            path.write_text(json.dumps(said), encoding="utf-8")

    def plain(self, weights: Path) -> Any:
        """The model without DeepSpeed, whose settings ``from_pretrained`` would find."""
        kept = settings._hf_deepspeed_config_weak_ref
        settings.unset_hf_deepspeed_config()
        base = self.base if (weights / ADAPTER_FILE).is_file() else str(weights)
        model: Any = Qwen2_5_VLForConditionalGeneration.from_pretrained(base, dtype="bfloat16")
        if (weights / ADAPTER_FILE).is_file():
            model = peft.PeftModel.from_pretrained(model, weights, autocast_adapter_dtype=False)
        settings._hf_deepspeed_config_weak_ref = kept
        return model.eval()


def named(model: Any) -> Any:
    """Parameters and buffers, by the same names with and without adapters."""
    for named_tensors in (model.named_parameters(), model.named_buffers()):
        for name, tensor in named_tensors:
            yield name.removeprefix("base_model.model.").replace(".base_layer", ""), tensor


def long_prompt(model: str) -> Any:
    """An image and more than 1,000 tokens of text."""
    image = draw_scene(next(generate_scenes("train", 1)))
    text = "<|vision_start|><|image_pad|><|vision_end|>" + " ".join([PAPER_PROMPT] * 60)
    inputs = load_processor(model)(images=[image], text=[text], return_tensors="pt")
    inputs["pixel_values"] = inputs["pixel_values"].to(torch.bfloat16)
    return inputs


def is_partitioned(parameter: Any) -> bool:
    """True if ZeRO-3 has spread a parameter's values over ranks, and left it empty."""
    return not parameter.numel() and hasattr(parameter, "ds_tensor")


class DyingReward(PoshReward):
    """Has no judge from the third step on."""

    def __init__(self, script: dapo_posh.DapoScriptArguments) -> None:
        self.step = 0
        judge = FakeJudge(lambda _: 3.0 if self.step < 2 else Failure("engine", "gone"))
        super().__init__(PoSh(judge), max_failed_calls=script.max_failed_calls)

    def check(self) -> None:
        """Accept a judge that gives all the same grade."""

    def __call__(self, *args: Any, **columns: Any) -> list[float | None]:
        self.step = columns["trainer_state"].global_step
        rewards = super().__call__(*args, **columns)
        # Longer is better, so that the groups differ.
        lengths = map(len, columns["completion_ids"])
        return [
            None if reward is None else reward * length
            for reward, length in zip(rewards, lengths, strict=True)
        ]


def go_without_gpus() -> None:
    """Replaces the two checks that ask for a GPU; DeepSpeed itself runs on CPUs, over gloo."""

    def over_gloo(*arguments: Any, **options: Any) -> tuple[str, accelerate.DistributedType]:
        return "gloo", accelerate.DistributedType.MULTI_GPU

    accelerate.state.PartialState._prepare_backend = over_gloo
    transformers.training_args.is_torch_bf16_gpu_available = lambda: True


if __name__ == "__main__":
    run(main)
