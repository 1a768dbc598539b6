from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "conformance.py"


def test_the_goldens_of_the_release_are_met(shared_data: Path) -> None:
    goldens = shared_data / "goldens" / "goldens.jsonl"
    done = subprocess.run([sys.executable, TOOL, goldens], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "graphs: 100/100 equal" in done.stdout
