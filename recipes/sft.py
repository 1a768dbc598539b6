"""Supervised fine-tuning of a vision-language model on images with references.

    accelerate launch --config_file configs/accelerate/zero3_8gpu.yaml recipes/sft.py \
        --config configs/sft/qwen2_5_vl_7b.yaml
    python recipes/sft.py --config configs/smoke/sft.yaml

TRL's SFTTrainer, unchanged, with the loss on the answer's tokens only. Besides the loss on held-out
images it can track the *grounding gap*: the loss on the same texts with another row's image, minus
the loss with the right one. A model that ignores the image has a gap of 0, however fluent it is,
and is no starting point for reinforcement learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import posh_reward.training.extra  # noqa: F401

# isort: split
from transformers import TrainerCallback
from trl import ModelConfig, ScriptArguments, SFTConfig

from posh_reward.datasets.load_dataset import PAPER_PROMPT, answer, prompt, with_other_images
from posh_reward.training.base_model import starting_model
from posh_reward.training.launch import (
    finish,
    model_init_kwargs,
    parse_settings,
    record_prompt,
    run,
    train,
)
from posh_reward.training.output_folder import enter_output
from posh_reward.training.processors import load_processor, read_size_limits, training_images
from posh_reward.training.recording import record_run
from posh_reward.training.resume import RefuseLostWeights
from posh_reward.training.run_settings import flag
from posh_reward.training.saving import save_run
from posh_reward.training.stopping import STOP_BEFORE_MINUTES, StopWithCheckpoint

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import ProcessorMixin, TrainerControl, TrainerState, TrainingArguments
    from trl import SFTTrainer

RIGHT_LOSS, SHUFFLED_LOSS = "eval_right_loss", "eval_shuffled_loss"


@dataclass
class SFTScriptArguments(ScriptArguments):  # type: ignore[misc]
    """Settings besides SFTConfig's and ModelConfig's."""

    dataset_name: str = flag("scenes", "See data/README.md: scenes, amitha/docent, a path.")
    dataset_test_split: str = flag("validation", "Split whose loss selects the checkpoint.")
    reference_column: str = flag("reference", "The dataset's column of references.")
    prompt_text: str = flag(PAPER_PROMPT, "Instruction to the model; by default the paper's.")
    max_pixels: int | None = flag(None, "Shrink larger images; 784 pixels are one token.")
    watch_grounding: bool = flag(
        False, f"Also evaluate with wrong images: {RIGHT_LOSS}, {SHUFFLED_LOSS} and the gap."
    )
    stop_at_gap: float | None = flag(
        None, "Stop once the grounding gap is this large (nats per token)."
    )
    stop_before: float = flag(
        STOP_BEFORE_MINUTES,
        "Minutes before the end of the Slurm job to save a checkpoint and stop.",
    )


SETTINGS = (SFTScriptArguments, SFTConfig, ModelConfig)
"""Dataclasses of the flags and the configuration."""


class GroundingGap(TrainerCallback):  # type: ignore[misc]
    """Log ``eval_grounding_gap`` after each evaluation, and stop training once it is large."""

    def __init__(self, stop_at: float | None = None) -> None:
        self.stop_at = stop_at
        self.losses: dict[str, float] = {}

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Wait for both losses: evaluation calls this once per dataset."""
        for name, value in (metrics or {}).items():
            if name in (RIGHT_LOSS, SHUFFLED_LOSS):
                self.losses[name] = value
        if len(self.losses) < 2:
            return
        gap = self.losses[SHUFFLED_LOSS] - self.losses[RIGHT_LOSS]
        self.losses = {}
        # Into the history by hand: TRL has logged this evaluation already.
        state.log_history.append({"step": state.global_step, "eval_grounding_gap": gap})
        if state.is_world_process_zero:
            print(f"step {state.global_step}: grounding gap {gap:.3f}")
        if self.stop_at is not None and gap >= self.stop_at:
            control.should_training_stop = True


def prepare(
    name: str,
    split: str,
    reference_column: str = "reference",
    text: str = PAPER_PROMPT,
    processor: ProcessorMixin | None = None,
) -> Dataset:
    """Load the columns image, prompt and completion, the latter two as conversations."""
    dataset = training_images(name, split, reference_column, processor)
    # Not `map`, which would write every image again, on every rank.
    images = dataset.select_columns(["image"]).add_column("prompt", [prompt(text)] * len(dataset))
    return images.add_column("completion", [answer(each) for each in dataset["reference"]])


def make_trainer(script: SFTScriptArguments, args: SFTConfig, model: ModelConfig) -> SFTTrainer:
    """Make the trainer, ready to train."""
    from trl import SFTTrainer, get_peft_config, get_quantization_config

    args.model_init_kwargs = model_init_kwargs(args.model_init_kwargs, model)
    start = starting_model(model.model_name_or_path, Path(args.output_dir))
    processor = load_processor(start, model.model_revision, script.max_pixels)
    # Of models other than Qwen's the size is unknown.
    resized = processor if read_size_limits(processor) else None

    def split(name: str) -> Dataset:
        column, text = script.reference_column, script.prompt_text
        return prepare(script.dataset_name, name, column, text, resized)

    held_out: Any = None
    if args.eval_strategy != "no":
        held_out = split(script.dataset_test_split)
        if script.watch_grounding:
            # Logged by TRL as eval_right_loss and eval_shuffled_loss.
            held_out = {"right": held_out, "shuffled": with_other_images(held_out)}
    callbacks: list[Any] = [StopWithCheckpoint(stop_before=script.stop_before), RefuseLostWeights()]
    if script.watch_grounding:
        callbacks.append(GroundingGap(script.stop_at_gap))
    return SFTTrainer(
        model=start,
        args=args,
        train_dataset=split(script.dataset_train_split),
        eval_dataset=held_out,
        processing_class=processor,
        callbacks=callbacks,
        quantization_config=get_quantization_config(model),
        peft_config=get_peft_config(model),
    )


def main(argv: list[str] | None = None) -> SFTTrainer:
    """Parse flags and configuration, train, and save the model to ``output_dir``.

    With ``--check`` only print what would run, and whether it fits.

    Raises:
        ConfigError: a setting is invalid.
        SystemExit: the run is already finished, or was only checked.
    """
    script, args, model = parse_settings(SETTINGS, argv)
    asked = enter_output(args, script, model)
    trainer = make_trainer(script, args, model)
    with record_run(trainer, script, model, asked):
        record_prompt(args, model.model_name_or_path, script.prompt_text)
        train(trainer)
        save_run(trainer)
    finish(trainer)
    return trainer


if __name__ == "__main__":
    run(main)
