"""Slots for tokens' keys and values, shared by prompts with a common prefix.

This is only bookkeeping, in slot numbers; the tensors are in ``packing``. A slot is one token, not
a page of several: prefixes are shared up to their last common token, and slots index the tensors
directly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict

import numpy as np

from posh_reward.models.packed.prompt_tokens import TOKEN, Ints

NO_SLOTS: Ints = np.zeros(0, np.int64)


class Slots:
    """Reference-counted slots, and an LRU cache of prefixes that yields when slots run out."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._users = np.zeros(capacity, np.int32)
        self._free: Ints = np.arange(capacity, dtype=np.int64)[::-1].copy()
        self._left = capacity
        self._prefixes: OrderedDict[bytes, Ints] = OrderedDict()
        self._keys: list[bytes] = []

    def take(self, count: int) -> Ints | None:
        """Allocate slots with one user each; None if there are not enough."""
        while self._left < count and self._prefixes:
            key, path = self._prefixes.popitem(last=False)
            del self._keys[bisect_left(self._keys, key)]
            self.release(path)
        if self._left < count:
            return None
        # A stack, lowest slots on top: a path then covers neighbouring rows of the tensors, which
        # are faster to gather.
        slots: Ints = self._free[self._left - count : self._left][::-1].copy()
        self._left -= count
        self._users[slots] = 1
        return slots

    def hold(self, path: Ints) -> None:
        """Add a user to each slot; ``path`` has no duplicates."""
        self._users[path] += 1

    def release(self, path: Ints) -> None:
        """Remove a user from each slot; free slots without users."""
        self._users[path] -= 1
        idle = path[self._users[path] == 0]
        self._free[self._left : self._left + len(idle)] = idle
        self._left += len(idle)

    def keep(self, key: bytes, path: Ints) -> None:
        """Cache the states of these tokens for later prompts."""
        if key in self._prefixes:
            self._prefixes.move_to_end(key)
            return
        self.hold(path)
        self._prefixes[key] = path
        self._keys.insert(bisect_left(self._keys, key), key)

    def prefix(self, key: bytes) -> Ints:
        """Slots of the longest cached prefix of these tokens."""
        nearest = self.nearest(key)
        if not nearest:
            return NO_SLOTS
        self._prefixes.move_to_end(nearest)
        return self._prefixes[nearest][: common(nearest, key)]

    def nearest(self, key: bytes) -> bytes:
        """The cached key with the longest common prefix; empty if none is cached."""
        # In sorted order, it is one of the two neighbours.
        at = bisect_left(self._keys, key)
        neighbours = self._keys[max(at - 1, 0) : at + 1]
        return max(neighbours, key=lambda each: common(each, key), default=b"")


def common(first: bytes, second: bytes) -> int:
    """Length in tokens of the common prefix."""
    length = min(len(first), len(second)) // TOKEN.itemsize
    different = np.frombuffer(first, TOKEN, length) != np.frombuffer(second, TOKEN, length)
    return int(different.argmax()) if different.any() else length
