"""A file that keeps results that were expensive: graphs, rewrites and verdicts, across runs.

::

    Store (faults, threads, forks) --> file (rows, the bound) --> opening (tables, versions)
      `-> values (digests, checksums)      admin (what is in it; clearing it)

SQLite with a write-ahead log: many processes of one machine read and write it at once, and what
a process had committed survives it being killed at any moment (a power cut may lose the last
moments). Give each machine its own file: network file systems do not lock well enough.
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
from posh_reward.store.store_file import StoreFile, transactions
from posh_reward.store.store_values import digests, seal, unseal

__all__ = ["Store", "store_of"]

logger = logging.getLogger(__name__)

RETRY_SECONDS = 60.0  # a file that could not be used is left alone for this long
SMALLEST = 32_000_000
"""Lowest bound, in bytes: the log and one transaction would not fit well into less."""

Purpose = Literal["read", "write"]
T = TypeVar("T")


class Store:
    """Texts by kind, space and key. A fault of the file never reaches the caller.

    What cannot be read is missing, what cannot be written is dropped; the first fault of each
    sort is logged as a warning. Safe to use from threads and forks, and to pickle (the pickle
    has the path, not the texts).

    Args:
        path: the file, or a link to it; made when first needed, in an existing folder.
        max_bytes: bound of the file with its log; what was used longest ago goes first.

    Raises:
        InputError: there is no such folder, the path is one, or the bound is below 32 MB.
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int = 2_000_000_000) -> None:
        self.path = _store_path(path)
        if max_bytes < SMALLEST:
            raise InputError(f"max_bytes is {max_bytes!r}: give a store {SMALLEST:,} or more")
        self.max_bytes = max_bytes
        self._begin()

    def _begin(self) -> None:
        self.hits = self.misses = self.dropped = 0
        """Keys found, keys not found, and texts that were not kept for a fault of the file."""
        self._lock = threading.RLock()
        self._file: StoreFile | None = None
        self._left_alone = False
        self._rests_until: dict[Purpose, float] = {"read": 0.0, "write": 0.0}
        self._warnings: set[str] = set()
        _stores.add(self)

    def get(self, kind: str, space: str, keys: Sequence[str]) -> dict[str, str]:
        """The texts under those of ``keys`` that are there.

        Args:
            kind: what the texts are, such as ``"verdict"``.
            space: what made them, and its version: all that they depend on besides the key.
            keys: what they were made from.
        """
        key_of = digests(kind, space, keys)
        with self._lock:
            rows = self._attempt("read", StoreFile.read, list(key_of)) or []
            rows = [row for row in rows if row.digest in key_of]  # a damaged index may err
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
        """Keep each of ``items``, in place of what was under its key."""
        key_of = digests(kind, space, items)
        sealed_texts = ((digest, seal(digest, items[key])) for digest, key in key_of.items())
        largest = self.max_bytes // 16
        values = [(digest, text) for digest, text in sealed_texts if text and len(text) <= largest]
        with self._lock:
            self.dropped += len(key_of)
            # Many short transactions: other processes wait for the lock only for milliseconds, and
            # what is committed stays, however this process ends.
            for some in transactions(values, self.max_bytes):
                self.dropped -= self._attempt("write", StoreFile.add, kind, space, some) or 0

    def close(self) -> None:
        """Let go of the file; the next call opens it again."""
        with self._lock:
            if self._file is not None:
                file, self._file = self._file, None
                file.close()

    def __str__(self) -> str:
        return (
            f"store {self.path}: {self.hits:,} found, {self.misses:,} not found, "
            f"{self.dropped:,} not kept for a fault"
        )

    def _attempt(self, purpose: Purpose, work: Callable[..., T], *args: object) -> T | None:
        """The result of ``work``; None if the file is at fault or at rest."""
        if self._left_alone or time.monotonic() < self._rests_until[purpose]:
            return None
        try:
            return work(self._open(purpose), *args)
        except sqlite3.ProgrammingError:
            raise  # ours, not the file's
        except sqlite3.Error as error:
            self._note_fault(purpose, error)
            return None
        except BaseException:  # a Ctrl-C: what it interrupted must not keep the lock
            self.close()
            raise

    def _open(self, purpose: Purpose) -> StoreFile:
        if self._file is not None:
            if self._file.stale:
                self._warn("gone", "was deleted or replaced while in use: a new one is begun")
            unwritable = purpose == "write" and not self._file.writable  # it may be by now
            if unwritable or self._file.stale or self._file.mid_transaction:
                self.close()
        if self._file is None:
            self._file = StoreFile(self.path, self.max_bytes)
        if purpose == "write" and not self._file.writable:
            raise sqlite3.OperationalError("the file or its disk is readonly, or full")
        return self._file

    def _note_fault(self, purpose: Purpose, error: sqlite3.Error) -> None:
        """Leave the file alone, for good if it is broken, and say so once."""
        # A damaged file is never touched again: each access could damage more, and a person may
        # want what is left. A locked or full one rests, lest every call wait for its timeout.
        trouble = trouble_of(error)
        self._left_alone = trouble == "broken"
        if self._left_alone or purpose == "read":
            self.close()
        self._rests_until[purpose] = time.monotonic() + RETRY_SECONDS
        self._warn(trouble, _fault_message(trouble, purpose, error, self.path))

    def _warn(self, sort: str, what: str) -> None:
        if sort not in self._warnings:
            self._warnings.add(sort)
            logger.warning("the store %s %s", self.path, what)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "max_bytes": self.max_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()


def store_of(store: str | os.PathLike[str] | Store | None) -> Store | None:
    """The store itself, or the one in a file; None for none."""
    return Store(store) if isinstance(store, str | os.PathLike) else store


def _store_path(path: str | os.PathLike[str]) -> str:
    # A worker process may run in another folder, and SQLite puts its log next to a link's target.
    whole = Path(os.path.realpath(path))
    if not whole.parent.is_dir():
        raise InputError(f"no folder {str(whole.parent)!r} for the store: make it, or name another")
    if whole.is_dir():
        raise InputError(f"the store {str(path)!r} is a folder: name a file in it")
    return str(whole)


def _fault_message(trouble: StoreFault, purpose: Purpose, error: sqlite3.Error, path: str) -> str:
    lost = {"read": "nothing is taken from it", "write": "new answers are not kept"}[purpose]
    if isinstance(error, UnusableStoreError):
        return f"{error}. The run goes on without it"
    if trouble == "broken":
        return (
            f"is damaged, or is not a store ({error}). The run goes on without it; "
            f"to start afresh: posh-reward store clear {shlex.quote(path)}"
        )
    return (
        f"cannot be {'read' if purpose == 'read' else 'written'} ({error}): {lost} until it can; "
        f"tried again every {RETRY_SECONDS:g} s"
    )


# A connection must not live through a fork: the child would inherit SQLite's idea of locks that
# it does not hold. So each is closed before, and parent and child open their own when they need
# one. The lock is held meanwhile, and is new in the child, where other threads are gone.
_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_forking: list[Store] = []
_fork = threading.Lock()


def _before_fork() -> None:
    _fork.acquire()
    _forking.extend(_stores)
    for store in _forking:
        store._lock.acquire()
        store.close()


def _after_fork(lock: Callable[[Store], None]) -> None:
    while _forking:
        lock(_forking.pop())
    _fork.release()


def _renew_lock(store: Store) -> None:
    store._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(lambda store: store._lock.release()),
        after_in_child=lambda: _after_fork(_renew_lock),
    )
