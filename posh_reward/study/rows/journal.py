"""Sinks of result rows: a journal that survives a kill, or a stream that keeps nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from posh_reward.errors import InputError
from posh_reward.study.rows.tables import STANDARD, Format, Row, standard_output

BEGINS = b'{"id": '  # first bytes of each of our lines


class Sink(Protocol):
    """Receiver of result rows: a ``Journal``, which keeps them, or a ``Stream``."""

    def rows(self) -> Iterator[Row]:
        """The rows that it holds."""

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take more rows."""

    def discard(self) -> None:
        """Remove the rows that it holds."""


class Journal:
    """A file of rows that is only ever appended to.

    Args:
        path: made, with its folder, if there is none.

    Raises:
        OSError: the file cannot be opened for writing.
        InputError: it ends in something that cannot be the start of one of our rows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
        self._file = path.open("a+b")
        try:
            self._whole = self._end_of_whole_lines()
        except BaseException:
            self._file.close()
            raise

    def _end_of_whole_lines(self) -> int:
        self._file.seek(0)
        end, line = 0, b""
        for line in self._file:
            if line.endswith(b"\n"):
                end += len(line)
        # A last line that a kill cut short is dropped by the first append, but only if it could be
        # the start of one of our rows: another program's file is left as it was.
        torn = b"" if line.endswith(b"\n") else line
        if not torn.startswith(BEGINS) and not BEGINS.startswith(torn):
            raise InputError(
                f"{str(self.path)!r} ends in {torn[:40]!r}, which this command did not write: "
                "write elsewhere, or delete it"
            )
        return end

    def rows(self) -> Iterator[Row]:
        """The whole rows, one at a time; ``InputError`` for one that is not a JSON object."""
        with self.path.open("rb") as file:
            read = 0
            for number, line in enumerate(file, start=1):
                read += len(line)
                if read > self._whole:
                    return
                yield self._row(line, number)

    def _row(self, line: bytes, number: int) -> Row:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{str(self.path)!r}, line {number}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise InputError(f"{str(self.path)!r}, line {number}: not a JSON object")
        return row

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows; when this returns they are on the disk."""
        self._file.truncate(self._whole)
        lines = b"".join(map(as_line, rows))
        self._file.write(lines)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._whole += len(lines)

    def clear(self) -> None:
        """Remove all rows."""
        self._whole = 0
        self._file.truncate(0)

    def discard(self) -> None:
        """Delete the file."""
        self.path.unlink()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Stream:
    """Rows to a pipe, a terminal or a device: each is sent on at once, and none is kept."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def rows(self) -> Iterator[Row]:
        """Yield nothing: rows that were sent are gone."""
        return iter(())

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Send rows on; ``OSError`` if the reader is gone or the device is full."""
        self._file.write(b"".join(map(as_line, rows)))
        self._file.flush()

    def clear(self) -> None:
        """Do nothing: no rows are kept."""

    def discard(self) -> None:
        """Do nothing: no rows are kept."""


def read_journal(path: Path) -> list[Row]:
    """The whole rows of a journal; none if there is no such file."""
    if not path.exists():
        return []
    with closing(Journal(path)) as journal:
        return list(journal.rows())


def as_line(row: Mapping[str, Any]) -> bytes:
    r"""One line of JSON in UTF-8; half a surrogate pair stays an escape (``\ud83d``)."""
    text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def check_apart(source: str, output: str) -> None:
    """Raise ``InputError`` if a command would write over what it reads."""
    if STANDARD not in (source, output) and Path(source).resolve() == Path(output).resolve():
        raise InputError(f"{output!r} is the input: write elsewhere")


@contextmanager
def sink(name: str, format: Format, overwrite: bool) -> Iterator[Journal | Stream]:
    """Open the receiver of result rows: for JSON lines the output, else a journal next to it.

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
    if journal.is_symlink():  # this name is ours: a link there was planted
        raise InputError(
            f"{str(journal)!r} is a link to another file: delete it, or write elsewhere"
        )
    if path.exists() and not journal.exists() and not overwrite:
        raise InputError(f"{str(path)!r} is already there: write elsewhere, or pass --overwrite")
    return journal
