"""The recipes, configurations and Slurm scripts, wherever the package was installed from.

A wheel has them in this folder (``setup.py`` puts them there); a checkout has them at its root.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from posh_reward.errors import InputError

FOLDERS = ("recipes", "configs", "slurm", "data")
_HERE = Path(__file__).resolve().parent
_ROOT = _HERE if (_HERE / FOLDERS[0]).is_dir() else _HERE.parents[1]


def shipped(name: str) -> Path:
    """The path of a shipped file or folder, such as ``configs/judge/vllm.yaml``."""
    return _ROOT / name


def settings_names(folder: str) -> list[str]:
    """Names, without their ending, of the settings files in a shipped folder."""
    return sorted(path.stem for path in shipped(folder).glob("*.yaml"))


def copy_to(target: Path) -> list[Path]:
    """Copy the shipped folders into ``target``, which is made if it is not there.

    Returns:
        The folders that were written.

    Raises:
        InputError: one of them is there already; nothing is copied then.
    """
    copies = [target / name for name in FOLDERS]
    taken = [str(copy) for copy in copies if copy.exists()]
    if taken:
        raise InputError(
            f"{', '.join(taken)} would be overwritten: name another folder, or move what is there"
        )
    for name, copy in zip(FOLDERS, copies, strict=True):
        shutil.copytree(shipped(name), copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copies
