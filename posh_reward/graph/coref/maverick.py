"""Maverick, the paper's coreference model, in an environment and a process of its own.

Martinelli, Barba, Navigli: Maverick, ACL 2024. Its input is tokens split into sentences, as in the
POSH paper (section 3). The package pins old libraries, so it is never imported here.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.errors import MissingDependencyError, PoshError
from posh_reward.graph.coref.maverick_setup import WORKER, default_env, python_of, setup_command
from posh_reward.graph.rules.components import read_syntax
from posh_reward.process import ChildFailureError, ChildProcess
from posh_reward.process.child import child_variables, gpu_of
from posh_reward.types import Clusters

if TYPE_CHECKING:
    from spacy.tokens import Doc

logger = logging.getLogger(__name__)

PAPER_WEIGHTS = "sapienzanlp/maverick-mes-ontonotes"
DEADLY = 2  # fresh workers that a text may crash before it counts as unresolvable


class CorefError(PoshError, RuntimeError):
    """The coreference model cannot work at all (as opposed to one text that failed)."""


class UnresolvedTextError(RuntimeError):
    """One text failed; others can be resolved. Not a ``PoshError``, which would end the run."""


class MaverickCoref:
    """Coreference by Maverick. Its process starts on first use and is left out of pickles.

    The package and the published weights are CC BY-NC-SA 4.0: not for commercial use.

    Args:
        weights: a repository on the hub, optionally as ``"repository@revision"``; a checkpoint
            file; or a folder with a ``weights.ckpt``. Checkpoints are *unpickled*, which can run
            code: use only those that you trust.
        env: folder of Maverick's environment; by default ``$POSH_MAVERICK_ENV``, or
            ``posh-reward/maverick`` in the user's cache directory.
        device: "auto" for this rank's GPU, or the CPU if there is none; "cpu"; or a GPU such as
            "cuda:0", the same for all ranks.
        timeout: seconds for one text.
        start_timeout: seconds for loading the model, including the download of its weights.
        max_restarts: maximum number of restarts in a row without an answer in between.

    Raises:
        MissingDependencyError: the environment does not exist; the message has the command.
    """

    _worker: ChildProcess | None
    _revision: str | None
    _deadly: dict[str, str]  # unresolvable texts, as JSON, with the reason

    def __init__(
        self,
        weights: str = PAPER_WEIGHTS,
        *,
        env: str | Path | None = None,
        device: str = "auto",
        timeout: float = 300.0,
        start_timeout: float = 1800.0,
        max_restarts: int = 3,
    ) -> None:
        self._env = Path(env).absolute() if env is not None else default_env().absolute()
        self._weights = weights
        self._device = device
        self._timeout = timeout
        self._start_timeout = start_timeout
        self._max_restarts = max_restarts
        self._forget_process()
        check_env(self._env)
        say_licence()

    @property
    def name(self) -> str:
        """Weights and revision, e.g. ``"maverick-mes-ontonotes@3f2a..."``, for signatures.

        The revision of local weights is the start of their SHA-256. Starts the process if it has
        never run, so it raises what ``resolve`` raises.
        """
        with self._lock:
            if self._revision is None:
                self._ready_worker()
            weights, _, _ = self._weights.rstrip("/").rpartition("/")[2].partition("@")
            return f"{weights}@{self._revision}"

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """Clusters of each text, in the model's order. Blank texts are not sent to it.

        Raises:
            CorefError: the process cannot start, or dies whatever the text.
            MissingDependencyError: its environment is missing or incomplete.
            UnresolvedTextError: one text cannot be resolved; the others can, without it.
        """
        with self._lock:
            return [() if not doc.text.strip() else self._ask(sentences_of(doc)) for doc in docs]

    def close(self) -> None:
        """End the process and free its memory; the next text starts another."""
        with self._lock:
            self._stop()

    def _ask(self, sentences: list[list[str]]) -> Clusters:
        # A text that crashes ``DEADLY`` fresh workers is never sent again.
        text = json.dumps(sentences)
        if text in self._deadly:
            raise UnresolvedTextError(self._deadly[text])
        for attempt in range(1, DEADLY + 1):
            try:
                return self._ask_once(sentences)
            except ChildFailureError as failure:
                self._count(failure)
                if attempt == DEADLY or failure.slow:
                    self._deadly[text] = f"Maverick failed on a text: {failure}"
                    raise UnresolvedTextError(self._deadly[text]) from failure
        raise AssertionError("the last attempt returns or raises")

    def _ask_once(self, sentences: list[list[str]]) -> Clusters:
        worker = self._ready_worker()
        self._requests += 1
        request = {"id": self._requests, "sentences": sentences}
        reply = worker.ask(request, self._timeout)
        if "error" in reply:
            self._failures = 0
            if self.on_gpu:
                self._stop()  # an error on a GPU may have broken its whole context
            raise UnresolvedTextError(f"Maverick failed on a text: {reply['error']}")
        try:
            clusters = valid_clusters(reply.get("clusters"), sum(map(len, sentences)))
        except (TypeError, ValueError) as error:
            raise ChildFailureError(f"its answer has no valid clusters: {error}") from error
        self._failures = 0
        return clusters

    def _ready_worker(self) -> ChildProcess:
        while self._worker is None or self._worker.owner != os.getpid():
            if self._failures > self._max_restarts:
                raise CorefError(
                    f"Maverick failed {self._failures} times in a row: check the free memory and "
                    f"the last error, then start again. The last error: {self._last_words}"
                )
            try:
                self._worker = self._start()
            except ChildFailureError as failure:
                self._count(failure)
        return self._worker

    def _start(self) -> ChildProcess:
        check_env(self._env)
        python, weights = str(python_of(self._env)), self._pin()
        # -I: neither this folder's modules nor the user's own packages shadow the environment's.
        command = [python, "-I", str(WORKER), "--weights", weights, "--device", self._device]
        worker = ChildProcess(command, environment(python, weights, self._device))
        reply = worker.receive(self._start_timeout)
        if "ready" not in reply:
            worker.stop()
            raise self._no_start(str(reply.get("fatal", reply)))
        self._revision = str(reply["ready"]["revision"])
        self.on_gpu = reply["ready"].get("device", self._device) not in ("cpu", "auto")
        return worker

    def _pin(self) -> str:
        # A restarted worker must load the revision that ``name`` already reported.
        hub = self._revision is not None and not Path(self._weights).exists()
        return f"{self._weights.partition('@')[0]}@{self._revision}" if hub else self._weights

    def _no_start(self, why: str) -> PoshError:
        if why.startswith(("ModuleNotFoundError", "ImportError")):
            remedy = f"Repair its environment with: {setup_command(self._env)}"
            return MissingDependencyError(f"Maverick cannot start: {why}. {remedy}")
        remedy = f"Check that the weights {self._weights!r} and the device {self._device} exist."
        return CorefError(f"Maverick cannot start: {why}. {remedy}")

    def _count(self, failure: ChildFailureError) -> None:
        logger.warning("Maverick's process failed: %s", failure)
        self._failures += 1
        self._last_words = str(failure)
        self._stop()

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def _forget_process(self) -> None:
        self._lock = threading.Lock()
        self._worker = None
        self._revision = None
        self.on_gpu = False
        self._requests = 0
        self._failures = 0  # in a row
        self._last_words = ""
        self._deadly = {}

    def __getstate__(self) -> dict[str, Any]:
        own = ("_env", "_weights", "_device", "_timeout", "_start_timeout", "_max_restarts")
        return {key: self.__dict__[key] for key in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget_process()


def check_env(env: Path) -> None:
    """Raise ``MissingDependencyError`` unless the environment has an interpreter."""
    if not python_of(env).exists():
        raise MissingDependencyError(
            f"Maverick's environment {env} does not exist. Make it with: {setup_command(env)}"
        )


@lru_cache(maxsize=1)
def say_licence() -> None:
    """Warn once of the model's licence."""
    logger.warning(
        "Maverick and its published weights are licensed CC BY-NC-SA 4.0: not for commercial use. "
        "The resolver 'rules' has no such limit."
    )


def environment(python: str, weights: str, device: str) -> dict[str, str]:
    """Return the worker's variables; the hub's key is among them only for weights on the hub."""
    variables = child_variables(os.environ, python, hub=not Path(weights).exists())
    if device == "cpu":
        variables["CUDA_VISIBLE_DEVICES"] = ""
    elif device == "auto":
        variables["CUDA_VISIBLE_DEVICES"] = gpu_of(os.environ)
    # Maverick's checkpoint has its settings as objects, which torch unpickles only if forced. That
    # can run any code in the file, so only the worker gets this variable.
    return {**variables, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1", "TOKENIZERS_PARALLELISM": "false"}


def sentences_of(doc: Doc) -> list[list[str]]:
    """Split a text's tokens into sentences, white space included, as the release does.

    White space has no subwords, so Maverick does not see the end of a sentence that ends in it: a
    mention may cross a blank line.
    """
    sentences: list[list[str]] = []
    for token, sentence in zip(doc, read_syntax(doc).sentence, strict=True):
        if sentence == len(sentences):
            sentences.append([])
        sentences[-1].append(token.text)
    return sentences


def valid_clusters(clusters: object, tokens: int) -> Clusters:
    """Return the worker's clusters as ``Clusters``; TypeError or ValueError if invalid."""
    if not isinstance(clusters, list):
        raise TypeError(f"{clusters!r} is not a list")
    spans = tuple(tuple((int(a), int(b)) for a, b in cluster) for cluster in clusters)
    for cluster in spans:
        if len(cluster) < 2 or not all(0 <= a <= b < tokens for a, b in cluster):
            raise ValueError(f"{cluster} among {tokens} tokens")
    return spans
