"""Puts the recipes, configurations and Slurm scripts into wheels; see pyproject.toml for the rest.

They live at the root of the checkout, where people run them. A wheel carries the same files in
``posh_reward/shipped``, and ``posh-reward init DIR`` copies them out.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

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
