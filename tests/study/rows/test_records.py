"""Rows of scores: earlier layouts are read, and a record has one set of fields everywhere."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from posh_reward.metrics.metric import RECORDS, metric_of, read_scores, record_class, row_of
from posh_reward.study.rows.tables import (
    Row,
    format_of,
    open_table,
    read_row,
    scores_of,
    write_table,
)
from posh_reward.types import Element, Failure, ImageGrade, Scores

EARLIER = Path(__file__).with_name("earlier")
"""Files that 0.1 wrote, with columns such as mistakes, asked, given and wanted."""


def rows_of(path: Path) -> list[Row]:
    with open_table(str(path), format_of(path.name)) as rows:
        return list(rows)


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_poshs_earlier_files_are_read(ending: str) -> None:
    marked, failed = map(scores_of, rows_of(EARLIER / f"posh.{ending}"))
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
        scores[metric] = read_row(metric_of(row), row)
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


@pytest.mark.parametrize("metric", RECORDS)
def test_each_field_of_a_record_has_a_column_and_a_type(metric: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    [row] = rows_of(EARLIER / f"{metric}.jsonl")[:1]
    scores = read_scores(metric, row)
    names = [each.name for each in fields(record_class(metric))]
    whole = row_of(metric, scores)
    assert list(whole) == names
    path = tmp_path / "a.parquet"
    write_table([{"id": "1", **whole}], path, format_of(path.name))
    [back] = rows_of(path)
    assert read_scores(metric, back) == scores
    assert json.loads(json.dumps(whole)) == whole
