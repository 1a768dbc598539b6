"""``--json``: the figures that a command prints, for programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from posh_reward.cli import EXIT_OK, EXIT_UNUSABLE, main
from tests.cli.running import GENERATION, REFERENCE, Row, rows_in, run, write_rows


def figures(capsys: pytest.CaptureFixture[str]) -> Any:
    """What standard output has: one JSON document, and nothing else."""
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows: list[Row] = [
        {"id": "a", "model": "m", "generation": GENERATION, "reference": REFERENCE},
        {"id": "b", "model": "m", "generation": None, "reference": REFERENCE},
        {"id": "c", "model": "m", "generation": "Ein Hund schläft.", "reference": REFERENCE},
    ]
    return write_rows(tmp_path / "in.jsonl", rows)


def test_score_sums_up_its_rows(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    run("score", table, "-o", out, "--json", "-")
    found = figures(capsys)
    scored = [row["f1"] for row in rows_in(out) if row["f1"] is not None]
    [model] = found["models"]
    assert (found["rows"], model["model"], model["count"], model["failures"]) == (3, "m", 2, 1)
    assert model["axes"]["f1"]["mean"] == pytest.approx(sum(scored) / 2)
    assert [each["ids"] for each in found["failures"].values()] == [["b"]]
    [doubt] = found["doubts"].values()
    assert doubt == {
        "count": 1, "ids": ["c"], "example": "Ein Hund schläft.", "models": ["m"]
    }  # fmt: skip
    assert found["signature"].startswith("posh|")


def test_rows_and_figures_are_not_mixed(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("score", table, "--json", "-") == EXIT_UNUSABLE
    assert "name a file with -o or --json" in capsys.readouterr().err
    assert run("score", table, "-o", tmp_path / "out.csv", "--json", table) == EXIT_UNUSABLE
    assert "exists and is not a JSON file of figures" in capsys.readouterr().err


def test_explain_gives_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", GENERATION, REFERENCE, "--json", "-") == EXIT_OK
    found = figures(capsys)
    assert found["f1"] is not None
    assert {each["direction"] for each in found["elements"]} == {"precision", "recall"}


def test_references_are_named_by_their_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[Row] = [{"reference": REFERENCE}, {"reference": None}]
    source = write_rows(tmp_path / "in.jsonl", rows)
    main(["audit-references", str(source), "--json", "-"])
    found = figures(capsys)
    assert (found["references"], found["rows_without_text"], found["share"]) == (1, [2], 0.5)


def test_checks_and_downloads_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--config", "nowhere.yaml", "--json", "-"]) == EXIT_UNUSABLE
    [check] = figures(capsys)["checks"]
    assert (check["name"], check["state"]) == ("settings", "FAILED")
    (tmp_path / "metric.yaml").write_text("parser: en_core_web_none\n")
    settings = str(tmp_path / "metric.yaml")
    assert main(["fetch", "--check", "--config", settings, "--json", "-"]) == EXIT_UNUSABLE
    [asset] = figures(capsys)["assets"]
    assert (asset["name"], asset["state"]) == ("en_core_web_none", "missing")
