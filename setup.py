"""Puts the recipes, configurations and Slurm scripts into wheels; see pyproject.toml for the rest.

They live at the root of the checkout, where people run them. A wheel carries the same files in
``posh_reward/shipped``, and ``posh-reward init DIR`` copies them out.
"""

import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

if sys.version_info[:2] < (3, 10):  # noqa: UP036 - what ruff takes for granted
    sys.exit(
        "posh_reward needs Python 3.10 or newer (3.11 to train), but this pip belongs to Python "
        + ".".join(map(str, sys.version_info[:3]))
        + ": make an environment with a newer one, as in python3.12 -m venv .venv"
    )

FOLDERS = ("recipes", "configs", "slurm", "data")


class BuildWithShipped(build_py):
    """The usual build, and the shipped folders."""

    def run(self) -> None:
        """Copies them where the build is put together; an editable install reads them in place."""
        super().run()
        if self.editable_mode:
            return
        for name in FOLDERS:
            target = Path(self.build_lib, "posh_reward", "shipped", name)
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(name, target, ignore=shutil.ignore_patterns("__pycache__"))


setup(cmdclass={"build_py": BuildWithShipped})
