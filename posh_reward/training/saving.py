"""The model that a run ends with: the checkpoint that a metric chose, or the last weights."""

from __future__ import annotations

import json
import shutil
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.errors import ConfigError
from posh_reward.models.hub import weights_fingerprint
from posh_reward.process.locks import whole_file
from posh_reward.run_record import RUN_FILE, read_run
from posh_reward.training.output_folder import STATE_FILE
from posh_reward.training.recording import end_record
from posh_reward.training.resume import (
    best_checkpoint,
    last_checkpoint,
    parse_checkpoint_step,
    raise_on_all_ranks,
)

if TYPE_CHECKING:
    from transformers import Trainer, TrainerState

MODEL_PATTERNS = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "README.md")
"""Files of a checkpoint's model, but for ``RUN_FILES``; the other files continue its training."""
RUN_FILES = (STATE_FILE, RUN_FILE)  # of a checkpoint: a run's folder has its own


def save_run(trainer: Trainer) -> None:
    """Write the run's model, and then its state, to ``output_dir``; every rank has to call this.

    With ``metric_for_best_model`` the model is the checkpoint with the best value, such as the
    lowest validation loss (the paper's A.3.5). Its files are copied, since under ZeRO-3 loading it
    would take as long as resuming. A run without the state is not finished, so one that is killed
    meanwhile is continued from its last checkpoint, and saved again.

    Raises:
        ConfigError: the best checkpoint is gone or was not saved, or the model that was written
            differs from it, or without one from the last step's.
    """
    output, state = Path(trainer.args.output_dir), trainer.state
    if not state.global_step:
        raise ConfigError("the run made no step, so there is nothing to save: give it more data")
    best = best_checkpoint(state, output)
    source = best
    if best is None and trainer.is_deepspeed_enabled and trainer.deepspeed is None:
        # Nothing was left to train, so DeepSpeed has not loaded the weights.
        source = Path(str(last_checkpoint(trainer.args)))
    problem = None
    if source is None:
        trainer.save_model(str(output))
        last = output / f"checkpoint-{state.global_step}"
        if trainer.args.should_save and _is_of_this_run(last, state):
            problem = compare_weights(output, last)
    elif trainer.args.should_save:
        problem = copy_model(source, output)
    raise_on_all_ranks(problem)
    if best is not None and trainer.is_world_process_zero():
        goodness = "highest" if trainer.args.greater_is_better else "lowest"
        figure = f"{goodness} {trainer.args.metric_for_best_model}, {state.best_metric:.4g}"
        print(f"{output} has the weights of {best.name}, with the {figure}", flush=True)
    finish_record(trainer, output)


def finish_record(trainer: Trainer, saved: Path) -> None:
    """Record which weights a folder has, and write the state that marks the run as finished."""
    if trainer.args.should_save:
        weights = weights_fingerprint(saved)
        checkpoints = Path(trainer.args.output_dir).glob("checkpoint-*")
        names = (each.name for each in checkpoints if weights_fingerprint(each) == weights)
        end_record(trainer, weights=weights, checkpoint=next(names, None))
    trainer.save_state()


def _is_of_this_run(checkpoint: Path, state: TrainerState) -> bool:
    """Return True if a checkpoint has the log of this run so far; another run may have left it."""
    file = checkpoint / STATE_FILE
    if not file.is_file():
        return False
    logged = json.loads(file.read_text(encoding="utf-8"))["log_history"]
    return bool(state.log_history[: len(logged)] == logged)


def copy_model(checkpoint: Path, folder: Path) -> str | None:
    """Copy a checkpoint's model into a folder, in place of another; return what is wrong."""
    found = chain.from_iterable(map(checkpoint.glob, MODEL_PATTERNS))
    files = {path for path in found if path.name not in RUN_FILES}
    if not any(path.suffix == ".safetensors" for path in files):
        return (
            f"the best checkpoint, {checkpoint}, has no weights to copy to {folder}: keep it "
            "(save_strategy as eval_strategy, and save_total_limit of 2 or more)"
        )
    for stale in folder.glob("*model*.safetensors*"):  # as of another number of shards
        stale.unlink()
    for path in sorted(files):
        with path.open("rb") as original, whole_file(folder / path.name) as copy:
            shutil.copyfileobj(original, copy)
    return compare_weights(folder, checkpoint)


def compare_weights(folder: Path, checkpoint: Path) -> str | None:
    """Describe how a folder's model differs from that of a checkpoint, if there is one."""
    expected, found = weights_fingerprint(checkpoint), weights_fingerprint(folder)
    if expected in (None, found):
        return None
    return (
        f"{folder} should have the weights of {checkpoint.name} ({expected}), but has others "
        f"({found}): use {checkpoint}, and report this"
    )


def compare_with_best(folder: Path) -> str | None:
    """Describe why a folder's weights may not be those that its run ended with.

    The run may not have ended. Runs of version 0.1 and other scripts save their last weights,
    whichever are the best.
    """
    run = read_run(folder)
    if run is not None and run.state == "running" and parse_checkpoint_step(folder) is None:
        return (
            f"the run of {folder} has not ended ({run.steps} of {run.steps_asked} steps), so these "
            "are not its weights: let it end, or name one of its checkpoints"
        )
    file = folder / STATE_FILE
    if not file.is_file():
        return None
    named = json.loads(file.read_text(encoding="utf-8")).get("best_model_checkpoint")
    if not named:
        return None
    best = folder / Path(named).name  # next to the state, if it was moved
    if weights_fingerprint(best) in (None, weights_fingerprint(folder)):
        return None
    return f"{folder} names {best.name} as its best checkpoint, but has other weights: name {best}"
