"""Texts from anywhere -> texts that a terminal can be given."""

from __future__ import annotations

import re

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that change the direction of the text after them."""


def safe(text: str) -> str:
    r"""The text with control characters spelt out (``\x1b``): it cannot steer the terminal."""
    return UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


def on_one_line(name: str) -> str:
    """A name, or a message, that can neither steer the terminal nor forge a line of its own."""
    return " ".join(safe(name).split())
