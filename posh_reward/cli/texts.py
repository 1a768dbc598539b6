"""Texts from the command line."""

from __future__ import annotations

import sys
from pathlib import Path

from posh_reward.errors import InputError
from posh_reward.study.rows.files import STANDARD


def text(given: str) -> str:
    """A text from the command line: itself, or the contents of ``@file``, or of ``@-``.

    Raises:
        InputError: the file cannot be read as UTF-8.
    """
    if not given.startswith("@") or given.startswith("@@"):
        return given.removeprefix("@")
    try:
        if given[1:] == STANDARD:
            return sys.stdin.buffer.read().decode("utf-8")
        return Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read {given[1:]!r} ({error}); a text that begins with @ is written @@"
        ) from None
