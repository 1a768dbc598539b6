"""Graphs, questions and scores are those of the public release."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "name",
    [
        "minimal3",
        "goldens",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("minimal", "more")),
    ],
)
def test_the_goldens_of_the_release_are_met(shared_data: Path, name: str) -> None:
    goldens = shared_data / "goldens" / f"{name}.jsonl"
    if not goldens.is_file():
        pytest.skip(f"{name}.jsonl is not among the goldens here")
    command = [sys.executable, "-m", "tools.conformance", str(goldens)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "differ" not in done.stdout.replace("largest difference", "")
