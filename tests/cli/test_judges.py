"""``posh-reward judges``: the commands as a user runs them."""

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


def test_compare_writes_a_sentence_and_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_rows(tmp_path / "pairs.jsonl", TABLE[:24])
    figures = tmp_path / "figures.json"
    status = run(
        "compare", table, "--judges", "embedded", "fake", "--json", figures,
        "--resamples", 50, "-q",
    )  # fmt: skip
    assert status == 0
    assert "replace embedded" in capsys.readouterr().out
    found = json.loads(figures.read_text("utf-8"))
    assert found["references"] == 12
    assert found["comparisons"][0]["groups"]["f1"]["completions"] == 24
    assert found["floor"]["questions"]["all"]["kappa"]["value"] == 1
    [line] = found["comparisons"]
    assert line["verdict"] == "not settled"
    assert line["sentence"].startswith("Not settled whether fake may replace embedded")
    assert len(found["rows"]) == 24
    row = found["rows"][0]
    assert (row["generation"], row["reference"]) == tuple(TABLE[0].values())
    assert row["scores"].keys() == {"embedded", "fake", "embedded again"}
    assert 0.2 <= row["scores"]["embedded"]["f1"] <= 1
    assert not list(tmp_path.glob("*.sqlite*")), "no language model was asked"


def test_paid_answers_outlive_a_judge_that_cannot_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_rows(tmp_path / "pairs.jsonl", TABLE[:8])
    gone = "name: server\nbase_urls: http://127.0.0.1:9\nmodel: m\nretries: 0\n"
    (tmp_path / "gone.yaml").write_text(gone)
    figures = tmp_path / "new" / "figures.json"
    files = ("-q", "--json", figures)
    assert run("compare", table, "--judges", "fake-model", tmp_path / "gone.yaml", *files) == 4
    assert "the judge could not work" in capsys.readouterr().err
    assert (figures.parent / "figures.answers.sqlite").is_file()
    assert run("compare", table, "--judges", "fake-model", "embedded", *files) == 0
    paid = json.loads(figures.read_text("utf-8"))["judges"][0]["usage"]
    assert paid["requests"] + paid["rewrites"] == paid["cache_hits"] > 0


def test_mistakes_of_the_user_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_rows(tmp_path / "pairs.jsonl", TABLE)
    assert run("compare", table, "--judges", "fake", "-q") == 2
    assert "two or more" in capsys.readouterr().err
    assert run("compare", table, "--judges", "fake", "gpt", "-q") == 2
    assert "'gpt'" in capsys.readouterr().err
    assert run("collect", table, "--judge", "fake", "-o", tmp_path / "q", "--reference", "x") == 2
    assert "'x'" in capsys.readouterr().err


def test_collect_writes_a_dataset_also_without_generations(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table = write_rows(tmp_path / "pairs.jsonl", [{"reference": row["reference"]} for row in TABLE])
    folder = tmp_path / "questions"
    status = run(
        "collect", table, "--judge", "fake@prefix-first", "-o", folder, "--generation", "",
        "--perturbed", 1, "-q",
    )  # fmt: skip
    assert status == 0
    assert {path.name for path in folder.iterdir()} >= {
        "train.parquet", "validation.parquet", "test.parquet", "texts.jsonl", "question_set.json",
    }  # fmt: skip
