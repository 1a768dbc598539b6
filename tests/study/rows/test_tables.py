"""Tables in every format: what is written is read again, to the letter."""

import csv
import io
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posh_reward.errors import InputError
from posh_reward.study.agreement.metric_scores import number_in
from posh_reward.study.agreement.preferences import label_score
from posh_reward.study.rows.tables import (
    Format,
    format_of,
    parse_cells,
    read_table,
    sink,
    write_table,
)

STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
PIECES = st.sampled_from([*STARTS, "\r\n", "\0", '"', "'", ",", ";", "a", " ", "\ufeff", "\x85"])
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=8).map("".join))
Rows = list[dict[str, Any]]


def read(path: Path, delimiter: str | None = None) -> Rows:
    with path.open("rb") as file:
        return list(read_table(file, repr(path.name), format_of(path.name, None, delimiter)))


def written(path: Path, rows: Rows) -> Rows:
    write_table(rows, path, format_of(path.name))
    return read(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_tables_as_spreadsheets_save_them(tmp_path: Path, encoding: str) -> None:
    """Excel's "Unicode text", and its missing values."""
    path = tmp_path / "in.csv"
    text = "id;generation;reference\r\n1;Ein Hündchen.;#N/A\r\n2;NaN;'nan\r\n"
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    path.write_bytes(mark + text.encode(encoding))
    assert read(path, ";") == [
        {"id": "1", "generation": "Ein Hündchen.", "reference": None},
        {"id": "2", "generation": None, "reference": "nan"},
    ]


def test_what_spreadsheets_add_is_left_out(tmp_path: Path) -> None:
    """Delimiters at the ends of rows, rows of empty cells at the end, and #N/A in Spanish."""
    path = tmp_path / "in.csv"
    path.write_text("id;generation;reference\r\n1;A cat.; #N/D ;\r\n;;\r\n2;NA;B.\r\n;;;\r\n;;\r\n")
    assert read(path, ";") == [
        {"id": "1", "generation": "A cat.", "reference": None},
        {"id": "", "generation": "", "reference": ""},
        {"id": "2", "generation": None, "reference": "B."},
    ]


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4), st.sampled_from(["csv", "tsv"]))
@example([("a\r=cmd|' /C calc'!A0", "b")], "csv")
@example([("'", "''=1"), ("\r", "\n")], "csv")
@example([("NaN", "'#N/A"), ("sep=;", "nan "), (" NA", "n/a")], "csv")
def test_any_text_survives_csv(
    tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, str]], ending: str
) -> None:
    rows: Rows = [{"id": "1", "generation": one, "reference": other} for one, other in texts]
    path = tmp_path_factory.getbasetemp() / f"any.{ending}"
    assert written(path, rows) == rows
    raw = path.read_bytes().decode("utf-8")
    for cells in csv.reader(io.StringIO(raw, newline=""), delimiter=",\t"[ending == "tsv"]):
        assert not any(cell.lstrip(" \x00\ufeff").startswith(STARTS) for cell in cells)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv", "a.parquet"])
def test_each_format_gives_its_rows_back(tmp_path: Path, name: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    rows: Rows = [{"id": f"p{i}", "generation": f"Text\t{i}, 'quoted'"} for i in range(3)]
    path = tmp_path / name
    assert written(path, rows) == rows


@pytest.mark.parametrize(("name", "separator"), [("a.csv", ","), ("a.tsv", "\t")])
def test_a_spreadsheet_sees_utf_8_and_programs_do_not_notice(
    tmp_path: Path, name: str, separator: str
) -> None:
    """Excel takes a file without a byte order mark for the local code page."""
    pandas = pytest.importorskip("pandas")
    rows: Rows = [{"id": "1", "generation": "A \u201ccafé\u201d,\nfull"}]
    path = tmp_path / name
    assert written(path, rows) == rows
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert pandas.read_csv(path, sep=separator, dtype=str).to_dict("records") == rows


@pytest.mark.parametrize(
    ("cell", "value"),
    [("0,5", 0.5), ("+1,25", 1.25), (" -0,5 ", -0.5), (",5", 0.5), ("5,0E-1", 0.5), ("0.5", 0.5)],
)
def test_decimal_commas_are_read_alike_everywhere(cell: str, value: float) -> None:
    assert number_in({"score": cell}, "score") == value
    assert label_score(cell) == value
    assert parse_cells("posh", {"f1": cell})["f1"] == value


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.csv", b"id,text,id\n1,a,2\n", "the column 'id' twice"),
        ("a.csv", b'text\n"never ended\nb\n', "line 3: not CSV"),
        ("a.csv", b'text\n"ended" early\n', "line 2: not CSV"),
        ("a.jsonl", b'{"a": ' + b"[" * 100_000, "line 1: not JSON"),
        ("a.jsonl", b'{"a": ' + b"1" * 10_000 + b"}", "line 1: not JSON"),
    ],
)
def test_an_unreadable_file_is_named(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=why):
        read(path)


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    for name in ("out.csv", "out.tsv"):
        (tmp_path / f"{name}.part").symlink_to(tmp_path / "precious.txt")
        write_table([{"id": 1}], tmp_path / name, format_of(name))
        assert not (tmp_path / name).is_symlink()
    (tmp_path / "new.csv.journal.jsonl").symlink_to(tmp_path / "precious.txt")
    new = str(tmp_path / "new.csv")
    with pytest.raises(InputError, match="is a link"), sink(new, format_of(new), False, dict):
        pass
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_a_file_replaces_a_link_and_fills_a_pipe(tmp_path: Path) -> None:
    """A planted link leaves its target alone; a pipe (or /dev/null) stays one."""
    path, target = tmp_path / "a.jsonl", tmp_path / "mine.txt"
    target.write_text("three weeks of work")
    for link in (path, tmp_path / "a.jsonl.part"):
        link.symlink_to(target)
    write_table([{"a": 1}], path, Format("jsonl"))
    assert (target.read_text(), read(path)) == ("three weeks of work", [{"a": 1}])
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_table([{"a": 2}], pipe, Format("jsonl"))
    assert os.read(reader, 100) == b'{"a": 2}\n'
    os.close(reader)
    assert pipe.is_fifo()
