"""Post-train a vision-language model by DAPO, with POSH as the reward.

    accelerate launch --config_file configs/accelerate/zero3_8gpu.yaml recipes/dapo_posh.py \
        --config configs/dapo/qwen2_5_vl_7b.yaml
    accelerate launch --config_file configs/accelerate/cpu.yaml recipes/dapo_posh.py \
        --config configs/smoke/dapo.yaml

TRL's GRPOTrainer has most parts of DAPO: token-level loss, clip-higher, no KL term, truncated
completions masked. ``--oversample`` adds dynamic sampling, and ``--span_credit`` rewards each token
for the details that it expresses; the paper mentions neither, and both are off by default.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import posh_reward.training.extra  # noqa: F401

# isort: split
from trl import GRPOConfig, ModelConfig, ScriptArguments

from posh_reward import PoshReward
from posh_reward.datasets.load_dataset import PAPER_PROMPT, prompt
from posh_reward.posh.check import NOT_CHECKED
from posh_reward.posh.load_metric import MetricSettings, load_reward_metric, metric_flags
from posh_reward.reward.objectives import settle_aggregation
from posh_reward.reward.shaping import ShapingSettings, build_shaping
from posh_reward.training.base_model import starting_model
from posh_reward.training.dapo.sampling import MIN_SPREAD, DynamicSampling
from posh_reward.training.dapo.trainer import DapoTrainer
from posh_reward.training.launch import (
    finish,
    model_init_kwargs,
    parse_settings,
    record_prompt,
    reseed_sampling,
    run,
    train,
)
from posh_reward.training.output_folder import enter_output
from posh_reward.training.processors import load_processor, read_size_limits, training_images
from posh_reward.training.recording import record_run
from posh_reward.training.resume import RefuseLostWeights
from posh_reward.training.rollouts import CHECK_EVERY_STEPS, check_rollouts
from posh_reward.training.run_settings import flag
from posh_reward.training.saving import save_run
from posh_reward.training.stopping import STOP_BEFORE_MINUTES, StopWithCheckpoint

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import ProcessorMixin

logger = logging.getLogger(__name__)


@dataclass
class DapoScriptArguments(ShapingSettings, MetricSettings, ScriptArguments):  # type: ignore[misc]
    """Settings besides GRPOConfig's and ModelConfig's: the data, the metric, the shaping."""

    dataset_name: str = flag("scenes", "See data/README.md: scenes, amitha/docent, a path.")
    dataset_test_split: str = flag("validation", "Split to evaluate on, if eval_strategy is set.")
    reference_column: str = flag("reference", "The dataset's column of references.")
    prompt_text: str = flag(PAPER_PROMPT, "Instruction to the model; by default the paper's.")
    max_pixels: int | None = flag(None, "Shrink larger images; 784 pixels are one token.")
    metric: str | None = flag(None, "Settings file, or published; the flags below override it.")
    check_judge: bool = flag(
        True, "False admits a judge that cannot judge, to measure time and memory only."
    )
    max_failed_calls: int = flag(
        10, "Stop with a checkpoint after this many mostly failed calls in a row."
    )
    stop_before: float = flag(
        STOP_BEFORE_MINUTES,
        "Minutes before the end of the Slurm job to save a checkpoint and stop.",
    )
    oversample: int = flag(1, "Dynamic sampling: groups generated per group trained on; 1 is off.")
    min_spread: float = flag(
        MIN_SPREAD, "Dynamic sampling: replace groups whose rewards have less spread."
    )
    refill: bool = flag(
        False, "Dynamic sampling: generate more groups only while too few have that spread."
    )
    span_credit: float = flag(
        0.0, "How far the grades of details shift their tokens' advantages; 0 is off."
    )
    check_weights_every: int = flag(
        CHECK_EVERY_STEPS,
        "Steps between comparisons of vLLM's weights with the trainer's; 0 is off.",
    )


SETTINGS = (DapoScriptArguments, GRPOConfig, ModelConfig)
"""Dataclasses of the flags and the configuration."""


def prepare(
    name: str,
    split: str,
    reference_column: str = "reference",
    text: str = PAPER_PROMPT,
    processor: ProcessorMixin | None = None,
) -> Dataset:
    """Load the columns uuid, image, prompt (a conversation) and reference."""
    dataset = training_images(name, split, reference_column, processor)
    # Not `map`, which would write every image again, on every rank.
    return dataset.add_column("prompt", [prompt(text)] * len(dataset))


def make_reward(script: DapoScriptArguments) -> PoshReward:
    """Make the reward from the flags."""
    return PoshReward(
        load_reward_metric(script.metric, **metric_flags(script)),
        build_shaping(script),
        max_failed_calls=script.max_failed_calls,
    )


def make_trainer(script: DapoScriptArguments, args: GRPOConfig, model: ModelConfig) -> DapoTrainer:
    """Make the trainer, ready to train."""
    from trl import get_peft_config, get_quantization_config

    args.model_init_kwargs = model_init_kwargs(args.model_init_kwargs, model)
    # The judge first: it takes seconds to fail, the policy minutes to load.
    reward = make_reward(script)
    settle_aggregation(args, reward.shaping)
    if script.check_judge:
        reward.check()
    elif args.process_index == 0:
        logger.warning(NOT_CHECKED)
    start = starting_model(model.model_name_or_path, Path(args.output_dir))
    processor = load_processor(start, model.model_revision, script.max_pixels)
    # With vLLM they have to be; of models other than Qwen's the size is unknown.
    resized = processor if args.use_vllm or read_size_limits(processor) else None
    dynamic_sampling = None
    if script.oversample != 1:
        dynamic_sampling = DynamicSampling(script.oversample, script.min_spread, script.refill)

    def split(name: str) -> Dataset:
        column, text = script.reference_column, script.prompt_text
        return prepare(script.dataset_name, name, column, text, resized)

    trainer = DapoTrainer(
        model=start,
        # One function, or for objective `separate` one per axis, which TRL normalises within the
        # group before it adds them. They share one call of the metric.
        reward_funcs=reward.functions(),
        args=args,
        train_dataset=split(script.dataset_train_split),
        eval_dataset=split(script.dataset_test_split) if args.eval_strategy != "no" else None,
        processing_class=processor,
        quantization_config=get_quantization_config(model),
        peft_config=get_peft_config(model),
        callbacks=[StopWithCheckpoint(reward, stop_before=script.stop_before), RefuseLostWeights()],
        dynamic_sampling=dynamic_sampling,
        span_credit=script.span_credit,
        scored_by=reward,
    )
    # vLLM's prompts and weights must be those that the loss is computed on.
    check_rollouts(trainer, script.check_weights_every)
    if args.use_vllm:
        reseed_sampling(args)  # vLLM has seeded by the rank alone: all seeds would sample alike
    return trainer


def main(argv: list[str] | None = None) -> DapoTrainer:
    """Parse flags and configuration, train, and save the model to ``output_dir``.

    With ``--check`` only print what would run, and whether it fits.

    Raises:
        JudgeError: the judge kept failing; a checkpoint is saved.
        ConfigError: a setting is invalid.
        SystemExit: the run is already finished, or was only checked.
    """
    script, args, model = parse_settings(SETTINGS, argv)
    asked = enter_output(args, script, model)
    trainer = make_trainer(script, args, model)
    with record_run(trainer, script, model, asked):
        record_prompt(args, model.model_name_or_path, script.prompt_text)
        train(trainer)  # from the checkpoint that resume_from_checkpoint names, if any
        save_run(trainer)
    finish(trainer)
    return trainer


if __name__ == "__main__":
    run(main)
