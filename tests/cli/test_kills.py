"""Commands that are killed at random moments and resumed lose, double and change nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import ROOT

NAMES = ("harmonic score", "prove make", "prove score", "packets make", "packets read",
         "packets serve", "serve", "generate")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_killed_runs_end_as_others_do(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.cli.killing", str(tmp_path), "5", name]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kills"] >= 5
    harms = ("lost", "doubled", "other bytes", "other answers")
    assert not any(found.get(harm) for harm in harms), found
