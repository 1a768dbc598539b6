"""What every training recipe does before and after training."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from transformers import ProgressCallback

from posh_reward.errors import ConfigError, JudgeError, PoshError
from posh_reward.models.vllm.vllm_environment import set_vllm_defaults
from posh_reward.training.resume import last_checkpoint, load_weights
from posh_reward.training.stopping import TRY_AGAIN, StoppedEarlyError

if TYPE_CHECKING:
    from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments
    from trl import ModelConfig

T = TypeVar("T")

STATUS_FILE = "POSH_STATUS_FILE"
"""The variable that names a file for a failed recipe's exit status."""
HEADLINES = {
    "loss": "loss",
    "eval_loss": "held-out loss",
    "eval_right_loss": "held-out loss",
    "eval_shuffled_loss": "held-out loss with other images",
    "reward": "reward",
    "reward_std": "spread",
    "posh/precision": "precision",
    "posh/recall": "recall",
    "posh/failed_share": "failed",
    "completions/mean_length": "tokens",
    "judging_share": "share of time judging",
}
"""What is shown of a log, and under which name. Higher is better for precision (few mistakes) and
recall (few omissions)."""


def model_init_kwargs(given: dict[str, Any] | None, model: ModelConfig) -> dict[str, Any]:
    """How the trainer loads the model: by the flags, and by ``given``, which wins.

    Raises:
        ConfigError: no model is named.
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
    """Trains, from the checkpoint that ``resume_from_checkpoint`` names, if any.

    Raises:
        JudgeError: nothing could be judged any more; on all ranks, with a checkpoint saved.
        StoppedEarlyError: a signal or the job's end stopped the run; likewise.
        ConfigError: the checkpoint's weights cannot be loaded, or it cannot be resumed from; or a
            column of the dataset holds what no reward can read.
    """
    _check_datasets(trainer)
    checkpoint = from_main_process(last_checkpoint(trainer.args))
    if checkpoint is not None:
        load_weights(trainer, checkpoint)
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    except (JudgeError, StoppedEarlyError):  # all ranks are here: they have agreed to stop
        finish(trainer)
        raise
    if checkpoint is not None and f"checkpoint-{trainer.state.global_step}" in checkpoint:
        _say(trainer.args, f"nothing was left to train: {checkpoint} is at the last step")


def _check_datasets(trainer: Trainer) -> None:
    """Refuse columns that would fail row by row, for the rewards that say which they read."""
    from posh_reward.datasets.load_dataset import check_columns

    for reward in getattr(trainer, "reward_funcs", ()):
        reference = getattr(reward, "reference_column", None)
        features = getattr(trainer.train_dataset, "features", None)
        if reference is not None and features is not None:
            image = getattr(reward, "image_column", None) or "image"
            check_columns(trainer.train_dataset, "the dataset", reference, image)


def from_main_process(value: T) -> T:
    """The first rank's value, on all ranks: a file system may not show all nodes the same."""
    from accelerate.utils import broadcast_object_list

    (value,) = broadcast_object_list([value])
    return value


def end_if_finished(args: TrainingArguments) -> None:
    """Ends a script whose run has been trained to its end already; to be called before it loads.

    What counts is ``trainer_state.json`` in the run's folder, which ``trainer.save_state`` writes
    after training: a run that was killed has none, and goes on. Nor does it count for a run that
    is to have more steps or epochs.

    Raises:
        SystemExit: the run is finished; a line says so, and the status is 0.
    """
    saved = Path(args.output_dir) / "trainer_state.json"
    if not saved.is_file():
        return
    state = json.loads(saved.read_text(encoding="utf-8"))
    bounded = args.max_steps > 0
    trained, wanted = (
        (state["max_steps"], args.max_steps)
        if bounded
        else (state["num_train_epochs"], args.num_train_epochs)
    )
    if trained >= wanted:
        _say(
            args,
            f"{args.output_dir} is finished, at step {state['global_step']}: to train it again, "
            f"delete it or name another --output_dir; to train it further, raise "
            f"--{'max_steps' if bounded else 'num_train_epochs'} with "
            "--resume_from_checkpoint latest",
        )
        raise SystemExit(0)


def _say(args: TrainingArguments, text: str) -> None:
    if args.process_index == 0:
        print(text, flush=True)


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
        """Writes the figures that people watch; ``trainer_state.json`` has all of them."""
        figures = [
            f"{name} {value:.4g}"
            for key, name in HEADLINES.items()
            if isinstance(value := (logs or {}).get(key), int | float)
        ]
        if figures and self.training_bar is not None:
            self.training_bar.write(f"step {state.global_step}: {', '.join(figures)}")

    def show_phase(self, phase: str) -> None:
        """Says on the bar what the trainer is doing."""
        if self.training_bar is not None:
            self.training_bar.set_postfix_str(phase)


def show_headlines(trainer: Trainer) -> None:
    """Replaces the trainer's progress callback, if it has one; its bar then tells the phase."""
    if trainer.pop_callback(ProgressCallback) is not None:
        headlines = Headlines()
        trainer.add_callback(headlines)
        if hasattr(trainer, "on_phase"):
            trainer.on_phase = headlines.show_phase


def run(main: Callable[[], object]) -> None:
    """Runs a recipe, and ends the process with its exit status.

    The status is 75 (``stopping.TRY_AGAIN``) after a run that saved a checkpoint and stopped early,
    and 1 after an error that the user can fix, which is printed as one message without a traceback;
    a launcher then ends the other ranks. Launchers (torchrun, ``accelerate launch``) report any
    status as 1, so it is also written to the file named by ``POSH_STATUS_FILE``, if that is set.
    """
    separate_vllm_caches(os.environ)
    set_vllm_defaults(os.environ)
    try:
        main()
    except PoshError as error:
        rank = os.environ.get("RANK")
        print(
            f"{Path(sys.argv[0]).name}{f' (rank {rank})' if rank else ''}: {error}", file=sys.stderr
        )
        status = TRY_AGAIN if isinstance(error, StoppedEarlyError) else 1
        if STATUS_FILE in os.environ:
            Path(os.environ[STATUS_FILE]).write_text(str(status), encoding="utf-8")
        sys.exit(status)


def separate_vllm_caches(environment: MutableMapping[str, str]) -> None:
    """Gives each rank's engines a folder of their own for what they compile.

    Engines that start at the same moment would write the same files. Cards keep their folder from
    run to run, so each compiles once.
    """
    card = environment.get("LOCAL_RANK")
    if card is not None:
        root = environment.get("VLLM_CACHE_ROOT") or str(Path.home() / ".cache" / "vllm")
        environment["VLLM_CACHE_ROOT"] = str(Path(root) / f"card-{card}")


def finish(trainer: Trainer) -> None:
    """Closes trackers and the process group. The last call of a script; every rank makes it.

    A group that is left to the interpreter's end may abort the process (SIGABRT), and transformers
    closes it in ``Trainer.end`` only, which 5.17 lacks; so it is closed here.

    gloo's thread drops the last collective's tensors under Python's lock. If the group is
    destroyed meanwhile by a thread that holds the lock and waits for gloo's, both wait for ever;
    this was seen at the end of two-process runs. Asleep, this thread holds no lock.
    """
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.num_processes > 1:
        time.sleep(1.0)
    trainer.accelerator.end_training()
