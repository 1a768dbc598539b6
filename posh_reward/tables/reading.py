"""Inputs of all commands: a file or standard input -> rows, by what is in it.

::

    bytes -> JSON lines, JSON, CSV, Parquet, workbook -> rows -> columns of a known layout
             ``read_source``                                    ``layouts``
"""

from __future__ import annotations

import json
import re
import zipfile
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BufferedReader, BytesIO
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

from posh_reward.errors import InputError, MissingDependencyError, install_command
from posh_reward.tables.layouts import add_known_columns, read_document
from posh_reward.tables.tables import (
    FORMAT_BY_ENDING,
    FORMATS,
    MAX_CELL_CHARACTERS,
    STANDARD_STREAM,
    Format,
    Row,
    check_delimiter,
    check_distinct,
    display_name,
    is_missing_cell,
    make_object,
    open_source,
    read_jsonl,
    read_table,
    unescape_cell,
)
from posh_reward.text_values import MISSING_TEXT, read_texts
from posh_reward.types import Failure, is_missing

UTF_16_MARKS = (BOM_UTF16_LE, BOM_UTF16_BE)
MAX_WORKBOOK_BYTES = 1_000_000_000  # unpacked: the library reads a workbook whole
ZIP_MAGIC, OLD_EXCEL_MAGIC = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"  # first bytes of workbooks
NEEDS_TABLE = "not a table: name one with the texts in columns (data/README.md)"
REMEDIES_BY_MAGIC = {
    b"\x89PNG": f"is an image, {NEEDS_TABLE}",
    b"\xff\xd8\xff": f"is an image, {NEEDS_TABLE}",
    b"RIFF": f"is an image or a sound, {NEEDS_TABLE}",
    b"%PDF": f"is a PDF, {NEEDS_TABLE}",
    b"SQLite format 3": f"is a database, {NEEDS_TABLE}",
    b"\x1f\x8b": "is compressed: unpack it",
    b"\x93NUMPY": "is an array: write a table of it",
}
"""First bytes of other files -> what to do."""
JSON_START = re.compile(rb"\s*(?:\{|\[\s*[\]{\[\"\d])")
PEEKED_BYTES = 4096


@contextmanager
def open_rows(
    name: str,
    format_name: str | None = None,
    delimiter: str | None = None,
    text: str = "generation",
) -> Iterator[Iterator[Row]]:
    """Rows of a file, or of standard input, inside the block, one at a time if the format allows.

    Args:
        name: of the file, or ``-``.
        format_name: one of ``FORMATS``; None: by the content, and the ending of CSV and TSV.
        delimiter: of CSV; None: as a first line ``sep=;`` says, or else as the header shows.
        text: column for the text of a layout that has only one, such as COCO's results.

    Raises:
        InputError: the file cannot be read; the message names the place.
        MissingDependencyError: Parquet or a workbook needs a package.
    """
    with open_source(name) as file:
        rows = read_source(file, name, format_name, delimiter, text)
        yield _check_cell_sizes(rows, display_name(name))


@contextmanager
def open_tables(
    names: Sequence[str],
    format_name: str | None = None,
    delimiter: str | None = None,
    text: str = "generation",
    model: str = "model",
) -> Iterator[Iterator[Row]]:
    """Rows of several files, one after the other, as ``open_rows``.

    Of several, rows without a value in the column ``model`` have their file's name there.
    """

    def rows() -> Iterator[Row]:
        models = name_models(names)
        for name in names:
            with open_rows(name, format_name, delimiter, text) as table:
                yield from add_model(table, model, models[name])

    yield rows()


def name_models(names: Sequence[str]) -> dict[str, str | None]:
    """Name the models of files whose rows name none, by the files, if there are several."""
    if len(names) == 1:
        return {names[0]: None}
    stems: dict[str, str | None] = {name: Path(name).stem for name in names}
    if len({*stems.values()}) == len(stems):
        return stems
    return {name: str(Path(name).with_suffix("")) for name in names}


def add_model(rows: Iterable[Row], column: str, model: str | None) -> Iterator[Row]:
    """Pass on rows, with this model where they name none."""
    for row in rows:
        if model is not None and is_missing(row.get(column)):
            row = {**row, column: model}
        yield row


def read_source(
    source: IO[bytes], name: str, format_name: str | None, delimiter: str | None, text: str
) -> Iterator[Row]:
    """Rows of an open binary file, with the columns of its layout."""
    shown = display_name(name)
    file = source if hasattr(source, "peek") else BufferedReader(cast(Any, source))
    ending = FORMAT_BY_ENDING.get(Path(name).suffix.lower())
    try:
        start = file.peek(PEEKED_BYTES)
        for magic, remedy in REMEDIES_BY_MAGIC.items():
            if start.startswith(magic):
                raise InputError(f"{shown} {remedy}")
        if format_name is None and start.startswith((ZIP_MAGIC, OLD_EXCEL_MAGIC)):
            rows = _read_workbook(file, shown)
        elif (kind := format_name or _find_format_name(start, name, ending)) in ("json", "jsonl"):
            if delimiter is not None:
                raise InputError(f"{shown} is JSON, which has no delimiter")
            # From a pipe, a row is passed on before the next one comes.
            lines = kind == "jsonl" or name == STANDARD_STREAM
            rows = _read_json(file, shown, text, lines=lines)
        else:
            rows = read_table(file, shown, _make_format(kind, shown, delimiter))
        yield from _name_file_in_errors(add_known_columns(rows, text), shown)
    except OSError as error:
        raise InputError(f"cannot read {shown}: {error}") from None


def read_row_texts(row: Row, column: str, where: str) -> list[str]:
    """Read a row's texts, but for blank ones; none if they are missing.

    Raises:
        InputError: the value is no text; ``where`` begins the message.
    """
    texts = read_texts(row.get(column))
    if texts == MISSING_TEXT:
        return []
    if isinstance(texts, Failure):
        raise InputError(f"{where}: {texts.about(f'the {column}')}")
    return [text for text in texts if text.strip()]


def _find_format_name(start: bytes, name: str, ending: str | None) -> str:
    if start.startswith(b"PAR1"):
        return "parquet"
    if ending in ("jsonl", "parquet"):
        return ending
    if start.startswith(UTF_16_MARKS):
        start = start.decode("utf-16", "replace").encode()
    if JSON_START.match(start.removeprefix(BOM_UTF8)):
        return "json"
    if Path(name).suffix.lower() == ".json":
        return "json"
    if ending is not None:
        return ending
    return "jsonl" if name == STANDARD_STREAM else "csv"


def find_first_line(name: str, format_name: str | None = None) -> int:
    """Number of the line, or the spreadsheet's row, that has the first row: 2 below a header."""
    ending = Path(name).suffix.lower()
    kind = format_name or FORMAT_BY_ENDING.get(ending, ending.removeprefix("."))
    if kind in ("jsonl", "json", "parquet") or (name == STANDARD_STREAM and not format_name):
        return 1
    return 2


def _make_format(kind: str, shown: str, delimiter: str | None) -> Format:
    format = FORMATS[kind]
    if delimiter is None:
        return format
    if format.kind != "csv":
        raise InputError(f"{shown} is {kind}, which has no delimiter")
    return replace(format, delimiter=check_delimiter(delimiter))


def _name_file_in_errors(rows: Iterator[Row], shown: str) -> Iterator[Row]:
    """Pass on rows; name the file in an error that names only a row."""
    try:
        yield from rows
    except InputError as error:
        if shown in str(error):
            raise
        raise InputError(f"{shown}: {error}") from None


def _check_cell_sizes(rows: Iterator[Row], shown: str) -> Iterator[Row]:
    for number, row in enumerate(rows, start=1):
        for column, cell in row.items():
            if isinstance(cell, str) and len(cell) > MAX_CELL_CHARACTERS:
                raise InputError(
                    f"{shown}, row {number}: {column!r} has more than {MAX_CELL_CHARACTERS:,} "
                    "characters: leave it out"
                )
        yield row


def _read_json(source: IO[bytes], shown: str, text: str, *, lines: bool) -> Iterator[Row]:
    """Read JSON lines, or one JSON document, which may have any number of lines.

    ``lines`` is what the file's name says, and counts where a single line could be either.
    """
    if cast(BufferedReader, source).peek(2).startswith(UTF_16_MARKS):
        source = BufferedReader(cast(Any, BytesIO(source.read().decode("utf-16").encode())))
    blank = 0
    first = source.readline()
    while first and not first.removeprefix(BOM_UTF8).strip():
        first, blank = source.readline(), blank + 1
    is_object = _is_object(first)
    is_line = is_object or not first.removeprefix(BOM_UTF8).lstrip().startswith((b"{", b"["))
    if lines and is_line:
        yield from read_jsonl(chain([b""] * blank, [first], source), shown)
        return
    seen = [first, source.readline()]
    while seen[-1] and not seen[-1].strip():
        seen.append(source.readline())
    if is_object and seen[-1]:
        yield from read_jsonl(chain([b""] * blank, seen, source), shown)
        return
    whole = b"".join(seen) + source.read()
    try:
        document = json.loads(whole.decode("utf-8-sig"), object_pairs_hook=make_object)
    except (ValueError, RecursionError) as error:
        if lines or _is_object(seen[-1]):
            yield from read_jsonl(BytesIO(b"\n" * blank + whole), shown)
        else:
            raise InputError(f"{shown}: not JSON ({error})") from None
    else:
        yield from read_document(document, shown, text)


def _is_object(line: bytes) -> bool:
    if not line.removeprefix(BOM_UTF8).lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(line.decode("utf-8-sig")), dict)
    except (ValueError, RecursionError):
        return False


def _read_workbook(source: IO[bytes], shown: str) -> Iterator[Row]:
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise MissingDependencyError(
            f"{shown} is a workbook: save it as CSV, or {install_command('xlsx')}"
        ) from None
    content = BytesIO(source.read())
    _check_unpacked(content, shown)
    try:
        book = CalamineWorkbook.from_filelike(content)
        sheets = {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}
    except CalamineError as error:
        raise InputError(f"{shown}: not a workbook ({error})") from None
    filled = {name: sheet for name, sheet in sheets.items() if sheet}
    if len(filled) > 1:
        raise InputError(
            f"{shown} has the sheets {', '.join(map(repr, filled))}: keep one, or save it as CSV"
        )
    for sheet in filled.values():
        columns = [unescape_cell(str(cell)) for cell in sheet[0]]
        check_distinct(columns, shown)
        for cells in sheet[1:]:
            if any(cell != "" for cell in cells):
                yield dict(zip(columns, map(_clean_workbook_cell, cells), strict=False))


def _check_unpacked(content: BytesIO, shown: str) -> None:
    if not zipfile.is_zipfile(content):
        return
    with zipfile.ZipFile(content) as archive:
        unpacked = sum(part.file_size for part in archive.infolist())
    content.seek(0)
    if unpacked > MAX_WORKBOOK_BYTES:
        raise InputError(f"{shown} unpacks to {unpacked:,} bytes: save it as CSV")


def _clean_workbook_cell(cell: object) -> object:
    if isinstance(cell, str):
        return None if is_missing_cell(cell) else unescape_cell(cell)
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)  # a workbook has one kind of number; an id is a whole one
    return cell
