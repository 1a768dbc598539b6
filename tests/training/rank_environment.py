"""Environment of two ranks on a CPU, with DeepSpeed or without."""

import os
import subprocess
from pathlib import Path

from tests.processes import ROOT, SITECUSTOMIZE


def rank_environment(folder: Path) -> dict[str, str]:
    """Environment variables of a launcher, and a folder of Python's start-up code."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITECUSTOMIZE)
    return {
        **os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1", "ACCELERATE_TORCH_DEVICE": "cpu", "DS_ACCELERATOR": "cpu",
    }  # fmt: skip


def build_wide_model(python: str, folder: Path, environment: dict[str, str]) -> None:
    """Make a model whose matrices ZeRO-3 spreads over ranks."""
    command = [python, "tests/training/launch_zero3.py", "build", str(folder)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
