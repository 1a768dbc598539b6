"""Questions that tests ask about processes, and what some need to start."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

SITECUSTOMIZE = """
import torch
for name, schema in (("nms", "(Tensor dets, Tensor scores, float t) -> Tensor"),
                     ("qnms", "(Tensor dets, Tensor scores, float t) -> Tensor")):
    try:
        torch.library.define(f"torchvision::{name}", schema)
    except Exception:
        pass
"""
"""A CUDA build of torchvision on a machine without CUDA asks for operators that it cannot load."""


ROOT = Path(__file__).resolve().parents[1]
_started: list[subprocess.Popen[str]] = []


def start(*command: object, **options: Any) -> subprocess.Popen[str]:
    """Start a process in a session of its own, which ends with the test."""
    options = {"cwd": ROOT, "text": True, "start_new_session": True, **options}
    _started.append(subprocess.Popen(list(map(str, command)), **options))
    return _started[-1]


def end_started() -> None:
    while _started:
        with _started.pop() as process, suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    """Whether a process runs, rather than being gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second: gone between open and read
        return False


def soon(fact: Callable[[], bool], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not fact() and time.monotonic() < end:
        time.sleep(0.01)
    return fact()
