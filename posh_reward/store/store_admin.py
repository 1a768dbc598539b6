"""Survey and clear a store on the command line, where faults are errors."""

from __future__ import annotations

import os
import shlex
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from posh_reward.errors import InputError
from posh_reward.store.open_store import (
    APPLICATION,
    VERSION,
    UnusableStoreError,
    delete,
    log_bytes,
    open_file,
    open_to_read,
    trouble_of,
)


@dataclass(frozen=True, slots=True)
class Holding:
    """Row count and size of one kind and space."""

    kind: str
    space: str
    rows: int
    bytes: int  # of the values, without some 60 bytes a row for keys and indices


@dataclass(frozen=True, slots=True)
class Survey:
    """Size and contents of a store."""

    path: str
    version: int  # of its tables
    bytes: int  # of the file and its log
    holdings: tuple[Holding, ...]


def survey(path: str) -> Survey:
    """Count a store's rows; reads the whole file, which takes seconds if it is large.

    Raises:
        InputError: the store is missing or damaged.
    """
    file = _store_file(path)
    try:
        with closing(open_to_read(file)) as connection:
            rows = connection.execute(
                "SELECT kind, spaces.space, count(*), sum(length(value)) "
                "FROM kept JOIN spaces ON spaces.id = kept.space "
                "GROUP BY kept.space ORDER BY kind, spaces.space"
            ).fetchall()
    except sqlite3.Error as error:
        raise _read_error(path, error) from None
    size = Path(file).stat().st_size + log_bytes(file)
    return Survey(path, VERSION, size, tuple(Holding(*row) for row in rows))


def clear(path: str, kind: str | None = None, space: str = "", *, any_file: bool = False) -> int:
    """Remove rows and return their space to the disk.

    If all rows are to go but the file is damaged or the disk full, the file is deleted, and runs
    that use it start a new one.

    Args:
        path: the store, or a link to it.
        kind: only rows of this kind.
        space: only spaces that contain this text.
        any_file: delete even a file that is not recognised as a store.

    Returns:
        The number of removed rows, or -1 if the file was deleted.

    Raises:
        InputError: the store is missing, in use, or damaged while only a part was to go.
        OSError: the file cannot be written.
    """
    file = _store_file(path)
    try:
        connection, writable = open_file(file)
        with closing(connection):
            if not writable:
                raise PermissionError(f"the store {path!r} or its disk is read-only, or full")
            return _clear_rows(connection, kind, space)
    except sqlite3.Error as error:
        if trouble_of(error) == "locked" or kind is not None or space:
            raise _read_error(path, error) from None
        if not any_file:
            _check_ours(path, error)
    delete(file)
    return -1


def _clear_rows(connection: sqlite3.Connection, kind: str | None, space: str) -> int:
    query = "SELECT id FROM spaces WHERE kind = ifnull(?, kind) AND instr(space, ?) > 0"
    spaces = [row[0] for row in connection.execute(query, (kind, space))]
    rows = 0
    connection.execute("BEGIN IMMEDIATE")
    for number in spaces:
        rows += connection.execute("DELETE FROM kept WHERE space = ?", (number,)).rowcount
        connection.execute("DELETE FROM spaces WHERE id = ?", (number,))
    connection.execute("COMMIT")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return rows


def _store_file(path: str) -> str:
    """Resolve links: SQLite keeps its log next to the file itself."""
    if not Path(path).is_file():
        raise InputError(f"there is no store {path!r}")
    return os.path.realpath(path)


def _check_ours(path: str, error: sqlite3.Error) -> None:
    """Raise ``InputError`` unless this is a damaged store, recognised by its header."""
    reason = str(error)
    if not isinstance(error, UnusableStoreError):
        with Path(path).open("rb") as file:
            head = file.read(72)
        if head.startswith(b"SQLite format 3\0") and head[68:] == APPLICATION.to_bytes(4, "big"):
            return
        reason = f"cannot be read as a store ({error})"
    raise InputError(f"{path!r} {reason}; to delete it anyway, pass --yes")


def _read_error(path: str, error: sqlite3.Error) -> InputError:
    if isinstance(error, UnusableStoreError):
        return InputError(f"{path!r} {error}")
    if trouble_of(error) == "broken":
        return InputError(
            f"{path!r} is damaged, or is not a store ({error}); to start afresh: "
            f"posh-reward store clear {shlex.quote(path)}"
        )
    return InputError(f"the store {path!r} cannot be used now: {error}")
