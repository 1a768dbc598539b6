"""Names of inputs and outputs -> tables to read, and sinks to write rows to."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from posh_reward.errors import InputError
from posh_reward.study.rows.formats import STANDARD, Format
from posh_reward.study.rows.journal import Journal, Row, Stream
from posh_reward.study.rows.reading import read_table


def shown(name: str) -> str:
    """What messages call an input or an output."""
    return "standard input" if name == STANDARD else repr(name)


@contextmanager
def open_table(name: str, format: Format) -> Iterator[Iterator[Row]]:
    """The rows of a file, or of standard input, while the block lasts.

    Raises:
        InputError: there is no such file, or it is not of that format.
    """
    if name == STANDARD:
        yield read_table(standard_input(), shown(name), format)
        return
    path = Path(name)
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"cannot read {name!r}: {error.strerror}") from None
    with file:
        yield read_table(file, shown(name), format)


def standard_input() -> BinaryIO:
    """Standard input in bytes.

    Raises:
        InputError: it is closed.
    """
    if sys.stdin is None:
        raise InputError("standard input is closed: name a file")
    return sys.stdin.buffer


def standard_output() -> BinaryIO:
    """Standard output in bytes.

    Raises:
        OSError: it is closed.
    """
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed")
    return sys.stdout.buffer


def check_apart(source: str, output: str) -> None:
    """Raises ``InputError`` if a command would write over what it reads."""
    if STANDARD not in (source, output) and Path(source).resolve() == Path(output).resolve():
        raise InputError(f"{output!r} is the input: write elsewhere")


@contextmanager
def sink(name: str, format: Format, overwrite: bool) -> Iterator[Journal | Stream]:
    """Where scored rows are put, one batch after the other, while the block lasts.

    That is the output itself for JSON lines, and a journal next to it for the other formats.

    Raises:
        InputError: the output is already there and whole, or another program wrote it.
        OSError: it cannot be written.
    """
    path = Path(name)
    if name == STANDARD:
        yield Stream(standard_output())
    elif path.exists() and not path.is_file():
        if not format.appendable:
            raise InputError(f"{name!r} is not a plain file: only JSON lines can be sent there")
        with path.open("wb") as file:
            yield Stream(file)
    else:
        journal = Journal(path if format.appendable else _journal_path(path, overwrite))
        try:
            if overwrite:
                journal.clear()
            yield journal
        finally:
            journal.close()


def _journal_path(path: Path, overwrite: bool) -> Path:
    journal = path.with_name(path.name + ".journal.jsonl")
    if path.exists() and not journal.exists() and not overwrite:
        raise InputError(f"{str(path)!r} is already there: write elsewhere, or pass --overwrite")
    return journal
