"""The bench of our own time and memory runs, and writes what it printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "bench" / "overhead.py"


@pytest.mark.slow
def test_time_and_memory_are_measured(shared_data: Path, tmp_path: Path) -> None:
    with (shared_data / "goldens" / "goldens.jsonl").open(encoding="utf-8") as lines:
        goldens = [next(lines) for _ in range(3)]
    (tmp_path / "some.jsonl").write_text("".join(goldens), encoding="utf-8")
    arguments = ["some.jsonl", "--json", "figures.json", "--pairs", "9", "--repeats", "2"]
    subprocess.run([sys.executable, TOOL, *arguments], cwd=tmp_path, check=True)
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert 0 < figures["ms_per_pair"] < 1000
    assert 20 < figures["peak_rss_mb_at"]["9"] < 4000
