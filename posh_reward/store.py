"""A file that keeps what has been paid for: graphs, rewrites and verdicts, across runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Store:
    """Texts by kind, space and key. A fault of the file never reaches the caller."""

    def __init__(self, path: str, max_bytes: int = 2_000_000_000) -> None:
        self.path = path
        self.max_bytes = max_bytes

    def get(self, kind: str, space: str, keys: Sequence[str]) -> dict[str, str]:
        """What is kept under those of ``keys`` that are there."""
        return {}

    def put(self, kind: str, space: str, items: Mapping[str, str]) -> None:
        """Keeps each of ``items``."""

    def close(self) -> None:
        """Lets go of the file."""
