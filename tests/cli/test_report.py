"""``report``, and what ``--help`` loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from posh_reward.cli import main
from posh_reward.cli.exits import OK, UNUSABLE
from tests.cli.running import ROOT, run


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_report_of_each_format(table: Path, tmp_path: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    scores, page = tmp_path / f"out.{ending}", tmp_path / "pages" / "report.html"
    assert run("score", table, "--id", "id", "--elements", "-o", scores) == OK
    assert main(["report", str(scores), "-o", str(page)]) == OK
    assert '["p0",' in page.read_text("utf-8")
    assert '"entity"' not in page.read_text("utf-8").split("<script>")[0]


def test_a_report_needs_scores(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(table)]) == UNUSABLE
    assert "row 1 is not a row of scores (it lacks signature" in capsys.readouterr().err


def test_help_is_light_and_has_the_exit_statuses() -> None:
    code = (
        "import sys; from posh_reward.cli import main\n"
        "try: main(['score', '--help'])\n"
        "except SystemExit: assert not {'spacy', 'torch', 'numpy'} & set(sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert "some pairs have no score" in ran.stdout
