"""Check a trainer's datasets and rewards before its first step, not row by row while it trains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from posh_reward.datasets.load_dataset import check_columns
from posh_reward.errors import ConfigError
from posh_reward.reward.objectives import SharedCall, check_shared, find_metrics
from posh_reward.settings import shorten_list
from posh_reward.text_values import has_text

if TYPE_CHECKING:
    from transformers import Trainer


def check_datasets(trainer: Trainer) -> None:
    """Check that rewards fail together, and the columns of the training and evaluation data.

    Raises:
        ConfigError: a reward function would still pay where the judge fails, the model would not
            see the images, or a column has rows that no reward can read.
    """
    functions = getattr(trainer, "reward_funcs", ())
    for function in functions:
        if hasattr(function, "objectives") or isinstance(_get_call(function), SharedCall):
            check_shared(trainer, partial(_are_together, function))
    rewards = find_metrics(trainer)
    for where, dataset in _iterate_datasets(trainer):
        columns = getattr(dataset, "features", None)
        if columns is None:
            continue
        if hasattr(getattr(trainer, "processing_class", None), "image_processor"):
            _check_images(where, dataset)
        for reward in rewards:
            if column := vars(reward).get("reference_column"):
                if column in trainer.train_dataset.features and column not in columns:
                    raise ConfigError(
                        f"{where} has no column {column!r}, which the training data has and the "
                        f"reward reads (it has {shorten_list(columns)})"
                    )
                image = getattr(reward, "image_column", None) or "image"
                check_columns(dataset, where, column, image)
                _check_references(where, dataset, column)


def _get_call(function: Any) -> Any:
    return getattr(function, "call", None)


def _are_together(function: Any, other: Any) -> bool:
    """Return True if two reward functions are one, or share one scoring call."""
    return other is function or (_get_call(other) is _get_call(function) is not None)


def _iterate_datasets(trainer: Any) -> Iterator[tuple[str, Any]]:
    yield "the dataset", trainer.train_dataset
    held_out = getattr(trainer, "eval_dataset", None)
    if isinstance(held_out, Mapping):
        for name, dataset in held_out.items():
            yield f"the evaluation dataset {name!r}", dataset
    elif held_out is not None:
        yield "the evaluation dataset", held_out


def _check_images(where: str, dataset: Any) -> None:
    """Refuse data without images for a model that takes them, as a whole or in some rows."""
    column = next((each for each in ("images", "image") if each in dataset.features), None)
    if column is None:
        raise ConfigError(
            f"{where} has no column 'image', so the model would describe images that it does "
            f"not see (it has {shorten_list(dataset.features)}): "
            "dataset.rename_column(..., 'image')"
        )
    if not hasattr(dataset, "data") or not dataset.data.column(column).null_count:
        return  # a stream, or complete; decoding the images would take minutes
    cells = dataset.with_format("arrow")[column]
    without = [row for row, cell in enumerate(cells) if not cell.is_valid]
    if without:
        raise ConfigError(
            f"{where}: rows {shorten_list(without)} have no image in column {column!r}, at which "
            f"the trainer would fail: dataset.filter(lambda row: row[{column!r}] is not None)"
        )


def _check_references(where: str, dataset: Any, column: str) -> None:
    if column not in dataset.features or not hasattr(dataset, "__len__"):
        return  # missing, or a stream
    empty = [at for at, reference in enumerate(dataset[column]) if not has_text(reference)]
    if empty:
        raise ConfigError(
            f"{where}: {len(empty)} of {len(dataset)} rows, such as row {empty[0]}, have no text "
            f"in column {column!r}: dataset.filter(lambda row: row[{column!r}]), or complete them"
        )
