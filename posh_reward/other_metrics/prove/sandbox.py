"""Programs -> values, computed in a process that can do nothing else."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posh_reward.errors import InputError
from posh_reward.other_metrics.prove.program_language import (
    Nodes,
    Value,
    describe_violation,
    to_plain_data,
)
from posh_reward.process import ChildFailureError, ChildProcess
from posh_reward.process.python import python_code
from posh_reward.types import Failure

logger = logging.getLogger(__name__)

IMPORT_FOLDER = Path(__file__).resolve().parents[3]  # the folder that posh_reward is in
WORKER_CODE = (
    "sys.path.insert(0, sys.argv.pop(1)); "
    "from posh_reward.other_metrics.prove.program_worker import main; main()"
)
WORKER_START_SECONDS = 60.0
WALL_SECONDS_PER_CPU_SECOND = 5  # for busy machines
SLACK_SECONDS = 30.0  # grace beyond that, after which the worker is killed
MAX_ATTEMPTS_PER_PROGRAM = 2
"""The worker may die through no fault of the program, such as by the OOM killer."""
PROGRAM_TIMES_PER_REPLY = 2.5
"""Time for all programs of a reply, in units of that for one: three endless programs use it up."""
UNRUN = Failure("engine", "the programs before it used up the processor time of the reply")
BYTES_PER_MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """A program's value, which may be None."""

    value: Value


class Sandbox:
    """A process that runs programs one at a time, each with its own limits.

    It starts on first use and is left out of pickles. Use ``run_programs``, which also checks the
    programs' language.
    """

    spent: float  # processor time of all programs so far, in seconds
    _worker: ChildProcess | None

    def __init__(self, seconds: float = 2.0, megabytes: int = 256) -> None:
        if not seconds > 0:
            raise InputError(f"seconds is {seconds}: use a number above 0")
        if megabytes < 64:
            raise InputError(f"megabytes is {megabytes}: use 64 or more")
        self._seconds, self._megabytes = seconds, megabytes
        self._reset()

    @property
    def budget(self) -> float:
        """Processor time for all programs of one reply, in seconds."""
        return PROGRAM_TIMES_PER_REPLY * self._seconds

    def run(self, program: str, nodes: Nodes) -> ProgramResult | Failure:
        """Return the value of one program over a scene, or a failure."""
        with self._lock:
            for _ in range(MAX_ATTEMPTS_PER_PROGRAM):
                try:
                    return self._ask_worker(program, nodes)
                except ChildFailureError as error:
                    logger.warning("the process that runs programs failed: %s", error)
                    self._stop_worker()
                    self.spent += self._seconds
                    failure = Failure("engine", f"the process that runs programs {error.reason}")
        return failure

    def close(self) -> None:
        with self._lock:
            self._stop_worker()

    def _ask_worker(self, program: str, nodes: Nodes) -> ProgramResult | Failure:
        worker = self._start_worker()
        self._requests += 1
        request = {"id": self._requests, "program": program, "nodes": nodes}
        reply = worker.ask(request, self._seconds * WALL_SECONDS_PER_CPU_SECOND + SLACK_SECONDS)
        self.spent += reply["seconds"]
        return _read_reply(reply)

    def _start_worker(self) -> ChildProcess:
        if self._worker is None or self._worker.owner != os.getpid():
            bounds = [
                f"--seconds={self._seconds}",
                f"--bytes={self._megabytes * BYTES_PER_MEGABYTE}",
                f"--patience={WALL_SECONDS_PER_CPU_SECOND}",
            ]
            command = python_code(WORKER_CODE, str(IMPORT_FOLDER), *bounds, flags=("-s", "-S"))
            self._worker = ChildProcess(command, _environment())
            ready = self._worker.receive(WORKER_START_SECONDS)
            if not ready.get("sealed"):
                logger.warning(
                    "this system cannot block system calls of programs: only their language, "
                    "time, memory and files are limited"
                )
        return self._worker

    def _stop_worker(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._worker = None
        self._requests = 0
        self.spent = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {"_seconds": self._seconds, "_megabytes": self._megabytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()


def run_programs(
    sandbox: Sandbox, programs: Sequence[str], nodes: Nodes
) -> list[ProgramResult | Failure]:
    """Return the value of each program over one scene, in order.

    A program that uses a forbidden construct is not run: its failure has the kind "reply". One that
    fails or exceeds its limits has the kind "error". Once ``sandbox.budget`` is used up, the rest
    are ``UNRUN``.
    """
    end = sandbox.spent + sandbox.budget
    results: list[ProgramResult | Failure] = []
    for program in programs:
        if why := describe_violation(program):
            results.append(Failure("reply", f"the program is not run: {why}"))
        elif sandbox.spent < end:
            results.append(sandbox.run(program, nodes))
        else:
            results.append(UNRUN)
    return results


def _read_reply(reply: dict[str, Any]) -> ProgramResult | Failure:
    if "error" in reply:
        return Failure("error", f"the program failed: {reply['error']}")
    try:
        return ProgramResult(to_plain_data(reply.get("value")))
    except ValueError as error:
        return Failure("error", f"the program failed: {error}")


def _environment() -> dict[str, str]:
    """Minimal environment: only what locates the interpreter's libraries."""
    needed = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME")
    results = {name: os.environ[name] for name in needed if name in os.environ}
    return {**results, "PYTHONHASHSEED": "0"}  # same order of sets in every run
