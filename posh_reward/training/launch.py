"""Steps of every training recipe before and after training."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from accelerate.utils import set_seed
from transformers import ProgressCallback, TrainerState

from posh_reward.errors import ConfigError, JudgeError, PoshError
from posh_reward.models.vllm.vllm_environment import set_vllm_defaults
from posh_reward.process.progress import on_terminal, progress_bar
from posh_reward.training.resume import last_checkpoint, load_weights
from posh_reward.training.stopping import TRY_AGAIN, StoppedEarlyError

if TYPE_CHECKING:
    from transformers import Trainer, TrainerControl, TrainingArguments
    from trl import ModelConfig

T = TypeVar("T")

IMAGE_COLUMNS = ("img", "picture", "photo", "image_path", "pixel_values")
"""Names of columns that are likely to be meant for ``image``."""

STATUS_FILE = "POSH_STATUS_FILE"  # the variable that names a file for a failed recipe's exit status
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
"""Logged figure -> its name on the screen. Higher is better for precision (few mistakes) and recall
(few omissions)."""


def model_init_kwargs(settings: dict[str, Any] | None, model: ModelConfig) -> dict[str, Any]:
    """Return the trainer's arguments for loading the model: the flags, and ``settings``, which win.

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
    return flags | (settings or {})


def train(trainer: Trainer) -> None:
    """Train, from the checkpoint that ``resume_from_checkpoint`` names, if any.

    The log has one short line for each step. A run that is at its last step takes no further one.

    Raises:
        JudgeError: nothing could be judged any more; on all ranks, with a checkpoint saved.
        StoppedEarlyError: a signal or the job's end stopped the run; likewise.
        ConfigError: the checkpoint's weights cannot be loaded, or it cannot be resumed from; or the
            dataset has images that the trainer would not see, or what no reward can read.
    """
    check_images(trainer)
    _check_datasets(trainer)
    show_headlines(trainer)
    make_tables_plain(trainer)
    checkpoint = from_main_process(last_checkpoint(trainer.args))
    if checkpoint is not None:
        load_weights(trainer, checkpoint)
        if is_at_the_end(trainer, checkpoint):
            _say(trainer.args, f"nothing was left to train: {checkpoint} is at the last step")
            return
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    except (JudgeError, StoppedEarlyError):  # all ranks are here: they have agreed to stop
        finish(trainer)
        raise


def is_at_the_end(trainer: Trainer, checkpoint: str) -> bool:
    """True if a run has all its steps; the trainer's state is then the checkpoint's.

    transformers would take one more step (5.17, 5.23). DeepSpeed reads its weights only when the
    training begins, so a run of its own is left to it.
    """
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        return False
    state = TrainerState.load_from_json(str(Path(checkpoint) / "trainer_state.json"))
    args = trainer.args
    trained, target = (
        (state.global_step, args.max_steps)
        if args.max_steps > 0
        else (state.epoch or 0.0, args.num_train_epochs)
    )
    if trained < target:
        return False
    trainer.state = state
    return True


def check_images(trainer: Trainer) -> None:
    """Refuse a vision-language model whose images are in a column that TRL does not read.

    Raises:
        ConfigError: the dataset has images, but no column ``image`` or ``images``.
    """
    columns = getattr(trainer.train_dataset, "features", None)
    processor = getattr(trainer, "processing_class", None)
    if columns is None or not hasattr(processor, "image_processor"):
        return
    if {"image", "images"} & set(columns):
        return
    for name, feature in columns.items():
        if type(feature).__name__ == "Image" or name in IMAGE_COLUMNS:
            raise ConfigError(
                f"the dataset has no column 'image', so the model would describe images that it "
                f"does not see: dataset.rename_column({name!r}, 'image')"
            )


def make_tables_plain(trainer: Trainer) -> None:
    """Have prompts logged as text where W&B gets a table of completions.

    A prompt with an image is a list of parts with different keys, of which W&B's tables take no
    two rows: the run would end at step 1 (TRL 1.16 with wandb 0.31).
    """
    args = trainer.args
    if not getattr(args, "log_completions", False) or "wandb" not in (args.report_to or ()):
        return
    log = trainer.log

    def log_plain(logs: dict[str, float], start_time: float | None = None) -> None:
        prompts = trainer._logs["prompt"]
        plain = [plain_prompt(prompt) for prompt in prompts]
        prompts.clear()
        prompts.extend(plain)
        log(logs, start_time)

    trainer.log = log_plain


def plain_prompt(prompt: Any) -> Any:
    """Return a prompt whose messages have text alone; images are left out."""
    if isinstance(prompt, str):
        return prompt
    return [message | {"content": _text_of(message["content"])} for message in prompt]


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content if part.get("type") == "text")


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
    """Return the first rank's value on all ranks: nodes may see different files."""
    from accelerate.utils import broadcast_object_list

    (value,) = broadcast_object_list([value])
    return value


def end_if_finished(args: TrainingArguments) -> None:
    """End a script whose run has been trained to its end; to be called before it loads.

    ``trainer.save_state`` writes ``trainer_state.json`` to the run's folder after training: a run
    that was killed has none, and goes on, and so does one that is to have more steps or epochs.

    Raises:
        SystemExit: the run is finished; a line says so, and the status is 0.
    """
    saved = Path(args.output_dir) / "trainer_state.json"
    if not saved.is_file():
        return
    state = json.loads(saved.read_text(encoding="utf-8"))
    bounded = args.max_steps > 0
    trained, target = (
        (state["max_steps"], args.max_steps)
        if bounded
        else (state["num_train_epochs"], args.num_train_epochs)
    )
    if trained >= target:
        _say(
            args,
            f"{args.output_dir} is finished, at step {state['global_step']}: to train it again, "
            f"delete it or name another --output_dir; to train it further, raise "
            f"--{'max_steps' if bounded else 'num_train_epochs'} with "
            "--resume_from_checkpoint latest",
        )
        raise SystemExit(0)


def reseed_sampling(args: TrainingArguments) -> None:
    """Seed each rank's generators, after an engine in the trainer has seeded them by the rank.

    vLLM seeds with the rank alone when it starts, so runs of different seeds would sample alike.
    """
    set_seed(args.seed + args.process_index)


def _say(args: TrainingArguments, text: str) -> None:
    if args.process_index == 0:
        print(text, flush=True)


class Headlines(ProgressCallback):  # type: ignore[misc]
    """Progress bars, with one short line per log instead of a dictionary of thirty figures."""

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Make the bar."""
        if state.is_world_process_zero:
            self.training_bar = progress_bar(
                "training", state.max_steps, "step", dynamic_ncols=True
            )
        self.current_step = 0

    def on_prediction_step(self, *args: Any, **kwargs: Any) -> None:
        """Show the evaluation's bar, on a terminal."""
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
        """Write the figures that people watch; ``trainer_state.json`` has all of them."""
        figures = [
            f"{name} {value:.4g}"
            for key, name in HEADLINES.items()
            if isinstance(value := (logs or {}).get(key), int | float)
        ]
        if figures and self.training_bar is not None:
            self.training_bar.write(f"step {state.global_step}: {', '.join(figures)}")

    def show_phase(self, phase: str) -> None:
        """Show on the bar what the trainer is doing."""
        if self.training_bar is not None:
            self.training_bar.set_postfix_str(phase, refresh=on_terminal())


def show_headlines(trainer: Trainer) -> None:
    """Replace the trainer's progress callback, if it has one; its bar then tells the phase."""
    handlers = trainer.callback_handler.callbacks
    if any(isinstance(each, Headlines) for each in handlers):
        return
    if trainer.pop_callback(ProgressCallback) is not None:
        headlines = Headlines()
        trainer.add_callback(headlines)
        if hasattr(trainer, "on_phase"):
            trainer.on_phase = headlines.show_phase


def run(main: Callable[[], object]) -> None:
    """Run a recipe, and end the process with its exit status.

    The status is 75 (``stopping.TRY_AGAIN``) after a run that saved a checkpoint and stopped early,
    and 1 after an error that the user can fix, which is printed as one message without a traceback;
    a launcher then ends the other ranks. Launchers (torchrun, ``accelerate launch``) report any
    status as 1, so it is also written to the file named by ``POSH_STATUS_FILE``, if that is set.
    """
    separate_vllm_caches(os.environ)
    # Deprecations within TRL and transformers are not the user's to mend.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"(trl|transformers)\b")
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
    """Give each rank's engines a folder of their own for compiled code.

    Engines that start at the same moment would write the same files. Cards keep their folder from
    run to run, so each compiles once.
    """
    card = environment.get("LOCAL_RANK")
    if card is not None:
        caches = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        root = Path(environment.get("VLLM_CACHE_ROOT") or caches / "vllm")
        environment["VLLM_CACHE_ROOT"] = str(root / f"card-{card}")


def finish(trainer: Trainer) -> None:
    """Close trackers and the process group: the last call of a script, on every rank.

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
