from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def test_the_goldens_of_the_release_are_met(shared_data: Path) -> None:
    goldens = shared_data / "goldens" / "goldens.jsonl"
    command = [sys.executable, "-m", "tools.conformance", str(goldens)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "graphs: 100/100 equal" in done.stdout
