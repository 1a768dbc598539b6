"""Post-trains a vision-language model by DAPO, with POSH as the reward.

    accelerate launch --config_file configs/accelerate/zero3_8gpu.yaml recipes/dapo_posh.py \
        --config configs/dapo/qwen2_5_vl_7b.yaml
    accelerate launch --config_file configs/accelerate/cpu.yaml recipes/dapo_posh.py \
        --config configs/smoke/dapo.yaml

TRL's GRPOTrainer has most parts of DAPO: token-level loss, clip-higher, no KL term, truncated
completions masked. ``--oversample`` adds dynamic sampling, and ``--span_credit`` pays each token
for the details that it says; the paper names neither, and both are off by default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trl import GRPOConfig, ModelConfig, ScriptArguments

from posh_reward import PoshReward
from posh_reward.datasets.load_dataset import load_images, prompt
from posh_reward.metrics.load_metric import MetricSettings, load_metric, metric_flags
from posh_reward.reward.objectives import settle_aggregation
from posh_reward.training.combinations import shaping_of
from posh_reward.training.dapo.sampling import MIN_SPREAD, DynamicSampling
from posh_reward.training.dapo.trainer import DapoTrainer
from posh_reward.training.launch import (
    end_if_finished,
    finish,
    model_init_kwargs,
    reseed_sampling,
    run,
    train,
)
from posh_reward.training.processors import load_processor, settle_images
from posh_reward.training.resume import RefuseLostWeights
from posh_reward.training.rollouts import check_rollouts
from posh_reward.training.run_check import parse_settings
from posh_reward.training.run_pages import show_completions
from posh_reward.training.stopping import STOP_BEFORE, StopWithCheckpoint

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass
class DapoScriptArguments(MetricSettings, ScriptArguments):  # type: ignore[misc]
    """Settings besides GRPOConfig's and ModelConfig's: the data, the metric, the shaping."""

    dataset_name: str = field(
        default="scenes", metadata={"help": "See data/README.md: scenes, amitha/docent, a path."}
    )
    dataset_test_split: str = field(
        default="validation", metadata={"help": "Split that is evaluated on, if eval_strategy is."}
    )
    reference_column: str = field(
        default="reference", metadata={"help": "The dataset's column of references."}
    )
    max_pixels: int | None = field(
        default=None, metadata={"help": "Shrink larger images; 784 pixels are one token."}
    )
    metric: str | None = field(
        default=None, metadata={"help": "Settings file, or published; the flags below win over it."}
    )
    objective: str = field(
        default="f1",
        metadata={
            "help": "f1, as in the paper; weighted; or separate: precision and recall are compared "
            "each within its group, then added (sets multi_objective_aggregation)."
        },
    )
    precision_weight: float = field(default=1.0, metadata={"help": "Raise it: fewer mistakes."})
    recall_weight: float = field(default=1.0, metadata={"help": "Raise it: fewer omissions."})
    mistake_floor: float | None = field(
        default=None, metadata={"help": "Scale the reward down below this precision."}
    )
    length_limit: float | None = field(
        default=None, metadata={"help": "Words per word of the reference that are free."}
    )
    repetition_limit: float | None = field(
        default=None,
        metadata={"help": "Share of repeated four-word sequences that is free, such as 0.15."},
    )
    detail_floor: float = field(
        default=0.65,
        metadata={"help": "Scale the reward of lists down below this many details per entity."},
    )
    coverage_floor: float = field(
        default=0.65,
        metadata={
            "help": "Scale the reward down below this share of content words inside elements."
        },
    )
    loose_weight: float = field(
        default=0.5,
        metadata={"help": "Weight of a word of no element, beyond people's share, in precision."},
    )
    disorder_limit: float = field(
        default=0.15, metadata={"help": "Disorder of words that earns the worst reward; 0 is off."}
    )
    image_cap: float = field(
        default=3.0, metadata={"help": "Grade that an element can reach by the image alone."}
    )
    max_failed_calls: int = field(
        default=10,
        metadata={"help": "Stop with a checkpoint after so many mostly failed calls in a row."},
    )
    stop_before: float = field(
        default=STOP_BEFORE,
        metadata={"help": "Minutes before the end of the Slurm job to save a checkpoint and stop."},
    )
    oversample: int = field(
        default=1,
        metadata={"help": "Dynamic sampling: groups generated for each trained on; 1 is off."},
    )
    min_spread: float = field(
        default=MIN_SPREAD,
        metadata={"help": "Dynamic sampling: groups whose rewards spread less are replaced."},
    )
    refill: bool = field(
        default=False,
        metadata={"help": "Dynamic sampling: generate further groups only while too few are wide."},
    )
    span_credit: float = field(
        default=0.0,
        metadata={"help": "How far grades of details move their tokens' advantages; 0 is off."},
    )
    pages_every: int = field(
        default=10,
        metadata={
            "help": "Steps between pages of marked completions (in output_dir/pages); 0: none"
        },
    )


SETTINGS = (DapoScriptArguments, GRPOConfig, ModelConfig)
"""Dataclasses of what flags and configuration set."""


def prepare(name: str, split: str, reference_column: str = "reference") -> Dataset:
    """Columns image, prompt (a conversation) and reference, which the reward reads."""
    return load_images(name, split, reference_column).map(
        lambda text: {"prompt": prompt()}, input_columns=["reference"], remove_columns=["uuid"]
    )


def make_reward(script: DapoScriptArguments) -> PoshReward:
    """The reward that the flags describe."""
    return PoshReward(
        load_metric(script.metric, **metric_flags(script)),
        shaping_of(script),
        max_failed_calls=script.max_failed_calls,
    )


def make_sampling(script: DapoScriptArguments) -> DynamicSampling | None:
    """The dynamic sampling that the flags describe; None if it is off."""
    if script.oversample == 1:
        return None
    return DynamicSampling(script.oversample, script.min_spread, script.refill)


def make_trainer(script: DapoScriptArguments, args: GRPOConfig, model: ModelConfig) -> DapoTrainer:
    """The trainer, ready to train."""
    from trl import get_peft_config, get_quantization_config

    args.model_init_kwargs = model_init_kwargs(args.model_init_kwargs, model)
    evaluates = args.eval_strategy != "no"
    # The judge first: it takes seconds to find that it cannot work, the policy minutes to load.
    reward = make_reward(script)
    settle_aggregation(args, reward.shaping)
    reward.check()
    processor = load_processor(model.model_name_or_path, model.model_revision, script.max_pixels)

    def split(name: str) -> Dataset:
        return settle_images(prepare(script.dataset_name, name, script.reference_column), processor)

    trainer = DapoTrainer(
        model=model.model_name_or_path,
        # One function, or for objective `separate` one an axis: TRL normalises each within its
        # group before it adds them. They share one call of the metric.
        reward_funcs=reward.functions(),
        args=args,
        train_dataset=split(script.dataset_train_split),
        eval_dataset=split(script.dataset_test_split) if evaluates else None,
        processing_class=processor,
        quantization_config=get_quantization_config(model),
        peft_config=get_peft_config(model),
        callbacks=[StopWithCheckpoint(reward, stop_before=script.stop_before), RefuseLostWeights()],
        dynamic_sampling=make_sampling(script),
        span_credit=script.span_credit,
        scored_by=reward,
    )
    check_rollouts(trainer)  # vLLM's prompts have to be those that the loss is computed on
    if args.use_vllm:
        reseed_sampling(args)  # vLLM has seeded by the rank alone: all seeds would sample alike
    return trainer


def main(argv: list[str] | None = None) -> DapoTrainer:
    """Parse flags and configuration, train, and save the model to ``output_dir``.

    With ``--check`` it only says what would run, and whether it fits.

    Raises:
        JudgeError: nothing could be judged any more; a checkpoint is saved.
        ConfigError: a setting cannot be used.
        SystemExit: the run is finished already, or only checked.
    """
    script, args, model = parse_settings(SETTINGS, argv)
    end_if_finished(args)
    trainer = make_trainer(script, args, model)
    pages = show_completions(trainer, script.pages_every)
    train(trainer)  # from the checkpoint that resume_from_checkpoint names, if any
    trainer.save_model(args.output_dir)
    trainer.save_state()
    pages.finish(trainer.state.log_history)
    finish(trainer)
    return trainer


if __name__ == "__main__":
    run(main)
