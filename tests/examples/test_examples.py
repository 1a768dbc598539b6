"""The examples do what their first lines say."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from recipes.demo import tiny_qwen

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_score_names_what_is_wrong_and_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "score.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "'brown' is not in the reference" in printed
    assert "'woman' is not in the description" in printed


def test_packets_writes_a_page_for_each_rater(tmp_path: Path) -> None:
    assert runpy.run_path(str(EXAMPLES / "packets.py"))["main"](tmp_path) == 0
    assert len(list((tmp_path / "pages").glob("rater-*.html"))) == 2
    key = json.loads((tmp_path / "pages.key.json").read_text(encoding="utf-8"))
    assert key


@pytest.mark.slow
def test_reward_trains_two_steps_and_saves(tmp_path: Path) -> None:
    tiny_qwen.build(tmp_path / "tiny", warm_up_steps=0, pretrain_steps=1)
    script, tiny, own = EXAMPLES / "reward.py", tmp_path / "tiny", tmp_path / "own"
    command = [sys.executable, str(script), str(tiny), str(own)]
    done = subprocess.run(command, env={**os.environ, "PYTHONWARNINGS": "ignore"}, check=False)
    assert done.returncode == 0
    assert (tmp_path / "own" / "model.safetensors").is_file()


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    client.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    pages = [each.data["text/html"] for each in shown if "text/html" in each.get("data", {})]
    assert "<mark" in pages[0], "the pair is shown with its marks"
    assert (tmp_path / "rewards.png").stat().st_size > 5_000
