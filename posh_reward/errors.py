"""Errors for a caller's mistakes. Each names the value and the remedy.

A judgment that fails is not an error but a ``Verdict`` without probabilities.
"""

from __future__ import annotations

import re


class PoshError(Exception):
    """Base of all errors that this package raises on purpose."""


class InputError(PoshError, ValueError):
    """An argument has a value that cannot be used."""


class MissingDependencyError(PoshError, ImportError):
    """An optional package or model is not installed; the message has the command."""


class JudgeError(PoshError, RuntimeError):
    """A judge cannot work at all (as opposed to one judgment that failed)."""


class BusyError(PoshError, RuntimeError):
    """So much waits already that no more is taken; later it may be."""


class ForkError(PoshError, RuntimeError):
    """A fork, made while another thread was scoring, would wait for ever for its locks."""


class ConfigError(PoshError, ValueError):
    """A configuration file or flag has a value that cannot be used."""


UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that change the direction of the text after them."""


def safe(text: str) -> str:
    r"""The text with control characters spelt out (``\x1b``): it cannot steer the terminal."""
    return UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


LONGEST_LINE = 300
"""Characters of a name, or of a message about one, that a line shows."""


def on_one_line(name: str) -> str:
    """A name, or a message, that can neither steer the terminal nor forge a line of its own."""
    return shortened(" ".join(safe(name).split()), LONGEST_LINE)


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters: without its middle, since remedies are at the end."""
    half = most // 2 - 3
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"
