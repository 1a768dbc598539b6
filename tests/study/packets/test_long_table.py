"""The long table, by hand and as pandas reads it."""

from __future__ import annotations

import io

import pytest

from posh_reward.study.packets.long_table import CODEBOOK, codebook_csv, long_csv, long_rows
from posh_reward.study.packets.rater_answers import sheets_in
from tests.study.packets.studies import coarse, packet, saved


def test_one_row_for_each_answer_and_question() -> None:
    made = packet(2, coarse=1, granular=1)
    tasks = made.key.raters["rater-01"].tasks
    answers = [{**coarse(made.key, task, 2), "comment": '=1+1\nso "good"'} for task in tasks]
    marks = [
        {"task": task.id, "mistakes": [[2, 9]], "omissions": [], "seconds": 50, "comment": ""}
        for task in made.key.raters["rater-02"].tasks
    ]
    files = (saved(made.key, "rater-01", answers), saved(made.key, "rater-02", marks))
    all_answers = [answer for file in files for answer in sheets_in(file, made.key)[0].answers]
    rows = list(long_rows(all_answers, made.key))
    assert len(rows) == 2 * 3 + 4 * 2
    assert [row["order"] for row in rows[:6]] == [1, 1, 1, 2, 2, 2]
    assert {row["preference"] for row in rows[:6]} == {2}
    assert {row["choice"] for row in rows[:6]} == {2, -2}  # as shown: sides are balanced
    # "A red dog with 0 spots sits under a table.": 2-9 touches two of ten words.
    assert {row["unmarked"] for row in rows[6:] if row["axis"] == "mistakes"} == {0.8}
    assert set().union(*rows) == {name for name, *_ in CODEBOOK}
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(io.BytesIO(long_csv(rows)))
    assert list(table.columns) == [name for name, *_ in CODEBOOK]
    assert table.preference.mean() == 2
    assert table.marks.isna().sum() == 6
    assert table.comment[0] == '\'=1+1 so "good"'


def test_the_codebook_has_the_words_that_raters_read() -> None:
    book = codebook_csv(packet(2).key).decode()
    assert "2: #1 much better; 1: #1 slightly better; 0: Equal" in book
    assert "Which description makes fewer significant mistakes?" in book
    for name, *_ in CODEBOOK:
        assert f"\n{name}," in book
