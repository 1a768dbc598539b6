"""Texts from the command line, and to the terminal."""

from __future__ import annotations

import sys
from pathlib import Path

from posh_reward.errors import InputError
from posh_reward.study.rows.tables import STANDARD, standard_input, standard_output


def text(given: str) -> str:
    """A text from the command line: itself, or the contents of ``@file``, or of ``@-``.

    Raises:
        InputError: the file cannot be read as UTF-8.
    """
    if not given.startswith("@") or given.startswith(""):
        return given.removeprefix("@")
    try:
        if given[1:] == STANDARD:
            return standard_input().read().decode("utf-8")
        return Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read {given[1:]!r} ({error}); a text that begins with @ is written "
        ) from None


def write_text(shown: str) -> None:
    """Writes lines to standard output; characters that it cannot express become ``?``.

    Raises:
        OSError: it is closed, or cannot be written.
    """
    output = standard_output()
    output.write(shown.encode(sys.stdout.encoding or "utf-8", "replace") + b"\n")
