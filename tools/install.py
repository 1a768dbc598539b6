"""Installs the checkout into the environment that runs this, and shows that it is at work.

    .venv/bin/python tools/install.py train,study

torch is named first and exactly: left to itself, pip takes the newest one with its CUDA packages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

TORCH = "torch==2.13.0"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
WIDTH = 78
TICK = 2.0
"""Seconds between two signs of life."""
WORK = ("Collecting", "Downloading", "Processing", "Building", "Installing")
"""How pip's lines about its work begin; the rest is warnings and details."""
CPU_SIZE = "about 0.5 GB to download, 2 GB on the disk"
CUDA_SIZE = """\
torch comes with CUDA here: about 3 GB to download, 7 GB on the disk. The demo and the tests run on
the CPU, whose build is a fifth of that. To have it, press Ctrl-C and run make again with
PIP_EXTRA_INDEX_URL set to the CPU index that pytorch.org names under "Get started"."""


def main() -> int:
    """Installs; returns an exit status."""
    extras = sys.argv[1]
    log = Path(sys.prefix) / "install.log"
    print(f"Installing posh_reward[{extras}] into {sys.prefix}: {size()}", flush=True)
    command = [*PIP, "install", TORCH, "--editable", f".[{extras}]"]
    begun = time.monotonic()
    with log.open("wb") as output:
        pip = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            while (status := waited(pip)) is None:
                show(f"{time.monotonic() - begun:4.0f} s  {last_line(log)}")
        except KeyboardInterrupt:
            pip.wait()
            print("\nstopped; run make again to go on")
            return 130
    show(f"{time.monotonic() - begun:4.0f} s  {'installed' if status == 0 else 'failed'}", "\n")
    if status:
        print(log.read_text("utf-8", "replace")[-3000:], f"All of it: {log}", sep="\n")
    return status


def size() -> str:
    """What will be downloaded: the CPU build of torch, or the one with CUDA."""
    if find_spec("torch") is not None:
        return "what is not there yet"
    return CUDA_SIZE if with_cuda(*torch_metadata()) else CPU_SIZE


def with_cuda(version: str, requires: list[str]) -> bool:
    """Whether a build of torch brings CUDA. macOS takes the same wheels' requirements as Linux."""
    brings = any(name.startswith(("nvidia", "cuda")) for name in requires)
    return brings and "+cpu" not in version and sys.platform == "linux"


def torch_metadata() -> tuple[str, list[str]]:
    """Version and requirements of the torch that pip would take; empty if pip cannot say."""
    command = [*PIP, "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet",
               "--report", "-", TORCH]  # fmt: skip
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    if asked.returncode:
        return "", []
    metadata = json.loads(asked.stdout)["install"][0]["metadata"]
    return metadata["version"], metadata.get("requires_dist", [])


def waited(pip: subprocess.Popen[bytes]) -> int | None:
    """The exit status, or None if pip is still at work after a tick."""
    try:
        return pip.wait(TICK)
    except subprocess.TimeoutExpired:
        return None


def last_line(log: Path) -> str:
    """What pip said last about its work."""
    lines = map(str.strip, reversed(log.read_text("utf-8", "replace").splitlines()))
    return next((line for line in lines if line.startswith(WORK)), "starting pip")


def show(text: str, end: str = "") -> None:
    """Rewrites the last line on a terminal; elsewhere writes another."""
    text = text[:WIDTH]
    print(f"\r\033[K{text}" if sys.stdout.isatty() else text,
          end=end if sys.stdout.isatty() else "\n", flush=True)  # fmt: skip


if __name__ == "__main__":
    os.environ["PYTHONUNBUFFERED"] = "1"
    sys.exit(main())
