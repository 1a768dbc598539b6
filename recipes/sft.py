"""Supervised fine-tuning of a vision-language model on images with references.

    accelerate launch --config_file configs/accelerate/zero3_8gpu.yaml recipes/sft.py \
        --config configs/sft/qwen2_5_vl_7b.yaml
    python recipes/sft.py --config configs/smoke/sft.yaml

TRL's SFTTrainer as it is, on the answer's tokens only. Besides the loss on held-out images it
can watch the *grounding gap*: the loss on the same texts with another row's image, less the
loss with the right one. A model that does not look at the image has a gap of 0, however
fluent it is, and is no start for reinforcement learning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback
from trl import ModelConfig, ScriptArguments, SFTConfig

from posh_reward.datasets.load_dataset import answer, load_images, prompt, with_other_images
from posh_reward.training.launch import end_if_finished, finish, model_init_kwargs, run, train
from posh_reward.training.processors import load_processor
from posh_reward.training.resume import RefuseLostWeights
from posh_reward.training.run_check import parse_settings
from posh_reward.training.stopping import STOP_BEFORE, StopWithCheckpoint

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import TrainerControl, TrainerState, TrainingArguments
    from trl import SFTTrainer

RIGHT, SHUFFLED = "eval_right_loss", "eval_shuffled_loss"


@dataclass
class SFTScriptArguments(ScriptArguments):  # type: ignore[misc]
    """Settings besides SFTConfig's and ModelConfig's."""

    dataset_name: str = field(
        default="scenes", metadata={"help": "See data/README.md: scenes, amitha/docent, a path."}
    )
    dataset_test_split: str = field(
        default="validation", metadata={"help": "Split whose loss picks the checkpoint."}
    )
    reference_column: str = field(
        default="reference", metadata={"help": "The dataset's column of references."}
    )
    max_pixels: int | None = field(
        default=None, metadata={"help": "Shrink larger images; 784 pixels are one token."}
    )
    watch_grounding: bool = field(
        default=False,
        metadata={"help": f"Also evaluate with wrong images: {RIGHT}, {SHUFFLED} and the gap."},
    )
    stop_at_gap: float | None = field(
        default=None, metadata={"help": "Stop once the grounding gap is this large (nats a token)."}
    )
    stop_before: float = field(
        default=STOP_BEFORE,
        metadata={"help": "Minutes before the end of the Slurm job to save a checkpoint and stop."},
    )


SETTINGS = (SFTScriptArguments, SFTConfig, ModelConfig)
"""Dataclasses of what flags and configuration set."""


class GroundingGap(TrainerCallback):  # type: ignore[misc]
    """A log of ``eval_grounding_gap`` after each evaluation, which may stop the training."""

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
        """Wait for both losses: evaluation calls this once for each of the two datasets."""
        self.losses |= {k: v for k, v in (metrics or {}).items() if k in (RIGHT, SHUFFLED)}
        if len(self.losses) < 2:
            return
        gap = self.losses[SHUFFLED] - self.losses[RIGHT]
        self.losses = {}
        # Into the history by hand: TRL has logged this evaluation already.
        state.log_history.append({"step": state.global_step, "eval_grounding_gap": gap})
        if state.is_world_process_zero:
            print(f"step {state.global_step}: grounding gap {gap:.3f}")
        if self.stop_at is not None and gap >= self.stop_at:
            control.should_training_stop = True


def prepare(name: str, split: str, reference_column: str = "reference") -> Dataset:
    """Columns image, prompt and completion, the latter two as conversations."""
    dataset = load_images(name, split, reference_column)
    return dataset.map(
        lambda text: {"prompt": prompt(), "completion": answer(text)},
        input_columns=["reference"],
        remove_columns=["uuid", "reference"],
    )


def make_trainer(script: SFTScriptArguments, args: SFTConfig, model: ModelConfig) -> SFTTrainer:
    """The trainer, ready to train."""
    from trl import SFTTrainer, get_peft_config, get_quantization_config

    args.model_init_kwargs = model_init_kwargs(args.model_init_kwargs, model)
    held_out: Any = None
    if args.eval_strategy != "no":
        held_out = prepare(script.dataset_name, script.dataset_test_split, script.reference_column)
        if script.watch_grounding:
            # The names make TRL's: eval_right_loss, eval_shuffled_loss.
            held_out = {"right": held_out, "shuffled": with_other_images(held_out)}
    callbacks: list[Any] = [StopWithCheckpoint(stop_before=script.stop_before), RefuseLostWeights()]
    if script.watch_grounding:
        callbacks.append(GroundingGap(script.stop_at_gap))
    return SFTTrainer(
        model=model.model_name_or_path,
        args=args,
        train_dataset=prepare(
            script.dataset_name, script.dataset_train_split, script.reference_column
        ),
        eval_dataset=held_out,
        processing_class=load_processor(
            model.model_name_or_path, model.model_revision, script.max_pixels
        ),
        callbacks=callbacks,
        quantization_config=get_quantization_config(model),
        peft_config=get_peft_config(model),
    )


def main(argv: list[str] | None = None) -> SFTTrainer:
    """Parse flags and configuration, train, and save the model to ``output_dir``.

    With ``--check`` it only says what would run, and whether it fits.

    Raises:
        ConfigError: a setting cannot be used.
        SystemExit: the run is finished already, or only checked.
    """
    script, args, model = parse_settings(SETTINGS, argv)
    end_if_finished(args)
    trainer = make_trainer(script, args, model)
    train(trainer)
    trainer.save_model(args.output_dir)
    trainer.save_state()
    best = trainer.state.best_model_checkpoint
    if best is not None and trainer.is_world_process_zero():
        print(f"lowest {args.metric_for_best_model}, lower is better: {best}")
    finish(trainer)
    return trainer


if __name__ == "__main__":
    run(main)
