"""A child process and its keeper: real processes, whatever becomes of either."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from posh_reward.process import ChildFailureError, ChildProcess
from tests.processes import alive, soon

ECHO = """
import ctypes, json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    do = request["do"]
    if do == "deaf":
        ctypes.PyDLL(None).sleep(600)
    if isinstance(do, int):
        os.kill(os.getpid(), do)
    if do == "exit":
        os._exit(7)
    told = {"pid": os.getpid(), "keeper": os.getppid(), "environment": dict(os.environ)}
    print(json.dumps({"id": request["id"], **told}), flush=True)
"""
Start = Callable[..., ChildProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts children that say who they are, and do what they are told."""
    started: list[ChildProcess] = []

    def one(*command: str) -> ChildProcess:
        started.append(ChildProcess(command or (sys.executable, "-c", ECHO), {"A": "1"}))
        return started[-1]

    yield one
    for child in started:
        child.stop()


def tell(child: ChildProcess, do: str | int = "answer", timeout: float = 30) -> dict[str, Any]:
    return child.ask({"id": 1, "do": do}, timeout)


def test_it_gets_the_environment_it_is_given_and_no_more(start: Start) -> None:
    found = tell(start())["environment"]
    assert found.pop("LC_CTYPE", "C.UTF-8") == "C.UTF-8"  # Python's own, for want of a locale
    assert found == {"A": "1"}


@pytest.mark.parametrize(
    ("do", "status"),
    [("exit", "7"), (signal.SIGSEGV, "-11"), (signal.SIGKILL, "-9"), (signal.SIGTERM, "-15")],
)
def test_how_it_ended_is_told(start: Start, do: str | int, status: str) -> None:
    with pytest.raises(ChildFailureError, match=rf"it died \(exit status {status}\)"):
        tell(start(), do)


@pytest.mark.parametrize("do", ["deaf", signal.SIGSTOP])
def test_it_is_ended_when_it_is_too_slow(start: Start, do: str | int) -> None:
    child = start()
    pid = tell(child)["pid"]
    with pytest.raises(ChildFailureError, match=r"no answer within 0\.5 s") as error:
        tell(child, do, timeout=0.5)
    assert error.value.slow
    assert not alive(pid)


def test_it_dies_with_its_keeper(start: Start) -> None:
    child = start()
    told = tell(child)
    os.kill(told["keeper"], signal.SIGKILL)
    assert soon(lambda: not alive(told["pid"]))
    with pytest.raises(ChildFailureError, match="died"):
        tell(child)


def test_a_keeper_that_does_not_react_is_not_waited_for(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posh_reward.process.child.GRACE", 0.3)
    child = start()
    told = tell(child)
    os.kill(told["keeper"], signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(ChildFailureError, match=r"no answer within 0\.3 s"):
        tell(child, "deaf", timeout=0.3)
    assert time.monotonic() - started < 5
    assert soon(lambda: not alive(told["pid"]))
