"""Sinks of result rows: a journal that survives a kill, or a stream that keeps nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

from posh_reward.errors import InputError
from posh_reward.study.rows.table_writer import as_line, write_table
from posh_reward.study.rows.tables import STANDARD, Format, Row, standard_output

BEGINS = b'{"id": '  # first bytes of each of our lines


class Journal:
    """An append-only file of rows.

    Args:
        path: created with its folder if missing.

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
        # The first append drops a last line cut short by a kill, but only if it could be the start
        # of one of our rows: another program's file stays untouched.
        torn = b"" if line.endswith(b"\n") else line
        if not torn.startswith(BEGINS) and not BEGINS.startswith(torn):
            raise InputError(
                f"{str(self.path)!r} ends in {torn[:40]!r}, which this command did not write: "
                "choose another output, or delete it"
            )
        return end

    def rows(self) -> Iterator[Row]:
        """The complete rows, one at a time; ``InputError`` for one that is not a JSON object."""
        with self.path.open("rb") as file:
            read = 0
            for number, line in enumerate(file, start=1):
                read += len(line)
                if read > self._whole:
                    return
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    where = f"{str(self.path)!r}, line {number}"
                    raise InputError(f"{where}: not JSON ({error})") from None
                if not isinstance(row, dict):
                    raise InputError(f"{str(self.path)!r}, line {number}: not a JSON object")
                yield row

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows; once this returns they are on disk."""
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

    def close(self) -> None:
        self._file.close()


class Stream:
    """A pipe, a terminal or a device, to which rows are sent at once; none are kept."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def rows(self) -> Iterator[Row]:
        """Yield nothing: rows sent are gone."""
        return iter(())

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Send rows; ``OSError`` if the reader is gone or the device is full."""
        self._file.write(b"".join(map(as_line, rows)))
        self._file.flush()


def read_journal(path: Path) -> list[Row]:
    """The complete rows of a journal; none if the file is missing."""
    if not path.exists():
        return []
    with closing(Journal(path)) as journal:
        return list(journal.rows())


def check_apart(source: str, output: str) -> None:
    """Raise ``InputError`` if a command would overwrite its input."""
    if STANDARD not in (source, output) and Path(source).resolve() == Path(output).resolve():
        raise InputError(f"{output!r} is the input: choose another output")


@contextmanager
def sink(name: str, format: Format, overwrite: bool) -> Iterator[Journal | Stream]:
    """Open the receiver of result rows: the output if it is JSON lines, else a journal beside it.

    Raises:
        InputError: the output exists complete, or another program wrote it.
        OSError: it cannot be written.
    """
    path = Path(name)
    if name == STANDARD:
        yield Stream(standard_output())
    elif path.exists() and not path.is_file():
        if not format.appendable:
            raise InputError(f"{name!r} is not a plain file: only JSON lines can go there")
        with path.open("wb") as file:
            yield Stream(file)
    else:
        place = path if format.appendable else _journal_path(path, overwrite)
        with closing(Journal(place)) as journal:
            if overwrite:
                journal.clear()
            yield journal
            if not format.appendable:
                write_table(journal.rows(), path, format)
                place.unlink()


def _journal_path(path: Path, overwrite: bool) -> Path:
    journal = path.with_name(path.name + ".journal.jsonl")
    if journal.is_symlink():  # this name is ours: a link there was planted
        raise InputError(
            f"{str(journal)!r} is a link to another file: delete it, or choose another output"
        )
    if path.exists() and not journal.exists() and not overwrite:
        raise InputError(
            f"{str(path)!r} already exists: choose another output, or pass --overwrite"
        )
    return journal
