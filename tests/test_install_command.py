"""Messages about missing packages name a command that works from where the package lies."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from posh_reward.cli import OK, UNUSABLE, main

ROOT = Path(__file__).resolve().parents[1]
SHOW = "from posh_reward.errors import install; print(install('vllm'))"


def test_an_extra_of_a_clone_is_installed_from_the_clone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW], capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stdout.strip() == f"pip install -e '{ROOT}[vllm]'"


def test_without_metadata_the_command_says_where_to_run_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", SHOW],
        capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.strip() == "pip install '.[vllm]' in a clone of posh_reward"


def test_the_command_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == OK
    assert "score the pairs of a table" in capsys.readouterr().out


@pytest.mark.parametrize("recipe", ["sft", "dapo_posh", "distill_judge", "generate", "demo"])
def test_a_recipe_without_the_trainers_packages_says_so(recipe: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", ROOT / "recipes" / f"{recipe}.py", "--help"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == UNUSABLE
    assert re.fullmatch(rf"{recipe}\.py: accelerate, .* missing: pip install .*\n", done.stderr)
