"""Whatever ends a parent, nothing that it has started runs on."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes import ROOT, soon, start

MAX_SECONDS_TO_END = 10.0
"""In which all of a killed parent's processes have to end."""

FAMILY = """
import subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(sleep, start_new_session=True)
subprocess.Popen(sleep)
print("{}", flush=True)
while True:  # deaf to everything
    time.sleep(600)
"""
PARENTS = {
    "run": f"""
from posh_reward.process.child import run_command
run_command([sys.executable, "-c", {FAMILY!r}])
""",
    "ChildProcess": f"""
import os
from posh_reward.process import ChildProcess
child = ChildProcess([sys.executable, "-c", {FAMILY!r}], dict(os.environ))
child.receive(60)
child.receive(600)
""",
    "trial": f"""
from posh_reward.training.doctor.diagnosis import start_trial
with start_trial([], {{}}, [sys.executable, "-c", {FAMILY!r}]) as child:
    child.process.wait()
""",
    "sandbox": """
from posh_reward.other_metrics.prove.sandbox import Sandbox
Sandbox(600).run("def verify(sg):\\n    while True:\\n        pass", {})
""",
    "workers": """
from posh_reward import PoSh
metric = PoSh(processes=2)
metric.start()
print("ready", flush=True)
time.sleep(600)
""",
}
PROCESSES = {"run": 5, "ChildProcess": 5, "trial": 5, "sandbox": 4, "workers": 5}
"""The parent, its keepers, and what these keep."""


SLOWLY = [
    pytest.param(number, marks=pytest.mark.slow)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
]


def living(folder: Path) -> list[int]:
    """Processes that work in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if os.readlink(entry / "cwd") == str(folder):
                    found.append(int(entry.name))
    return found


def until(count: int, folder: Path, seconds: float) -> float:
    """Wait for a number of processes that lasts; return the seconds until then."""
    begun = since = time.monotonic()
    while (now := time.monotonic()) < begun + seconds:
        since = since if len(living(folder)) == count else now
        if now > since + 0.1:
            return since - begun
        time.sleep(0.01)
    found = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in living(folder)]
    raise AssertionError(found)


@pytest.mark.parametrize("kind", PARENTS)
@pytest.mark.parametrize("number", [signal.SIGKILL, *SLOWLY])
def test_nothing_outlives_its_parent(tmp_path: Path, kind: str, number: signal.Signals) -> None:
    script = tmp_path / "parent.py"
    script.write_text(f"import sys, time\n{PARENTS[kind]}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (tmp_path / "said").open("w") as said:
        parent = start(sys.executable, script, cwd=tmp_path, stdout=said, stderr=said,
                       env=environment)  # fmt: skip
        until(PROCESSES[kind], tmp_path, 60)
        if kind == "workers":
            assert soon(lambda: "ready" in (tmp_path / "said").read_text(), 60)
        if number == signal.SIGINT:  # a terminal's, which all in the foreground get
            os.killpg(parent.pid, number)
        else:
            parent.send_signal(number)
        took = until(0, tmp_path, MAX_SECONDS_TO_END)
        parent.wait()
    print(f"{kind}, {number.name}: {took:.1f} s")
