"""Make an environment and install the checkout into it, showing progress.

    python3 tools/install.py .venv train,study
    python3 tools/install.py .venv-oldest train,study,server,dev --oldest

torch is pinned, since pip would otherwise take the newest one with its CUDA packages. With
``--oldest`` uv installs the lowest versions that pyproject.toml allows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

TORCH = "torch==2.13.0"
OLDEST = "--oldest"
WIDTH = 78
TICK = 2.0  # seconds between two progress lines
WORK = ("Collecting", "Downloading", "Processing", "Building", "Installing")
"""Prefixes of pip's lines about progress; the others are warnings and details."""
CPU_SIZE = "about 0.5 GB to download, 2 GB on the disk"
CUDA_SIZE = """\
torch comes with CUDA here: about 3 GB to download, 7 GB on the disk. The demo and the tests need
only the CPU build, a fifth of that: to use it, press Ctrl-C and run make again with
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
    log, pip = make_env(env)
    if not list(env.glob("lib/*/site-packages/torch")):
        report = env / "torch.json"
        ask = ["install", "--dry-run", "--ignore-installed", "--no-deps", "--report", str(report)]
        at_work("asking pip for its torch", [*pip, *ask, TORCH], log)
        metadata = json.loads(report.read_text("utf-8"))["install"][0]["metadata"]
        cuda = with_cuda(metadata["version"], metadata.get("requires_dist", []))
        print(CUDA_SIZE if cuda else CPU_SIZE, flush=True)
    at_work(
        f"installing posh_reward[{extras}]", [*pip, "install", TORCH, "-e", f".[{extras}]"], log
    )


def install_oldest(env: Path, extras: str) -> None:
    """Do the same with the oldest allowed versions, and PyPI's torch."""
    log, pip = make_env(env)
    at_work("installing uv", [*pip, "install", "uv"], log)
    uv = [str(env / "bin" / "uv"), "pip", "install", "--python", str(env / "bin" / "python")]
    lowest = [*uv, "--resolution", "lowest-direct", "-e", f".[{extras}]"]
    at_work(f"installing the oldest posh_reward[{extras}]", lowest, log)


def make_env(env: Path) -> tuple[Path, list[str]]:
    """Make an environment if it is missing; return its log and its pip command."""
    log = env / "install.log"
    if not (env / "bin" / "python").exists():
        env.mkdir(exist_ok=True)
        at_work(f"making {env}", [sys.executable, "-m", "venv", str(env)], log)
    return log, [str(env / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]


def with_cuda(version: str, requires: list[str]) -> bool:
    """Return True if a build of torch brings CUDA; macOS builds also list Linux's packages."""
    brings = any(name.startswith(("nvidia", "cuda")) for name in requires)
    return brings and "+cpu" not in version and sys.platform == "linux"


def at_work(what: str, command: list[str], log: Path) -> None:
    """Run a command, showing its run time and its last line of progress.

    Raises:
        FailedError: the command failed; has the end of its output.
    """
    begun = time.monotonic()
    show(what)
    with log.open("wb") as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        while (status := wait_for(child)) is None:
            lines = map(str.strip, reversed(log.read_text("utf-8", "replace").splitlines()))
            progress = next((line for line in lines if line.startswith(WORK)), "")
            show(f"{what}: {time.monotonic() - begun:.0f} s  {progress}")
    show(f"{what}: {time.monotonic() - begun:.0f} s  {'failed' if status else 'done'}", "\n")
    if status:
        raise FailedError(f"{log.read_text('utf-8', 'replace')[-3000:]}\nAll of it: {log}")


def wait_for(child: subprocess.Popen[bytes]) -> int | None:
    """Return the exit status, or None if the command still runs after a tick."""
    try:
        return child.wait(TICK)
    except subprocess.TimeoutExpired:
        return None
    except KeyboardInterrupt:
        child.wait()
        raise


def show(text: str, end: str = "") -> None:
    """Rewrite the last line on a terminal; elsewhere add a line."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text[:WIDTH]}", end=end, flush=True)
    else:
        print(text[:WIDTH], flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
