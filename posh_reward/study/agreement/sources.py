"""Judgments by people: from the hub, a saved dataset, or a file of rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.study.rows.tables import ENDINGS, STANDARD, Row, format_of, open_table, shown

TABLES = (*ENDINGS, *(f"{ending}.gz" for ending in ENDINGS))
"""Endings of files of rows. Anything else, but for ``.json``, is a dataset."""


def read_rows(
    name: str,
    *,
    split: str = "test",
    format: str | None = None,
    delimiter: str | None = None,
    unfold: str | None = None,
) -> list[Row]:
    """All rows of a file, a saved dataset, or a dataset on the hub.

    Args:
        name: a file of rows (JSON lines, CSV, TSV, Parquet), a list of rows in ``.json``, the
            folder of a dataset, or a dataset's name on the hub; ``-`` for standard input.
        split: of a dataset.
        format: of a file; None: what its ending says.
        delimiter: of a CSV file.
        unfold: a column that holds lists of rows: each takes over the row's other columns.

    Raises:
        InputError: it cannot be read, has no rows, or no list in the column to unfold.
        ConfigError: the dataset cannot be loaded.
        MissingDependencyError: datasets are not installed.
    """
    if name == STANDARD or format is not None or name.lower().endswith(TABLES):
        with open_table(name, format_of(name, format, delimiter)) as table:
            rows = list(table)
    elif name.lower().endswith(".json"):
        rows = _list_of_rows(Path(name))
    else:
        rows = _dataset(name, split)
    if not rows:
        raise InputError(f"{shown(name)} has no rows")
    return rows if unfold is None else list(_unfolded(rows, unfold, shown(name)))


def _list_of_rows(path: Path) -> list[Row]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {str(path)!r}: {error}") from None
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise InputError(f"{str(path)!r} is not a list of JSON objects: use .jsonl for JSON lines")
    return found


def _dataset(name: str, split: str) -> list[Row]:
    try:
        from posh_reward.datasets.load_dataset import load_rows
    except ImportError:
        raise MissingDependencyError(
            f"{name!r} is a dataset, which needs `pip install datasets`; files of rows end in "
            f"{', '.join(ENDINGS)} or .json"
        ) from None
    return load_rows(name, split)


def _unfolded(rows: Sequence[Row], column: str, name: str) -> Iterator[Row]:
    for place, row in enumerate(rows, start=1):
        outer = {key: value for key, value in row.items() if key != column}
        inner = as_list(row.get(column))
        for each in [None] if inner is None else inner:
            if not isinstance(each, dict):
                raise InputError(f"{name}, row {place}: {column!r} is not a list of rows to unfold")
            yield {**outer, **each}


def as_list(value: object) -> list[object] | None:
    """A cell that holds a list, also as JSON in a cell of CSV; None if it does not."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return list(value) if isinstance(value, list | tuple) else None


def check_columns(rows: Sequence[Row], wanted: Mapping[str, str], name: str) -> None:
    """Makes sure that a table has the columns.

    Args:
        rows: of the table.
        wanted: the flag that names each column -> the column; columns that no flag names are
            called "a column ...".
        name: what messages call the table.

    Raises:
        InputError: no row has one of them.
    """
    found = columns_of(rows)
    for flag, column in wanted.items():
        if column not in found:
            remedy = f"name the right one with {flag}" if flag.startswith("--") else "rename it"
            raise InputError(
                f"{name} has no column {column!r}, but {', '.join(map(repr, found))}: {remedy}"
            )


def columns_of(rows: Sequence[Row]) -> Collection[str]:
    """Names of all columns, in order."""
    return dict.fromkeys(key for row in rows for key in row)


def text_of(row: Row, column: str, where: str) -> str:
    """A cell that has to be a text.

    Raises:
        InputError: it is missing, or something else.
    """
    value = row.get(column)
    if not isinstance(value, str):
        raise InputError(f"{where}: {column} is {str(value)[:40]!r}, not a text")
    return value


def image_of(row: Row, column: str) -> str | None:
    """A row's image: its path, name or number; None if the row has none."""
    value = row.get(column)
    if isinstance(value, Mapping):
        value = value.get("path")
    return str(value) if isinstance(value, str | int) else None
