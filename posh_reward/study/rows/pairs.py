"""Rows of a table -> pairs to score, one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from posh_reward.errors import InputError
from posh_reward.study.rows.journal import Row


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table are called."""

    generation: str = "generation"
    reference: str = "reference"
    id: str | None = None
    """None: rows are counted from 1."""
    model: str | None = None
    """Who wrote the generation; carried along. None: a column ``model``, if there is one."""
    image: str | None = None
    """The picture's path or row; carried along. None: a column ``image``, if there is one."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One row to be scored."""

    id: str | int
    generation: Any
    """A text; anything else has no score."""
    reference: Any
    model: str | None = None
    image: str | int | None = None

    @property
    def head(self) -> Row:
        """What a scored row repeats of it; ``model`` and ``image`` only if there are any."""
        carried = {"model": self.model, "image": self.image}
        texts = {"generation": self.generation, "reference": self.reference}
        return {
            "id": self.id,
            **{key: value for key, value in carried.items() if value is not None},
            **{key: text if isinstance(text, str) else None for key, text in texts.items()},
        }


@dataclass(slots=True)
class Survey:
    """What a first look through a table finds."""

    rows: int = 0


def survey(rows: Iterable[Row], name: str, columns: Columns) -> Survey:
    """Looks through a table before any of it is scored.

    Raises:
        InputError: there are no rows, no row has one of the columns, or an id occurs twice.
    """
    found = Survey()
    seen: dict[str, None] = {}
    ids: set[tuple[str, str]] = set()
    for row in rows:
        found.rows += 1
        seen.update(dict.fromkeys(row))
        if columns.id is not None:
            key = (str(row.get(columns.id)), str(row.get(columns.model or "model")))
            if key in ids:
                raise InputError(
                    f"{name}, row {found.rows}: the id {key[0]!r} occurs twice"
                    + (f" for the model {key[1]!r}" if key[1] != "None" else "")
                    + ": give each row its own, or leave --id out to count rows"
                )
            ids.add(key)
    if not found.rows:
        raise InputError(f"{name} has no rows")
    check_columns(seen, name, columns)
    return found


def check_columns(there: Mapping[str, object], name: str, columns: Columns) -> None:
    """Raises ``InputError`` if a table lacks a column that was named."""
    for flag in ("generation", "reference", "id", "model", "image"):
        column = getattr(columns, flag)
        if column is not None and column not in there:
            listed = ", ".join(repr(each) for each in there)
            raise InputError(
                f"{name} has no column {column!r}, but {listed}: name the right one with --{flag}"
            )


def pairs_of(rows: Iterable[Row], columns: Columns) -> Iterator[Pair]:
    """The pairs of a table; a cell that is missing makes a pair that cannot be scored."""
    for number, row in enumerate(rows, start=1):
        model = row.get(columns.model or "model")
        yield Pair(
            number if columns.id is None else _name(row.get(columns.id)),
            row.get(columns.generation),
            row.get(columns.reference),
            None if model is None else str(model),
            _place(row.get(columns.image or "image")),
        )


def _name(value: object) -> str | int:
    return value if isinstance(value, str | int) else str(value)


def _place(value: object) -> str | int | None:
    """Where a picture is; its pixels, as datasets hold them, are not carried along."""
    if isinstance(value, Mapping):
        value = value.get("path")
    return value if isinstance(value, str | int) else None
