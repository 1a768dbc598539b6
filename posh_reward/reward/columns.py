"""Columns of a dataset, as a trainer passes them to a reward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posh_reward.errors import InputError


def get_column(columns: Mapping[str, Any], name: str, expected: int, setting: str) -> list[Any]:
    """Return a column that a reward needs."""
    if name not in columns:
        names = ", ".join(sorted(columns)) or "none"
        raise InputError(
            f"no column {name!r} reached the reward (columns: {names}): name it with {setting}, "
            "and keep it in the dataset (remove_unused_columns=False)"
        )
    values = list(columns[name])
    if len(values) != expected:
        raise InputError(
            f"{expected} completions but {len(values)} values in column {name!r}: pass one value "
            "per completion"
        )
    return values


def get_image_column(columns: Mapping[str, Any], expected: int, name: str | None) -> list[Any]:
    """Return one value per completion for ``prompt_images.load_prompt_image``.

    TRL reads a column ``images``, with a list in each row, or else ``image``, with one image
    (``grpo_trainer.py:2400``), and passes either on as it is; ``name`` is another column. A list of
    one image becomes that image; a longer one stays, and ``load_prompt_image`` refuses it.
    """
    column = name or ("images" if "images" in columns else "image")
    if not name and column not in columns:
        raise InputError(
            f"no column of images reached the reward (columns: {', '.join(sorted(columns))}): call "
            "it image or images, or name it with image_column, and keep it in the dataset "
            "(remove_unused_columns=False)"
        )
    return [_unwrap_single(each) for each in get_column(columns, column, expected, "image_column")]


def _unwrap_single(value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) > 1:
        return value
    return value[0] if value else None
