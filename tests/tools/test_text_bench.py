"""The text bench runs and writes what it printed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def bench(*arguments: str | Path) -> str:
    """What one subcommand prints."""
    command = [sys.executable, "-m", "tools.bench.text", *map(str, arguments)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_time_and_memory_are_measured(shared_data: Path, tmp_path: Path) -> None:
    with (shared_data / "goldens" / "goldens.jsonl").open(encoding="utf-8") as lines:
        goldens = [next(lines) for _ in range(3)]
    some, out = tmp_path / "some.jsonl", tmp_path / "figures.json"
    some.write_text("".join(goldens), encoding="utf-8")
    bench("overhead", some, "--json", out, "--limit", "9", "--repeats", "2")
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert 0 < figures["ms_per_pair"] < 1000
    assert re.match("[0-9a-f]{7}|unknown", figures["commit"]), "a figure says what it is of"
    assert 20 < figures["peak_rss_mb_at"]["9"] < 4000
