"""Values of tables, datasets and calls -> texts: one reading for all that takes them.

A text may come in a list of one, several texts as a list, an array, or the text of a list, as data
frames write it to CSV. What is none of these is refused: the keys of a mapping are no description.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Set
from itertools import filterfalse
from reprlib import repr as short
from typing import Any

from posh_reward.types import Failure, is_missing

MAX_LIST_CHARACTERS = 200_000
"""Longest text that is tried as a list: ten times the longest text that is parsed."""
LIST_OPENING = re.compile(r"\s*(?:[\[{(]|array\()")
CLOSING_BRACKETS = {"[": "]", "{": "}", "(": ")", "a": ")"}
QUOTED_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
LIST_VALUE = re.compile(
    rf"np\.str_\(\s*(?P<numpy>{QUOTED_TEXT})\s*\)|(?P<text>{QUOTED_TEXT})|(?P<open>['\"])"
    r"|<NA>|\b(?:np\.nan|nan|NaN|None)\b",
    re.DOTALL,
)
"""A text, a quote that nothing closes, or a missing value, in the notation of Python and NumPy."""
NUMPY_DTYPE = re.compile(r",\s{0,80}dtype=\w+\)\Z")
LIKE_A_LIST = re.compile(r"\[[\s\[]*(?:array\(\[?|[({b])?\s*['\"].*\]", re.DOTALL)
TEXT_KEYS = ("text", "caption")
"""Keys of the text in a cell of Label Studio or a part of a message, and in a caption of COCO."""
TEXT_TYPES = ("text", "output_text")  # of parts of a message
MAX_SHOWN_KEYS = 3
MISSING_TEXT = Failure("text", "is missing")


def read_texts(value: object) -> tuple[str, ...] | Failure:
    """Read the texts in a value, at least one.

    Lists are lists, tuples, arrays (NumPy, pandas, Arrow), and their text in JSON, Python or NumPy:
    ``["a", "b"]``, ``['a', 'b']``, ``['a' 'b']``. An item may be a mapping with a text:
    ``{"text": "a"}``. A list of one stands for its item. None, NaN and blank items are left out; a
    list of blank ones is one blank text.

    The detail of a failure continues a sentence that begins with "the reference"; a failure stays.
    """
    if type(value) is str and LIST_OPENING.match(value) is None:  # almost every value
        return (value,)
    if isinstance(value, Failure):
        return value
    try:
        return _read_value(value)
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


def _read_value(value: object) -> tuple[str, ...] | Failure:
    value = plain_value(value)
    if is_missing(value):
        return MISSING_TEXT
    if isinstance(value, str):
        written = read_notation(value)
        if written is None:
            return (str(value),)
        return read_texts(written)
    if isinstance(value, Mapping):
        return _read_mapping(value)
    if not isinstance(value, list | tuple):
        return Failure("text", f"is not a text but a value of type {type(value).__name__}")
    items = list(filterfalse(_says_nothing, map(plain_value, value)))
    if len(items) == 1:
        return _read_value(items[0])
    texts: list[str] = []
    for place, item in enumerate(items, start=1):
        text = _read_item(item)
        if isinstance(text, Failure):
            return Failure("text", f"has {short(item)} as item {place}, which {text.detail}")
        texts.append(text)
    not_blank = [text for text in texts if text.strip()]
    return tuple(not_blank or texts[:1]) or MISSING_TEXT


def _read_item(item: object) -> str | Failure:
    """Read an item of several: a text, or what has one text in it."""
    if isinstance(item, str):
        return item
    texts = _read_value(item)
    if isinstance(texts, Failure):
        return texts
    if len(texts) > 1:
        return Failure("text", f"is a list of {len(texts)} texts: pass one list of texts")
    return texts[0]


def plain_value(value: object) -> object:
    """Turn an array or a scalar of NumPy, pandas or Arrow into a value of Python."""
    if isinstance(value, str | list | tuple | Mapping) or value is None:
        return value
    for method in ("tolist", "as_py"):
        if callable(convert := getattr(value, method, None)):
            return convert()
    return value


def _says_nothing(item: object) -> bool:
    """Return True for a missing item, and for a part of a message without text: an image."""
    if is_missing(item):
        return True
    if not isinstance(item, Mapping) or "type" not in item:
        return False
    return not any(key in item for key in TEXT_KEYS)


def _find_text_key(value: Mapping[Any, Any]) -> str | None:
    """Return the key of a mapping's only text; None if it has none, or words beside it."""
    keys = [key for key in TEXT_KEYS if key in value]
    if len(keys) != 1:
        return None
    for key, other in value.items():
        if key != keys[0] and isinstance(other, str) and len(other.split()) > 1:
            return None
    return keys[0]


def _read_mapping(value: Mapping[Any, Any]) -> tuple[str, ...] | Failure:
    text_key = _find_text_key(value)
    if text_key is not None:
        return _read_value(value[text_key])
    keys = ", ".join(short(key) for key in list(value)[:MAX_SHOWN_KEYS])
    more = ", ..." if len(value) > MAX_SHOWN_KEYS else ""
    return Failure("text", f"is not a text but a mapping with the keys {keys}{more}: pass its text")


def read_notation(text: str) -> list[object] | Mapping[str, object] | Failure | None:
    r"""Read a text that is the notation of a list of texts or of a mapping; None for other texts.

    ``"['a', \"b's\"]"`` is a list of two, as is NumPy's ``"['a' 'b']"``; ``"[1] A dog."`` and
    ``"[3]"`` are no lists of texts. A list that was cut short when it was written is a failure.
    """
    if LIST_OPENING.match(text) is None or len(text) > MAX_LIST_CHARACTERS:
        return None
    text = text.strip()
    if not text.endswith(CLOSING_BRACKETS[text[0]]):
        return None
    for read in (_read_json, _read_python):
        try:
            value = read(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict):
            return value or None
        if not isinstance(value, list | tuple) or not value or not _holds_texts(value):
            break
        if ... in value:
            return Failure("text", "is a list that was cut short (...) when it was written")
        return list(value)
    if LIKE_A_LIST.fullmatch(text):
        return Failure("text", "begins and ends like a list, but is not one of texts")
    return None


def _read_json(text: str) -> object:
    return json.loads(text, strict=False)  # with line breaks within texts


def _read_python(text: str) -> object:
    """Read the notation of Python or NumPy; a set is read as a list, in the order written."""
    if text.startswith("array("):
        text = NUMPY_DTYPE.sub(")", text)[len("array(") : -1]
    pieces, end = [], 0
    for match in LIST_VALUE.finditer(text):
        if match["open"]:
            raise ValueError("a quote is not closed")
        between = text[end : match.start()]
        # NumPy writes no commas, and Python would make one text of two without them.
        if end and "..." in between:
            between = ", ..., "
        elif end and between.isspace():
            between = ", "
        pieces.append(between)
        pieces.append(match["numpy"] or match["text"] or "None")
        end = match.end()
    whole = "".join([*pieces, text[end:]])
    if whole.startswith("{") and ":" not in LIST_VALUE.sub("", text):
        whole = f"[{whole[1:-1]}]"
    return ast.literal_eval(whole)


def _holds_texts(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_holds_texts, value))
    if isinstance(value, dict):
        return any(key in value and _holds_texts(value[key]) for key in TEXT_KEYS)
    return isinstance(value, str) or value is ... or is_missing(value)


def content_text(content: object) -> str | None:
    """Return the text of a message: a string, or a list of typed parts; None without any."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return None
    texts = []
    for part in content:
        if isinstance(part, Mapping) and part.get("type") in TEXT_TYPES:
            part = part.get("text")
        if isinstance(part, str):
            texts.append(part)
    return "".join(texts) if texts else None


PLACEHOLDER = re.compile(
    r"none|null|nil|nan|n/?a|undefined|[\W_]*|error\b.*|failed to obtain answer via api\.?",
    re.IGNORECASE,
)


def is_placeholder(text: str) -> bool:
    """Return True for what programs and people write where there is no text.

    Such as ``None``, ``-``, or VLMEvalKit's ``Failed to obtain answer via API.``
    """
    return bool(text.strip()) and PLACEHOLDER.fullmatch(text.strip()) is not None


ONE_STRING = "is one string: pass a list"


def as_column(values: Any) -> list[Any] | str:
    """Turn an argument with one value for each text into a list, or say why it is none.

    The reason continues a sentence that begins with the argument's name.
    """
    if isinstance(values, str | bytes):
        return f"{ONE_STRING}, [{values[:40]!r}]"
    if isinstance(values, Mapping) or hasattr(values, "columns"):
        return (
            "is a mapping or a table, whose order may not be that of the other arguments: pass a "
            "list, such as [texts[key] for key in keys]"
        )
    if isinstance(values, Set):
        return "is a set, which has no order: pass a list"
    try:
        return list(values)
    except TypeError:
        return f"is {short(values)}: pass a list"
