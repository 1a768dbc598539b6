"""Things to keep in a store; light, since many processes import it."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path


def items(count: int, name: str = "k", size: int = 60) -> dict[str, str]:
    """Values that follow from their keys, so that each can be checked."""
    return {key: value_of(key, size) for key in (f"{name}{i}" for i in range(count))}


def value_of(key: str, size: int = 60) -> str:
    return hashlib.shake_256(key.encode()).hexdigest(size // 2)


def rows_by_kind(path: str | Path) -> dict[str, int]:
    """Number of rows that a store's file holds, of each kind."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT kind, count(*) FROM kept JOIN spaces ON spaces.id = kept.space GROUP BY kind"
        )
        return dict(rows.fetchall())
