"""The model that a run ends with: the checkpoint that a metric chose, or the last weights."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.errors import ConfigError
from posh_reward.models.hub import weights_fingerprint
from posh_reward.training.recording import end_record
from posh_reward.training.resume import refuse_together

if TYPE_CHECKING:
    from transformers import Trainer

STATE = "trainer_state.json"
PARTS = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "README.md")
"""Files of a checkpoint that a model consists of; the rest continue its training."""


def save_run(trainer: Trainer) -> None:
    """Write the run's model, and then its state, to ``output_dir``; every rank has to call this.

    With ``metric_for_best_model`` the model is the checkpoint with the best value, such as the
    lowest validation loss (the paper's A.3.5). Its files are copied, since under ZeRO-3 loading it
    would take as long as resuming. A run without the state is not finished, so one that is killed
    meanwhile is continued from its last checkpoint, and saved again.

    Raises:
        ConfigError: the best checkpoint is gone or was not saved, or the copy differs from it.
    """
    output, state = Path(trainer.args.output_dir), trainer.state
    if not state.global_step:
        raise ConfigError("the run made no step, so there is nothing to save: give it more data")
    if state.best_global_step is None:  # no metric is set, or nothing was evaluated yet
        trainer.save_model(str(output))
    else:
        best = output / f"checkpoint-{state.best_global_step}"
        refuse_together(copy_model(best, output) if trainer.args.should_save else None)
        if trainer.is_world_process_zero():
            goodness = "highest" if trainer.args.greater_is_better else "lowest"
            figure = f"{goodness} {trainer.args.metric_for_best_model}, {state.best_metric:.4g}"
            print(f"{output} has the weights of {best.name}, with the {figure}", flush=True)
    if trainer.args.should_save:
        weights = weights_fingerprint(output)
        kept = (
            each for each in output.glob("checkpoint-*") if weights_fingerprint(each) == weights
        )
        equal = next(kept, None)
        end_record(trainer, weights=weights, checkpoint=equal.name if equal else None)
    trainer.save_state()


def copy_model(checkpoint: Path, folder: Path) -> str | None:
    """Copy a checkpoint's model into a folder, in place of another; return what is wrong."""
    files = {path for part in PARTS for path in checkpoint.glob(part) if path.name != STATE}
    if not any(path.suffix == ".safetensors" for path in files):
        return (
            f"the best checkpoint, {checkpoint}, has no weights to copy to {folder}: keep it "
            "(save_strategy as eval_strategy, and save_total_limit of 2 or more)"
        )
    for stale in folder.glob("*model*.safetensors*"):  # as of another number of shards
        stale.unlink()
    for path in sorted(files):
        copy = folder / f".{path.name}.part"
        shutil.copyfile(path, copy)
        os.replace(copy, folder / path.name)
    if weights_fingerprint(folder) != weights_fingerprint(checkpoint):
        return f"{folder} does not have the weights of {checkpoint}: is the disk full or broken?"
    return None


def unlike_best(folder: Path) -> str | None:
    """Describe how a finished run's weights differ from the checkpoint that it names as its best.

    Runs of version 0.1 and other scripts save their last weights, whichever are the best.
    """
    file = folder / STATE
    if not file.is_file():
        return None
    named = json.loads(file.read_text(encoding="utf-8")).get("best_model_checkpoint")
    best = folder / Path(named).name if named else None  # next to the state, if it was moved
    if best is None or weights_fingerprint(best) in (None, weights_fingerprint(folder)):
        return None
    return f"{folder} names {best.name} as its best checkpoint, but has other weights: name {best}"
