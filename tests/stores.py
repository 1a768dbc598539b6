"""Things to keep in a store; light, since many processes import it."""

from __future__ import annotations

import hashlib


def items(count: int, name: str = "k", size: int = 60) -> dict[str, str]:
    """Values that follow from their keys, so that each can be checked."""
    return {key: value_of(key, size) for key in (f"{name}{i}" for i in range(count))}


def value_of(key: str, size: int = 60) -> str:
    return hashlib.shake_256(key.encode()).hexdigest(size // 2)
