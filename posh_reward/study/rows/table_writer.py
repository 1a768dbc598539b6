"""Rows -> a whole file in any format; ``journal`` appends to one."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import is_dataclass
from gzip import GzipFile
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from posh_reward.metrics.records import RECORDS, fields_of_record, main_type, metric_of
from posh_reward.process.file_lock import open_alone
from posh_reward.study.rows.tables import Format, Row, guard
from posh_reward.types import Failure

if TYPE_CHECKING:
    import pyarrow

TEXTS = frozenset("id model image generation reference question signature".split())
PROVE_TEXTS = frozenset("response answer caption program value dropped why".split())
"""Columns of texts beside a metric's own fields."""
AT_ONCE = 1000  # rows converted to Parquet at a time
DECIMALS = 6  # of numbers in CSV, which people read; other formats have full precision


def write_table(rows: Iterable[Mapping[str, Any]], path: Path, format: Format) -> None:
    """Write the whole file or nothing; every row has the columns of the first."""
    with whole_file(path) as file:
        # No name and no time: equal rows make equal bytes.
        gzip = GzipFile("", "wb", fileobj=file, mtime=0) if format.gzip else nullcontext(file)
        with gzip as target:
            if format.kind == "parquet":
                _write_parquet(rows, target)
            elif format.kind == "jsonl":
                target.writelines(map(as_line, rows))
            else:
                _write_csv(rows, target, format.delimiter)


def as_line(row: Mapping[str, Any]) -> bytes:
    r"""One line of JSON in UTF-8; a lone surrogate stays an escape (``\ud83d``)."""
    text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


@contextmanager
def whole_file(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file that takes its name only once the block has succeeded and the data is on disk.

    ``mode`` is the file's permissions, less the umask, from its creation on. A link is replaced,
    not followed, unless it leads to a device or a pipe, which is written to.

    Raises:
        BusyError: another process writes it.
        OSError: it cannot be written.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    part = path.with_name(path.name + ".part")
    if part.is_symlink():  # this name is ours: a link there was planted
        part.unlink()
    with open_alone(part, mode, os.O_NOFOLLOW) as file:
        try:
            file.truncate()  # what a kill left
            os.fchmod(file.fileno(), os.fstat(file.fileno()).st_mode & mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _write_csv(
    rows: Iterable[Mapping[str, Any]], file: IO[bytes] | GzipFile, delimiter: str
) -> None:
    # Excel shows mojibake without a byte order mark; pandas, pyarrow and our reader skip it.
    text = TextIOWrapper(file, "utf-8-sig", errors="replace", newline="")
    # Quote all texts: Python before 3.13 would leave a lone carriage return unquoted.
    writer = csv.writer(
        text, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
    )
    columns: list[str] = []
    for row in rows:
        if not columns:
            columns = list(row)
            writer.writerow(map(guard, columns))
        writer.writerow([_cell(row.get(column)) for column in columns])
    text.detach()


def _cell(value: object) -> object:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return round(value, DECIMALS)
    return guard(value) if isinstance(value, str) else value


def _write_parquet(rows: Iterable[Mapping[str, Any]], file: IO[bytes] | GzipFile) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = iter(rows)
    writer = None
    try:
        while chunk := [_storable(row) for row in islice(rows, AT_ONCE)]:
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(file, _schema(chunk))
            writer.write_table(pyarrow.Table.from_pylist(chunk, schema=writer.schema))
    finally:
        if writer is not None:
            writer.close()


def _storable(row: Mapping[str, Any]) -> Row:
    """A row whose ``id`` and ``image`` are texts, so that each column has one type."""
    whole = {key: _whole(value) for key, value in row.items()}
    return {**whole, **{key: str(whole[key]) for key in ("id", "image") if key in whole}}


def _whole(value: object) -> object:
    """The value without lone surrogates, which UTF-8 cannot encode."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {key: _whole(part) for key, part in value.items()}
    return [_whole(part) for part in value] if isinstance(value, list) else value


def _schema(rows: Sequence[Row]) -> pyarrow.Schema:
    """Column types: those of the metric's record, texts, and otherwise those of the values."""
    import pyarrow as pa

    metric = metric_of(rows[0])
    texts = TEXTS | PROVE_TEXTS if metric.startswith("prove") else TEXTS
    fields = fields_of_record(metric) if metric in RECORDS else {}
    known = {**dict.fromkeys(texts, str), "failure": Failure, **fields}
    types = {name: arrow_type(known[name]) for name in rows[0] if name in known}
    for name in rows[0].keys() - types:
        guess = pa.array([row.get(name) for row in rows]).type
        # A column without values so far may get numbers later.
        types[name] = pa.float64() if pa.types.is_null(guess) else guess
    return pa.schema([(name, types[name]) for name in rows[0]])


def arrow_type(hint: Any) -> pyarrow.DataType:
    """Type of a column for a field of a record, such as ``tuple[Element, ...]``."""
    import pyarrow as pa

    kind = main_type(hint)
    if is_dataclass(kind):
        fields = get_type_hints(kind)
        return pa.struct([(name, arrow_type(each)) for name, each in fields.items()])
    if get_origin(kind) is tuple:  # of one type
        return pa.list_(arrow_type(get_args(kind)[0]))
    return {str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_()}[kind]
