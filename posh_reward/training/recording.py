"""Write ``run.json``, the record of a run, as the run goes."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from posh_reward.errors import PoshError, installed_version
from posh_reward.models.hub import (
    COMMIT_CHARACTERS,
    FINGERPRINT_CHARACTERS,
    UNKNOWN_IDENTITY,
    find_identity,
    read_samples,
)
from posh_reward.reward.objectives import find_metrics
from posh_reward.run_record import UNCHECKED_WARNING, RunRecord, read_run, write_run
from posh_reward.training.learning import read_progress
from posh_reward.training.output_folder import find_differing_settings
from posh_reward.training.resume import last_checkpoint, parse_checkpoint_step, raise_on_all_ranks
from posh_reward.training.run_settings import checks_judge, read_metric_settings

if TYPE_CHECKING:
    from transformers import Trainer, TrainerState

logger = logging.getLogger(__name__)

LIBRARIES = (
    "posh-reward",
    "torch",
    "transformers",
    "trl",
    "accelerate",
    "peft",
    "deepspeed",
    "vllm",
)
OPTIMIZER_SETTINGS = ("learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon")
"""Settings that a resumed optimizer has from its checkpoint, whatever they are now."""


@contextmanager
def record_run(
    trainer: Trainer, script: Any, model: Any, settings: Mapping[str, Any]
) -> Iterator[None]:
    """Keep ``run.json`` in a run's folder while it trains and saves its model; on every rank.

    Args:
        trainer: with its dataset; its rewards, if it has any, have signatures.
        script: the recipe's own settings.
        model: TRL's ``ModelConfig``.
        settings: all that were asked for, as ``enter_output`` returns them.

    Raises:
        ConfigError: adapters would be trained further on another model than they began on, or a
            setting would have no effect on the resumed optimizer, or the held-out data is the
            training data.
    """
    record = problem = None
    if trainer.args.should_save:
        new = _new_record(trainer, script, model, settings)
        record, problem = _continue_record(new, trainer.args)
        problem = problem or _nothing_held_out(record)
    raise_on_all_ranks(problem)  # before the record of the run that is here is replaced
    if record is not None:
        if record.unchecked:
            trainer.callback_handler.callbacks.insert(0, LogUnchecked())  # before trackers
            if checks_judge(script):
                logger.warning("what this run goes on from %s", UNCHECKED_WARNING)
        write_run(Path(trainer.args.output_dir), record)
    trainer.add_callback(RecordProgress())
    try:
        yield
    except BaseException as error:  # also Ctrl-C
        kind = "" if isinstance(error, PoshError) else f"{type(error).__name__}: "
        end_record(trainer, reason=f"{kind}{error}")
        raise


class LogUnchecked(TrainerCallback):  # type: ignore[misc]
    """Add ``unchecked`` to each line of the log, so that no curve passes for a real run's."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Add it to the trainer's line, and to that of trackers."""
        for line in (state.log_history[-1], logs):
            line["unchecked"] = 1.0


class RecordProgress(TrainerCallback):  # type: ignore[misc]
    """Bring the record up to date at each checkpoint, which gets a copy."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record how many steps there will be."""
        self._update_record(args, state)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record how far the run is, also in the checkpoint."""
        self._update_record(args, state, Path(args.output_dir) / f"checkpoint-{state.global_step}")

    def _update_record(self, args: Any, state: Any, checkpoint: Path | None = None) -> None:
        if not args.should_save:
            return
        record = read_run(Path(args.output_dir))
        if record is None:
            return
        record = _with_progress(record, state)
        write_run(Path(args.output_dir), record)
        if checkpoint is not None and checkpoint.is_dir():
            write_run(checkpoint, record)


def _with_progress(record: RunRecord, state: TrainerState) -> RunRecord:
    return replace(
        record,
        steps_asked=state.max_steps,
        steps=state.global_step,
        figures=asdict(read_progress(state)),
    )


def _new_record(
    trainer: Trainer, script: Any, model: Any, settings: Mapping[str, Any]
) -> RunRecord:
    rewards = [each for each in find_metrics(trainer) if hasattr(each, "signature")]
    signatures = dict.fromkeys(reward.signature for reward in rewards)
    evaluated: Any = trainer.eval_dataset
    if isinstance(evaluated, dict):  # the others are controls
        evaluated = next(iter(evaluated.values()), None)
    held_out = None
    if evaluated is not None:
        held_out = _describe_data(script, script.dataset_test_split, evaluated)
    start = read_run(Path(str(model.model_name_or_path)))
    return RunRecord(
        recipe=Path(sys.argv[0]).name,
        state="running",
        reason=None,
        model=str(model.model_name_or_path),
        model_weights=find_identity(str(model.model_name_or_path), model.model_revision),
        data=_describe_data(script, script.dataset_train_split, trainer.train_dataset),
        prompt=getattr(script, "prompt_text", None),
        metric=read_metric_settings(script) if hasattr(script, "metric") else None,
        reward="; ".join(signatures) or None,
        settings=settings,
        versions={name: version for name in LIBRARIES if (version := installed_version(name))},
        held_out=held_out,
        unchecked=not checks_judge(script) or bool(start and start.unchecked),
    )


def _describe_data(script: Any, split: str, dataset: Any) -> dict[str, Any]:
    return {
        "name": script.dataset_name,
        "split": split,
        "rows": len(dataset) if hasattr(dataset, "__len__") else None,
        "fingerprint": data_fingerprint(dataset),
    }


def _nothing_held_out(record: RunRecord) -> str | None:
    held_out = record.held_out or {}
    known = held_out.get("fingerprint")
    if known is not None and known == record.data["fingerprint"]:
        return (
            f"{held_out['name']}: the split {held_out['split']!r} has the rows of "
            f"{record.data['split']!r}, so nothing is held out: give a dataset with two splits, or "
            "set eval_strategy: no"
        )
    return None


def _continue_record(record: RunRecord, args: Any) -> tuple[RunRecord, str | None]:
    """Return the record of a run that may resume, from what it first began; and what forbids it."""
    checkpoint = last_checkpoint(args)
    if checkpoint is None:
        return record, None
    earlier = read_run(Path(checkpoint))
    if earlier is None:
        return record, None
    problem = None
    learned = earlier.model_weights
    if learned not in (None, UNKNOWN_IDENTITY, record.model_weights):
        # A folder's weights have a fingerprint; a commit may have changed something else.
        known = Path(record.model).is_dir() and len(learned) != COMMIT_CHARACTERS
        if known and record.settings.get("use_peft"):
            problem = (
                f"{checkpoint} has adapters of {earlier.model}, whose weights were {learned}, and "
                f"{record.model} has {record.model_weights}: restore that model, or choose another "
                "output_dir"
            )
        record = replace(record, model=earlier.model, model_weights=learned)
    record = replace(record, unchecked=record.unchecked or earlier.unchecked)
    before = _values_before(earlier, record)
    problem = problem or _without_effect(checkpoint, before.get("settings", {}))
    names = dict.fromkeys([*before, *before.get("settings", {})])
    names.pop("settings", None)
    since = ""
    if names:
        since = f", with other values than before of {', '.join(names)}"
    print(f"continues {checkpoint}{since}", flush=True)
    history = [*earlier.earlier]
    if before:
        history.append({"until": parse_checkpoint_step(Path(checkpoint)), **before})
    return replace(record, earlier=history), problem


def _without_effect(checkpoint: str, before: Mapping[str, Any]) -> str | None:
    """Describe the changed settings that a resumed optimizer does not take; None if there are none.

    ``before`` has the values that they had.
    """
    values = [f"{name} {before[name] or 'unset'}" for name in OPTIMIZER_SETTINGS if name in before]
    if not values:
        return None
    return (
        f"{checkpoint} resumes with its own {', '.join(values)}, and another value would have no "
        "effect: leave it as it was, or start a new run from these weights (model_name_or_path: "
        f"{checkpoint}, without resume_from_checkpoint, and another output_dir)"
    )


def _values_before(earlier: RunRecord, now: RunRecord) -> dict[str, Any]:
    """Return the values of a checkpoint's record that are others now, and the settings."""
    values: dict[str, Any] = {}
    for name in ("data", "held_out", "prompt", "metric", "reward", "versions"):
        value = json.loads(json.dumps(getattr(now, name), default=str))
        if getattr(earlier, name) != value:
            values[name] = getattr(earlier, name)
    if names := find_differing_settings(earlier.settings, now.settings):
        values["settings"] = {name: earlier.settings.get(name) for name in names}
    return values


def data_fingerprint(dataset: Any) -> str | None:
    """Truncated SHA-256 of a dataset's rows, wherever its files are; None of other data.

    Of an image the size and samples of its bytes count: all of a large set would take minutes.
    """
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "__len__"):
        return None
    digest = hashlib.sha256()
    for batch in dataset.with_format("arrow").iter(100):  # images as they are stored
        for row in batch.to_pylist():
            digest.update(repr(_content_to_hash(row)).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:FINGERPRINT_CHARACTERS]


def _content_to_hash(value: Any) -> Any:
    if isinstance(value, Mapping) and value.keys() == {"bytes", "path"}:
        content, path = value["bytes"], value["path"]
        if content is not None:
            return len(content), list(read_samples(BytesIO(content), 0, len(content)))
        if path is None or not Path(path).is_file():
            return path
        size = Path(path).stat().st_size
        with Path(path).open("rb") as file:
            return size, list(read_samples(file, 0, size))
    if isinstance(value, Mapping):
        return sorted((name, _content_to_hash(each)) for name, each in value.items())
    if isinstance(value, list):
        return list(map(_content_to_hash, value))
    return value


def end_record(
    trainer: Trainer,
    *,
    reason: str | None = None,
    weights: str | None = None,
    checkpoint: str | None = None,
) -> None:
    """Add how far the run came and what it saved; with a ``reason`` it has stopped early."""
    output, state = Path(trainer.args.output_dir), trainer.state
    if not trainer.args.should_save:
        return
    record = read_run(output)
    if record is None:
        return
    stopped = reason is not None
    if not stopped and state.global_step < state.max_steps:
        reason = "a callback ended the training"
    record = replace(
        _with_progress(record, state),
        state="stopped" if stopped else "finished",
        reason=reason,
        weights=weights or record.weights,
        checkpoint=checkpoint or record.checkpoint,
    )
    write_run(output, record)
