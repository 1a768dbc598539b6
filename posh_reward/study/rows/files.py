"""Names of inputs and outputs -> tables to read, and sinks to write rows to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from posh_reward.errors import InputError
from posh_reward.study.rows.journal import Journal, Row, Stream
from posh_reward.study.rows.tables import format_of, read_table, require

STANDARD = "-"
"""The name of standard input or output."""


@contextmanager
def open_table(name: str, format: str | None) -> Iterator[Iterator[Row]]:
    """The rows of a file, or of standard input, while the block lasts.

    Raises:
        InputError: there is no such file, or it is not what its ending says.
    """
    if name == STANDARD:
        yield read_table(sys.stdin.buffer, "standard input", format or "jsonl")
        return
    path = Path(name)
    kind = format or format_of(path)
    require(kind)
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from None
    with file:
        yield read_table(file, path.name, kind)


def output_format(name: str) -> str:
    """The format of an output, by its ending; JSON lines for standard output.

    Raises:
        InputError: the ending says nothing.
        MissingDependencyError: that format needs a package.
    """
    kind = "jsonl" if name == STANDARD else format_of(Path(name))
    require(kind)
    return kind


def check_apart(source: str, output: str) -> None:
    """Raises ``InputError`` if a command would write over what it reads."""
    if STANDARD not in (source, output) and Path(source).resolve() == Path(output).resolve():
        raise InputError(f"{output} is the input: write elsewhere")


@contextmanager
def sink(name: str, kind: str, overwrite: bool) -> Iterator[Journal | Stream]:
    """Where scored rows are put, one batch after the other, while the block lasts.

    That is the output itself for JSON lines, and a journal beside it for the other formats.

    Raises:
        InputError: the output is there already, whole, or is somebody else's.
        OSError: it cannot be written.
    """
    path = Path(name)
    if name == STANDARD:
        yield Stream(sys.stdout.buffer)
    elif path.exists() and not path.is_file():
        if kind != "jsonl":
            raise InputError(f"{path} is no plain file: only JSON lines can be sent there")
        with path.open("wb") as file:
            yield Stream(file)
    else:
        journal = Journal(path if kind == "jsonl" else _journal_path(path, overwrite))
        try:
            if overwrite:
                journal.clear()
            yield journal
        finally:
            journal.close()


def _journal_path(path: Path, overwrite: bool) -> Path:
    beside = path.with_name(path.name + ".journal.jsonl")
    if path.exists() and not beside.exists() and not overwrite:
        raise InputError(f"{path} is there already: write elsewhere, or pass --overwrite")
    return beside
