"""Slots for the states of tokens: one per token, shared by prompts that begin alike.

This is only the bookkeeping, in slot numbers; the states themselves are tensors in ``packing``.
Slots are of one token each, not pages of several: prefixes then share up to their last common
token, and a slot is an index that a gather takes as it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
NO_SLOTS: Ints = np.zeros(0, np.int64)
TOKEN = np.dtype(">u4")  # tokens in keys are big-endian, so that the bytes sort as the tokens do


@dataclass(frozen=True, slots=True)
class TextTokens:
    """A prompt in tokens."""

    key: bytes  # the token ids, four bytes each, most significant first
    shared: int  # tokens before this prompt's own part

    @staticmethod
    def of(ids: Sequence[int], shared: int) -> TextTokens:
        """From token ids."""
        return TextTokens(np.asarray(ids, TOKEN).tobytes(), shared)

    @property
    def ids(self) -> Ints:
        """The token ids."""
        return np.frombuffer(self.key, TOKEN).astype(np.int64)

    def __len__(self) -> int:
        return len(self.key) // TOKEN.itemsize


class Slots:
    """Free slots, users of each, and a cache of prefixes: the least recently used make room."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._users = np.zeros(capacity, np.int32)
        self._free: Ints = np.arange(capacity, dtype=np.int64)[::-1].copy()
        self._left = capacity
        self._prefixes: OrderedDict[bytes, Ints] = OrderedDict()
        self._keys: list[bytes] = []

    def take(self, count: int) -> Ints | None:
        """Unused slots, which now have one user; None if there are not enough."""
        while self._left < count and self._prefixes:
            self._give_up()
        if self._left < count:
            return None
        # A stack, lowest slots on top: paths run through neighbouring rows of the tensors, which
        # are then gathered from few pages.
        slots: Ints = self._free[self._left - count : self._left][::-1].copy()
        self._left -= count
        self._users[slots] = 1
        return slots

    def hold(self, path: Ints) -> None:
        """One more user of each slot; none is in ``path`` twice."""
        self._users[path] += 1

    def release(self, path: Ints) -> None:
        """One user fewer of each slot; unused ones are free."""
        # A slot may serve a cached prefix and many prompts at once; its last user frees it.
        self._users[path] -= 1
        idle = path[self._users[path] == 0]
        self._free[self._left : self._left + len(idle)] = idle
        self._left += len(idle)

    def keep(self, key: bytes, path: Ints) -> None:
        """Keep the states of these tokens for prompts to come."""
        if key in self._prefixes:
            self._prefixes.move_to_end(key)
            return
        self.hold(path)
        self._prefixes[key] = path
        self._keys.insert(bisect_left(self._keys, key), key)

    def prefix(self, key: bytes) -> Ints:
        """Slots of the longest cached beginning of these tokens."""
        nearest = self.nearest(key)
        if not nearest:
            return NO_SLOTS
        self._prefixes.move_to_end(nearest)
        return self._prefixes[nearest][: common(nearest, key)]

    def nearest(self, key: bytes) -> bytes:
        """The cached key that shares the longest beginning with this one; empty without any."""
        # Among sorted sequences, one of the two neighbours shares the longest beginning.
        at = bisect_left(self._keys, key)
        near = self._keys[max(at - 1, 0) : at + 1]
        return max(near, key=lambda each: common(each, key), default=b"")

    def _give_up(self) -> None:
        key, path = self._prefixes.popitem(last=False)
        del self._keys[bisect_left(self._keys, key)]
        self.release(path)


def common(first: bytes, second: bytes) -> int:
    """Length in tokens of the common beginning."""
    length = min(len(first), len(second)) // TOKEN.itemsize
    different = np.frombuffer(first, TOKEN, length) != np.frombuffer(second, TOKEN, length)
    return int(different.argmax()) if different.any() else length
