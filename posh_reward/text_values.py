"""Values of tables, datasets and calls -> texts: one reading for all that takes them.

A text may come in a list of one, several texts as a list, an array, or the text of a list, as data
frames write it to CSV. What is none of these is refused: the keys of a mapping are no description.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Set
from reprlib import repr as short

from posh_reward.types import Failure, is_missing

MAX_LIST_CHARACTERS = 1_000_000
"""Longest text that is tried as a list: 50 times the longest text that is parsed."""
OPENING = re.compile(r"\s*[\[{]")
LITERAL = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(\s+(?=['"]))?|\bnan\b""", re.DOTALL)
"""A text in Python's notation, with the blank before another one; or a missing value."""
SHOWN_KEYS = 3
MISSING = Failure("text", "is missing")


def read_texts(value: object) -> tuple[str, ...] | Failure:
    """Read the texts in a value, at least one.

    Lists are lists, tuples, arrays (NumPy, pandas, Arrow), and their text in JSON or Python:
    ``["a", "b"]``, ``['a', 'b']``, ``['a' 'b']``. An item may be a part of a message or a cell of
    Label Studio, ``{"text": "a"}``. A list of one stands for its item. None, NaN and blank items
    are left out; a list of blank ones is one blank text.

    The detail of a failure continues a sentence that begins with "the reference".
    """
    if type(value) is str and OPENING.match(value) is None:  # almost every value
        return (value,)
    try:
        return _read(value)
    except RecursionError:
        return Failure("text", "is nested too deeply")


def read_text(value: object) -> str | Failure:
    """Read the only text in a value, as ``read_texts``."""
    texts = read_texts(value)
    if isinstance(texts, Failure):
        return texts
    if len(texts) > 1:
        return Failure(
            "text", f"is a list of {len(texts)} texts, where one is meant: pass one, or join them"
        )
    return texts[0]


def has_text(value: object) -> bool:
    """Return True if a value holds a text that is not blank."""
    texts = read_texts(value)
    return not isinstance(texts, Failure) and any(text.strip() for text in texts)


def _read(value: object) -> tuple[str, ...] | Failure:
    value = plain_value(value)
    if is_missing(value):
        return MISSING
    if isinstance(value, str):
        written = written_list(value)
        return (str(value),) if written is None else _read(written)
    if isinstance(value, Mapping):
        return _read(value["text"]) if "text" in value else _mapping(value)
    if not isinstance(value, list | tuple):
        return Failure("text", f"is not a text but a value of type {type(value).__name__}")
    items = [item for item in map(plain_value, value) if not _says_nothing(item)]
    if len(items) == 1:
        return _read(items[0])
    texts: list[str] = []
    for place, item in enumerate(items, start=1):
        text = item if isinstance(item, str) else _item(item)
        if isinstance(text, Failure):
            return Failure("text", f"has {short(item)} as item {place}, which {text.detail}")
        texts.append(text)
    said = [text for text in texts if text.strip()]
    return tuple(said or texts[:1]) or MISSING


def _item(item: object) -> str | Failure:
    """Read an item of several: a text, or what has one text in it."""
    texts = _read(item)
    if isinstance(texts, Failure) or len(texts) == 1:
        return texts if isinstance(texts, Failure) else texts[0]
    return Failure("text", f"is a list of {len(texts)} texts: pass one list of texts")


def plain_value(value: object) -> object:
    """Turn an array or a scalar of NumPy, pandas or Arrow into a value of Python."""
    if isinstance(value, str | list | tuple | Mapping) or value is None:
        return value
    for method in ("tolist", "as_py"):
        if callable(convert := getattr(value, method, None)):
            return convert()
    return value


def _says_nothing(item: object) -> bool:
    """Return True for a missing item, and for a part of a message other than text, an image."""
    return is_missing(item) or (isinstance(item, Mapping) and item.get("type", "text") != "text")


def _mapping(value: Mapping[object, object]) -> Failure:
    keys = ", ".join(short(key) for key in list(value)[:SHOWN_KEYS])
    more = ", ..." if len(value) > SHOWN_KEYS else ""
    return Failure("text", f"is not a text but a mapping with the keys {keys}{more}: pass its text")


def written_list(text: str) -> list[object] | Mapping[str, object] | None:
    r"""Read a text that is the notation of a list of texts or of a mapping; None for other texts.

    ``"['a', \"b's\"]"`` is a list of two, as is NumPy's ``"['a' 'b']"``; ``"[1] A dog."`` and
    ``"[3]"`` are no lists of texts.
    """
    if OPENING.match(text) is None or len(text) > MAX_LIST_CHARACTERS:
        return None
    text = text.strip()
    if not text.endswith("]" if text[0] == "[" else "}"):
        return None
    for read in (json.loads, _literal):
        try:
            value = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict):
            return value or None
        return value if isinstance(value, list) and value and _holds_texts(value) else None
    return None


def _literal(text: str) -> object:
    return ast.literal_eval(LITERAL.sub(_with_comma, text))


def _with_comma(literal: re.Match[str]) -> str:
    # NumPy writes no commas between texts, and Python would make one text of two without them.
    if literal[1] is None:
        return "None"
    return f"{literal[1]}," if literal[2] else literal[1]


def _holds_texts(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_holds_texts, value))
    if isinstance(value, dict):
        return "text" in value and _holds_texts(value["text"])
    return isinstance(value, str) or is_missing(value)


def as_column(values: object) -> list[object] | str:
    """Turn an argument with one value for each text into a list, or say why it is none.

    The reason continues a sentence that begins with the argument's name.
    """
    if isinstance(values, str | bytes):
        return f"is one string: pass a list, [{values[:40]!r}]"
    if isinstance(values, Mapping) or hasattr(values, "columns"):
        return (
            "is a mapping or a table, whose order may not be that of the other arguments: pass a "
            "list, such as [texts[key] for key in keys]"
        )
    if isinstance(values, Set):
        return "is a set, which has no order: pass a list"
    try:
        return list(values)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        return f"is {short(values)}: pass a list"
