"""Tables in every format: what is written is read again, to the letter."""

import csv
import io
import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posh_reward.errors import ConfigError, InputError
from posh_reward.metrics.records import (
    RECORD_CLASSES,
    read_metric_name,
    read_scores,
    record_class,
    write_row,
)
from posh_reward.study.agreement.metric_scores import number_in
from posh_reward.study.agreement.preferences import read_label
from posh_reward.tables import tables
from posh_reward.tables.dataset_images import DatasetImages
from posh_reward.tables.reading import open_rows
from posh_reward.types import Element, Failure, ImageGrade, Scores

STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
PIECES = st.sampled_from([*STARTS, "\r\n", "\0", '"', "'", ",", ";", "a", " ", "\ufeff", "\x85"])
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=8).map("".join))
Rows = list[dict[str, Any]]


def read(path: Path, delimiter: str | None = None) -> Rows:
    with path.open("rb") as file:
        return list(
            tables.read_table(file, repr(path.name), tables.find_format(path.name, delimiter))
        )


def written(path: Path, rows: Rows) -> Rows:
    tables.write_table(rows, path, tables.find_format(path.name))
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
    assert read_label(cell) == value
    assert tables.parse_cells("posh", {"f1": cell})["f1"] == value


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
        tables.write_table([{"id": 1}], tmp_path / name, tables.find_format(name))
        assert not (tmp_path / name).is_symlink()
    (tmp_path / "new.csv.journal.jsonl").symlink_to(tmp_path / "precious.txt")
    new = str(tmp_path / "new.csv")
    with (
        pytest.raises(InputError, match="is a link"),
        tables.open_sink(new, tables.find_format(new), False, dict),
    ):
        pass
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_a_file_replaces_a_link_and_fills_a_pipe(tmp_path: Path) -> None:
    """A planted link leaves its target alone; a pipe (or /dev/null) stays one."""
    path, target = tmp_path / "a.jsonl", tmp_path / "mine.txt"
    target.write_text("three weeks of work")
    for link in (path, tmp_path / "a.jsonl.part"):
        link.symlink_to(target)
    tables.write_table([{"a": 1}], path, tables.Format("jsonl"))
    assert (target.read_text(), read(path)) == ("three weeks of work", [{"a": 1}])
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    tables.write_table([{"a": 2}], pipe, tables.Format("jsonl"))
    assert os.read(reader, 100) == b'{"a": 2}\n'
    os.close(reader)
    assert pipe.is_fifo()


EARLIER = Path(__file__).with_name("earlier")
"""Files that 0.1 wrote, with columns such as mistakes, asked, given and wanted."""


def rows_of(path: Path) -> list[tables.Row]:
    with open_rows(str(path)) as rows:
        return list(rows)


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_poshs_earlier_files_are_read(ending: str) -> None:
    marked, failed = map(tables.read_scores_of_row, rows_of(EARLIER / f"posh.{ending}"))
    red = Element("precision", "attribute", "red", 4.5, ((2, 5),), "dog",
                  image_grade=ImageGrade(4.5, 1.0))  # fmt: skip
    eye = Element("precision", "entity", "eye", None, ((9, 12),), "eye", direct=False,
                  failure=Failure("reply", "no label"),
                  image_grade=ImageGrade(None, 2.0, Failure("engine", "it is gone")))  # fmt: skip
    dog = Element("recall", "entity", "dog", 5.0, ((2, 5),), "dog")
    signature = "posh|judge:x|witness:y|version:0.1.0"
    texts = ("A red dog eye.", "A dog.")
    assert marked == Scores(0.9, 1.0, 0.947, signature, (red, dog), None, 1, *texts, 1, 1)
    why = Failure("reply", "no label")
    assert failed == Scores(None, 1.0, None, signature, (red, eye, dog), why, 0, *texts, 2, 1)


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_the_siblings_earlier_files_are_read(ending: str) -> None:
    scores: dict[str, Any] = {}
    for metric in ("harmonic", "rubric", "prove"):
        [row] = rows_of(EARLIER / f"{metric}.{ending}")
        scores[metric] = tables.read_row(read_metric_name(row), row)
    assert [each.mean for each in scores["harmonic"].criteria] == [3.0, None]
    assert scores["harmonic"].failure == Failure("reply", "clarity: no score")
    assert scores["harmonic"].criteria[1].failure == Failure("reply", "no score")
    assert scores["rubric"].points == {"content": 2}
    assert not scores["rubric"].repaired
    prove = scores["prove"]
    assert prove.average == pytest.approx(0.8)
    assert prove.answer_tuples[0].closest == ("hat", "red")
    assert [each.witness for each in prove.claims] == ["caption", None, "image"]
    assert [each.image for each in prove.claims] == [None, None, 0.2]
    assert str(prove.claims[1].failure) == "no answer"


@pytest.mark.parametrize("metric", RECORD_CLASSES)
def test_each_field_of_a_record_has_a_column_and_a_type(metric: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    [row] = rows_of(EARLIER / f"{metric}.jsonl")[:1]
    scores = read_scores(metric, row)
    names = [each.name for each in fields(record_class(metric))]
    whole = write_row(metric, scores)
    assert list(whole) == names
    path = tmp_path / "a.parquet"
    tables.write_table([{"id": "1", **whole}], path, tables.find_format(path.name))
    [back] = rows_of(path)
    assert read_scores(metric, back) == scores
    assert json.loads(json.dumps(whole)) == whole


datasets = pytest.importorskip("datasets")


def numbered(*uuids: str) -> DatasetImages:
    """Images of a vase, a dog, and nothing that was described."""
    columns = {"uuid": list(uuids), "image": [None] * 3, "reference": ["A vase.", "A dog.", ""]}
    return DatasetImages(datasets.Dataset.from_dict(columns), "mine")


MUSEUM = ("NG-1", "NG-2", "NG-3")
COUNTED = ("test-00000", "test-00001", "test-00002")


@pytest.mark.parametrize(
    ("uuids", "number", "name", "reference"),
    [
        (MUSEUM, 0, 17, " A  vase.\n"),  # ids that only count, the same reference
        (MUSEUM, 1, "NG-2", "Another annotator's dog."),
        (COUNTED, 1, "test-00001", "A dog."),
        (COUNTED, 2, "test-00002", ""),  # neither has a reference
        (COUNTED, 1, "test-00001", None),  # for metrics that need no reference
    ],
)
def test_a_row_with_the_same_reference_or_uuid_gets_its_image(
    uuids: tuple[str, ...], number: int, name: object, reference: object
) -> None:
    assert numbered(*uuids).row(number, name, reference) == number


@pytest.mark.parametrize(
    ("uuids", "number", "name", "reference"),
    [
        (MUSEUM, 0, "NG-2", "A dog."),
        (COUNTED, 1, "test-00000", None),
        (MUSEUM, 2, 3, ""),  # two empty references say nothing
        (COUNTED, 0, "test-00000", "A dog."),  # every dataset without uuids has this one
    ],
)
def test_any_other_row_is_refused(
    uuids: tuple[str, ...], number: int, name: object, reference: object
) -> None:
    with pytest.raises(ConfigError, match=f"{name!r} is not about image {number} of 'mine'"):
        numbered(*uuids).row(number, name, reference)
