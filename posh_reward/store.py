"""A persistent cache of expensive results: graphs, rewrites and verdicts.

SQLite with a write-ahead log: many processes on one machine can read and write it at once, and
committed rows survive a killed process (a power cut may lose the last moments). Use one file per
machine: locks on network file systems are not reliable enough.
"""

from __future__ import annotations

import logging
import os
import shlex
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from posh_reward.errors import InputError

logger = logging.getLogger(__name__)

APPLICATION_ID = 0x506F5368
"""``PoSh``: SQLite's application id in the file header, which ``file`` also shows."""
TABLES_VERSION = 1  # a file with a higher version is left alone
TABLES = """
CREATE TABLE spaces(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, space TEXT NOT NULL,
                    UNIQUE(kind, space));
CREATE TABLE kept(used INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, space INTEGER NOT NULL,
                  value BLOB NOT NULL);
"""
"""``used`` increases with every row added or used again, so the table is in eviction order."""

LOCK_SECONDS = 20.0  # wait for other processes, each of which locks the file for milliseconds
RETRY_SECONDS = 60.0  # pause after a fault
MIN_STORE_BYTES = 32_000_000  # smallest size limit of a file
MAX_TEXT_BYTES = 16_000_000  # of a text that is kept, and of a decompressed value
ROWS_PER_BATCH = 256  # in a statement or transaction: others wait milliseconds for the lock
MIN_BYTES_TO_COMPRESS = 256
"""Shorter texts are stored as they are. A verdict (140 bytes) would shrink only by a quarter, and
compressing it would take longer than everything else."""
MAX_EVICTION_STEPS, ROWS_PER_EVICTION_STEP = 16, 64
"""After its limit was lowered, a file is emptied over many writes, so that none keeps the lock for
long."""
PLAIN, PACKED = b"p", b"z"

Purpose = Literal["read", "write"]
StoreFault = Literal["locked", "unwritable", "broken"]
Row = tuple[int, bytes, object]  # used, digest, sealed text
T = TypeVar("T")


class UnusableStoreError(sqlite3.DatabaseError):
    """An intact database of another program or a newer version."""


class Store:
    """Texts by kind, space and key. File faults never reach the caller.

    Unreadable texts count as missing and unwritable ones are dropped; the first fault of each
    kind is logged as a warning. Safe with threads, forks and pickle (which carries only the path).

    Args:
        path: the file, or a link to it; created when first needed, in an existing folder.
        max_bytes: size limit of the file; least recently used texts go first.

    Raises:
        InputError: the folder is missing, the path is a folder, or the limit is below 32 MB.
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int = 2_000_000_000) -> None:
        # A worker may run in another folder, and SQLite puts its log next to a link's target.
        file = Path(os.path.realpath(path))
        if not file.parent.is_dir():
            folder = str(file.parent)
            raise InputError(f"no folder {folder!r} for the store: create it, or choose another")
        if file.is_dir():
            raise InputError(f"the store {str(path)!r} is a folder: use a file in it")
        if max_bytes < MIN_STORE_BYTES:
            raise InputError(f"max_bytes is {max_bytes!r}: use {MIN_STORE_BYTES:,} or more")
        self.path = str(file)
        self.max_bytes = max_bytes
        self._reset()

    def _reset(self) -> None:
        self.hits = self.misses = self.dropped = 0
        """Keys found, keys not found, and texts dropped because of a fault."""
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._disabled = False
        self._paused_until: dict[Purpose, float] = {"read": 0.0, "write": 0.0}
        self._warnings: set[str] = set()
        _stores.add(self)

    def get(self, kind: str, space: str, keys: Sequence[str]) -> dict[str, str]:
        """Return the stored texts by key.

        Args:
            kind: sort of text, such as ``"verdict"``.
            space: producer and version: everything besides the key that the text depends on.
            keys: the inputs that the texts were made from.
        """
        key_of = digest_keys(kind, space, keys)
        with self._lock:
            rows: list[Row] = []
            for batch in _split_batches(list(key_of)):
                rows += self._attempt("read", _select_rows, batch) or ()
            rows = [row for row in rows if row[1] in key_of]  # the index may be damaged
            if rows:
                self._attempt("write", self._renew_rows, rows)
            texts = {}
            for _, digest, value in rows:
                text = unseal_text(digest, value)
                if text is not None:
                    texts[key_of[digest]] = text
            self.hits += len(texts)
            self.misses += len(key_of) - len(texts)
        return texts

    def put(self, kind: str, space: str, items: Mapping[str, str]) -> None:
        """Store texts by key, replacing earlier ones."""
        key_of = digest_keys(kind, space, items)
        values = []
        for digest, key in key_of.items():
            text = seal_text(digest, items[key])
            if text is not None:
                values.append((digest, text))

        def add_batch(connection: sqlite3.Connection, batch: Sequence[tuple[bytes, bytes]]) -> int:
            connection.execute("BEGIN IMMEDIATE")
            number = _find_space_id(connection, kind, space)
            connection.executemany(
                "REPLACE INTO kept(key, space, value) VALUES(?, ?, ?)",
                [(digest, number, text) for digest, text in batch],
            )
            self._evict_oldest(connection)
            connection.execute("COMMIT")
            return len(batch)

        with self._lock:
            self.dropped += len(key_of)
            for batch in _split_batches(values):
                self.dropped -= self._attempt("write", add_batch, batch) or 0

    def close(self) -> None:
        """Close the file; the next call reopens it."""
        with self._lock:
            if self._connection is not None:
                connection, self._connection = self._connection, None
                connection.close()

    def __str__(self) -> str:
        return (
            f"store {self.path}: {self.hits:,} found, {self.misses:,} not found, "
            f"{self.dropped:,} dropped after a fault"
        )

    def _attempt(self, purpose: Purpose, work: Callable[..., T], argument: object) -> T | None:
        """Return the result of ``work``, or None after a fault or during the pause that follows."""
        if self._disabled or time.monotonic() < self._paused_until[purpose]:
            return None
        try:
            if self._connection is None:
                self._connection = _open_database(self.path)
            return work(self._connection, argument)
        except sqlite3.ProgrammingError:
            raise  # a bug of ours, not a fault of the file
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter: a table's damaged name
            self._note_fault(purpose, error)
            return None
        except BaseException:  # after a Ctrl-C, release the lock
            self.close()
            raise

    def _note_fault(self, purpose: Purpose, error: Exception) -> None:
        # A damaged file is never touched again: each access could damage more, and the user may
        # want to rescue the rest. A locked or full one is retried after a pause, or else every
        # call would wait for the timeout.
        fault = classify_fault(error)
        if fault == "locked" and self._connection is not None:
            self._connection.rollback()  # it can still be read
        else:
            self.close()
        self._disabled = fault == "broken"
        self._paused_until[purpose] = time.monotonic() + RETRY_SECONDS
        if fault not in self._warnings:
            self._warnings.add(fault)
            logger.warning(
                "the store %s %s", self.path, _describe_fault(fault, purpose, error, self.path)
            )

    def _renew_rows(self, connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
        """Protect rows in use from eviction: mark those in the older half as newest.

        While the file is less than half full, reading writes nothing.
        """
        # ``used`` counts writes, so the middle of its range approximates the median without a scan.
        if _count_bytes_used(connection) < self.max_bytes // 2:
            return
        middle = _query_number(connection, "SELECT (min(used) + max(used)) / 2 FROM kept")
        for batch in _split_batches([(digest,) for used, digest, _ in rows if used < middle]):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "UPDATE kept SET used = (SELECT max(used) FROM kept) + 1 WHERE key = ?", batch
            )
            connection.execute("COMMIT")

    def _evict_oldest(self, connection: sqlite3.Connection) -> None:
        for _ in range(MAX_EVICTION_STEPS):
            if _count_bytes_used(connection) <= self.max_bytes:
                break
            connection.execute(
                "DELETE FROM kept WHERE used IN (SELECT used FROM kept ORDER BY used LIMIT ?)",
                [ROWS_PER_EVICTION_STEP],
            )

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "max_bytes": self.max_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()


def open_store(store: str | os.PathLike[str] | Store | None) -> Store | None:
    """Open a path as a store; return a store or None unchanged."""
    return Store(store) if isinstance(store, str | os.PathLike) else store


# A child would inherit SQLite's record of locks that it does not hold, and the parent could remove
# the log that the child writes. So connections are closed before a fork, and reopened on demand.
_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _close_all() -> None:
    for store in list(_stores):
        store.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_all)


def digest_keys(kind: str, space: str, keys: Iterable[str]) -> dict[bytes, str]:
    """Map a 16-byte digest of (kind, space, key) to each key."""
    # Lengths precede the parts, so that ("ab", "c") and ("a", "bc") differ. Kind and space are
    # hashed once, and that state is copied for each key.
    prefix = blake2b(digest_size=16)
    for part in (_encode_text(kind), _encode_text(space)):
        prefix.update(len(part).to_bytes(8, "little") + part)
    key_of: dict[bytes, str] = {}
    for key in keys:
        whole = prefix.copy()
        whole.update(_encode_text(key))
        key_of[whole.digest()] = key
    return key_of


def seal_text(digest: bytes, text: str) -> bytes | None:
    """Encode a text with a checksum; None if it is too long to store.

    Four bytes of CRC-32, little-endian, over the digest and what follows: one byte, ``p`` for plain
    or ``z`` for zlib; the text in UTF-8, compressed if that is shorter. SQLite has no checksums.
    """
    plain = _encode_text(text)
    if len(plain) > MAX_TEXT_BYTES:
        return None
    body = PLAIN + plain
    if len(plain) >= MIN_BYTES_TO_COMPRESS:
        body = min(body, PACKED + zlib.compress(plain), key=len)  # the first of equals
    return zlib.crc32(digest + body).to_bytes(4, "little") + body


def unseal_text(digest: bytes, value: object) -> str | None:
    """Decode a sealed text; None if it is damaged or belongs to another digest."""
    if not isinstance(value, bytes) or len(value) < 5:
        return None
    body = value[4:]
    if zlib.crc32(digest + body) != int.from_bytes(value[:4], "little"):
        return None
    plain = body[1:]
    try:
        if body[:1] == PACKED:
            plain = zlib.decompressobj().decompress(plain, MAX_TEXT_BYTES)
        return plain.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError):  # damage that the checksum missed
        return None


def classify_fault(error: Exception) -> StoreFault:
    """Classify an SQLite error by its message, since Python 3.10 has no error codes."""
    words = str(error).lower()
    if isinstance(error, UnusableStoreError):
        return "broken"
    if "locked" in words or "busy" in words:
        return "locked"
    temporary = ("readonly", "is full", "disk i/o", "unable to open")
    if any(cause in words for cause in temporary):
        return "unwritable"
    return "broken"


def _describe_fault(fault: StoreFault, purpose: Purpose, error: Exception, path: str) -> str:
    if isinstance(error, UnusableStoreError):
        return f"{error}. The run continues without it"
    if fault == "broken":
        return (
            f"is damaged, or is not a store ({error}). The run continues without it; "
            f"to start afresh, delete it: rm {shlex.quote(path)}*"
        )
    effect = {
        "read": "cannot be read ({}): nothing is reused",
        "write": "cannot be written ({}): new answers are not kept",
    }[purpose]
    return f"{effect.format(error)}; trying again every {RETRY_SECONDS:g} s"


def _open_database(path: str) -> sqlite3.Connection:
    """Open a store, made if missing; raises ``sqlite3.Error``."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return _connect(path)
        except sqlite3.OperationalError as error:
            if classify_fault(error) == "unwritable" and _is_read_only(path):
                return _connect_to_read(path)
            # SQLite does not wait if two processes create the tables at once.
            if classify_fault(error) != "locked" or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _is_read_only(path: str) -> bool:
    """Return True for a file with contents that this user cannot write, or not in its folder."""
    own = {"effective_ids": os.access in os.supports_effective_ids}
    try:
        here = os.path.getsize(path) > 0
    except OSError:
        return False
    places = (path, os.path.dirname(path))
    return here and not all(os.access(place, os.W_OK, **own) for place in places)


def _connect_to_read(path: str) -> sqlite3.Connection:
    # Readers, too, write a file next to a database with a write-ahead log: its index, which a
    # killed writer leaves. Without one, nobody is writing, or nobody on this machine.
    address = f"file:{quote(path)}?mode=ro"
    try:
        return _connect(address)
    except sqlite3.OperationalError:
        return _connect(f"{address}&immutable=1")


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path,
        uri=path.startswith("file:"),  # ours: paths are absolute
        timeout=LOCK_SECONDS,
        isolation_level=None,  # no implicit transactions
        check_same_thread=False,  # Store has a lock
    )
    try:
        if not _is_store(connection):
            _make_tables(connection)
        # With a write-ahead log, NORMAL can lose only the last moments before a power cut.
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_store(connection: sqlite3.Connection) -> bool:
    """Return True if the file has our tables, False if it is empty and may become a store."""
    # Counted before the id is read: another process may add tables and id between two statements.
    tables = _query_number(connection, "SELECT count(*) FROM sqlite_master")
    application = _query_number(connection, "PRAGMA application_id")
    version = _query_number(connection, "PRAGMA user_version")
    if application == APPLICATION_ID and version > TABLES_VERSION:
        raise UnusableStoreError(
            f"was written by a newer posh-reward (version {version} of its tables, this one "
            f"reads {TABLES_VERSION}): update, or use another file"
        )
    if application != APPLICATION_ID and (application or tables):
        raise UnusableStoreError("is a database of another program: use another file")
    return application == APPLICATION_ID


def _make_tables(connection: sqlite3.Connection) -> None:
    # With a write-ahead log, readers in other processes never wait for a writer, and the log of a
    # killed writer is replayed at the next opening.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    if not _is_store(connection):  # another process may have been faster
        for statement in TABLES.strip().split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {TABLES_VERSION}")
    connection.execute("COMMIT")


def _select_rows(connection: sqlite3.Connection, batch: Sequence[bytes]) -> list[Row]:
    marks = ",".join("?" * len(batch))
    query = f"SELECT used, key, value FROM kept WHERE key IN ({marks})"  # noqa: S608
    return connection.execute(query, batch).fetchall()


def _find_space_id(connection: sqlite3.Connection, kind: str, space: str) -> int:
    names = [name.encode("utf-8", "backslashreplace").decode() for name in (kind, space)]
    connection.execute("INSERT OR IGNORE INTO spaces(kind, space) VALUES(?, ?)", names)
    return _query_number(connection, "SELECT id FROM spaces WHERE kind = ? AND space = ?", names)


def _count_bytes_used(connection: sqlite3.Connection) -> int:
    pages = _query_number(connection, "PRAGMA page_count")
    free = _query_number(connection, "PRAGMA freelist_count")
    return (pages - free) * _query_number(connection, "PRAGMA page_size")


def _query_number(connection: sqlite3.Connection, query: str, values: Sequence[str] = ()) -> int:
    row = connection.execute(query, values).fetchone()
    if row is None or not isinstance(row[0], int):
        raise sqlite3.DatabaseError("malformed: a number is missing")
    return row[0]


def _split_batches(values: Sequence[T]) -> Iterable[Sequence[T]]:
    return (
        values[start : start + ROWS_PER_BATCH] for start in range(0, len(values), ROWS_PER_BATCH)
    )


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
