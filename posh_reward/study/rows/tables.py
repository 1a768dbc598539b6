"""Tables: JSON lines, CSV or Parquet -> rows, and scored rows -> CSV or Parquet.

CSV is opened in spreadsheets, which run a cell that begins like a formula. So a text that does
is written with an apostrophe before it, which reading takes away again.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.study.rows.journal import Row

if TYPE_CHECKING:
    import pyarrow

FORMATS = ("jsonl", "csv", "parquet")
ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001 - spreadsheets take the wide ones too
"""How a cell begins that a spreadsheet would run."""
MAX_CELL = 2**31 - 1
AT_ONCE = 1000
"""Rows that are turned into Parquet at a time."""


def format_of(path: Path) -> str:
    """The format that a file's ending names.

    Raises:
        InputError: it names none that we know.
    """
    if path.suffix.lower() not in ENDINGS:
        raise InputError(
            f"{path.name!r} does not end in {', '.join(ENDINGS)}: rename it, or name the format "
            "of an input with --format"
        )
    return ENDINGS[path.suffix.lower()]


def require(format: str) -> None:
    """Makes sure that a format can be read and written here.

    Raises:
        MissingDependencyError: it needs a package that is not installed.
    """
    if format == "parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise MissingDependencyError("Parquet needs pyarrow: pip install pyarrow") from None


def read_table(source: IO[bytes], name: str, format: str) -> Iterator[Row]:
    """The rows of an open file, one at a time.

    Args:
        source: opened in binary mode.
        name: what error messages call it.
        format: one of ``FORMATS``.

    Raises:
        InputError: it is not of that format; the message has the line.
    """
    readers = {"jsonl": _read_jsonl, "csv": _read_csv, "parquet": _read_parquet}
    return readers[format](source, name)


def _read_jsonl(source: IO[bytes], name: str) -> Iterator[Row]:
    for line_number, line in enumerate(source, start=1):
        try:
            text = line.decode("utf-8-sig" if line_number == 1 else "utf-8")
            row = json.loads(text) if text.strip() else None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{name}, line {line_number}: no JSON ({error})") from None
        if row is None and not text.strip():
            continue
        if not isinstance(row, dict):
            raise InputError(f"{name}, line {line_number}: no JSON object, but {text.strip()[:40]}")
        yield row


def _read_csv(source: IO[bytes], name: str) -> Iterator[Row]:
    csv.field_size_limit(MAX_CELL)
    text = TextIOWrapper(source, "utf-8-sig", newline="")
    reader = csv.DictReader(text)
    try:
        for row in reader:
            if None in row:
                raise InputError(
                    f"{name}, line {reader.line_num}: more cells than the "
                    f"{len(reader.fieldnames or ())} columns: put texts with commas in quotes"
                )
            yield {column: _bared(cell) for column, cell in row.items()}
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 ({error}): save it as UTF-8") from None
    except csv.Error as error:
        raise InputError(f"{name}, line {reader.line_num}: no CSV ({error})") from None
    finally:
        text.detach()  # closing is up to whoever opened it


def _read_parquet(source: IO[bytes], name: str) -> Iterator[Row]:
    require("parquet")
    from io import BytesIO

    import pyarrow
    import pyarrow.parquet

    try:
        seekable = source if source.seekable() else BytesIO(source.read())
        for batch in pyarrow.parquet.ParquetFile(seekable).iter_batches(AT_ONCE):
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{name}: no Parquet ({error})") from None


def write_table(rows: Iterable[Mapping[str, Any]], path: Path, format: str) -> None:
    """Writes scored rows to a CSV or Parquet file, whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    part = path.with_name(path.name + ".part")
    writers = {"csv": _write_csv, "parquet": _write_parquet}
    try:
        writers[format](rows, part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _write_csv(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        writer = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow({column: _cell(value) for column, value in row.items()})
        file.flush()
        os.fsync(file.fileno())


def _cell(value: object) -> object:
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return _guarded(value) if isinstance(value, str) else value


def _guarded(text: str) -> str:
    return "'" + text if text.lstrip("'").startswith(FORMULA) else text


def _bared(cell: str | None) -> str | None:
    guarded = cell is not None and cell[:1] == "'" and cell.lstrip("'").startswith(FORMULA)
    return cell[1:] if cell is not None and guarded else cell


def _write_parquet(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = iter(rows)
    writer = None
    try:
        while some := [_storable(row) for row in islice(rows, AT_ONCE)]:
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(path, _schema(some[0]))
            writer.write_table(pyarrow.Table.from_pylist(some, schema=writer.schema))
    finally:
        if writer is not None:
            writer.close()


def _storable(row: Mapping[str, Any]) -> Row:
    """Names of rows and pictures as text, so that a column has one type; no half surrogates."""
    whole = {key: _whole(value) for key, value in row.items()}
    return {**whole, **{key: str(whole[key]) for key in ("id", "image") if key in whole}}


def _whole(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {key: _whole(part) for key, part in value.items()}
    return [_whole(part) for part in value] if isinstance(value, list) else value


def _schema(row: Mapping[str, Any]) -> pyarrow.Schema:
    """Types of the columns that a row has; where pictures are is written as text."""
    import pyarrow as pa

    text, real, whole = pa.string(), pa.float64(), pa.int64()
    element = {
        "direction": text, "kind": text, "text": text, "grade": real,
        "spans": pa.list_(pa.list_(whole)), "identifier": text, "other": text,
        "asked": pa.bool_(), "failure": text, "failure_kind": text,
    }  # fmt: skip
    columns = {
        "id": text, "model": text, "image": text, "generation": text, "reference": text,
        "mistakes": real, "omissions": real, "overall": real, "generation_elements": whole,
        "reference_elements": whole, "failure_kind": text, "failure": text, "unparsed": whole,
        "signature": text, "elements": pa.list_(pa.struct(list(element.items()))),
    }  # fmt: skip
    return pa.schema([(name, kind) for name, kind in columns.items() if name in row])
