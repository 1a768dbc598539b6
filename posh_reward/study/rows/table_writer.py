"""Rows -> a whole file in any format; ``journal`` appends to one."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from gzip import GzipFile
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from posh_reward.metrics.metric import field_of
from posh_reward.process.file_lock import open_alone
from posh_reward.study.rows.tables import Format, Row, guard

if TYPE_CHECKING:
    import pyarrow

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
    """Column types: fixed ones for scored rows, for other columns those of the values."""
    import pyarrow as pa

    text, real, whole = pa.string(), pa.float64(), pa.int64()
    element = {
        "direction": text, "kind": text, "text": text, "grade": real,
        "spans": pa.list_(pa.list_(whole)), "identifier": text, "other": text,
        "asked": pa.bool_(), "failure": text, "failure_kind": text,
    }  # fmt: skip
    if field_of(str(rows[0].get("signature")), "witness") is not None:
        image_grade = {"grade": real, "stated": real, "failure": text, "failure_kind": text}
        element["seen"] = pa.struct(list(image_grade.items()))
    criterion = {
        "criterion": text, "mean": real, "sigma": real, "weight": real,
        "failure": text, "failure_kind": text, "mass": real, "reason": text,
    }  # fmt: skip
    points = {
        "metric": text, "title": text, "points": whole, "lowest": whole, "highest": whole,
        "feedback": text,
    }  # fmt: skip
    words = pa.list_(text)
    answer = {"tuple": words, "score": real, "closest": words}
    claim = {
        **answer, "witness": text, "caption": real, "picture": real, "failure": text,
    }  # fmt: skip
    types = {
        "id": text, "model": text, "image": text, "generation": text, "reference": text,
        "mistakes": real, "omissions": real, "overall": real, "generation_elements": whole,
        "reference_elements": whole, "failure_kind": text, "failure": text, "unparsed": whole,
        "signature": text, "elements": pa.list_(pa.struct(list(element.items()))),
        "question": text, "criteria": pa.list_(pa.struct(list(criterion.items()))),
        "given": pa.list_(pa.struct(list(points.items()))),
        "wanted": pa.list_(pa.struct(list(answer.items()))),
        "claims": pa.list_(pa.struct(list(claim.items()))),
    }  # fmt: skip
    if str(rows[0].get("signature")).startswith("prove"):
        types |= dict.fromkeys(("answer", "caption", "program", "value", "dropped", "why"), text)
    # A column without values so far may get numbers later.
    guesses = {field.name: real if pa.types.is_null(field.type) else field.type
               for field in pa.Table.from_pylist(rows).schema}  # fmt: skip
    return pa.schema([(name, types.get(name) or guesses[name]) for name in rows[0]])
