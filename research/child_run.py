"""Run a training in a child process that logs to a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_logged(folder: Path, checkout: Path, *words: object) -> None:
    """Run Python on ``words`` with the code of a checkout; the output goes to ``log.txt``.

    Paths are made absolute. Ends the program if the child fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [str(word.resolve() if isinstance(word, Path) else word) for word in words]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(checkout.resolve())
    log = folder / "log.txt"
    with log.open("w", encoding="utf-8") as lines:
        status = subprocess.run(
            [sys.executable, *arguments],
            cwd=checkout, env=environment, stdout=lines, stderr=lines, check=False,
        ).returncode  # fmt: skip
    if status:
        sys.exit(f"{' '.join(arguments[:3])} ended with exit status {status}: see {log}")
