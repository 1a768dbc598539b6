"""Worker processes that read texts, and judge pairs by the embedded judge: ``PoSh(processes=N)``.

They change nothing but the time: scores, signatures, failures and order are those of one process.
A language model or a witness is asked by this process.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from base64 import b64decode
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from posh_reward import errors
from posh_reward.errors import PoshError
from posh_reward.metrics.metric import read_signature_field
from posh_reward.metrics.records import records_adapter
from posh_reward.process import ChildProcess
from posh_reward.process.child import child_variables
from posh_reward.process.pool import ChildPool
from posh_reward.process.python import PYTHON, python_code
from posh_reward.process.resources import (
    BYTES_PER_GIB,
    KERNEL_ROOT,
    cores_of_rank,
    host_memory,
    ranks_here,
)
from posh_reward.types import Failure, Scores, Usage

logger = logging.getLogger(__name__)

WORKER_CODE = (
    "import json; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from posh_reward.posh.worker import main; main()"
)
"""Code for a worker, which imports from where this process does."""
MAX_MEMORY_SHARE = 0.5  # of the free memory that workers take at most, unless their number is given
MAX_DEFAULT_PROCESSES = 16
"""Most workers by default. For this process, sharing texts out is work, too."""
MIN_TEXTS_TO_START = 128
"""Texts after which workers start by themselves; starting takes as long as some 60 texts. Before
that, waiting for them would cost more than it saves."""
START_TIMEOUT_SECONDS = 300.0  # for loading the parser, while as many others load it, too
SECONDS_PER_REQUEST, SECONDS_PER_CHARACTER = 90.0, 0.01
"""Time for an answer: hundreds of times what it takes, for texts may be hard and machines busy. A
pair of 150 words each has 1,700 characters, takes 0.07 s, and may take 107 s."""
ONE_THREAD_VARIABLES = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR")
}


def default_processes(parser: str, root: Path = KERNEL_ROOT) -> int:
    """Count the workers that this process has cores and memory for."""
    share = MAX_MEMORY_SHARE * host_memory(root) / ranks_here()
    fitting = share / BYTES_PER_GIB / estimate_worker_gib(parser)
    return max(int(min(cores_of_rank(root), fitting, MAX_DEFAULT_PROCESSES)), 1)


def estimate_worker_gib(parser: str) -> float:
    """Return the GiB that a worker takes, without pages that it shares with others.

    Measured with the embedded parser, after 50 golden pairs; with a transformer pipeline assumed:
    torch, RoBERTa and its activations.
    """
    return 3.0 if parser.endswith("_trf") else 0.4


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
            work for them (``MIN_TEXTS_TO_START``).
        settings: arguments of a worker's ``PoSh``.
    """

    def __init__(self, processes: int | None, settings: Mapping[str, Any]) -> None:
        self._given = processes
        self._settings = dict(settings)
        self._reset()

    def _reset(self) -> None:
        self._default = (0, 1)  # process that it was counted in, and number
        self._pool: ChildPool | None = None
        self._seen = 0  # texts that this process has read
        self._told: dict[str, str] = {}  # by the first worker: the signature of all
        self._unfit = False  # the workers were found to be of another metric

    @property
    def processes(self) -> int:
        """Number of workers; 1: none."""
        if self._given is not None:
            return self._given
        own = os.getpid()  # a fork, or the reader of a pickle, may have fewer cores
        if self._default[0] != own:
            self._default = own, default_processes(str(self._settings["parser"]))
        return self._default[1]

    def can_take(self, texts: int, own: str, *keys: str) -> bool:
        """Return True if so many texts should go to the workers; starts them if need be.

        They have to be like this process's metric, whose signature is ``own``: in the fields
        ``keys``, or in all. Otherwise they are ended, with a warning: the metric was changed, or
        the package was updated while a run goes on, and new workers load what is there now.
        """
        if texts < 2 or self.processes < 2 or self._unfit or not self._is_due(texts):
            return False
        self.start()
        theirs = self._told.get("signature", own)
        is_like = theirs == own
        if keys and not is_like:
            is_like = all(
                read_signature_field(theirs, key) == read_signature_field(own, key) for key in keys
            )
        if not is_like:
            logger.warning(
                "worker processes would score as %s, not as %s, so they are not used: was the "
                "package or the metric changed? Start again",
                theirs, own,
            )  # fmt: skip
            self.close()
            self._unfit = True
        return is_like and not self._own_pool().broken

    def _is_due(self, texts: int) -> bool:
        has_started = self._pool is not None
        return self._given is not None or has_started or self._seen + texts >= MIN_TEXTS_TO_START

    def count_texts(self, texts: int) -> None:
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

    def read_texts(self, texts: Sequence[str]) -> list[str | Failure | None]:
        """Return each text's ``write_description``; None for a text that no worker could take."""
        return self._own_pool().map(texts, partial(_ask_for_texts, "read"))

    def parse_texts(self, texts: Sequence[str]) -> list[bytes | Failure | None]:
        """Return each text's parse in spaCy's format, for a resolver in this process."""

        def ask(child: ChildProcess, chunk: list[str]) -> list[bytes | Failure]:
            values = _ask_for_texts("parse", child, chunk)
            parses: list[bytes | Failure] = []
            for each in values:
                parses.append(each if isinstance(each, Failure) else b64decode(each))
            return parses

        return self._own_pool().map(texts, ask)

    def score_pairs(
        self, pairs: Sequence[WorkerPair], usage: Usage
    ) -> list[Scores | Failure | None]:
        """Score pairs with the embedded judge; None as for ``read_texts``. Adds to ``usage``."""
        spent: list[Usage] = []

        def ask(child: ChildProcess, chunk: list[WorkerPair]) -> list[Scores]:
            characters = sum(len(pair.generation) + len(pair.reference) for pair in chunk)
            reply = _send_request(child, {"score": chunk}, request_seconds(characters))
            spent.append(Usage(**reply["usage"]))
            scores: list[Scores] = records_adapter("posh").validate_json(reply["scores"])
            return scores

        scores = self._own_pool().map(pairs, ask)
        for each in spent:
            usage.add(each)
        return scores

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
        self._reset()


def _start_child(settings: Mapping[str, Any], told: dict[str, str]) -> ChildProcess:
    """Start a worker, whose signature has to be that of the first one, in ``told``."""
    variables = child_variables(os.environ, PYTHON, hub=False) | ONE_THREAD_VARIABLES
    variables["CUDA_VISIBLE_DEVICES"] = ""  # a context on the GPU would take half a GiB of each
    variables["PYTHONIOENCODING"] = "utf-8"
    imports = json.dumps([folder for folder in sys.path if folder])
    child = ChildProcess(python_code(WORKER_CODE, imports), variables)
    try:
        signature = _send_request(child, {"settings": settings}, START_TIMEOUT_SECONDS)["signature"]
    except PoshError as error:  # here the same settings have worked
        raise child.failed(f"could not start: {error}") from error
    if signature != told.setdefault("signature", signature):
        raise child.failed(f"is another metric than before, {signature}")
    return child


def _ask_for_texts(do: str, child: ChildProcess, texts: list[str]) -> list[str | Failure]:
    """Let a worker read or parse texts; a failure came as its kind and detail."""
    reply = _send_request(child, {do: texts}, request_seconds(sum(map(len, texts))))
    results: list[str | Failure] = []
    for value in reply["values"]:
        results.append(value if isinstance(value, str) else Failure(*value))
    return results


def request_seconds(characters: int) -> float:
    """Return the seconds that a request about so many characters may take."""
    return SECONDS_PER_REQUEST + SECONDS_PER_CHARACTER * characters


def _send_request(
    child: ChildProcess, request: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """Send a request and return the answer; raise what the worker raised."""
    reply = child.exchange(request, seconds)
    if "raised" not in reply:
        return reply
    if reply["raised"] == "MemoryError":  # of the worker, not of this process
        raise child.failed("ran out of memory")
    raise getattr(errors, reply["raised"], PoshError)(reply["detail"])
