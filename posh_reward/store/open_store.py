"""Opening of the file: it is made, or recognised, or its fault named."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

APPLICATION = 0x506F5368
"""``PoSh``: marks the file as ours in its header, where ``file`` and SQLite look for that."""
VERSION = 1  # of the tables. A file of a higher one is left alone.
LOCK_SECONDS = 20.0  # to wait for other processes; each holds the file for milliseconds
LOGS = ("-wal", "-shm")
"""Endings of the files that SQLite keeps next to the store while it is in use."""

TABLES = """
CREATE TABLE spaces(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, space TEXT NOT NULL,
                    UNIQUE(kind, space));
CREATE TABLE kept(used INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, space INTEGER NOT NULL,
                  value BLOB NOT NULL);
"""
"""``used`` rises with every row that is added or used again, so the table is in the order in which
rows are evicted, and evicting frees whole pages."""

StoreFault = Literal["locked", "unwritable", "broken"]


class UnusableStoreError(sqlite3.DatabaseError):
    """A sound database that is not ours to touch."""


def trouble_of(error: sqlite3.Error) -> StoreFault:
    """The kind of fault behind an error of SQLite (by its words: Python 3.10 has no codes)."""
    words = str(error).lower()
    if isinstance(error, UnusableStoreError):
        return "broken"
    if "locked" in words or "busy" in words:
        return "locked"
    passing = ("readonly", "is full", "disk i/o", "unable to open")
    return "unwritable" if any(word in words for word in passing) else "broken"


def open_file(path: str) -> tuple[sqlite3.Connection, bool]:
    """A connection, and whether the file can be written through it.

    Raises:
        sqlite3.Error: it cannot be opened, is damaged, or (``UnusableStoreError``) is not ours.
    """
    give_up = time.monotonic() + LOCK_SECONDS
    while True:
        with suppress(OSError):  # SQLite will say what is wrong
            _make(path)
        try:
            return _connect(path, "mode=rwc", write=True), True
        except sqlite3.OperationalError as error:
            trouble = trouble_of(error)
            # Two processes that make the tables at once get this error without any waiting.
            if trouble == "locked" and time.monotonic() < give_up:
                time.sleep(0.02)
            elif trouble == "unwritable":
                try:
                    return open_to_read(path), False
                except sqlite3.OperationalError:
                    raise error from None  # which says more
            else:
                raise


def open_to_read(path: str) -> sqlite3.Connection:
    """A connection that changes nothing, but may tidy up after others when it closes.

    Raises:
        sqlite3.Error: as ``open_file``.
    """
    try:
        return _connect(path, "mode=rw", write=False)
    except sqlite3.OperationalError:
        # SQLite wants to make its -shm file, and cannot. Where the log is empty, all that was
        # ever written is in the file itself.
        if log_bytes(path):
            raise
        return _connect(path, "immutable=1", write=False)


def log_bytes(path: str) -> int:
    """Size of the write-ahead log of the file; ``path`` has no symbolic links."""
    try:
        return Path(path + "-wal").stat().st_size
    except OSError:
        return 0


def identity(path: str) -> tuple[int, int] | None:
    """Device and inode of the file at a path: another file there has another; None without one."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def delete(path: str) -> None:
    """Delete the store with its log.

    Raises:
        OSError: it cannot be deleted.
    """

    def remove() -> None:
        for ending in ("", *LOGS):
            Path(path + ending).unlink(missing_ok=True)

    _alone_in_folder(path, remove)


def _make(path: str) -> None:
    """Make the file, empty, if there is none, and remove the log of one that was deleted.

    A process may still use the deleted one: sharing its ``-shm`` would damage the new one.
    """

    def make() -> None:
        if os.path.exists(path):
            return  # another process was faster
        for ending in LOGS:
            Path(path + ending).unlink(missing_ok=True)
        Path(path).touch()

    if not os.path.exists(path):
        _alone_in_folder(path, make)


def _alone_in_folder(path: str, work: Callable[[], None]) -> None:
    """Do ``work`` while no other process makes or deletes a store in the same folder."""
    import fcntl

    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        with suppress(OSError):  # not every network file system has locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        work()
    finally:
        os.close(folder)


def _connect(path: str, how: str, *, write: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?{how}",
        uri=True,
        timeout=LOCK_SECONDS,
        isolation_level=None,  # transactions begin where this package says so
        check_same_thread=False,  # the store has a lock
    )
    try:
        if not _is_store(connection):
            if not write:
                raise sqlite3.OperationalError("unable to open an empty file as a store")
            _make_tables(connection)
        if write:
            # With the log, NORMAL loses no more than the last moments, and only to a power cut.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("BEGIN IMMEDIATE")  # fails here if the file is read-only
            connection.execute("ROLLBACK")
    except UnicodeDecodeError:  # the words of SQLite's own error quote what is damaged
        connection.close()
        raise sqlite3.DatabaseError("malformed: the tables have no readable names") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _is_store(connection: sqlite3.Connection) -> bool:
    """True if the file has our tables; False for an empty one, which may become a store."""
    application, version, tables = connection.execute(
        "SELECT (SELECT application_id FROM pragma_application_id), "
        "(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)"
    ).fetchone()
    if application == APPLICATION and version > VERSION:
        raise UnusableStoreError(
            f"was written by a newer posh-reward (version {version} of its tables, this one "
            f"reads {VERSION}): update, or name another file"
        )
    if application != APPLICATION and (application or tables):
        raise UnusableStoreError("is a database of another program: name another file")
    return bool(application == APPLICATION)


def _make_tables(connection: sqlite3.Connection) -> None:
    # Both have to be set before the first table. Incremental: eviction frees pages, which a full
    # vacuum would give back only by copying the whole file.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    # A write-ahead log: readers in other processes never wait for a writer, and a killed writer
    # leaves a log that the next opener replays.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _is_store(connection):  # another process was faster
            for statement in TABLES.strip().split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
