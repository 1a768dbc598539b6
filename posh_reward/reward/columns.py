"""What TRL passes to a reward function -> texts, and the columns that they are scored against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posh_reward.errors import InputError
from posh_reward.reward.texts import unjoined, without_thoughts


def column_of(columns: Mapping[str, Any], name: str, expected: int, setting: str) -> list[Any]:
    """A column that a reward cannot do without.

    Args:
        columns: all that reached the reward.
        name: of the column.
        expected: how many completions there are.
        setting: the reward's argument that names the column, for messages.

    Raises:
        InputError: it is missing or of another length.
    """
    if name not in columns:
        there = ", ".join(sorted(columns)) or "none"
        raise InputError(
            f"no column {name!r} reached the reward (columns: {there}): name it with {setting}, "
            "and keep it in the dataset (remove_unused_columns=False)"
        )
    values = list(columns[name])
    if len(values) != expected:
        raise InputError(
            f"{expected} completions but {len(values)} values in column {name!r}: TRL passes one "
            "for each completion"
        )
    return values


def images_of(
    columns: Mapping[str, Any], expected: int, name: str | None = None
) -> list[Any] | None:
    """The image of each completion; None if the dataset has none.

    TRL takes images from a column ``images``, with a list in each row, or else from ``image``,
    with one (``grpo_trainer.py:2400``), and passes either on as it is.

    Args:
        columns: all that reached the reward.
        expected: how many completions there are.
        name: another column, which then has to be there.

    Returns:
        One value a completion, for ``prompt_images.image_of`` to read. A list of one image is
        that image; one of several is left as it is, which ``image_of`` refuses.

    Raises:
        InputError: the named column is missing, or the column is of another length.
    """
    found = name or next((each for each in ("images", "image") if each in columns), None)
    if found is None:
        return None
    return [_only(each) for each in column_of(columns, found, expected, "image_column")]


def _only(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) < 2:
        return value[0] if value else None
    return value


def answer_in(completion: object) -> Any:
    """The text in a completion without its thoughts, ``unjoined``; what is not a text as it is."""
    text = completion_text(completion)
    return without_thoughts(unjoined(text)) if isinstance(text, str) else text


def completion_text(completion: object) -> Any:
    """The text in a completion: a string, or the assistant's turns of a conversation.

    Turns without text, such as calls of tools, are skipped.

    Returns:
        The text; None if the assistant wrote none; anything that is not a conversation as it is,
        for the metric to fail with its reason.
    """
    if not isinstance(completion, list | tuple):
        return completion
    turns = [turn for turn in completion if isinstance(turn, dict)]
    written = [turn.get("content") for turn in turns if turn.get("role") == "assistant"]
    texts = [text for content in written if (text := _content_text(content)) is not None]
    if not texts:
        return None if written else completion
    return "\n".join(texts)


def _content_text(content: object) -> str | None:
    """Text of a message's content, which is a string or a list of typed parts; None without."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return None
    parts = [p.get("text") for p in content if isinstance(p, dict) and p.get("type") == "text"]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if texts else None
