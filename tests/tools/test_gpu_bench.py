"""The bench of language models runs, on a tiny one, and finds nothing wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_two_goldens_are_measured(shared_data: Path, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "tools.bench.gpu", "--small", "--shape", "tiny", "--limit", "2",
        str(shared_data / "goldens" / "goldens.jsonl"),
        str(shared_data / "data" / "qwen_tokenizer"),
        "--json", str(tmp_path / "found.json"),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    released, prefix_first = found["presets"]
    assert found["equal"]
    assert released["submitted"] > 3 * released["computed"]
    assert released["computed"] > 2 * prefix_first["computed"]
    for difference in found["differences"].values():
        assert difference["largest"] < difference["bound"] < difference["spread"]
    assert "pairs/s" in done.stdout
