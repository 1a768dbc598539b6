"""Maverick, the paper's coreference model, in an environment and a process of its own.

    python -m posh_reward.graph.maverick [ENV_DIR]    makes or repairs that environment

Martinelli, Barba, Navigli: Maverick, ACL 2024. Its input is tokens split into sentences, as in the
POSH paper (section 3). The package pins old libraries, so it is never imported here.
For torch's CPU build, set ``PIP_EXTRA_INDEX_URL`` to the index that pytorch.org names.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.errors import MissingDependencyError, PoshError
from posh_reward.graph.components import read_syntax
from posh_reward.process import ChildFailureError, ChildProcess
from posh_reward.process.child import child_variables, run_command, select_gpu
from posh_reward.process.python import python_code, python_module, python_script
from posh_reward.types import Clusters

if TYPE_CHECKING:
    from spacy.tokens import Doc

logger = logging.getLogger(__name__)

PAPER_WEIGHTS = "sapienzanlp/maverick-mes-ontonotes"
WORKER_SCRIPT = Path(__file__).with_name("maverick_worker.py")
ENV_VARIABLE = "POSH_MAVERICK_ENV"  # the environment's folder, if not the default one

MAVERICK_REQUIREMENT = "maverick-coref==1.0.7"
"""Installed without its dependencies: protobuf 3.20 and nltk 3.8.1 conflict with current ones."""
IMPORTED_REQUIREMENTS = (
    "torch==2.13.0",
    # Not 5, which loads an encoder in its stored precision, maybe half: Maverick's own layers are
    # in single precision.
    "transformers==4.57.6",
    "antlr4-python3-runtime==4.9.3",  # the version that omegaconf's grammar needs
    *"hydra-core omegaconf jsonlines nltk pytorch-lightning torchmetrics joblib scipy".split(),
    *"pandas spacy".split(),  # imported at the top of maverick, never called here
    *"sentencepiece protobuf".split(),  # the encoder's tokenizer is a sentencepiece model
)
"""Packages that Maverick imports."""

MAX_ATTEMPTS_PER_TEXT = 2  # workers that a text may crash before it is given up
MAX_FAILURES_IN_A_ROW = 3  # of the process, without an answer in between
START_TIMEOUT_SECONDS = 1800.0  # for loading the model, including the download of its weights


def default_env() -> Path:
    """Return the environment's folder: ``$POSH_MAVERICK_ENV``, or one in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(ENV_VARIABLE) or cache / "posh-reward" / "maverick")


def locate_python(env: Path) -> Path:
    """Return the interpreter of an environment."""
    return env / "bin" / "python"


def setup_command(env: Path) -> str:
    """Return the shell command that makes an environment."""
    return f"python -m posh_reward.graph.maverick {env}"


def make_env(env: Path) -> None:
    """Make or repair the environment, and check that it can import Maverick.

    Raises:
        subprocess.CalledProcessError: venv, pip or the check failed; stderr has the reason.
    """
    env = env.absolute()
    python = str(locate_python(env))
    quiet = ("--no-input", "--disable-pip-version-check")
    pip = python_module("pip", "install", *quiet, python=python)
    for command in (
        python_module("venv", str(env)),
        [*pip, *IMPORTED_REQUIREMENTS],
        # Published as source only: pip builds the wheel. torch is named, or pip takes the newest.
        [*pip, "--no-deps", MAVERICK_REQUIREMENT, IMPORTED_REQUIREMENTS[0]],
        python_code("import maverick", python=python, flags=("-I",)),
    ):
        run_command(command).check_returncode()


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

    Raises:
        MissingDependencyError: the environment does not exist; the message has the command.
    """

    def __init__(
        self,
        weights: str = PAPER_WEIGHTS,
        *,
        env: str | Path | None = None,
        device: str = "auto",
        timeout: float = 300.0,
    ) -> None:
        self._env = Path(env or default_env()).absolute()
        self._weights, self._device, self._timeout = weights, device, timeout
        self._lock = threading.Lock()
        self._worker: ChildProcess | None = None
        self._revision: str | None = None
        self._failures = 0  # of the process, in a row
        self._requests = 0
        self._crashing: dict[str, str] = {}  # texts that are not sent again, and why
        if not locate_python(self._env).exists():
            raise MissingDependencyError(
                f"Maverick's environment {self._env} does not exist. Make it with: "
                f"{setup_command(self._env)}"
            )
        logger.warning(
            "Maverick and its published weights are licensed CC BY-NC-SA 4.0: not for commercial "
            "use. The resolver 'rules' has no such limit."
        )

    @property
    def name(self) -> str:
        """Weights and revision, e.g. ``"maverick-mes-ontonotes@3f2a..."``, for signatures.

        The revision of local weights is the start of their SHA-256. Starts the process if it has
        never run, so it raises what ``resolve`` raises.
        """
        with self._lock:
            if self._revision is None:
                self._running_worker()
            weights, _, _ = self._weights.rstrip("/").rpartition("/")[2].partition("@")
            return f"{weights}@{self._revision}"

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """Clusters of each text, in the model's order. Blank texts are not sent to it.

        Raises:
            CorefError: the process cannot start, or keeps dying on different texts.
            MissingDependencyError: its environment is incomplete.
            UnresolvedTextError: one text cannot be resolved; the others can, without it.
        """
        with self._lock:
            clusters: list[Clusters] = []
            for doc in docs:
                is_blank = not doc.text.strip()
                clusters.append(() if is_blank else self._ask_with_retries(split_sentences(doc)))
            return clusters

    def close(self) -> None:
        """End the process and free its memory; the next text starts another."""
        with self._lock:
            self._stop_worker()

    def _ask_with_retries(self, sentences: list[list[str]]) -> Clusters:
        text = json.dumps(sentences)
        if text in self._crashing:
            raise UnresolvedTextError(self._crashing[text])
        for attempt in range(1, MAX_ATTEMPTS_PER_TEXT + 1):
            try:
                return self._ask_once(sentences)
            except ChildFailureError as failure:
                self._count_failure(failure)
                if failure.slow or attempt == MAX_ATTEMPTS_PER_TEXT:
                    self._crashing[text] = f"Maverick failed on a text: {failure}"
                    raise UnresolvedTextError(self._crashing[text]) from failure
        raise AssertionError("the last attempt returns or raises")

    def _ask_once(self, sentences: list[list[str]]) -> Clusters:
        worker = self._running_worker()
        self._requests += 1
        reply = worker.ask({"id": self._requests, "sentences": sentences}, self._timeout)
        self._failures = 0
        if "error" in reply:
            if reply["broken"]:
                self._stop_worker()
            raise UnresolvedTextError(f"Maverick failed on a text: {reply['error']}")
        return tuple(tuple((a, b) for a, b in cluster) for cluster in reply["clusters"])

    def _running_worker(self) -> ChildProcess:
        while self._worker is None or self._worker.owner != os.getpid():
            try:
                self._worker = self._start_worker()
            except ChildFailureError as failure:
                self._count_failure(failure)
        return self._worker

    def _start_worker(self) -> ChildProcess:
        python, weights, local = str(locate_python(self._env)), self._weights, Path(self._weights)
        if self._revision and not local.exists():  # the one that ``name`` already reported
            weights = f"{weights.partition('@')[0]}@{self._revision}"
        variables = child_variables(os.environ, python, hub=not local.exists())
        if self._device in ("cpu", "auto"):
            gpu = "" if self._device == "cpu" else select_gpu(os.environ)
            variables["CUDA_VISIBLE_DEVICES"] = gpu
        # Maverick's checkpoint has its settings as objects, which torch unpickles only if forced.
        # That can run any code in the file, so only the worker gets this variable.
        variables |= {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1", "TOKENIZERS_PARALLELISM": "false"}
        # -I: neither this folder's modules nor the user's own packages shadow the environment's.
        command = python_script(WORKER_SCRIPT, weights, self._device, python=python, flags=("-I",))
        worker = ChildProcess(command, variables)
        reply = worker.receive(START_TIMEOUT_SECONDS)
        if "revision" in reply:
            self._revision = str(reply["revision"])
            return worker
        worker.stop()
        why = str(reply.get("fatal", reply))
        if why.startswith(("ModuleNotFoundError", "ImportError")):
            remedy = f"Repair its environment with: {setup_command(self._env)}"
            raise MissingDependencyError(f"Maverick cannot start: {why}. {remedy}")
        remedy = f"Check that the weights {self._weights!r} and the device {self._device} exist."
        raise CorefError(f"Maverick cannot start: {why}. {remedy}")

    def _count_failure(self, failure: ChildFailureError) -> None:
        logger.warning("Maverick's process failed: %s", failure)
        self._stop_worker()
        self._failures += 1
        if self._failures > MAX_FAILURES_IN_A_ROW:
            raise CorefError(
                f"Maverick failed {self._failures} times in a row: check the free memory and the "
                f"last error, then start again. The last error: {failure}"
            ) from failure

    def _stop_worker(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def __reduce__(self) -> tuple[Any, ...]:
        make = partial(MaverickCoref, env=self._env, device=self._device, timeout=self._timeout)
        return make, (self._weights,)


def split_sentences(doc: Doc) -> list[list[str]]:
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


def main() -> None:
    """Make the environment named on the command line, or the default one."""
    env = Path(sys.argv[1] if len(sys.argv) > 1 else default_env()).absolute()
    try:
        make_env(env)
    except subprocess.CalledProcessError as error:
        sys.exit(f"cannot make {env}: {error}")
    print(f'{env} is ready. Unless it is the default folder, set {ENV_VARIABLE}="{env}".')


if __name__ == "__main__":
    main()
