"""Slots for the states of tokens: one per token, shared by prompts that begin alike.

This is only the bookkeeping, in slot numbers; the states themselves are tensors in ``packing``.
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
TOKEN = np.dtype(">u4")
"""Tokens in keys are big-endian, so that the bytes sort as the tokens do."""


@dataclass(frozen=True, slots=True)
class TextTokens:
    """A prompt in tokens."""

    key: bytes
    """The token ids, four bytes each, most significant first."""
    shared: int
    """Tokens before this prompt's own part."""

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
    """Hands out slots, counts the users of each, and keeps prefixes that were computed.

    When slots run out, kept prefixes are given up, least recently used first.

    Args:
        capacity: how many slots there are.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._users = np.zeros(capacity, np.int32)
        self._free: Ints = np.arange(capacity, dtype=np.int64)[::-1].copy()
        self._left = capacity
        self._kept: OrderedDict[bytes, Ints] = OrderedDict()
        self._keys: list[bytes] = []

    def take(self, count: int) -> Ints | None:
        """Unused slots, which now have one user; None if there are not enough."""
        while self._left < count and self._kept:
            self._give_up()
        if self._left < count:
            return None
        # A stack, lowest slots on top: paths run through neighbouring rows of the tensors, which
        # are then gathered from few pages.
        taken: Ints = self._free[self._left - count : self._left][::-1].copy()
        self._left -= count
        self._users[taken] = 1
        return taken

    def hold(self, path: Ints) -> None:
        """One more user of each slot; none is in ``path`` twice."""
        self._users[path] += 1

    def release(self, path: Ints) -> None:
        """One user fewer of each slot; unused ones are free."""
        # A slot may serve a kept prefix and many prompts at once; it is free with its last user.
        self._users[path] -= 1
        idle = path[self._users[path] == 0]
        self._free[self._left : self._left + len(idle)] = idle
        self._left += len(idle)

    def keep(self, key: bytes, path: Ints) -> None:
        """Keep the states of these tokens for prompts to come."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return
        self.hold(path)
        self._kept[key] = path
        self._keys.insert(bisect_left(self._keys, key), key)

    def prefix(self, key: bytes) -> Ints:
        """Slots of the longest kept beginning of these tokens."""
        nearest = self.nearest(key)
        if not nearest:
            return NO_SLOTS
        self._kept.move_to_end(nearest)
        return self._kept[nearest][: common(nearest, key)]

    def nearest(self, key: bytes) -> bytes:
        """The kept key that shares the longest beginning with this one; empty if none is kept."""
        # Among sorted sequences, one of the two neighbours shares the longest beginning.
        at = bisect_left(self._keys, key)
        near = self._keys[max(at - 1, 0) : at + 1]
        return max(near, key=lambda each: common(each, key), default=b"")

    def _give_up(self) -> None:
        key, path = self._kept.popitem(last=False)
        del self._keys[bisect_left(self._keys, key)]
        self.release(path)


def common(first: bytes, second: bytes) -> int:
    """Length in tokens of the common beginning."""
    length = min(len(first), len(second)) // TOKEN.itemsize
    different = np.frombuffer(first, TOKEN, length) != np.frombuffer(second, TOKEN, length)
    return int(different.argmax()) if different.any() else length
