"""Data flows one way: a stage imports only from the stages before it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "posh_reward"
STAGES = ["graph", "judge", "metric", "reward", "study"]
RECORDS = {"types", "errors", "settings", "store", "child"}


def imported(path: Path) -> set[str]:
    """First component below ``posh_reward`` of everything that a file imports from it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        names.update(m.split(".")[1] for m in modules if m.startswith("posh_reward."))
    return names


@pytest.mark.parametrize(
    "path", sorted(p for s in STAGES for p in (PACKAGE / s).rglob("*.py")), ids=lambda p: p.stem
)
def test_no_import_points_back(path: Path) -> None:
    stage = path.relative_to(PACKAGE).parts[0]
    allowed = set(STAGES[: STAGES.index(stage) + 1]) | RECORDS
    assert imported(path) <= allowed


def test_a_backward_arrow_would_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("def f():\n    from posh_reward.reward import trl\n")
    assert imported(path) == {"reward"}


def test_import_is_light() -> None:
    code = (
        "import sys, time; start = time.perf_counter(); import posh_reward;"
        "seconds = time.perf_counter() - start;"
        "heavy = sorted({'torch', 'spacy', 'transformers', 'numpy'} & set(sys.modules));"
        "print(seconds); assert not heavy, heavy; assert seconds < 0.5, seconds"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
