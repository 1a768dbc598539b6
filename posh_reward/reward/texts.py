"""Completions -> texts; tests for worthless texts; columns.

This belongs to the reward, not to the metric. The metric scores texts as published, whoever
wrote them; a policy is paid for its texts, and so discovers what scores without describing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from posh_reward.errors import InputError
from posh_reward.lexicon.wordnet import KNOWN_SHARE, is_english, known_share, words

THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
END_OF_THOUGHTS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
INVISIBLE = re.compile("[\u115f\u1160\u3164\uffa0]")
"""Letters by category, but invisible: the fillers of Hangul."""
END = re.compile(r"(?:<\|[^|<>]*\|>|</s>|<eos>|<end_of_turn>|\s)+\Z")
"""Special tokens at the end of a generation."""
GRAM = 4  # words in the sequences whose repetition is counted


def completion_text(completion: object) -> Any:
    """Return the text of a completion: a string, or the assistant's turns of a conversation.

    Turns without text, such as tool calls, are skipped; None if no turn has any. Any other value is
    returned as it is, so that the metric fails with a reason.
    """
    if not isinstance(completion, list | tuple):
        return completion
    turns = [turn for turn in completion if isinstance(turn, dict)]
    contents = [turn.get("content") for turn in turns if turn.get("role") == "assistant"]
    texts = [text for content in contents if (text := content_text(content)) is not None]
    if not texts:
        return None if contents else completion
    return "\n".join(texts)


def content_text(content: object) -> str | None:
    """Return the text of a message: a string, or a list of typed parts; None without any."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return None
    parts = [p.get("text") for p in content if isinstance(p, dict) and p.get("type") == "text"]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if texts else None


def completion_of(query: object, prompt: object) -> object:
    """Cut the completion from an OpenRLHF query, which begins with the prompt as the model saw it.

    There an image is many tokens, not one, and a long prompt lacks its beginning; but the last
    line, such as ``<|im_start|>assistant``, is the same. So the cut is where that line has occurred
    as often as in the prompt; None if it never does.
    """
    if not isinstance(query, str) or not isinstance(prompt, str):
        return None
    line = prompt.strip().rpartition("\n")[2]
    ends = [each.end() for each in re.finditer(re.escape(line), query)] if line else [0]
    if not ends:
        return None
    count = prompt.count(line) if line else 1
    return END.sub("", query[ends[min(count, len(ends)) - 1] :]).strip()


def without_thoughts(text: str) -> str:
    """Cut out ``<think>`` blocks, even one that is not closed or not opened.

    Some models' templates open the block in the prompt, so that only its end is generated.
    """
    return END_OF_THOUGHTS.split(THOUGHTS.sub("", text))[-1]


def says_nothing(text: str, reference: str) -> bool:
    """Return True if a text is blank or gibberish.

    Gibberish is a lack of English words, so it is found only if the reference is English.
    """
    if is_blank(text):
        return True
    reference_words = frozenset(words(reference))
    gibberish = known_share(INVISIBLE.sub("", text), reference_words) < KNOWN_SHARE
    return gibberish and is_english(reference)


def is_blank(text: str) -> bool:
    """Return True if a text renders as blank or has no letter or digit."""
    return not any(character.isalnum() for character in INVISIBLE.sub("", text))


def repeated_share(text: str) -> float:
    """Share of four-word sequences that occurred earlier in the text; 0 if it is shorter."""
    parts = words(text)
    grams = [tuple(parts[i : i + GRAM]) for i in range(len(parts) - GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def column_of(columns: Mapping[str, Any], name: str, expected: int, setting: str) -> list[Any]:
    """Return a column that a reward needs.

    Raises:
        InputError: it is missing or has a different length.
    """
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


def images_of(
    columns: Mapping[str, Any], expected: int, name: str | None = None
) -> list[Any] | None:
    """Return one value per completion for ``prompt_images.image_of``; None without a column.

    TRL reads a column ``images``, with a list in each row, or else ``image``, with one image
    (``grpo_trainer.py:2400``), and passes either on as it is; ``name`` is another column. A list of
    one image becomes that image; a longer one stays, and ``image_of`` refuses it.

    Raises:
        InputError: the column ``name`` is missing, or the column has a different length.
    """
    column = name or next((each for each in ("images", "image") if each in columns), None)
    if column is None:
        return None
    return [_only(each) for each in column_of(columns, column, expected, "image_column")]


def _only(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) < 2:
        return value[0] if value else None
    return value
