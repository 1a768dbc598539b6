"""What a server says in its own words, made fit for messages and logs."""

from __future__ import annotations

import html
import re
from urllib.parse import unquote

MAX_WORDS = 300
"""Characters of a server's own words that are repeated."""
LOOKED_AT = 20_000
"""Characters of them that are looked at; the rest is dropped unread."""
STRETCH = 8
"""Characters of a key, in a row, that are enough to keep a server's words to ourselves."""
URI = re.compile(r"data:[\w.+-]+/[^\s\"'<>]*", re.ASCII)
LONG = re.compile(r"[\w+/=\\-]{64,}", re.ASCII)
"""What may be a stretch of base64."""


def clean(said: str, key: str | None) -> str:
    """The start of what a server said, on one line; nothing if it holds part of the key.

    Control characters of any kind (terminal escapes, marks that turn the direction of text)
    become blanks, and images three dots.

    Args:
        said: the server's words, of any length.
        key: the key that was sent; None if there was none.
    """
    said = said[:LOOKED_AT]
    if key is not None and echoes(said, key):
        return ""
    shown = "".join(each if each.isprintable() else " " for each in without_images(said))
    return " ".join(shown.split())[:MAX_WORDS]


def without_images(said: str) -> str:
    """What a server said, with three dots for each image that it repeats."""
    return LONG.sub(lambda found: "..." if is_encoded(found[0]) else found[0], URI.sub("...", said))


def is_encoded(text: str) -> bool:
    """Whether a long text is base64 by its looks: it has small and capital letters, and digits."""
    kinds = (str.islower, str.isupper, str.isdigit)
    return all(any(map(kind, text)) for kind in kinds)


def echoes(text: str, key: str) -> bool:
    """Whether a text has a stretch of the key, even if it is escaped, spaced out or part masked."""
    return _shares(text, key) or _shares(_plain(text), _plain(key))


def _shares(text: str, key: str) -> bool:
    starts = range(max(len(key) - STRETCH, 0) + 1)
    return bool(key) and any(key[start : start + STRETCH] in text for start in starts)


def _plain(text: str) -> str:
    """Letters and digits alone, in lower case, escapes of JSON, HTML and addresses undone."""
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
    text = re.sub(r"\\[nrtbf]|\x1b\[[\d;]*[a-zA-Z]", "", text)  # terminal escapes have letters
    return re.sub(r"[\W_]+", "", html.unescape(unquote(text))).lower()
