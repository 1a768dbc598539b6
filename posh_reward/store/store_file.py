"""Read and write a store's rows within its size limit."""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from posh_reward.store import open_store
from posh_reward.store.open_store import identity, log_bytes, open_file

WORTH = 256
"""Minimum size in bytes for compression. A verdict (140 bytes) would shrink only by a quarter, and
compressing it would take longer than everything else."""
LARGEST = 16_000_000  # bytes of the longest text kept, and of a decompressed value
PLAIN, PACKED = b"p", b"z"


def digests(kind: str, space: str, keys: Iterable[str]) -> dict[bytes, str]:
    """Map a 16-byte digest of (kind, space, key) to each key."""
    # Lengths precede the parts, so that ("ab", "c") and ("a", "bc") differ. Kind and space are
    # hashed once, and that state is copied for each key.
    prefix = blake2b(digest_size=16)
    for part in (_bytes(kind), _bytes(space)):
        prefix.update(len(part).to_bytes(8, "little") + part)
    key_of: dict[bytes, str] = {}
    for key in keys:
        whole = prefix.copy()
        whole.update(_bytes(key))
        key_of[whole.digest()] = key
    return key_of


def seal(digest: bytes, text: str) -> bytes | None:
    """Encode a text with a checksum; None if it is too long to store.

    Four bytes of CRC-32, little-endian; one byte, ``p`` for plain or ``z`` for zlib; the text in
    UTF-8, compressed if that is shorter. SQLite has no checksums: a bit flipped on disk could
    become another grade.
    """
    # The checksum covers the digest: otherwise a damaged index could return another key's text.
    plain = _bytes(text)
    if len(plain) > LARGEST:
        return None
    packed = zlib.compress(plain) if len(plain) >= WORTH else plain
    body = PACKED + packed if len(packed) < len(plain) else PLAIN + plain
    return zlib.crc32(digest + body).to_bytes(4, "little") + body


def unseal(digest: bytes, value: object) -> str | None:
    """Decode a sealed text; None if it is damaged or belongs to another digest."""
    if not isinstance(value, bytes) or len(value) < 5:
        return None
    body = value[4:]
    if zlib.crc32(digest + body) != int.from_bytes(value[:4], "little"):
        return None
    try:
        plain = body[1:]
        if body[:1] == PACKED:
            unpacker = zlib.decompressobj()
            plain = unpacker.decompress(plain, LARGEST)
            if not unpacker.eof:  # truncated, or longer than anything we store
                return None
        return plain.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError):  # damage that the checksum missed
        return None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


AT_ONCE = 256
"""Rows per statement or transaction. Keys are digests, so each row may change another 4 kB page of
their index: this limits what one transaction adds to the log."""
STEP, STEPS = 64, 16  # rows per eviction, and evictions per transaction


Value = tuple[bytes, bytes]  # a digest and its sealed text


class StoreRow(NamedTuple):
    """A row of the table ``kept``."""

    used: int
    digest: bytes
    value: bytes


class StoreFile:
    """One connection, for one thread at a time; methods raise ``sqlite3.Error``.

    A quarter of the size limit (64 MB at most) is reserved for the log, half of that for what
    other processes add before one of them empties it.
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
        """True if an interrupt left a transaction open, and with it the write lock."""
        return self._connection.in_transaction

    def read(self, digests: Sequence[bytes]) -> list[StoreRow]:
        """Return the rows found."""
        rows: list[StoreRow] = []
        for start in range(0, len(digests), AT_ONCE):
            batch = digests[start : start + AT_ONCE]
            marks = ",".join("?" * len(batch))
            query = f"SELECT used, key, value FROM kept WHERE key IN ({marks})"  # noqa: S608
            rows += map(StoreRow._make, self._connection.execute(query, batch))
        return rows

    def add(self, kind: str, space: str, values: Sequence[Value]) -> int:
        """Store all values in one transaction, and return their number."""

        def work() -> None:
            number = self._space(kind, space)
            self._connection.executemany(
                "REPLACE INTO kept(key, space, value) VALUES(?, ?, ?)",
                [(digest, number, value) for digest, value in values],
            )

        self._in_transaction(work)
        return len(values)

    def renew(self, rows: Sequence[StoreRow]) -> None:
        """Protect rows in use from eviction: mark those in the older half as newest.

        While the file is less than half full, reading writes nothing.
        """
        # ``used`` counts writes, so the middle of its range approximates the median without a scan.
        if not rows or self._pages_used() < self._pages // 2:
            return
        oldest, newest = map(
            self._one, ("SELECT min(used) FROM kept", "SELECT max(used) FROM kept")
        )
        aging = [(row.digest,) for row in rows if row.used < (oldest + newest) // 2]
        update = "UPDATE kept SET used = (SELECT max(used) FROM kept) + 1 WHERE key = ?"
        for start in range(0, len(aging), AT_ONCE):
            batch = aging[start : start + AT_ONCE]
            self._in_transaction(partial(self._connection.executemany, update, batch))

    def close(self) -> None:
        """Close the connection; the last process to do so also empties the log."""
        self._connection.close()

    def _evict(self) -> None:
        # Part of the writing transaction, in a limited number of steps: after its limit was
        # lowered, a file shrinks over many writes, none of which keeps the lock for long.
        delete = "DELETE FROM kept WHERE used IN (SELECT used FROM kept ORDER BY used LIMIT ?)"
        for _ in range(STEPS):
            if self._pages_used() <= self._pages:
                break
            if not self._connection.execute(delete, (STEP,)).rowcount:
                break
        excess = self._one("PRAGMA page_count") - self._pages
        if excess > 0:
            self._connection.execute(f"PRAGMA incremental_vacuum({min(excess, 256)})").fetchall()

    def _space(self, kind: str, space: str) -> int:
        names = [name.encode("utf-8", "backslashreplace").decode() for name in (kind, space)]
        self._connection.execute("INSERT OR IGNORE INTO spaces(kind, space) VALUES(?, ?)", names)
        row = self._connection.execute(
            "SELECT id FROM spaces WHERE kind = ? AND space = ?", names
        ).fetchone()
        if row is None or not isinstance(row[0], int):
            raise sqlite3.DatabaseError("malformed: a space has no id")
        return row[0]

    def _in_transaction(self, work: Callable[[], object]) -> None:
        """Commit ``work`` and the eviction it makes necessary, or neither."""
        # Not a context manager: a Ctrl-C between its parts would leave the transaction open.
        self._shorten_log()
        try:
            # IMMEDIATE: otherwise a transaction that reads first and then writes fails, without
            # waiting, if another process wrote in between.
            self._connection.execute("BEGIN IMMEDIATE")
            work()
            self._evict()
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.rollback()
            raise

    def _shorten_log(self) -> None:
        """Empty a log that SQLite could not empty because other processes were reading."""
        deadline = time.monotonic() + open_store.LOCK_SECONDS
        while log_bytes(self._path) > self._log // 4:
            [[busy, _, _]] = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if not busy or log_bytes(self._path) <= self._log // 2:
                break
            if time.monotonic() > deadline:
                raise sqlite3.OperationalError("the log is locked by a process that reads it")
            time.sleep(0.02)  # another process is emptying it

    def _pages_used(self) -> int:
        return self._one("PRAGMA page_count") - self._one("PRAGMA freelist_count")

    def _one(self, query: str) -> int:
        [[number]] = self._connection.execute(query)
        return int(number or 0)


def transactions(values: Sequence[Value], max_bytes: int) -> Iterator[list[Value]]:
    """Split values into transactions of limited rows and bytes."""
    batch: list[Value] = []
    size = 0
    for value in values:
        if batch and (len(batch) == AT_ONCE or size + len(value[1]) > max_bytes // 32):
            yield batch
            batch, size = [], 0
        batch.append(value)
        size += len(value[1])
    if batch:
        yield batch
