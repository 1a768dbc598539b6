"""Open a store: create its tables, or check that they are ours, and classify errors."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

APPLICATION = 0x506F5368
"""``PoSh``: SQLite's application id in the file header, which ``file`` also shows."""
VERSION = 1  # of the tables; a file with a higher version is left alone
LOCK_SECONDS = 20.0  # wait for other processes, each of which locks the file for milliseconds
LOGS = ("-wal", "-shm")
"""Suffixes of the files that SQLite keeps next to a store in use."""

TABLES = """
CREATE TABLE spaces(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, space TEXT NOT NULL,
                    UNIQUE(kind, space));
CREATE TABLE kept(used INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, space INTEGER NOT NULL,
                  value BLOB NOT NULL);
"""
"""``used`` increases with every row added or used again, so the table is in eviction order and
evicting frees whole pages."""

StoreFault = Literal["locked", "unwritable", "broken"]


class UnusableStoreError(sqlite3.DatabaseError):
    """An intact database of another program or a newer version."""


def trouble_of(error: sqlite3.Error) -> StoreFault:
    """Classify an SQLite error by its message, since Python 3.10 has no error codes."""
    words = str(error).lower()
    if isinstance(error, UnusableStoreError):
        return "broken"
    if "locked" in words or "busy" in words:
        return "locked"
    temporary = ("readonly", "is full", "disk i/o", "unable to open")
    return "unwritable" if any(word in words for word in temporary) else "broken"


def open_file(path: str) -> tuple[sqlite3.Connection, bool]:
    """Return a connection, and True if it can write.

    Raises:
        sqlite3.Error: the file cannot be opened, is damaged, or (``UnusableStoreError``) not ours.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        with suppress(OSError):  # SQLite will report the cause
            _create(path)
        try:
            return _connect(path, "mode=rwc", write=True), True
        except sqlite3.OperationalError as error:
            trouble = trouble_of(error)
            # SQLite does not wait if two processes create the tables at once.
            if trouble == "locked" and time.monotonic() < deadline:
                time.sleep(0.02)
            elif trouble == "unwritable":
                try:
                    return open_to_read(path), False
                except sqlite3.OperationalError:
                    raise error from None  # it is more specific
            else:
                raise


def open_to_read(path: str) -> sqlite3.Connection:
    """Open without changing any rows; closing may empty the log.

    Raises:
        sqlite3.Error: as for ``open_file``.
    """
    try:
        return _connect(path, "mode=rw", write=False)
    except sqlite3.OperationalError:
        # SQLite cannot create its -shm file. If the log is empty, the file itself is complete.
        if log_bytes(path):
            raise
        return _connect(path, "immutable=1", write=False)


def log_bytes(path: str) -> int:
    """Return the size of the write-ahead log; ``path`` has no symbolic links."""
    try:
        return Path(path + "-wal").stat().st_size
    except OSError:
        return 0


def identity(path: str) -> tuple[int, int] | None:
    """Return the device and inode of the file at a path, or None if there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def delete(path: str) -> None:
    """Delete the store and its log.

    Raises:
        OSError: the operating system refuses.
    """
    with _folder_lock(path):
        for suffix in ("", *LOGS):
            Path(path + suffix).unlink(missing_ok=True)


def _create(path: str) -> None:
    """Create an empty file if there is none, and remove the log of a deleted one.

    A process may still use the deleted store: sharing its ``-shm`` would damage the new one.
    """
    if os.path.exists(path):
        return
    with _folder_lock(path):
        if not os.path.exists(path):  # another process may have been faster
            for suffix in LOGS:
                Path(path + suffix).unlink(missing_ok=True)
            Path(path).touch()


@contextmanager
def _folder_lock(path: str) -> Iterator[None]:
    """Keep other processes from creating or deleting a store in the same folder."""
    import fcntl

    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        with suppress(OSError):  # not every network file system has locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _connect(path: str, options: str, *, write: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?{options}",
        uri=True,
        timeout=LOCK_SECONDS,
        isolation_level=None,  # no implicit transactions
        check_same_thread=False,  # Store has a lock
    )
    try:
        if not _is_store(connection):
            if not write:
                raise sqlite3.OperationalError("unable to open an empty file as a store")
            _make_tables(connection)
        if write:
            # With a write-ahead log, NORMAL can lose only the last moments before a power cut.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("BEGIN IMMEDIATE")  # fails here if the file is read-only
            connection.execute("ROLLBACK")
    except UnicodeDecodeError:  # SQLite's message quotes the damaged name
        connection.close()
        raise sqlite3.DatabaseError("malformed: the tables have no readable names") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _is_store(connection: sqlite3.Connection) -> bool:
    """Return True if the file has our tables, False if it is empty and may become a store."""
    application, version, tables = connection.execute(
        "SELECT (SELECT application_id FROM pragma_application_id), "
        "(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)"
    ).fetchone()
    if application == APPLICATION and version > VERSION:
        raise UnusableStoreError(
            f"was written by a newer posh-reward (version {version} of its tables, this one "
            f"reads {VERSION}): update, or use another file"
        )
    if application != APPLICATION and (application or tables):
        raise UnusableStoreError("is a database of another program: use another file")
    return bool(application == APPLICATION)


def _make_tables(connection: sqlite3.Connection) -> None:
    # Both must be set before the first table. INCREMENTAL returns evicted pages to the disk
    # without the full vacuum's copy of the whole file.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    # With a write-ahead log, readers in other processes never wait for a writer, and the log of a
    # killed writer is replayed at the next opening.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _is_store(connection):  # another process may have been faster
            for statement in TABLES.strip().split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
