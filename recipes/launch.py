"""What every training recipe does before and after training."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import ProgressCallback

from posh_reward.errors import ConfigError

if TYPE_CHECKING:
    from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments
    from trl import ModelConfig

HEADLINES = {
    "loss": "loss",
    "eval_loss": "held-out loss",
    "eval_right_loss": "held-out loss",
    "eval_shuffled_loss": "held-out loss with other pictures",
    "reward": "reward",
    "reward_std": "spread",
    "posh/precision": "precision",
    "posh/recall": "recall",
    "posh/failed_share": "failed",
    "completions/mean_length": "tokens",
}
"""What is shown of a log, and under which name."""


def model_init_kwargs(given: dict[str, Any] | None, model: ModelConfig) -> dict[str, Any]:
    """How the trainer loads the model: its flags, then what the configuration gives besides.

    Raises:
        ConfigError: No model is named.
    """
    if model.model_name_or_path is None:
        raise ConfigError("model_name_or_path is not set; add it to the config or as a flag")
    flags = {
        "revision": model.model_revision,
        "attn_implementation": model.attn_implementation,
        "dtype": model.dtype,
    }
    return flags | (given or {})


def last_checkpoint(args: TrainingArguments) -> str | None:
    """Where to resume: the path given, the newest checkpoint for "latest", or None."""
    from transformers.trainer_utils import get_last_checkpoint

    resume: str | None = args.resume_from_checkpoint
    if resume != "latest":
        return resume
    there = Path(args.output_dir).is_dir()
    return get_last_checkpoint(args.output_dir) if there else None


class Headlines(ProgressCallback):  # type: ignore[misc]
    """The usual progress bars, with one short line per log instead of a dictionary of thirty."""

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Writes the figures that people watch; all of them are in ``trainer_state.json``."""
        figures = [
            f"{name} {value:.4g}"
            for key, name in HEADLINES.items()
            if isinstance(value := (logs or {}).get(key), int | float)
        ]
        if figures and self.training_bar is not None:
            self.training_bar.write(f"step {state.global_step}: {', '.join(figures)}")


def show_headlines(trainer: Trainer) -> None:
    """Replaces the trainer's progress callback, if it has one."""
    if trainer.pop_callback(ProgressCallback) is not None:
        trainer.add_callback(Headlines)


def finish(trainer: Trainer) -> None:
    """Closes trackers and the process group, where transformers is new enough to ask for it.

    gloo's thread drops the last collective's tensors under Python's lock. If the group is
    destroyed meanwhile, by a thread that holds the lock and waits for gloo's, both wait for
    ever: seen at the end of two-process runs. Asleep, this thread holds no lock.
    """
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.num_processes > 1:
        time.sleep(1.0)
    if hasattr(trainer, "end"):
        trainer.end()
