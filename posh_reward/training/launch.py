"""Steps that every training recipe takes before and after training.

Programs outside this repository take them all from here, ``enter_output`` too.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate.utils import broadcast_object_list, set_seed
from transformers import ProgressCallback, TrainerState

from posh_reward.errors import ConfigError, JudgeError, PoshError, escape_controls, on_one_line
from posh_reward.models.vllm.vllm_model import separate_vllm_caches, set_vllm_defaults
from posh_reward.process.progress import on_terminal, progress_bar
from posh_reward.process.python import SAFE_PATH
from posh_reward.text_values import content_text
from posh_reward.training.dataset_check import check_datasets
from posh_reward.training.learning import CUT_SHARE, NothingLearnedError
from posh_reward.training.output_folder import enter_output as enter_output
from posh_reward.training.resume import (
    continue_sampling,
    last_checkpoint,
    load_best,
    load_best_by_any_name,
    load_weights,
)
from posh_reward.training.rollouts import RolloutError
from posh_reward.training.rotary import ExactRotary
from posh_reward.training.run_settings import (
    CHECK_FLAG,
    Processes,
    broken_deepspeed,
    check_rows,
    parse_flags,
    validate_settings,
)
from posh_reward.training.stopping import TRY_AGAIN, StoppedEarlyError, log_before_trackers

if TYPE_CHECKING:
    from transformers import Trainer, TrainerControl, TrainingArguments
    from trl import ModelConfig

logger = logging.getLogger(__name__)

PROMPT_FILE = "prompt.txt"  # in a run's output folder
EXIT_JUDGE_FAILED = 4  # if the judge cannot work, as of ``posh-reward``
MAX_EXIT_SECONDS = 60.0
"""Seconds until a process that has failed is ended, whatever it waits for."""
STATUS_FILE = "POSH_STATUS_FILE"  # environment variable: file for a failed recipe's exit status
HEADLINES = {
    "loss": "loss",
    "eval_loss": "held-out loss",
    "eval_right_loss": "held-out loss",
    "eval_shuffled_loss": "held-out loss with other images",
    "eval_reward": "held-out reward",
    "reward": "reward",
    "reward_std": "spread",
    "posh/precision": "precision",
    "posh/recall": "recall",
    "posh/failed_share": "failed",
    CUT_SHARE: "cut",
    "completions/mean_length": "tokens",
    "judging_share": "share of time judging",
}
"""Logged figure -> its name on the screen."""


def parse_settings(kinds: Sequence[type], argv: Sequence[str] | None = None) -> tuple[Any, ...]:
    """Parse a recipe's settings into one object of each dataclass.

    Args:
        kinds: the recipe's own dataclass, the trainer's, the model's.
        argv: flags; by default those of the command line.

    Raises:
        ConfigError: a name is unknown, a value does not fit, or the trainer would refuse a
            combination after loading the weights.
        SystemExit: with ``--check``, after printing what would run.
    """
    flags = list(sys.argv[1:] if argv is None else argv)
    if CHECK_FLAG in flags:
        from posh_reward.training.run_check import print_run_check

        flags.remove(CHECK_FLAG)
        raise SystemExit(print_run_check(kinds, flags))
    settings = parse_flags(kinds, flags)
    validate_settings(settings, Processes.of_this_run(settings[1]))
    if broken := broken_deepspeed():
        raise ConfigError(f"this run needs {broken}")
    return settings


def model_init_kwargs(settings: dict[str, Any] | None, model: ModelConfig) -> dict[str, Any]:
    """Return the keyword arguments for loading the model: the flags, overridden by ``settings``."""
    if model.model_name_or_path is None:
        raise ConfigError("model_name_or_path is not set: add it to the config or as a flag")
    flags = {
        "revision": model.model_revision,
        "attn_implementation": model.attn_implementation,
        "dtype": model.dtype,
    }
    return flags | (settings or {})


def train(trainer: Trainer) -> None:
    """Train, resuming from the checkpoint that ``resume_from_checkpoint`` names, if any.

    Logs one short line per step. A run that has reached its last step is not trained further.

    Raises:
        JudgeError: the judge kept failing; on all ranks, after saving a checkpoint.
        RolloutError: vLLM generated something else than was trained on; likewise.
        NothingLearnedError: the updates did not reach the weights, or there were none; likewise.
        StoppedEarlyError: a signal or the job's end stopped the run; likewise.
        ConfigError: the checkpoint cannot be resumed from, or the dataset is too small for a step,
            or has images that the trainer would ignore, or columns that no reward can read.
    """
    check_datasets(trainer)
    if hasattr(trainer.train_dataset, "__len__"):
        oversample = getattr(getattr(trainer, "dynamic_sampling", None), "oversample", 1)
        check_rows(len(trainer.train_dataset), trainer.args, oversample)
    show_headlines(trainer)
    make_tables_plain(trainer)
    log_before_trackers(trainer)
    trainer.add_callback(ExactRotary(getattr(trainer, "ref_model", None)))
    load_best_by_any_name(trainer)
    # The first rank's, on all ranks: nodes may see different files.
    (checkpoint,) = broadcast_object_list([last_checkpoint(trainer.args)])
    if checkpoint is not None:
        load_weights(trainer, checkpoint)
        if _is_complete(trainer, checkpoint):
            if trainer.is_world_process_zero():
                print(f"nothing left to train: {checkpoint} is at the last step", flush=True)
            if trainer.args.load_best_model_at_end:
                load_best(trainer)
            return
        continue_sampling(trainer, checkpoint)
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    except (JudgeError, NothingLearnedError, RolloutError, StoppedEarlyError):
        # On all ranks, if they have agreed to stop; finishing would wait for the others otherwise.
        if trainer.control.should_training_stop:
            finish(trainer)
        raise


def _is_complete(trainer: Trainer, checkpoint: str) -> bool:
    """Return True, and restore the trainer's state, if a checkpoint is at the run's last step.

    transformers would take one more step (5.17, 5.23). FSDP loads its weights only once training
    begins, so such a run still has to go through ``trainer.train``; so does DeepSpeed, but
    ``save_run`` needs only its checkpoint.
    """
    if trainer.is_fsdp_enabled:
        return False
    state = TrainerState.load_from_json(str(Path(checkpoint) / "trainer_state.json"))
    args = trainer.args
    if args.max_steps > 0:
        complete = state.global_step >= args.max_steps
    else:
        complete = (state.epoch or 0.0) >= args.num_train_epochs
    if complete:
        trainer.state = state
    return bool(complete)


def make_tables_plain(trainer: Trainer) -> None:
    """Log prompts as plain text in W&B's table of completions.

    A prompt with an image is a list of parts with different keys. W&B's tables refuse a second row
    of those, and the run would end at step 1 (TRL 1.16 with wandb 0.31).
    """
    args = trainer.args
    if not getattr(args, "log_completions", False) or "wandb" not in (args.report_to or ()):
        return
    log = trainer.log

    def log_plain(logs: dict[str, float], start_time: float | None = None) -> None:
        prompts = trainer._logs["prompt"]
        for _ in range(len(prompts)):
            prompts.append(_plain_prompt(prompts.popleft()))
        log(logs, start_time)

    trainer.log = log_plain


def _plain_prompt(prompt: Any) -> Any:
    """Return a conversation with the text alone of each turn; a text as it is."""
    if isinstance(prompt, str):
        return prompt
    return [turn | {"content": content_text(turn["content"]) or ""} for turn in prompt]


def record_prompt(args: TrainingArguments, model: str, text: str) -> None:
    """Write a run's prompt to its output folder, and warn if the model learned another."""
    if args.process_index == 0:
        for folder in dict.fromkeys((model, args.output_dir)):
            warn_of_other_prompt(folder, text)
        path = Path(args.output_dir, PROMPT_FILE)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"prompt: {on_one_line(text)}", flush=True)


def learned_prompt(model: str) -> str | None:
    """Return the prompt that a model's folder, or that of its run, records."""
    folders = [Path(model)]
    if folders[0].name.startswith("checkpoint-"):
        folders.append(folders[0].parent)
    for folder in folders:
        file = folder / PROMPT_FILE
        if file.is_file():
            return file.read_text("utf-8", errors="replace")
    return None


def warn_of_other_prompt(model: str, text: str) -> None:
    """Warn if a model was trained with another prompt."""
    learned = learned_prompt(model)
    if learned not in (None, text):
        logger.warning(
            "%s was trained with another prompt, %r, and is given %r now: set prompt_text to the "
            "former, or train and describe with the latter alone",
            escape_controls(model), on_one_line(str(learned)), on_one_line(text),
        )  # fmt: skip


def reseed_sampling(args: TrainingArguments) -> None:
    """Seed each rank by the run's seed plus its rank, after a colocated vLLM has started.

    vLLM seeds with the rank alone when it starts, so runs of different seeds would sample alike.
    """
    set_seed(args.seed + args.process_index)


class Headlines(ProgressCallback):  # type: ignore[misc]
    """Progress bars, with one short line per log instead of a dictionary of thirty figures."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Create the bar."""
        if state.is_world_process_zero:
            self.training_bar = progress_bar(
                "training", state.max_steps, "step", dynamic_ncols=True
            )
        self.current_step = 0

    def on_prediction_step(self, *args: Any, **kwargs: Any) -> None:
        """Show the evaluation's bar, on a terminal only."""
        if on_terminal():
            super().on_prediction_step(*args, **kwargs)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Print the headline figures; ``trainer_state.json`` has all of them."""
        figures = []
        for key, name in HEADLINES.items():
            value = (logs or {}).get(key)
            if isinstance(value, int | float):
                figures.append(f"{name} {value:.4g}")
        if figures and self.training_bar is not None:
            self.training_bar.write(f"step {state.global_step}: {', '.join(figures)}")

    def show_phase(self, phase: str) -> None:
        """Show the trainer's current phase on the bar."""
        if self.training_bar is not None:
            self.training_bar.set_postfix_str(phase, refresh=on_terminal())


def show_headlines(trainer: Trainer) -> None:
    """Replace the trainer's progress callback, if any, by ``Headlines``, once."""
    handlers = trainer.callback_handler.callbacks
    if any(isinstance(each, Headlines) for each in handlers):
        return
    if trainer.pop_callback(ProgressCallback) is not None:
        headlines = Headlines()
        trainer.add_callback(headlines)
        if hasattr(trainer, "on_phase"):
            trainer.on_phase = headlines.show_phase


def run(main: Callable[[], object]) -> None:
    """Run a recipe's ``main``, and exit with its status.

    The status is 75 (``stopping.TRY_AGAIN``) after a run that saved a checkpoint and stopped early,
    4 if the judge cannot work, and 1 after another error that the user can fix. Launchers turn all
    failures into status 1, so it is also written to the file that ``POSH_STATUS_FILE`` names.

    Once a rank has ended, its launcher ends the others. So that one that fails does end, whatever
    its exit waits for, it is killed after ``MAX_EXIT_SECONDS``.
    """
    separate_vllm_caches(os.environ)
    os.environ.update(SAFE_PATH)  # of descendants, such as those of vLLM
    # Users cannot fix deprecations inside TRL and transformers.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"(trl|transformers)\b")
    set_vllm_defaults(os.environ)
    try:
        main()
    except Exception as error:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            # A thread outside of Python, which also runs while the interpreter shuts down.
            faulthandler.dump_traceback_later(MAX_EXIT_SECONDS, exit=True)
        if not isinstance(error, PoshError):
            raise
        rank = f" (rank {os.environ['RANK']})" if os.environ.get("RANK") else ""
        print(f"{Path(sys.argv[0]).name}{rank}: {error}", file=sys.stderr)
        status = 1
        if isinstance(error, JudgeError):
            status = EXIT_JUDGE_FAILED
        elif isinstance(error, StoppedEarlyError):
            status = TRY_AGAIN
        if STATUS_FILE in os.environ:
            Path(os.environ[STATUS_FILE]).write_text(str(status), encoding="utf-8")
        sys.exit(status)


def finish(trainer: Trainer) -> None:
    """Close trackers and the process group: the last call of a script, on every rank.

    A process group that is still open when the interpreter exits may abort the process (SIGABRT).
    transformers closes it only in ``Trainer.end``, which 5.17 lacks.
    """
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.num_processes > 1:
        # gloo's thread needs the GIL to drop the last collective's tensors. Destroying the group
        # holds the GIL and waits for that thread: a deadlock, seen at the end of two-process runs.
        # Sleeping releases the GIL.
        time.sleep(1.0)
    trainer.accelerator.end_training()
