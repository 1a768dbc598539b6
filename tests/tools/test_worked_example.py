"""The worked example in the documentation shows what the metric says today."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_page_and_its_drawing_are_up_to_date(tmp_path: Path) -> None:
    names = ("how_a_score_comes_about.md", "worked_example.svg")
    for name in names:
        shutil.copy(CHECKOUT / "docs" / name, tmp_path)
    command = [sys.executable, "-m", "tools.worked_example", str(tmp_path)]
    subprocess.run(command, cwd=CHECKOUT, check=True)
    for name in names:
        redrawn = (tmp_path / name).read_text(encoding="utf-8")
        committed = (CHECKOUT / "docs" / name).read_text(encoding="utf-8")
        assert redrawn == committed, "redraw it: python -m tools.worked_example docs"
