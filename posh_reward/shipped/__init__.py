"""Recipes, configurations and Slurm scripts.

In a wheel they are in this folder (``setup.py`` copies them there), in a checkout at its root.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from posh_reward.errors import InputError

FOLDERS = ("recipes", "configs", "slurm", "data")
_HERE = Path(__file__).resolve().parent
_ROOT = _HERE if (_HERE / FOLDERS[0]).is_dir() else _HERE.parents[1]


def shipped_path(name: str) -> Path:
    """Return the path of a shipped file or folder, such as ``configs/judge/vllm.yaml``."""
    return _ROOT / name


def list_settings(folder: str) -> list[str]:
    """List the settings files in a shipped folder by name, without suffix."""
    return sorted(path.stem for path in shipped_path(folder).glob("*.yaml"))


def copy_to(target: Path) -> list[Path]:
    """Copy the shipped folders into ``target``, unless one of them exists; return their paths."""
    copies = [target / name for name in FOLDERS]
    if existing := ", ".join(str(copy) for copy in copies if copy.exists()):
        raise InputError(f"{existing} would be overwritten: choose another folder, or move it")
    for name, copy in zip(FOLDERS, copies, strict=True):
        shutil.copytree(shipped_path(name), copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copies
