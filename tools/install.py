"""Make an environment and install the checkout into it.

    python3 tools/install.py .venv train,study
    python3 tools/install.py .venv-oldest train,study,server,dev --oldest

torch is pinned, since pip would otherwise take the newest one with its CUDA packages. With
``--oldest`` uv installs the lowest versions that pyproject.toml allows.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TORCH = "torch==2.13.0"
OLDEST = "--oldest"
SIZE = """\
PyPI's torch for Linux comes with CUDA: 3 GB to download, 7 GB on the disk. The demo and the tests
need only the CPU build, a fifth of that: to use it, press Ctrl-C and run make again with
PIP_EXTRA_INDEX_URL set to the CPU index that pytorch.org names under "Get started"."""


class FailedError(Exception):
    """A command failed."""


def main(folder: str, extras: str, which: str = "") -> int:
    """Install; return an exit status."""
    try:
        (install_oldest if which == OLDEST else install)(Path(folder), extras)
    except FailedError as error:
        print(error)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; run make again to continue")
        return 130
    return 0


def install(env: Path, extras: str) -> None:
    """Make the environment if it is missing, and install the checkout with these extras."""
    pip = make_env(env)
    if sys.platform == "linux" and not list(env.glob("lib/*/site-packages/torch")):
        print(SIZE, flush=True)
    at_work(f"installing posh_reward[{extras}]", [*pip, "install", TORCH, "-e", f".[{extras}]"])


def install_oldest(env: Path, extras: str) -> None:
    """Do the same with the oldest allowed versions, and PyPI's torch."""
    at_work("installing uv", [*make_env(env), "install", "uv"])
    uv = [str(env / "bin" / "uv"), "pip", "install", "--python", str(env / "bin" / "python")]
    lowest = [*uv, "--resolution", "lowest-direct", "-e", f".[{extras}]"]
    at_work(f"installing the oldest posh_reward[{extras}]", lowest)


def make_env(env: Path) -> list[str]:
    """Make an environment if it is missing; return its pip command."""
    if not (env / "bin" / "python").exists():
        at_work(f"making {env}", [sys.executable, "-m", "venv", str(env)])
    return [str(env / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]


def at_work(what: str, command: Sequence[str]) -> None:
    """Run a command, which shows its own progress, or raise FailedError."""
    print(f"{what} ...", flush=True)
    status = subprocess.run(command, check=False).returncode
    if status:
        raise FailedError(f"{what} failed with status {status}: see above")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
