"""Tables -> rows: JSON lines, CSV and Parquet, one row at a time and within bounds."""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Iterator, Sequence
from gzip import GzipFile
from io import BufferedReader, TextIOWrapper
from typing import IO

from posh_reward.errors import InputError
from posh_reward.study.rows.formats import Format, require_parquet
from posh_reward.study.rows.formulas import bared
from posh_reward.study.rows.journal import Row

LONGEST = 64_000_000
"""Bytes of the longest line of JSON, and characters of the longest line or cell of CSV: a small
gzip file can hold a line larger than the memory."""
AT_ONCE = 64
"""Rows of Parquet that are read at a time. They may hold images."""


def read_table(source: IO[bytes], name: str, format: Format) -> Iterator[Row]:
    """The rows of an open file, one at a time.

    Args:
        source: opened in binary mode.
        name: what error messages call it.
        format: how it is written.

    Raises:
        InputError: it cannot be read, or is not of that format; the message has the line.
    """
    try:
        opened = BufferedReader(GzipFile(fileobj=source)) if format.gzipped else source
        if format.kind == "jsonl":
            yield from _read_jsonl(opened, name)
        elif format.kind == "csv":
            yield from _read_csv(opened, name, format.delimiter)
        else:
            yield from _read_parquet(opened, name)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {name}: {error}") from None


def _read_jsonl(source: IO[bytes], name: str) -> Iterator[Row]:
    number = 0
    while line := source.readline(LONGEST + 1):
        number += 1
        _check_length(line, name, number)
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            row = json.loads(text) if text else None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{name}, line {number}: not JSON ({error})") from None
        if isinstance(row, dict):
            yield row
        elif text:
            raise InputError(f"{name}, line {number}: not a JSON object, but {text[:40]}")


def _read_csv(source: IO[bytes], name: str, delimiter: str) -> Iterator[Row]:
    csv.field_size_limit(LONGEST)
    text = TextIOWrapper(source, "utf-8-sig", newline="")
    reader = csv.reader(_lines(text, name), delimiter=delimiter, strict=True)
    try:
        columns = [bared(column) for column in next(reader, [])]
        _check_delimiter(columns, name)
        check_distinct(columns, name)
        for cells in reader:
            if len(cells) > len(columns):
                raise InputError(
                    f"{name}, line {reader.line_num}: {len(cells)} cells, but {len(columns)} "
                    f"columns: put texts that contain {delimiter!r} in quotes"
                )
            if cells:
                missing = [None] * (len(columns) - len(cells))
                yield dict(zip(columns, [*map(bared, cells), *missing], strict=True))
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 ({error}): save it as UTF-8") from None
    except csv.Error as error:
        raise InputError(f"{name}, line {reader.line_num}: not CSV ({error})") from None
    finally:
        if not source.closed:  # it is, if a reader gave up before the end
            text.detach()  # whoever opened the file closes it


def _check_delimiter(columns: Sequence[str], name: str) -> None:
    """Raises ``InputError`` if the only column looks like several, such as ``id;reference``."""
    between = next((mark for mark in ";,\t|" if len(columns) == 1 and mark in columns[0]), None)
    if between is not None:
        raise InputError(
            f"{name} has one column, {columns[0]!r}: if {between!r} stands between its cells, add "
            f"--delimiter {between!r}"
        )


def _lines(text: TextIOWrapper, name: str) -> Iterator[str]:
    number = 0
    while line := text.readline(LONGEST + 1):
        number += 1
        _check_length(line, name, number)
        yield line


def _check_length(line: bytes | str, name: str, number: int) -> None:
    if len(line) > LONGEST:
        raise InputError(f"{name}, line {number}: longer than {LONGEST:,} characters")


def check_distinct(columns: Sequence[str], name: str) -> None:
    """Raises ``InputError`` if two columns have one name; empty names are nobody's."""
    places: dict[str, int] = {}
    for place, column in enumerate(columns, start=1):
        if column and column in places:
            raise InputError(
                f"{name} has the column {column!r} twice, as columns {places[column]} and {place}: "
                "rename one of them"
            )
        places[column] = place


def _read_parquet(source: IO[bytes], name: str) -> Iterator[Row]:
    require_parquet()
    from io import BytesIO

    import pyarrow
    import pyarrow.parquet

    try:
        seekable = source if source.seekable() else BytesIO(source.read())
        file = pyarrow.parquet.ParquetFile(seekable)
        check_distinct(file.schema_arrow.names, name)
        for batch in file.iter_batches(AT_ONCE):
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{name}: not Parquet ({error})") from None
