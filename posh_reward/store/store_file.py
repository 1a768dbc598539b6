"""Rows in and out of the file, within its bound."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from posh_reward.store import open_store
from posh_reward.store.open_store import identity, log_bytes, open_file

AT_ONCE = 256
"""Rows to a statement or a transaction. Keys are digests, so each row may change a page of 4 kB
of their index: this bounds what one transaction adds to the log."""
STEP, STEPS = 64, 16  # rows evicted at a time, and how many times in one transaction


Value = tuple[bytes, bytes]  # a digest, and what is kept under it


class StoreRow(NamedTuple):
    """A row of the table ``kept``."""

    used: int
    digest: bytes
    value: bytes


class StoreFile:
    """One connection. Its methods raise ``sqlite3.Error``, and are for one thread at a time.

    The bound holds for the file with its log: a quarter of it (64 MB at most) is the log's,
    and half of that is for what many processes add before one of them has emptied it.
    """

    def __init__(self, path: str, max_bytes: int) -> None:
        self._path = path
        self._connection, self.writable = open_file(path)
        self._identity = identity(path)
        page = self._one("PRAGMA page_size")
        self._log = min(max_bytes // 4, 64_000_000)
        self._pages = (max_bytes - self._log) // page
        if self.writable:
            self._one(f"PRAGMA wal_autocheckpoint = {min(1000, self._log // 8 // page)}")
            self._one(f"PRAGMA journal_size_limit = {self._log // 4}")

    @property
    def stale(self) -> bool:
        """True if the file was deleted or replaced: writes would be lost."""
        return self._identity is None or identity(self._path) != self._identity

    @property
    def mid_transaction(self) -> bool:
        """True after an interrupt in mid-transaction; the write lock is still held."""
        return self._connection.in_transaction

    def read(self, digests: Sequence[bytes]) -> list[StoreRow]:
        """The rows that are there."""
        rows: list[StoreRow] = []
        for start in range(0, len(digests), AT_ONCE):
            some = digests[start : start + AT_ONCE]
            marks = ",".join("?" * len(some))
            query = f"SELECT used, key, value FROM kept WHERE key IN ({marks})"  # noqa: S608
            rows += map(StoreRow._make, self._connection.execute(query, some))
        return rows

    def add(self, kind: str, space: str, values: Sequence[Value]) -> int:
        """Keep all of ``values`` or none, in one transaction; return how many it kept."""

        def work() -> None:
            number = self._space(kind, space)
            self._connection.executemany(
                "REPLACE INTO kept(key, space, value) VALUES(?, ?, ?)",
                [(digest, number, value) for digest, value in values],
            )
            self._hold_the_bound()

        self._in_transaction(work)
        return len(values)

    def renew(self, rows: Sequence[StoreRow]) -> None:
        """Make those of ``rows`` the newest that are in the older half of a half-full file.

        So what is in use outlives what is not, and until there is need reading writes nothing.
        """
        # ``used`` is a clock that ticks with each write; the middle between its ends parts the
        # older half of the rows from the newer, near enough, without a count.
        if not rows or self._pages_used() < self._pages // 2:
            return
        oldest, newest = map(
            self._one, ("SELECT min(used) FROM kept", "SELECT max(used) FROM kept")
        )
        aging = [(row.digest,) for row in rows if row.used < (oldest + newest) // 2]
        for start in range(0, len(aging), AT_ONCE):
            self._in_transaction(partial(self._touch, aging[start : start + AT_ONCE]))

    def _touch(self, digests: Sequence[tuple[bytes]]) -> None:
        self._connection.executemany(
            "UPDATE kept SET used = (SELECT max(used) FROM kept) + 1 WHERE key = ?", digests
        )
        self._hold_the_bound()

    def close(self) -> None:
        """Close the connection; the last process that does so also empties the log."""
        self._connection.close()

    def _hold_the_bound(self) -> None:
        # In the transaction of what was added, and a bounded number of steps: a file far beyond a
        # bound that was lowered shrinks over many writes, none of which holds the lock for long.
        for _ in range(STEPS):
            if self._pages_used() <= self._pages or not self._evict():
                break
        beyond = self._one("PRAGMA page_count") - self._pages
        if beyond > 0:
            self._connection.execute(f"PRAGMA incremental_vacuum({min(beyond, 256)})").fetchall()

    def _evict(self) -> int:
        return self._connection.execute(
            "DELETE FROM kept WHERE used IN (SELECT used FROM kept ORDER BY used LIMIT ?)", (STEP,)
        ).rowcount

    def _space(self, kind: str, space: str) -> int:
        names = [name.encode("utf-8", "backslashreplace").decode() for name in (kind, space)]
        self._connection.execute("INSERT OR IGNORE INTO spaces(kind, space) VALUES(?, ?)", names)
        row = self._connection.execute(
            "SELECT id FROM spaces WHERE kind = ? AND space = ?", names
        ).fetchone()
        if row is None or not isinstance(row[0], int):
            raise sqlite3.DatabaseError("malformed: a space has no number")
        return row[0]

    def _in_transaction(self, work: Callable[[], None]) -> None:
        """Commit what ``work`` does, or none of it.

        No context manager: a Ctrl-C between its pieces would leave the transaction open.
        """
        self._shorten_log()
        try:
            # Immediate: a transaction that begins by reading and then writes fails, without
            # waiting, where another process wrote in between.
            self._connection.execute("BEGIN IMMEDIATE")
            work()
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.rollback()
            raise

    def _shorten_log(self) -> None:
        """Empty a log that readers in other processes kept SQLite from emptying in passing."""
        give_up = time.monotonic() + open_store.LOCK_SECONDS
        while log_bytes(self._path) > self._log // 4:
            [[busy, _, _]] = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if not busy or log_bytes(self._path) <= self._log // 2:
                break
            if time.monotonic() > give_up:
                raise sqlite3.OperationalError("the log is locked by a process that reads it")
            time.sleep(0.02)  # another process is emptying it

    def _pages_used(self) -> int:
        return self._one("PRAGMA page_count") - self._one("PRAGMA freelist_count")

    def _one(self, query: str) -> int:
        [[number]] = self._connection.execute(query)
        return int(number or 0)


def transactions(values: Sequence[Value], max_bytes: int) -> Iterator[list[Value]]:
    """The values in slices of one transaction each, for a file of that bound."""
    some: list[Value] = []
    size = 0
    for value in values:
        if some and (len(some) == AT_ONCE or size + len(value[1]) > max_bytes // 32):
            yield some
            some, size = [], 0
        some.append(value)
        size += len(value[1])
    if some:
        yield some
