"""A child process that answers JSON lines, with a deadline on every line.

What libraries cannot do inside a trainer (old pins, one engine a process, global switches) runs
in a process of its own: Maverick, and vLLM beside a trainer.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

STDERR_TAIL = 2000
"""Bytes of the process's last words that an error repeats."""
SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|_KEY\b", re.IGNORECASE)
"""Names of variables whose values are never repeated."""
SHORTEST_SECRET = 8
"""A shorter value (``"1"``, ``"true"``) is none."""


class ChildFailureError(Exception):
    """The process died, was too slow, or said what is no answer. It is gone now."""

    def __init__(self, reason: str, last_words: str = "", *, slow: bool = False) -> None:
        super().__init__(f"it {reason}; its last words:\n{last_words}")
        self.reason = reason
        """One line, what "it" did."""
        self.last_words = last_words
        self.slow = slow


class ChildProcess:
    """One child process, and its process group.

    It ends with this object, and at the latest with the interpreter.

    Args:
        command: what to run, no shell.
        environment: all of the child's environment variables.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.owner = os.getpid()
        """Only this process may talk to the child; a fork of it needs a child of its own."""
        self._secrets = secrets_of(environment)
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._child = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            encoding="utf-8",
            errors="replace",
            env=dict(environment),
            start_new_session=True,  # Ctrl-C is for the parent, which then ends the child
        )
        self.stop = weakref.finalize(self, end, self._child, self._stderr, self.owner)

    def ask(self, request: Mapping[str, object], timeout: float) -> dict[str, Any]:
        """Sends a request and waits at most ``timeout`` seconds for the answer to it.

        Raises:
            ChildFailureError: There was none.
        """
        reply = self.exchange(request, timeout)
        if reply.get("id") != request["id"]:
            raise self.failed(f"answered something else: {str(reply)[:200]}")
        return reply

    def exchange(self, request: Mapping[str, object], timeout: float) -> dict[str, Any]:
        """Sends a request; what the process says next, within ``timeout`` seconds.

        Raises:
            ChildFailureError: It said nothing.
        """
        return self._exchange(json.dumps(request) + "\n", timeout)

    def receive(self, timeout: float) -> dict[str, Any]:
        """What the process says unasked, within ``timeout`` seconds.

        Raises:
            ChildFailureError: It said nothing.
        """
        return self._exchange("", timeout)

    def _exchange(self, line: str, timeout: float) -> dict[str, Any]:
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        expired = threading.Event()

        def give_up() -> None:  # unblocks both: a pipe that is not read, and one that is silent
            expired.set()
            kill(child)

        deadline = threading.Timer(timeout, give_up)
        deadline.daemon = True
        deadline.start()
        reply = ""
        try:
            child.stdin.write(line)
            child.stdin.flush()
            reply = child.stdout.readline()
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
        raise self.failed(f"said what is no JSON object: {reply[:200]!r}")

    def failed(self, reason: str, *, slow: bool = False) -> ChildFailureError:
        """Ends the process, and says why: the error to raise."""
        kill(self._child)
        code = self._child.wait()
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - STDERR_TAIL))
        words = self._stderr.read().decode("utf-8", "replace").strip()
        self.stop()
        reason, words = (without(self._secrets, text) for text in (reason, words))
        return ChildFailureError(f"{reason} (exit status {code})", words, slow=slow)


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """Values that no message may repeat, e.g. that of ``HF_TOKEN``; longest first."""
    found = {
        value
        for name, value in environment.items()
        if SECRET.search(name) and len(value) >= SHORTEST_SECRET
    }
    return sorted(found, key=len, reverse=True)


def without(secrets: Sequence[str], text: str) -> str:
    """A text with stars in place of secrets."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def kill(child: subprocess.Popen[str]) -> None:
    """Kills a child and its process group. It must not have been reaped: its pid is its own."""
    if child.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)


def end(child: subprocess.Popen[str], stderr: IO[bytes], owner: int) -> None:
    """Kills and reaps a child, if it is this process's own and no fork's."""
    if os.getpid() != owner:
        return
    kill(child)
    for pipe in (child.stdin, child.stdout, stderr):
        with suppress(OSError):  # a request that was never read is still in the pipe's buffer
            if pipe is not None:
                pipe.close()
    child.wait()
