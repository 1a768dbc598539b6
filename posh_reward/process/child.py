"""A child process that exchanges JSON lines, with a deadline for each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from posh_reward.errors import InputError
from posh_reward.process.python import PYTHON, python_script

SYSTEM_VARIABLES = (
    *"PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR TEMP TMP LD_LIBRARY_PATH".split(),
    *"LD_PRELOAD DYLD_LIBRARY_PATH CC CXX".split(),  # kernels are compiled at first use
    *"XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME".split(),
    *"SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE".split(),
    *"HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY".split(),
    *"http_proxy https_proxy all_proxy no_proxy".split(),
)
"""Variables for any program that computes and downloads."""
LIBRARY_PREFIXES = (
    *"LC_ CUDA_ CUDNN_ CUBLAS_ NVIDIA_ NVTE_ ROCM_ ROCR_ HIP_ HSA_ NCCL_ GLOO_".split(),
    *"OMP_ GOMP_ KMP_ MKL_ OPENBLAS_ TOKENIZERS_".split(),
    *"TORCH_ TORCHINDUCTOR_ TORCHDYNAMO_ PYTORCH_ TRITON_".split(),
    *"HF_ HUGGINGFACE_ HUGGING_FACE_ TRANSFORMERS_".split(),
)
"""Name prefixes of variables that configure the libraries below a model."""
LAUNCHER_PREFIXES: tuple[str, ...] = ("TORCH_NCCL_", "NCCL_ASYNC_ERROR_HANDLING")
"""Prefixes among them that a launcher sets for the trainer's process group, not inherited."""
HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HUGGINGFACE_TOKEN")
"""Name prefixes of the hub's access tokens."""

SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|_KEY\b|(HTTPS?|ALL)_PROXY", re.IGNORECASE)
"""Names of variables whose values are redacted; a proxy's URL may contain a password."""
MIN_SECRET_CHARACTERS = 8  # shorter values ("1", "true") are not secrets


def child_variables(
    base: Mapping[str, str], python: str, *, hub: bool, also: tuple[str, ...] = ()
) -> dict[str, str]:
    """Select the variables that a child inherits."""
    # Compare paths, not link targets: an environment's interpreter is a link.
    same = os.path.abspath(python) == os.path.abspath(PYTHON)
    families = (*LIBRARY_PREFIXES, *also)
    if same:
        families += ("PYTHON",)
    exceptions = LAUNCHER_PREFIXES
    if not hub:
        exceptions += HUB_TOKENS
    variables = {}
    for name, value in base.items():
        inherited = name.startswith(families) and not name.startswith(exceptions)
        if inherited or name in SYSTEM_VARIABLES:
            variables[name] = value
    return variables


def select_gpu(base: Mapping[str, str]) -> str:
    """Return the GPU of the parent's rank, for the child's ``CUDA_VISIBLE_DEVICES``.

    That is entry ``LOCAL_RANK`` of the parent's ``CUDA_VISIBLE_DEVICES``, its only entry if the
    launcher shows each rank just one GPU, or ``LOCAL_RANK`` itself if the variable is not set.
    """
    rank = int(base.get("LOCAL_RANK") or 0)
    visible = base.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return str(rank)
    gpus = [gpu.strip() for gpu in visible.split(",")]
    if len(gpus) == 1:
        return gpus[0]
    if rank >= len(gpus):
        raise InputError(
            f"LOCAL_RANK is {rank}, but CUDA_VISIBLE_DEVICES={visible} has {len(gpus)} GPUs: "
            "make as many GPUs visible as there are ranks"
        )
    return gpus[rank]


def gpu_index(base: Mapping[str, str]) -> int:
    """Return the index of that GPU among those visible to this process."""
    if "," not in base.get("CUDA_VISIBLE_DEVICES", ","):  # it sees only one
        return 0
    return int(base.get("LOCAL_RANK") or 0)


def find_secrets(environment: Mapping[str, str]) -> list[str]:
    """Return values to redact, such as that of ``HF_TOKEN``, longest first."""
    values = {
        value
        for name, value in environment.items()
        if SECRET_NAME.search(name) and len(value) >= MIN_SECRET_CHARACTERS
    }
    return sorted(values, key=len, reverse=True)


def redact(secrets: Sequence[str], text: str) -> str:
    """Replace secrets by ``***``."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


KEEPER_SCRIPT = Path(__file__).with_name("keeper.py")
STDERR_TAIL_BYTES = 2000  # that an error quotes
QUOTED_REPLY_CHARACTERS = 200  # of an answer that cannot be used
EXIT_GRACE_SECONDS = 10.0
"""Seconds for the keeper to end a child; a process with much memory takes a while to exit."""


class ChildFailureError(Exception):
    """The child died, missed a deadline or sent an invalid answer; it has been ended."""

    def __init__(self, reason: str, last_words: str = "", *, slow: bool = False) -> None:
        super().__init__(f"it {reason}; its last words:\n{last_words}")
        self.reason = reason  # one line, a predicate of "it"
        self.last_words = last_words
        self.slow = slow


class ChildProcess:
    """A child process and all its descendants.

    It ends with this object, at the latest with this process: ``keeper.py`` ensures that, however
    this process ends and whatever the child is doing.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.owner = os.getpid()
        """The only process that may use the child; a fork needs its own."""
        self._secrets = find_secrets(environment)
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._keeper = subprocess.Popen(  # noqa: S603
            wrap_in_keeper(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            encoding="utf-8",
            errors="replace",
            env=dict(environment),
            start_new_session=True,  # Ctrl-C reaches only the parent, which then ends the child
        )
        self.stop = weakref.finalize(self, end_child, self._keeper, self._stderr, self.owner)

    @property
    def is_alive(self) -> bool:
        """False once the child has ended."""
        return self._keeper.poll() is None

    def ask(self, request: Mapping[str, object], timeout: float) -> dict[str, Any]:
        """Send a request and return the answer with its ``id``; see ``receive``."""
        reply = self.exchange(request, timeout)
        if reply.get("id") != request["id"]:
            raise self.failed(f"answered something else: {str(reply)[:QUOTED_REPLY_CHARACTERS]}")
        return reply

    def exchange(self, request: Mapping[str, object], timeout: float) -> dict[str, Any]:
        """Send a request and return the child's next message; see ``receive``."""
        return self.receive(timeout, json.dumps(request) + "\n")

    def receive(self, timeout: float, request: str = "") -> dict[str, Any]:
        """Return the child's next message, after writing ``request`` to it."""
        keeper = self._keeper
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        # A timer that kills instead of ``select``: writing blocks, too, if the child stops reading,
        # and a child that missed a deadline is useless anyway.
        expired = threading.Event()

        def expire() -> None:  # killing unblocks both the write and the read
            expired.set()
            kill_child(keeper)

        deadline = threading.Timer(timeout, expire)
        deadline.daemon = True
        deadline.start()
        reply = ""
        try:
            keeper.stdin.write(request)
            keeper.stdin.flush()
            reply = keeper.stdout.readline()
        except OSError:
            pass  # it died before it read the request
        finally:
            deadline.cancel()
        if expired.is_set():
            raise self.failed(f"gave no answer within {timeout:g} s", slow=True)
        if not reply.endswith("\n"):
            raise self.failed("died")
        with suppress(ValueError):
            answer = json.loads(reply)
            if isinstance(answer, dict):
                return answer
        raise self.failed(
            f"sent something other than a JSON object: {reply[:QUOTED_REPLY_CHARACTERS]!r}"
        )

    def failed(self, reason: str, *, slow: bool = False) -> ChildFailureError:
        """End the child and return the error to raise, with the end of its stderr."""
        code = kill_child(self._keeper)
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - STDERR_TAIL_BYTES))
        words = self._stderr.read().decode("utf-8", "replace").strip()
        self.stop()
        reason = f"{redact(self._secrets, reason)} (exit status {code})"
        return ChildFailureError(reason, redact(self._secrets, words), slow=slow)


def wrap_in_keeper(command: Sequence[str]) -> list[str]:
    """Return a command that ends with this process, with all its descendants: ``keeper.py``."""
    # -I -S: import nothing from the keeper's folder or the user's packages.
    return python_script(KEEPER_SCRIPT, str(os.getpid()), *command, flags=("-I", "-S"))


def run_command(
    command: Sequence[str], timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end like ``subprocess.run``, in a keeper (``wrap_in_keeper``).

    Raises:
        OSError: the keeper cannot be started. A command that cannot has the exit status 127.
        subprocess.TimeoutExpired: it took longer than ``timeout`` seconds, and has been ended.
    """
    options = {"stdin": subprocess.DEVNULL, "text": True, **options}
    process: subprocess.Popen[str]
    with subprocess.Popen(wrap_in_keeper(command), **options) as process:  # noqa: S603
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            kill_child(process)
            raise
    return subprocess.CompletedProcess(list(command), process.returncode, output, errors)


def kill_child(keeper: subprocess.Popen[str]) -> int:
    """End a child and its descendants, freeing their memory; return the exit status."""
    keeper.terminate()
    try:
        return keeper.wait(EXIT_GRACE_SECONDS)
    except subprocess.TimeoutExpired:  # the keeper is stopped, or the child hangs in the kernel
        keeper.kill()  # the child dies with it
        return keeper.wait()


def end_child(keeper: subprocess.Popen[str], stderr: IO[bytes], owner: int) -> None:
    """End a child unless it belongs to the parent of this process, a fork."""
    if os.getpid() != owner:
        return
    kill_child(keeper)
    for pipe in (keeper.stdin, keeper.stdout, stderr):
        with suppress(OSError):  # closing flushes a request that was never read
            if pipe is not None:
                pipe.close()
