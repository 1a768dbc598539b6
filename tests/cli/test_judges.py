"""``posh-reward judges``: the commands as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posh_reward.cli import main
from tests.cli.running import Row, write_rows

THINGS = ("dog", "cat", "horse", "cow", "sheep", "bird", "boat", "tree", "chair", "lamp")
TABLE: list[Row] = [
    {"generation": text, "reference": f"A {color} {thing} stands near a wooden table."}
    for thing in THINGS
    for color in ("red", "blue", "green")
    for text in (f"A {color} {thing} stands.", "A pink cat.")
]


def run(*arguments: object) -> int:
    return main(["judges", *map(str, arguments)])


def test_compare_writes_a_sentence_a_page_and_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    table = write_rows(tmp_path / "pairs.jsonl", TABLE[:24])
    page, figures = tmp_path / "page.html", tmp_path / "figures.json"
    status = run(
        "compare", "embedded", "fake", "--texts", table, "-o", page, "--json", figures,
        "--resamples", 50, "-q",
    )  # fmt: skip
    assert status == 0
    assert "replace embedded" in capsys.readouterr().out
    assert "May it replace embedded?" in page.read_text("utf-8")
    found = json.loads(figures.read_text("utf-8"))
    assert found["references"] == 12
    assert found["comparisons"][0]["groups"]["f1"]["completions"] == 24
    assert found["floor"]["questions"]["all"]["kappa"]["value"] == 1


def test_rows_without_two_texts_are_left_out_with_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_rows(tmp_path / "p.jsonl", [*TABLE[:4], {"generation": " ", "reference": "A."}])
    assert run("compare", "fake", "embedded", "--texts", table, "-q", "--no-floor") == 0
    assert "1 rows without two texts" in capsys.readouterr().err


def test_mistakes_of_the_user_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_rows(tmp_path / "pairs.jsonl", TABLE)
    assert run("compare", "fake", "--texts", table, "-q") == 2
    assert "two or more" in capsys.readouterr().err
    assert run("compare", "fake", "gpt", "--texts", table, "-q") == 2
    assert "'gpt'" in capsys.readouterr().err
    assert run("collect", "fake", "--texts", table, "-o", tmp_path / "q", "--reference", "x") == 2
    assert "'x'" in capsys.readouterr().err


def test_collect_writes_a_dataset_also_without_generations(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table = write_rows(tmp_path / "pairs.jsonl", [{"reference": row["reference"]} for row in TABLE])
    folder = tmp_path / "questions"
    status = run(
        "collect", "fake@prefix-first", "--texts", table, "-o", folder, "--generation", "",
        "--perturbed", 1, "-q",
    )  # fmt: skip
    assert status == 0
    assert {path.name for path in folder.iterdir()} >= {
        "train.parquet", "validation.parquet", "test.parquet", "texts.jsonl", "question_set.json",
    }  # fmt: skip
