"""What every training recipe does before and after training."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import ProgressCallback

from posh_reward.errors import ConfigError, JudgeError, PoshError
from posh_reward.training.resume import last_checkpoint, load_weights

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


def train(trainer: Trainer) -> None:
    """Trains, from the checkpoint on that is to be resumed, if any.

    Raises:
        JudgeError: nothing could be judged any more; on all ranks, with a checkpoint saved.
        ConfigError: the checkpoint's weights cannot be loaded.
    """
    checkpoint = last_checkpoint(trainer.args)
    if checkpoint is not None:
        load_weights(trainer, checkpoint)
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    except JudgeError:  # all ranks are here: they have agreed to stop
        finish(trainer)
        raise


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


def run(main: Callable[[], object]) -> None:
    """Runs a recipe; what a user can mend ends it with one message, not with a traceback.

    Its exit status is then 1, so that a launcher ends the other ranks.
    """
    try:
        main()
    except PoshError as error:
        rank = os.environ.get("RANK")
        print(
            f"{Path(sys.argv[0]).name}{f' (rank {rank})' if rank else ''}: {error}", file=sys.stderr
        )
        sys.exit(1)


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
