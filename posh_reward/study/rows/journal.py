"""Sinks of result rows: a journal that survives a kill, or a stream that keeps nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice, takewhile
from pathlib import Path
from typing import IO, Any

from posh_reward.errors import BusyError, InputError
from posh_reward.process.file_lock import open_alone
from posh_reward.study.rows.tables import (
    STANDARD,
    Format,
    Row,
    as_line,
    open_table,
    standard_output,
    write_table,
)

BEGINS = b'{"id": '  # first bytes of each of our lines


class Journal:
    """An append-only file of rows, which only one process can open at a time."""

    def __init__(self, path: Path, begins: bytes = BEGINS) -> None:
        self.path = path
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
        self._file = open_alone(path)
        try:
            self._whole, self.count = self._whole_lines(begins)
            self._size = self._file.seek(0, os.SEEK_END)
        except BaseException:
            self._file.close()
            raise

    def _whole_lines(self, begins: bytes) -> tuple[int, int]:
        """Bytes and number of the complete rows."""
        end = count = 0
        for line in self._file:
            # A power cut can leave zeros where a line's bytes should be.
            if not line.endswith(b"\n") or b"\0" in line:
                # The first append drops what a kill cut short, but only if it could be the start of
                # one of our rows: another program's file stays untouched.
                torn = line.partition(b"\0")[0]
                if not torn.startswith(begins) and not begins.startswith(torn):
                    raise InputError(
                        f"{str(self.path)!r} ends in {torn[:40]!r}, which this command did not "
                        "write: choose another output, or delete it"
                    )
                break
            end += len(line)
            count += 1
        return end, count

    def rows(self) -> Iterator[Row]:
        """The complete rows, one at a time; ``InputError`` for one that is not a JSON object."""
        self._check_sole()
        with self.path.open("rb") as file:
            yield from _parsed(islice(file, self.count), self.path)

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows; once this returns they are on disk."""
        self._check_sole()
        lines = list(map(as_line, rows))
        self._file.seek(self._whole)
        self._file.truncate()
        self._file.write(b"".join(lines))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._whole = self._size = self._file.tell()
        self.count += len(lines)

    def _check_sole(self) -> None:
        """Raise ``BusyError`` if the file changed, as it can on a file system without locks."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size != self._size:
            raise BusyError(
                f"another process changed {str(self.path)!r} ({size:,} bytes instead of "
                f"{self._size:,}): let only one write it, and run this command again"
            )

    def clear(self) -> None:
        self._file.truncate(0)
        self._whole = self._size = self.count = 0

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
    """The complete rows of a journal, which a process may be writing; none if it is missing."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        whole = takewhile(lambda line: line.endswith(b"\n") and b"\0" not in line, file)
        return list(_parsed(whole, path))


def _parsed(lines: Iterable[bytes], path: Path) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{str(path)!r}, line {number}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise InputError(f"{str(path)!r}, line {number}: not a JSON object")
        yield row


def check_apart(source: str, output: str) -> None:
    """Raise ``InputError`` if a command would overwrite its input."""
    if STANDARD not in (source, output) and Path(source).resolve() == Path(output).resolve():
        raise InputError(f"{output!r} is the input: choose another output")


@contextmanager
def sink(
    name: str, format: Format, overwrite: bool, reread: Callable[[Row], Row]
) -> Iterator[Journal | Stream]:
    """Open what receives rows: the output if it is JSON lines, else a journal beside it.

    The journal of a finished table begins with its rows, as ``reread`` returns them.
    """
    path = Path(name)
    if name == STANDARD:
        yield Stream(standard_output())
    elif path.exists() and not path.is_file():
        if format.kind != "jsonl":
            raise InputError(f"{name!r} is not a plain file: only JSON lines can go there")
        with path.open("wb") as file:
            yield Stream(file)
    else:
        place = path if format.kind == "jsonl" else path.with_name(path.name + ".journal.jsonl")
        if place != path and place.is_symlink():  # this name is ours: a link there was planted
            raise InputError(
                f"{str(place)!r} is a link to another file: delete it, or choose another output"
            )
        with closing(Journal(place)) as journal:
            finished = 0  # rows that the table itself has
            if overwrite:
                journal.clear()
            elif place != path and path.exists() and not journal.count:
                try:
                    with open_table(name, format) as rows:
                        journal.append(map(reread, rows))
                    if not journal.count:
                        raise InputError("it has no rows")
                except InputError as error:
                    place.unlink()
                    raise InputError(
                        f"{name!r} exists and is not a table of these scores ({error}): choose "
                        "another output, or pass --overwrite"
                    ) from None
                finished = journal.count
            try:
                yield journal
            finally:
                if finished and journal.count == finished:
                    place.unlink()
            if place != path and journal.count != finished:
                write_table(journal.rows(), path, format)
                place.unlink()
