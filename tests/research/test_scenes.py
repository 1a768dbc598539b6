"""The scenes of known truth: their form, and what is never fitted to."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from posh_reward import PoshReward
from research.scenes.measure import KINDS, list_changes, score_changes
from tests.names import ROOT

FILES = sorted((ROOT / "research" / "scenes").glob("*.jsonl"))


def read_scenes(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_no_scene_is_in_two_files() -> None:
    ids = Counter(row["id"] for path in FILES for row in read_scenes(path))
    assert ids.total() == 195
    assert max(ids.values()) == 1


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_scene_has_the_form(path: Path) -> None:
    for row in read_scenes(path):
        assert set(row) == {"id", "kind", "reference", "honest", "false", "rewordings"}
        assert 120 <= len(row["reference"].split()) <= 230, row["id"]
        assert 8 <= len(row["honest"]) <= 10, row["id"]
        assert {each["kind"] for each in row["false"]} == set(KINDS), row["id"]
        texts = [change.text for change in list_changes(0, row)]
        assert len(set(texts)) == len(texts), row["id"]


def test_the_readme_counts_what_is_there() -> None:
    readme = (ROOT / "research" / "scenes" / "README.md").read_text(encoding="utf-8")
    for path in FILES:
        rows = read_scenes(path)
        counts = [sum(len(row[name]) for row in rows) for name in ("honest", "false", "rewordings")]
        numbers = " | ".join(f"{count:,}" for count in (len(rows), *counts))
        assert f"| `{path.name}` | {numbers} |" in readme, path.name


def test_a_reward_falls_with_false_sentences() -> None:
    [row, *_] = read_scenes(ROOT / "research" / "scenes" / "held_out.jsonl")
    some = {**row, "false": row["false"][:3], "rewordings": row["rewordings"][:2]}
    falls = score_changes([some], PoshReward())
    assert len(falls.true_pay) == len(row["honest"])
    assert len(falls.list_false()) == len(falls.false_pay) == 3
    assert sum(falls.list_false()) > 0
