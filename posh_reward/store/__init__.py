"""A persistent cache of expensive results: graphs, rewrites and verdicts.

::

    Store (faults, threads, forks) --> store_file (rows, size) --> open_store (tables, versions)
      `-> store_values (digests, checksums)      store_admin (survey, clear)

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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from posh_reward.errors import InputError
from posh_reward.store.open_store import StoreFault, UnusableStoreError, trouble_of
from posh_reward.store.store_file import StoreFile, digests, seal, transactions, unseal

__all__ = ["Store", "store_of"]

logger = logging.getLogger(__name__)

RETRY_SECONDS = 60.0  # pause after a fault
SMALLEST = 32_000_000
"""Minimum size limit in bytes: less would hardly fit the log and one transaction."""

Purpose = Literal["read", "write"]
T = TypeVar("T")


class Store:
    """Texts by kind, space and key. File faults never reach the caller.

    Unreadable texts count as missing and unwritable ones are dropped; the first fault of each
    kind is logged as a warning. Safe with threads, forks and pickle (which carries only the path).

    Args:
        path: the file, or a link to it; created when first needed, in an existing folder.
        max_bytes: size limit of the file and its log; least recently used texts go first.

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
        if max_bytes < SMALLEST:
            raise InputError(f"max_bytes is {max_bytes!r}: use {SMALLEST:,} or more")
        self.path = str(file)
        self.max_bytes = max_bytes
        self._begin()

    def _begin(self) -> None:
        self.hits = self.misses = self.dropped = 0
        """Keys found, keys not found, and texts dropped because of a fault."""
        self._lock = threading.RLock()
        self._file: StoreFile | None = None
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
        key_of = digests(kind, space, keys)
        with self._lock:
            rows = self._attempt("read", StoreFile.read, list(key_of)) or []
            rows = [row for row in rows if row.digest in key_of]  # the index may be damaged
            if self._file is not None and self._file.writable:
                self._attempt("write", StoreFile.renew, rows)
            texts = {
                key_of[row.digest]: text
                for row in rows
                if (text := unseal(row.digest, row.value)) is not None
            }
            self.hits += len(texts)
            self.misses += len(key_of) - len(texts)
        return texts

    def put(self, kind: str, space: str, items: Mapping[str, str]) -> None:
        """Store texts by key, replacing earlier ones."""
        key_of = digests(kind, space, items)
        sealed_texts = ((digest, seal(digest, items[key])) for digest, key in key_of.items())
        largest = self.max_bytes // 16
        values = [(digest, text) for digest, text in sealed_texts if text and len(text) <= largest]
        with self._lock:
            self.dropped += len(key_of)
            # Short transactions: other processes wait only milliseconds for the lock, and committed
            # rows stay, however this process ends.
            for batch in transactions(values, self.max_bytes):
                self.dropped -= self._attempt("write", StoreFile.add, kind, space, batch) or 0

    def close(self) -> None:
        """Close the file; the next call reopens it."""
        with self._lock:
            if self._file is not None:
                file, self._file = self._file, None
                file.close()

    def __str__(self) -> str:
        return (
            f"store {self.path}: {self.hits:,} found, {self.misses:,} not found, "
            f"{self.dropped:,} dropped after a fault"
        )

    def _attempt(self, purpose: Purpose, work: Callable[..., T], *args: object) -> T | None:
        """Return the result of ``work``, or None after a fault or during the pause that follows."""
        if self._disabled or time.monotonic() < self._paused_until[purpose]:
            return None
        try:
            return work(self._open(purpose), *args)
        except sqlite3.ProgrammingError:
            raise  # a bug of ours, not a fault of the file
        except sqlite3.Error as error:
            self._note_fault(purpose, error)
            return None
        except BaseException:  # after a Ctrl-C, release the lock
            self.close()
            raise

    def _open(self, purpose: Purpose) -> StoreFile:
        if self._file is not None:
            if self._file.stale:
                self._warn("gone", "was deleted or replaced while in use: starting a new one")
            # A read-only file may have become writable.
            unwritable = purpose == "write" and not self._file.writable
            if unwritable or self._file.stale or self._file.mid_transaction:
                self.close()
        if self._file is None:
            self._file = StoreFile(self.path, self.max_bytes)
        if purpose == "write" and not self._file.writable:
            raise sqlite3.OperationalError("the file or its disk is readonly, or full")
        return self._file

    def _note_fault(self, purpose: Purpose, error: sqlite3.Error) -> None:
        # A damaged file is never touched again: each access could damage more, and the user may
        # want to rescue the rest. A locked or full one is retried after a pause, or else every
        # call would wait for the timeout.
        trouble = trouble_of(error)
        self._disabled = trouble == "broken"
        if self._disabled or purpose == "read":
            self.close()
        self._paused_until[purpose] = time.monotonic() + RETRY_SECONDS
        self._warn(trouble, _fault_message(trouble, purpose, error, self.path))

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._warnings:
            self._warnings.add(kind)
            logger.warning("the store %s %s", self.path, message)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "max_bytes": self.max_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()


def store_of(store: str | os.PathLike[str] | Store | None) -> Store | None:
    """Open a path as a store; return a store or None unchanged."""
    return Store(store) if isinstance(store, str | os.PathLike) else store


def _fault_message(trouble: StoreFault, purpose: Purpose, error: sqlite3.Error, path: str) -> str:
    if isinstance(error, UnusableStoreError):
        return f"{error}. The run continues without it"
    if trouble == "broken":
        return (
            f"is damaged, or is not a store ({error}). The run continues without it; "
            f"to start afresh: posh-reward store clear {shlex.quote(path)}"
        )
    effect = {
        "read": "cannot be read ({}): nothing is reused",
        "write": "cannot be written ({}): new answers are not kept",
    }[purpose]
    return f"{effect.format(error)}; trying again every {RETRY_SECONDS:g} s"


# A connection must not survive a fork: the child would inherit SQLite's record of locks that it
# does not hold. So connections are closed before a fork and reopened on demand in both processes.
# Each store's lock is held meanwhile; the child, where other threads are gone, gets a new one.
_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_forking: list[Store] = []
_fork = threading.Lock()


def _before_fork() -> None:
    _fork.acquire()
    _forking.extend(_stores)
    for store in _forking:
        store._lock.acquire()
        store.close()


def _after_fork(*, in_child: bool) -> None:
    while _forking:
        store = _forking.pop()
        if in_child:
            store._lock = threading.RLock()
        else:
            store._lock.release()
    _fork.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(in_child=False),
        after_in_child=lambda: _after_fork(in_child=True),
    )
