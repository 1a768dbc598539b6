"""Write ``run.json``, the record of a run, as the run goes."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from io import BytesIO
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, BinaryIO

from posh_reward.errors import PoshError, installed
from posh_reward.models.hub import COMMIT, FINGERPRINT, SAMPLE_BYTES, UNKNOWN, identity
from posh_reward.reward.objectives import metrics_of
from posh_reward.run_record import RunRecord, read_run, write_run
from posh_reward.training.learning import read_progress
from posh_reward.training.resume import last_checkpoint, refuse_together
from posh_reward.training.run_settings import metric_of

if TYPE_CHECKING:
    from transformers import Trainer

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


@contextmanager
def recorded(trainer: Trainer, script: Any, model: Any) -> Iterator[None]:
    """Keep ``run.json`` in a run's folder while it trains and saves its model; on every rank.

    Args:
        trainer: with its dataset; its rewards, if it has any, have signatures.
        script: the recipe's own settings.
        model: TRL's ``ModelConfig``.

    Raises:
        ConfigError: adapters would be trained further on another model than they began on.
    """
    problem = None
    if trainer.args.should_save:
        record, problem = _continued(_new_record(trainer, script, model), trainer.args)
        write_run(Path(trainer.args.output_dir), record)
    try:
        refuse_together(problem)
        yield
    except BaseException as error:  # also Ctrl-C
        kind = "" if isinstance(error, PoshError) else f"{type(error).__name__}: "
        end_record(trainer, reason=f"{kind}{error}")
        raise


def _new_record(trainer: Trainer, script: Any, model: Any) -> RunRecord:
    rewards = [each for each in metrics_of(trainer) if hasattr(each, "signature")]
    signatures = dict.fromkeys(reward.signature for reward in rewards)
    dataset: Any = trainer.train_dataset
    return RunRecord(
        recipe=Path(sys.argv[0]).name,
        state="running",
        reason=None,
        model=str(model.model_name_or_path),
        model_weights=identity(str(model.model_name_or_path), model.model_revision),
        data={
            "name": script.dataset_name,
            "split": script.dataset_train_split,
            "rows": len(dataset) if hasattr(dataset, "__len__") else None,
            "fingerprint": data_fingerprint(dataset),
        },
        prompt=getattr(script, "prompt_text", None),
        metric=metric_of(script) if hasattr(script, "metric") else None,
        reward="; ".join(signatures) or None,
        settings={**changed(script), **changed(model), **changed(trainer.args)},
        versions={name: version for name in LIBRARIES if (version := installed(name))},
    )


def _continued(record: RunRecord, args: Any) -> tuple[RunRecord, str | None]:
    """Return the record of a run that may resume, from what it first began; and what forbids it."""
    checkpoint = last_checkpoint(args)
    earlier = None if checkpoint is None else read_run(Path(checkpoint))
    if earlier is None or earlier.model_weights in (None, UNKNOWN, record.model_weights):
        return record, None
    problem = None
    # A folder's weights have a fingerprint; a commit on the hub may have changed something else.
    known = Path(record.model).is_dir() and len(earlier.model_weights) != COMMIT
    if known and record.settings.get("use_peft"):
        problem = (
            f"{checkpoint} has adapters of {earlier.model}, whose weights were "
            f"{earlier.model_weights}, and {record.model} has {record.model_weights}: restore that "
            "model, or choose another output_dir"
        )
    return replace(record, model=earlier.model, model_weights=earlier.model_weights), problem


def data_fingerprint(dataset: Any) -> str | None:
    """Truncated SHA-256 of a dataset's rows, wherever its files are; None of other data.

    Of an image the size and samples of its bytes count: all of a large set would take minutes.
    """
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "__len__"):
        return None
    digest = hashlib.sha256()
    for batch in dataset.with_format("arrow").iter(100):  # images as they are stored
        for row in batch.to_pylist():
            digest.update(repr(_essence(row)).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:FINGERPRINT]


def _essence(value: Any) -> Any:
    if isinstance(value, Mapping) and value.keys() == {"bytes", "path"}:
        content, path = value["bytes"], value["path"]
        if content is not None:
            return _samples(BytesIO(content), len(content))
        if path is None or not Path(path).is_file():
            return path
        with Path(path).open("rb") as file:
            return _samples(file, Path(path).stat().st_size)
    if isinstance(value, Mapping):
        return sorted((name, _essence(each)) for name, each in value.items())
    return list(map(_essence, value)) if isinstance(value, list) else value


def _samples(file: BinaryIO, size: int) -> tuple[int, list[bytes]]:
    """Return the size, and bytes of the beginning, the middle and the end."""
    samples = []
    for part in range(3):
        file.seek(max(size - SAMPLE_BYTES, 0) * part // 2)
        samples.append(file.read(SAMPLE_BYTES))
    return size, samples


def end_record(
    trainer: Trainer,
    *,
    reason: str | None = None,
    weights: str | None = None,
    checkpoint: str | None = None,
) -> None:
    """Add how far the run came and what it saved; with a ``reason`` it has stopped early."""
    output, state = Path(trainer.args.output_dir), trainer.state
    record = read_run(output) if trainer.args.should_save else None
    if record is None:
        return
    stopped = reason is not None
    if not stopped and state.global_step < state.max_steps:
        reason = "a callback ended the training"
    record = replace(
        record,
        state="stopped" if stopped else "finished",
        reason=reason,
        steps_asked=state.max_steps,
        steps=state.global_step,
        figures=asdict(read_progress(state)),
        weights=weights or record.weights,
        checkpoint=checkpoint or record.checkpoint,
    )
    write_run(output, record)


def changed(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass whose values are not the defaults, but no keys."""
    plain = (str, int, float, list, dict, NoneType)
    return {
        each.name: value
        for each in fields(settings)
        if isinstance(value := getattr(settings, each.name), plain)
        and value != each.default
        and not each.name.endswith("_token")
    }
