"""What a store holds, and clearing it: for people, who want errors said."""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from posh_reward.errors import InputError
from posh_reward.store.opening import (
    APPLICATION,
    VERSION,
    Unusable,
    log_bytes,
    open_file,
    open_to_read,
    trouble_of,
)


@dataclass(frozen=True, slots=True)
class Holding:
    """What a store has of one kind and space."""

    kind: str
    space: str
    rows: int
    bytes: int
    """Of the values; keys and indices come on top, some 60 bytes a row."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a store holds."""

    path: str
    version: int
    """Of its tables."""
    bytes: int
    """Of the file with its log."""
    holdings: tuple[Holding, ...]


def survey(path: str) -> Survey:
    """Counts what is in a store; reads all of it, so large ones take seconds.

    Raises:
        InputError: there is no store, or it is damaged.
    """
    _require(path)
    try:
        with closing(open_to_read(_absolute(path))) as connection:
            rows = connection.execute(
                "SELECT kind, spaces.space, count(*), sum(length(value)) "
                "FROM kept JOIN spaces ON spaces.id = kept.space "
                "GROUP BY kept.space ORDER BY kind, spaces.space"
            ).fetchall()
    except sqlite3.Error as error:
        raise _unreadable(path, error) from None
    size = Path(path).stat().st_size + log_bytes(path)
    return Survey(path, VERSION, size, tuple(Holding(*row) for row in rows))


def clear(path: str, kind: str | None = None, space: str = "", *, any_file: bool = False) -> int:
    """Removes rows and gives their room back to the disk.

    If all is to go and cannot, for damage or on a full disk, the file is deleted; no run should
    be using it then.

    Args:
        path: the store.
        kind: only what is of this kind.
        space: only spaces in which this text occurs.
        any_file: delete even a file that cannot be recognised as a store.

    Returns:
        How many rows; -1 if the file was deleted.

    Raises:
        InputError: there is no store, or it is in use, or damaged and only a part was to go.
        OSError: it cannot be written.
    """
    _require(path)
    try:
        connection, writable = open_file(_absolute(path))
        with closing(connection):
            if not writable:
                raise PermissionError(f"the store {path!r} or its disk is read-only, or full")
            return _cleared(connection, kind, space)
    except sqlite3.Error as error:
        if trouble_of(error) == "locked" or kind is not None or space:
            raise _unreadable(path, error) from None
        _check_ours(path, error, any_file)
    for ending in ("", "-wal", "-shm"):
        Path(path + ending).unlink(missing_ok=True)
    return -1


def _cleared(connection: sqlite3.Connection, kind: str | None, space: str) -> int:
    which = "SELECT id FROM spaces WHERE kind = ifnull(?, kind) AND instr(space, ?) > 0"
    chosen = [row[0] for row in connection.execute(which, (kind, space))]
    rows = 0
    connection.execute("BEGIN IMMEDIATE")
    for number in chosen:
        rows += connection.execute("DELETE FROM kept WHERE space = ?", (number,)).rowcount
        connection.execute("DELETE FROM spaces WHERE id = ?", (number,))
    connection.execute("COMMIT")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return rows


def _absolute(path: str) -> str:
    return str(Path(path).absolute())


def _require(path: str) -> None:
    if not Path(path).is_file():
        raise InputError(f"there is no store {path!r}")


def _check_ours(path: str, error: sqlite3.Error, any_file: bool) -> None:
    """Raises ``InputError`` for a file that may be somebody's, by its first bytes."""
    with Path(path).open("rb") as file:
        head = file.read(72)
    ours = head.startswith(b"SQLite format 3\0") and head[68:] == APPLICATION.to_bytes(4, "big")
    if (isinstance(error, Unusable) or not ours) and not any_file:
        why = error if isinstance(error, Unusable) else f"cannot be read as a store ({error})"
        raise InputError(f"{path!r} {why}; to delete it all the same, pass --yes")


def _unreadable(path: str, error: sqlite3.Error) -> InputError:
    if isinstance(error, Unusable):
        return InputError(f"{path!r} {error}")
    if trouble_of(error) == "broken":
        return InputError(
            f"{path!r} is damaged, or is no store ({error}); to start it anew: "
            f"posh-reward store clear {shlex.quote(path)}"
        )
    return InputError(f"the store {path!r} cannot be used now: {error}")
