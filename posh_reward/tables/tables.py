"""Tables -> rows, and rows -> tables: JSON lines, CSV and Parquet, one row at a time.

Result rows go to a journal that survives a kill, or to a stream that keeps nothing.
"""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, is_dataclass, replace
from io import BufferedReader, BytesIO, TextIOWrapper
from itertools import chain, islice, takewhile, zip_longest
from pathlib import Path
from reprlib import repr as short
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal, get_args, get_origin, get_type_hints

from posh_reward.errors import BusyError, InputError, MissingDependencyError, cut_middle
from posh_reward.metrics.records import (
    EARLIER_NAMES,
    RECORD_CLASSES,
    find_main_type,
    list_record_fields,
    read_metric_name,
    read_scores,
)
from posh_reward.process.locks import open_alone, whole_file
from posh_reward.provenance import ORIGIN_COLUMN
from posh_reward.settings import shorten, suggest_file
from posh_reward.tables.layouts import Row as Row
from posh_reward.types import Failure, Scores

if TYPE_CHECKING:
    from _csv import Reader as CsvReader

    import pyarrow


STANDARD_STREAM = "-"  # name of standard input or output


@dataclass(frozen=True, slots=True)
class Format:
    """A file format with its delimiter."""

    kind: Literal["jsonl", "csv", "parquet"]
    delimiter: str = ","  # of CSV


FORMATS = {
    "jsonl": Format("jsonl"),
    "csv": Format("csv"),
    "tsv": Format("csv", "\t"),
    "parquet": Format("parquet"),
}
FORMAT_BY_ENDING = {
    **{f".{name}": name for name in FORMATS}, ".ndjson": "jsonl", ".jsonlines": "jsonl",
}  # fmt: skip
TABLE_ENDINGS = (*FORMAT_BY_ENDING, ".json", ".xlsx", ".xls", ".ods")


def find_format(name: str, delimiter: str | None = None) -> Format:
    """Format of an output, by its ending; JSON lines for standard output.

    ``delimiter`` is for CSV only.
    """
    path = Path(name)
    format_name = "jsonl" if name == STANDARD_STREAM else FORMAT_BY_ENDING.get(path.suffix.lower())
    if format_name is None:
        raise InputError(
            f"{path.name or name!r} does not end in {', '.join(FORMAT_BY_ENDING)}: rename it"
        )
    format = FORMATS[format_name]
    if format.kind == "parquet":
        require_parquet()
    if format.kind != "csv" or delimiter is None:
        return format
    return replace(format, delimiter=check_delimiter(delimiter))


def check_delimiter(delimiter: str) -> str:
    r"""Check the value of ``--delimiter``, where ``\t`` is a tab."""
    delimiter = "\t" if delimiter == r"\t" else delimiter
    if len(delimiter) != 1 or delimiter in '"\r\n\0':
        raise InputError(
            f"the delimiter {shorten(delimiter)} is not one character, such as ';' or '\\t' "
            "for a tab"
        )
    return delimiter


def require_parquet() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise MissingDependencyError("Parquet needs pyarrow: pip install pyarrow") from None


MISSING_CELL = re.compile(r"\s*(?:NaN|nan|NA|<NA>|[Nn]/[Aa]|#N/[ABD]|#NV)\s*")
"""Missing cells, as data frames, R and spreadsheets (in Dutch, Spanish, German) write them."""


def is_missing_cell(cell: str) -> bool:
    return MISSING_CELL.fullmatch(cell) is not None


FORMULA_OR_MISSING = re.compile(
    "'*(?:"  # our own mark, so that texts that already begin with it keep theirs
    # Some programs trim what precedes the sign, and also accept its full-width forms.
    "[\\s\x00-\x1f\x7f\u200b-\u200f\u2060\ufeff]*"
    "[\t\r\n=+@＝＋－＠-]"  # noqa: RUF001
    f"|{MISSING_CELL.pattern}\\Z)"  # would be read as a missing cell
)


def escape_cell(text: str) -> str:
    """A text as a cell that no spreadsheet runs as a formula; ``unescape_cell`` undoes it."""
    if FORMULA_OR_MISSING.match(text):
        return "'" + text
    return text


DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+(?:[eE][+-]?\d+)?\s*")


def parse_number(cell: str) -> float:
    """The number in a cell, or ``ValueError``; a single comma counts as the decimal point."""
    if DECIMAL_COMMA.fullmatch(cell):
        cell = cell.replace(",", ".")
    return float(cell)


def unescape_cell(cell: str) -> str:
    if cell.startswith("'") and FORMULA_OR_MISSING.match(cell):
        return cell[1:]
    return cell


MAX_CELL_CHARACTERS = 64_000_000  # of any format; Python's own limit for CSV is 131,072
PARQUET_ROWS_PER_READ = 64  # few, since rows may hold images


def read_table(source: IO[bytes], name: str, format: Format) -> Iterator[Row]:
    """Rows of an open binary file, one at a time; ``name`` is for error messages."""
    try:
        if format.kind == "jsonl":
            yield from read_jsonl(source, name)
        elif format.kind == "csv":
            yield from _read_csv(source, name, format.delimiter)
        else:
            yield from _read_parquet(source, name)
    except OSError as error:
        raise InputError(f"cannot read {name}: {error}") from None


def read_jsonl(source: Iterable[bytes], name: str) -> Iterator[Row]:
    for number, line in enumerate(source, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            row = json.loads(text, object_pairs_hook=make_object) if text else None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{name}, line {number}: not JSON ({error})") from None
        if isinstance(row, dict):
            yield row
        elif text:
            raise InputError(f"{name}, line {number}: not a JSON object, but {text[:40]}")


def make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of JSON; ``ValueError`` if it has a key twice, of which one would be lost."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in made if keys.count(key) > 1)
        raise ValueError(f"the key {shorten(twice)} occurs twice")
    return made


def _read_csv(source: IO[bytes], name: str, delimiter: str) -> Iterator[Row]:
    csv.field_size_limit(MAX_CELL_CHARACTERS)
    start = source.peek(2)[:2] if isinstance(source, BufferedReader) else b""
    utf16 = start in (BOM_UTF16_LE, BOM_UTF16_BE)  # Excel's "Unicode text"
    text = TextIOWrapper(source, "utf-16" if utf16 else "utf-8-sig", newline="")
    try:
        lines: Iterable[str] = text
        first = text.readline()
        if named := DELIMITER_LINE.fullmatch(first):  # Excel's own first line
            delimiter = named[1]
        elif first:
            lines = chain([first], text)
            delimiter = find_delimiter(first, delimiter)
        yield from _parse_csv(csv.reader(lines, delimiter=delimiter, strict=True), name, delimiter)
    except UnicodeDecodeError as error:
        raise InputError(
            f'{name}: not UTF-8 ({error}): save it as UTF-8; in Excel, as "CSV UTF-8"'
        ) from None
    finally:
        if not source.closed:  # closed if a reader stopped before the end
            text.detach()  # leaves closing to whoever opened the file


DELIMITER_LINE = re.compile(r"sep=(.)\r?\n")


def find_delimiter(header: str, delimiter: str) -> str:
    """The delimiter if it is in the header; else the one that is there most often."""
    header = re.sub(r'"[^"]*"', "", header)
    if delimiter in header:
        return delimiter
    most_frequent = max(",;\t|", key=header.count)
    return most_frequent if most_frequent in header else delimiter


def _parse_csv(reader: CsvReader, name: str, delimiter: str) -> Iterator[Row]:
    columns = [unescape_cell(column) for column in next(_read_csv_rows(reader, name), [])]
    check_distinct(columns, name)
    empty = 0  # rows just read that hold nothing
    for cells in _read_csv_rows(reader, name):
        if any(cells[len(columns) :]):
            raise InputError(
                f"{name}, line {reader.line_num}: {len(cells)} cells, but {len(columns)} "
                f"columns: put texts that contain {delimiter!r} in quotes"
            )
        if len(cells) > 1 and not any(cells):
            empty += 1
        elif cells:
            # Spreadsheets add rows of empty cells at the end; others count as rows.
            yield from (dict.fromkeys(columns, "") for _ in range(empty))
            empty = 0
            values = [None if is_missing_cell(cell) else unescape_cell(cell) for cell in cells]
            yield dict(zip_longest(columns, values[: len(columns)]))


def _read_csv_rows(reader: CsvReader, name: str) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise InputError(f"{name}, line {reader.line_num}: not CSV ({error})") from None


def check_distinct(columns: Sequence[str], name: str) -> None:
    for column in columns:
        if column and columns.count(column) > 1:
            raise InputError(f"{name} has the column {shorten(column)} twice: rename one of them")


def _read_parquet(source: IO[bytes], name: str) -> Iterator[Row]:
    require_parquet()
    import pyarrow
    import pyarrow.parquet

    try:
        if not source.seekable():  # Parquet's index is at its end, so a pipe has to be read whole
            source = BytesIO(source.read())
        file = pyarrow.parquet.ParquetFile(source)
        check_distinct(file.schema_arrow.names, name)
        _check_column_sizes(file.metadata, name)
        for batch in file.iter_batches(PARQUET_ROWS_PER_READ):
            _check_cells(batch, name)
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{name}: not Parquet ({cut_middle(str(error), 150)})") from None


def _check_column_sizes(metadata: pyarrow.parquet.FileMetaData, name: str) -> None:
    """Raise for columns whose cells are too large: 33 kB of a file can unpack to a cell of 1 GB."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.total_uncompressed_size > MAX_CELL_CHARACTERS * max(column.num_values, 1):
                raise _too_large(name, column.path_in_schema)


def _check_cells(batch: pyarrow.RecordBatch, name: str) -> None:
    """Raise for a cell that is too large, before Python gets a copy of it."""
    import pyarrow.compute as pc

    for column, cells in zip(batch.schema.names, batch.columns, strict=True):
        kind = str(cells.type)
        if kind.removeprefix("large_") in ("string", "binary"):
            longest = pc.max(pc.binary_length(cells)).as_py()
            if longest is not None and longest > MAX_CELL_CHARACTERS:
                raise _too_large(name, column)


def _too_large(name: str, column: str) -> InputError:
    return InputError(
        f"{name}: cells of {column!r} have more than {MAX_CELL_CHARACTERS:,} bytes: leave them out"
    )


def display_name(name: str) -> str:
    return "standard input" if name == STANDARD_STREAM else repr(name)


@contextmanager
def open_source(name: str) -> Iterator[IO[bytes]]:
    """Open a file or standard input; ``InputError`` if it cannot be read."""
    if name == STANDARD_STREAM:
        yield standard_input()
        return
    path = Path(name)
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(
            f"cannot read {shorten(name)}: {_explain_unreadable(path, error)}"
        ) from None
    with file:
        yield file


def _explain_unreadable(path: Path, error: OSError) -> str:
    """Tell why a table cannot be opened, and what may have been meant."""
    if isinstance(error, IsADirectoryError):
        names = sorted(each.name for each in path.iterdir() if each.suffix in TABLE_ENDINGS)
        example = f", such as {names[0]!r}" if names else ""
        return f"it is a folder; name a file in it{example}"
    if len(path.name.split()) > 1 and not path.suffix:
        return "there is no such file; for two texts: posh-reward explain TEXT REFERENCE"
    if isinstance(error, FileNotFoundError):
        return f"there is no such file{suggest_file(path)}"
    return str(error.strerror)


def standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise InputError("standard input is closed: name a file")
    return sys.stdin.buffer


def standard_output() -> BinaryIO:
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed")
    return sys.stdout.buffer


TEXT_COLUMNS = frozenset(
    {*"id model image generation reference question signature".split(), ORIGIN_COLUMN}
)
PROVE_TEXT_COLUMNS = frozenset("response answer caption program value dropped why".split())
"""Columns of texts beside a metric's own fields."""
PARQUET_ROWS_PER_WRITE = 1000
CSV_DECIMALS = 6  # people read CSV; other formats have full precision


def write_table(
    rows: Iterable[Mapping[str, Any]], path: Path, format: Format, mode: int = 0o666
) -> None:
    """Write the whole file or nothing; every row has the columns of the first.

    ``mode`` is the file's permissions, less the umask.
    """
    with whole_file(path, mode) as file:
        if format.kind == "parquet":
            _write_parquet(rows, file)
        elif format.kind == "jsonl":
            file.writelines(map(format_json_line, rows))
        else:
            _write_csv(rows, file, format.delimiter)


def format_json_line(row: Mapping[str, Any]) -> bytes:
    r"""One line of JSON in UTF-8; a lone surrogate stays an escape (``\ud83d``)."""
    text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _write_csv(rows: Iterable[Mapping[str, Any]], file: IO[bytes], delimiter: str) -> None:
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
            writer.writerow(map(escape_cell, columns))
        writer.writerow([_format_csv_cell(row.get(column)) for column in columns])
    text.detach()


def _format_csv_cell(value: object) -> object:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return round(value, CSV_DECIMALS)
    if isinstance(value, str):
        return escape_cell(value)
    return value


def _write_parquet(rows: Iterable[Mapping[str, Any]], file: IO[bytes]) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = iter(rows)
    writer = None
    try:
        while chunk := [_make_storable(row) for row in islice(rows, PARQUET_ROWS_PER_WRITE)]:
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(file, _infer_schema(chunk))
            writer.write_table(pyarrow.Table.from_pylist(chunk, schema=writer.schema))
    finally:
        if writer is not None:
            writer.close()


def _make_storable(row: Mapping[str, Any]) -> Row:
    """A row whose ``id`` and ``image`` are texts, so that each column has one type."""
    storable = {key: _make_encodable(value) for key, value in row.items()}
    for key in ("id", "image"):
        if key in storable:
            storable[key] = str(storable[key])
    return storable


def _make_encodable(value: object) -> object:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {key: _make_encodable(part) for key, part in value.items()}
    if isinstance(value, list):
        return list(map(_make_encodable, value))
    return value


def replace_surrogates(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _infer_schema(rows: Sequence[Row]) -> pyarrow.Schema:
    """Column types: those of the metric's record, texts, and otherwise those of the values."""
    import pyarrow as pa

    metric = read_metric_name(rows[0])
    known: dict[str, Any] = dict.fromkeys(TEXT_COLUMNS, str)
    if metric.startswith("prove"):
        known |= dict.fromkeys(PROVE_TEXT_COLUMNS, str)
    known["failure"] = Failure
    if metric in RECORD_CLASSES:
        known |= list_record_fields(metric)
    columns = []
    for name in rows[0]:
        if name in known:
            kind = find_arrow_type(known[name])
        else:
            kind = pa.array([row.get(name) for row in rows]).type
            if pa.types.is_null(kind):  # a column without values so far may get numbers later
                kind = pa.float64()
        columns.append((name, kind))
    return pa.schema(columns)


def find_arrow_type(hint: Any) -> pyarrow.DataType:
    """Type of a column for a field of a record, such as ``tuple[Element, ...]``."""
    import pyarrow as pa

    kind = find_main_type(hint)
    if is_dataclass(kind):
        fields = get_type_hints(kind)
        return pa.struct([(name, find_arrow_type(each)) for name, each in fields.items()])
    if get_origin(kind) in (tuple, list):  # of one type
        return pa.list_(find_arrow_type(get_args(kind)[0]))
    return {str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_()}[kind]


ROW_PREFIX = b'{"id": '  # of each line that scoring writes


class Journal:
    """An append-only file of rows, which only one process can open at a time."""

    def __init__(self, path: Path, begins: bytes = ROW_PREFIX) -> None:
        self.path = path
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
        self._file = open_alone(path)
        try:
            self._whole_bytes, self.count = self._find_whole_lines(begins)
            self._size = self._file.seek(0, os.SEEK_END)
        except BaseException:
            self._file.close()
            raise

    def _find_whole_lines(self, begins: bytes) -> tuple[int, int]:
        end = count = 0
        for line in self._file:
            # A power cut can leave zeros where a line's bytes should be.
            if not line.endswith(b"\n") or b"\0" in line:
                # The first append drops what a kill cut short, but only if it could be the start of
                # one of our rows: another program's file stays untouched.
                torn = line.partition(b"\0")[0]
                if not torn.startswith(begins) and not begins.startswith(torn):
                    raise InputError(
                        f"{str(self.path)!r} ends in {torn[:40]!r}, which this command did not "
                        "write: choose another output, or delete it"
                    )
                break
            end += len(line)
            count += 1
        return end, count

    def rows(self) -> Iterator[Row]:
        """The complete rows, one at a time; ``InputError`` for one that is not a JSON object."""
        self._check_sole()
        with self.path.open("rb") as file:
            yield from read_jsonl(islice(file, self.count), repr(str(self.path)))

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows; once this returns they are on disk."""
        self._check_sole()
        lines = list(map(format_json_line, rows))
        self._file.seek(self._whole_bytes)
        self._file.truncate()
        self._file.write(b"".join(lines))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._whole_bytes = self._size = self._file.tell()
        self.count += len(lines)

    def _check_sole(self) -> None:
        """Raise ``BusyError`` if the file changed, as it can on a file system without locks."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size != self._size:
            raise BusyError(
                f"another process changed {str(self.path)!r} ({size:,} bytes instead of "
                f"{self._size:,}): let only one write it, and run this command again"
            )

    def clear(self) -> None:
        self._file.truncate(0)
        self._whole_bytes = self._size = self.count = 0

    def close(self) -> None:
        self._file.close()


class Stream:
    """A pipe, a terminal or a device, to which rows are sent at once; none are kept."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def rows(self) -> Iterator[Row]:
        """Yield nothing: rows sent are gone."""
        return iter(())

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Send rows; ``OSError`` if the reader is gone or the device is full."""
        self._file.write(b"".join(map(format_json_line, rows)))
        self._file.flush()


def read_journal(path: Path) -> list[Row]:
    """The complete rows of a journal, which a process may be writing; none if it is missing."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        whole = takewhile(lambda line: line.endswith(b"\n") and b"\0" not in line, file)
        return list(read_jsonl(whole, repr(str(path))))


def check_apart(source: str, output: str) -> None:
    """Raise ``InputError`` if a command would overwrite its input."""
    if STANDARD_STREAM not in (source, output) and Path(source).resolve() == Path(output).resolve():
        raise InputError(f"{output!r} is the input: choose another output")


@contextmanager
def open_sink(
    name: str, format: Format, overwrite: bool, reread: Callable[[Row], Row]
) -> Iterator[Journal | Stream]:
    """Open what receives rows: the output if it is JSON lines, else a journal beside it.

    The journal of a finished table begins with its rows, as ``reread`` returns them.
    """
    path = Path(name)
    if name == STANDARD_STREAM:
        yield Stream(standard_output())
    elif path.exists() and not path.is_file():
        if format.kind != "jsonl":
            raise InputError(f"{name!r} is not a plain file: only JSON lines can go there")
        with path.open("wb") as file:
            yield Stream(file)
    elif format.kind == "jsonl":
        with closing(Journal(path)) as journal:
            if overwrite:
                journal.clear()
            yield journal
    else:
        with _open_journal_of_table(name, format, overwrite, reread) as journal:
            yield journal


@contextmanager
def _open_journal_of_table(
    name: str, format: Format, overwrite: bool, reread: Callable[[Row], Row]
) -> Iterator[Journal]:
    """Open the journal beside a table; write the table at the end of the block."""
    path = Path(name)
    place = path.with_name(path.name + ".journal.jsonl")
    if place.is_symlink():  # this name is ours: a link there was planted
        raise InputError(
            f"{str(place)!r} is a link to another file: delete it, or choose another output"
        )
    with closing(Journal(place)) as journal:
        finished = 0  # rows that the table itself has
        if overwrite:
            journal.clear()
        elif path.exists() and not journal.count:
            _copy_table(name, format, journal, reread)
            finished = journal.count
        try:
            yield journal
        finally:
            if finished and journal.count == finished:
                place.unlink()
        if journal.count != finished:
            # Rows of one table can lack columns of another's, such as a person's ``origin``.
            columns: Row = {}
            for row in journal.rows():
                columns |= dict.fromkeys(row)
            write_table(({**columns, **row} for row in journal.rows()), path, format)
            place.unlink()


def _copy_table(name: str, format: Format, journal: Journal, reread: Callable[[Row], Row]) -> None:
    """Copy a finished table's rows into its journal, or delete the journal and raise."""
    try:
        with open_source(name) as table:
            rows = read_table(table, display_name(name), format)
            journal.append(map(reread, rows))
        if not journal.count:
            raise InputError("it has no rows")
    except InputError as error:
        journal.path.unlink()
        raise InputError(
            f"{name!r} exists and is not a table of these scores ({error}): choose "
            "another output, or pass --overwrite"
        ) from None


AXIS_MEANINGS = {
    "precision": "how much of the description the reference supports",
    "recall": "how much of the reference the description covers",
    "f1": "their harmonic mean",
}
"""Field of ``Scores`` -> meaning."""
SCORE_NAMES = tuple(AXIS_MEANINGS)
SCORE_SCALE = "0.2 to 1, higher is better"
SCORES_EXPLANATION = f"Scores are {SCORE_SCALE}; " + "; ".join(
    f"{name}: {meaning}" for name, meaning in AXIS_MEANINGS.items()
)
"""Shown once on each page and under each table."""
AXIS_SCORES = {"mistakes": "precision", "omissions": "recall", "overall": "f1"}
"""Axis that people judge -> score that is compared with it."""


def read_scores_of_row(row: Row) -> Scores:
    """The scores that a row of any format was written from; ``InputError`` if it is not scored."""
    scores: Scores = read_row("posh", row)
    return scores


def read_row(metric: str, row: Row) -> Any:
    """The record of a metric's row; ``InputError`` if it is no such row."""
    return read_scores(metric, parse_cells(metric, row))


def parse_cells(metric: str, row: Row) -> Row:
    """A metric's row read from CSV, with numbers and lists where it has their texts."""
    types = dict(list_record_fields(metric))
    types |= {old: types.get(new) for old, new in EARLIER_NAMES[metric].items()}
    read = dict(row)
    if "failure_kind" in row:  # before 0.2 a reason was a text
        read["failure"] = row.get("failure") or None
        del types["failure"]
    for name, hint in types.items():
        cell, kind = read.get(name), find_main_type(hint)
        if isinstance(cell, str) and kind not in (str, type(None)):
            try:
                read[name] = _parse_cell(cell, kind)
            except (ValueError, RecursionError) as error:
                what = "a number" if kind in (float, int) else f"JSON ({error})"
                raise InputError(f"{name} is {short(cell)}, not {what}") from None
    return read


def _parse_cell(cell: str, kind: Any) -> object:
    if not cell:
        return None
    if kind is bool:
        return cell == "True"
    if kind not in (float, int):
        return json.loads(cell)
    number = parse_number(cell)
    if kind is int and number.is_integer():
        return int(number)
    return number
