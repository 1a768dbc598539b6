"""``--store``."""

import json
from pathlib import Path

import pytest

from posh_reward.cli import OK, UNUSABLE, main
from tests.cli.running import rows_in
from tests.stores import rows_by_kind


def score(table: Path, out: Path, *flags: object) -> int:
    return main(["score", str(table), "-o", str(out), *map(str, flags)])


@pytest.fixture
def store(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "store.sqlite"
    assert score(table, tmp_path / "a.jsonl", "--judge", "fake-model", "--store", path) == OK
    capsys.readouterr()
    return path


def test_a_second_run_adds_nothing(
    table: Path, tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = rows_by_kind(store)
    config = tmp_path / "metric.json"
    config.write_text(json.dumps({"judge": {"name": "fake-model"}, "store": str(store)}))
    assert score(table, tmp_path / "b.jsonl", "--metric", config) == OK
    assert rows_by_kind(store) == before
    assert before.keys() == {"graph", "verdict", "rewrite"}  # the check asks for rewrites, too
    assert before["graph"] == 7  # the table's five texts, and the two of the check
    assert rows_in(tmp_path / "a.jsonl") == rows_in(tmp_path / "b.jsonl")


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
