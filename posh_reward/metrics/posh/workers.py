"""Worker processes that read texts, and judge pairs by the embedded judge: ``PoSh(processes=N)``.

They change nothing but the time: scores, signatures, failures and order are those of one process.
A language model or a witness is asked by this process.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import sys
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from posh_reward import errors
from posh_reward.errors import PoshError
from posh_reward.metrics.metric import field_of, records_adapter
from posh_reward.process import ChildProcess
from posh_reward.process.child import child_variables
from posh_reward.process.pool import ChildPool
from posh_reward.process.python import PYTHON, python_code
from posh_reward.types import Failure, Scores, Usage

logger = logging.getLogger(__name__)

BOOT = (
    "import json; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from posh_reward.metrics.posh.worker import main; main()"
)
"""Code for a worker, which imports from where this process does."""
GIB = 2**30
MEMORY_SHARE = 0.5  # of the free memory that workers take at most, unless their number is given
MOST_PROCESSES = 16
"""Most workers by default. For this process, sharing texts out is work, too."""
TEXTS_TO_START = 128
"""Texts after which workers start by themselves; starting takes as long as some 60 texts. Before
that, waiting for them would cost more than it saves."""
START_SECONDS = 300.0  # for loading the parser, while as many others load it, too
SECONDS_A_REQUEST, SECONDS_A_CHARACTER = 90.0, 0.01
"""Time for an answer: hundreds of times what it takes, for texts may be hard and machines busy. A
pair of 150 words each has 1,700 characters, takes 0.07 s, and may take 107 s."""
ONE_THREAD = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR")
}
CPU_QUOTAS = (
    ("/sys/fs/cgroup/cpu.max",),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)
"""A container's quota of processor time and its period, in both versions of control groups."""


def default_processes(parser: str) -> int:
    """Count the workers that this process has cores and memory for."""
    from posh_reward.models.packed.checkpoint import host_memory

    fitting = MEMORY_SHARE * host_memory() / GIB / ranks_here() / worker_gib(parser)
    return max(min(cores_of_rank(), int(fitting), MOST_PROCESSES), 1)


def worker_gib(parser: str) -> float:
    """Return the GiB that a worker takes, without pages that it shares with others.

    Measured with the embedded parser, after 50 golden pairs; with a transformer pipeline assumed:
    torch, RoBERTa and its activations.
    """
    return 3.0 if parser.endswith("_trf") else 0.4


def cores_of_rank() -> int:
    """Count the cores of this process: its share of the machine's, where a launcher runs several.

    A process that a pool of others has started has one.
    """
    if multiprocessing.parent_process() is not None:
        return 1
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    quotas = [cores, *filter(None, map(quota_of, CPU_QUOTAS))]
    return max(min(quotas) // ranks_here(), 1)


def ranks_here() -> int:
    """Count the ranks that a launcher runs on this machine."""
    size = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(int(size), 1) if size.isdecimal() else 1


def quota_of(files: Iterable[str | Path]) -> int | None:
    """Read the cores of a quota, at least 1; None without one. ``400000 100000`` are 4 cores."""
    try:
        quota, period = " ".join(Path(file).read_text("ascii") for file in files).split()
        return None if quota in ("max", "-1") else max(int(quota) // int(period), 1)
    except (OSError, ValueError):  # no such file
        return None


class WorkerPair(NamedTuple):
    """A pair for a worker: two texts, and how the reference reads, if that is known."""

    generation: str
    reference: str
    joined: bool  # the reference consists of several
    row: str | None  # of ``write_description``


class Workers:
    """Worker processes, each with a ``PoSh`` of its own; left out of pickles.

    Args:
        processes: number of workers; 1: none. None: ``default_processes``, started once there is
            work for them (``TEXTS_TO_START``).
        settings: arguments of a worker's ``PoSh``.
    """

    def __init__(self, processes: int | None, settings: Mapping[str, Any]) -> None:
        self._given = processes
        self._settings = dict(settings)
        self._forget()

    def _forget(self) -> None:
        self._default = (0, 1)  # process that it was counted in, and number
        self._pool: ChildPool | None = None
        self._seen = 0  # texts that this process has read
        self._told: dict[str, str] = {}  # by the last worker that has started
        self.unlike = False
        """True once the workers were found to be of another metric."""

    @property
    def processes(self) -> int:
        """Number of workers; 1: none."""
        if self._given is not None:
            return self._given
        own = os.getpid()  # a fork, or the reader of a pickle, may have fewer cores
        if self._default[0] != own:
            self._default = own, default_processes(str(self._settings["parser"]))
        return self._default[1]

    @property
    def signature(self) -> str | None:
        """Signature of the workers' metric; None as long as none has started."""
        return self._told.get("signature")

    def take(self, texts: int) -> bool:
        """Return True if so many texts should go to the workers."""
        pool = self._pool
        if texts < 2 or self.processes < 2 or self.unlike or (pool is not None and pool.broken):
            return False
        return self._given is not None or pool is not None or self._seen + texts >= TEXTS_TO_START

    def note(self, texts: int) -> None:
        """Count texts that this process reads."""
        self._seen += texts

    def start(self) -> None:
        """Start all workers now, so that the first call need not wait for them."""
        if self.processes > 1:
            self._own_pool().start()

    def close(self) -> None:
        """End all workers; later calls start others."""
        if self._pool is not None:
            self._pool.close()

    def read(self, texts: Sequence[str]) -> list[str | Failure | None]:
        """Return each text's ``write_description``; None for a text that no worker could take."""
        return self._own_pool().map(texts, partial(_ask_for_texts, "read"))

    def parse(self, texts: Sequence[str]) -> list[bytes | Failure | None]:
        """Return each text's parse in spaCy's format, for a resolver in this process."""
        parsed = self._own_pool().map(texts, partial(_ask_for_texts, "parse"))
        return [b64decode(each) if isinstance(each, str) else each for each in parsed]

    def score(self, pairs: Sequence[WorkerPair], usage: Usage) -> list[Scores | Failure | None]:
        """Score pairs with the embedded judge; None as for ``read``. Adds to ``usage``."""
        spent: list[Usage] = []

        def ask(child: ChildProcess, chunk: list[WorkerPair]) -> list[Scores]:
            characters = sum(len(pair.generation) + len(pair.reference) for pair in chunk)
            reply = _exchange(child, {"score": chunk}, deadline(characters))
            spent.append(Usage(**reply["usage"]))
            scores: list[Scores] = records_adapter("posh").validate_json(reply["scores"])
            return scores

        scores = self._own_pool().map(pairs, ask)
        for each in spent:
            usage.add(each)
        return scores

    def agree(self, own: str, *keys: str) -> bool:
        """Return True if the workers' signature is like this process's own, in some or all fields.

        Otherwise they are ended, with a warning: a package that was updated while a run goes on is
        what its new workers would load.
        """
        theirs = self.signature
        if theirs is None or theirs == own:
            return True
        if keys and all(field_of(theirs, key) == field_of(own, key) for key in keys):
            return True
        logger.warning(
            "worker processes would score as %s, not as %s, so they are not used: was the package "
            "or the metric changed? Start again",
            theirs, own,
        )  # fmt: skip
        self.close()
        self.unlike = True
        return False

    def _own_pool(self) -> ChildPool:
        if self._pool is None or self._pool.owner != os.getpid():
            # Not a method of ``self``: in a circle of references, workers would run on until it is
            # collected.
            start = partial(_start_child, self._settings, self._told)
            self._pool = ChildPool(start, self.processes)
        return self._pool

    def __getstate__(self) -> dict[str, Any]:
        return {"_given": self._given, "_settings": self._settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()


def _start_child(settings: Mapping[str, Any], told: dict[str, str]) -> ChildProcess:
    """Start a worker; ``told`` gets its signature."""
    variables = child_variables(os.environ, PYTHON, hub=False) | ONE_THREAD
    variables["CUDA_VISIBLE_DEVICES"] = ""  # a context on the GPU would take half a GiB of each
    variables["PYTHONIOENCODING"] = "utf-8"
    imports = json.dumps([folder for folder in sys.path if folder])
    child = ChildProcess(python_code(BOOT, imports), variables)
    try:
        told["signature"] = _exchange(child, {"settings": settings}, START_SECONDS)["signature"]
    except PoshError as error:  # here the same settings have worked
        raise child.failed(f"could not start: {error}") from error
    return child


def _ask_for_texts(do: str, child: ChildProcess, texts: list[str]) -> list[str | Failure]:
    values = _exchange(child, {do: texts}, deadline(sum(map(len, texts))))["values"]
    return [value if isinstance(value, str) else Failure(*value) for value in values]


def deadline(characters: int) -> float:
    """Return the seconds that a request about so many characters may take."""
    return SECONDS_A_REQUEST + SECONDS_A_CHARACTER * characters


def _exchange(child: ChildProcess, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Send a request and return the answer; raise what the worker raised."""
    reply = child.exchange(request, seconds)
    if "raised" not in reply:
        return reply
    if reply["raised"] == "MemoryError":  # of the worker, not of this process
        raise child.failed("ran out of memory")
    raise getattr(errors, reply["raised"], PoshError)(reply["detail"])
