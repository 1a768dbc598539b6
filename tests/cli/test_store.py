"""``--store`` and ``posh-reward store``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posh_reward.cli import OK, UNUSABLE, main
from tests.cli.running import rows_in


def score(table: Path, out: Path, *flags: object) -> int:
    return main(["score", str(table), "-o", str(out), *map(str, flags)])


@pytest.fixture
def store(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "store.sqlite"
    assert score(table, tmp_path / "a.jsonl", "--judge", "fake-model", "--store", path) == OK
    capsys.readouterr()
    return path


def info(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    """Rows by kind."""
    assert main(["store", "info", str(path), "--json", "-"]) == OK
    found = json.loads(capsys.readouterr().out)
    assert found["version"] == 1
    assert found["bytes"] == path.stat().st_size
    return {each["kind"]: each["rows"] for each in found["holdings"]}


def test_a_second_run_adds_nothing(
    table: Path, tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = info(store, capsys)
    config = tmp_path / "metric.json"
    config.write_text(json.dumps({"judge": {"name": "fake-model"}, "store": str(store)}))
    assert score(table, tmp_path / "b.jsonl", "--metric", config) == OK
    capsys.readouterr()
    assert info(store, capsys) == before
    assert before.keys() == {"graph", "verdict", "rewrite"}  # the check asks for rewrites, too
    assert before["graph"] == 7  # the table's five texts, and the two of the check
    assert rows_in(tmp_path / "a.jsonl") == rows_in(tmp_path / "b.jsonl")


def test_clear_removes_what_it_is_told_to(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = info(store, capsys)
    assert main(["store", "clear", str(store), "--space", "fake-model"]) == OK
    assert capsys.readouterr().err == f"removed {before['verdict'] + before['rewrite']} rows\n"
    assert info(store, capsys) == {"graph": 7}
    assert main(["store", "clear", str(store), "--kind", "rewrite"]) == OK
    assert main(["store", "clear", str(store)]) == OK
    assert capsys.readouterr().err == "removed 0 rows\nremoved 7 rows\n"
    assert info(store, capsys) == {}


def test_a_damaged_store_or_another_file_is_not_touched(
    table: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.write_bytes(store.read_bytes()[:9000])
    for command in ("info", "clear"):
        for path in (store, table):
            before = path.read_bytes()
            assert main(["store", command, str(path)]) == UNUSABLE
            assert f"to start afresh, delete it: rm {path}*" in capsys.readouterr().err
            assert path.read_bytes() == before
        assert main(["store", command, f"{store}.none"]) == UNUSABLE
        assert "there is no store" in capsys.readouterr().err


def test_a_run_goes_on_without_a_damaged_store(
    table: Path, tmp_path: Path, store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.write_bytes(b"nonsense" * 1000)
    assert score(table, tmp_path / "b.jsonl", "--judge", "fake-model", "--store", store) == OK
    assert rows_in(tmp_path / "a.jsonl") == rows_in(tmp_path / "b.jsonl")
    assert [f"rm {store}*" in record.getMessage() for record in caplog.records] == [True]


def test_a_store_that_cannot_be_is_named(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = tmp_path / "nowhere" / "store.sqlite"
    assert score(table, tmp_path / "a.jsonl", "--judge", "fake", "--store", nowhere) == UNUSABLE
    assert f"no folder {str(nowhere.parent)!r} for the store" in capsys.readouterr().err
