"""A process that answers JSON lines, with a deadline on every answer."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

STDERR_TAIL = 2000
"""Bytes of the process's last words that an error repeats."""


class WorkerFailureError(Exception):
    """The process died, was too slow, or said what is no answer. It is gone now."""

    def __init__(self, reason: str, *, slow: bool = False) -> None:
        super().__init__(reason)
        self.slow = slow


class WorkerProcess:
    """One child process. It ends with this object, and at the latest with the interpreter.

    Args:
        command: what to run, no shell.
        environment: all of the child's environment variables.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.owner = os.getpid()
        """Only this process may talk to the child; a fork of it needs a child of its own."""
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
            WorkerFailureError: There was none.
        """
        reply = self._exchange(json.dumps(request) + "\n", timeout)
        if reply.get("id") != request["id"]:
            raise self._failed(f"answered something else: {str(reply)[:200]}")
        return reply

    def receive(self, timeout: float) -> dict[str, Any]:
        """What the process says unasked, within ``timeout`` seconds.

        Raises:
            WorkerFailureError: It said nothing.
        """
        return self._exchange("", timeout)

    def _exchange(self, line: str, timeout: float) -> dict[str, Any]:
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        expired = threading.Event()

        def give_up() -> None:  # unblocks both: a pipe that is not read, and one that is silent
            expired.set()
            child.kill()

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
            raise self._failed(f"gave no answer within {timeout:g} s", slow=True)
        if not reply.endswith("\n"):
            raise self._failed("died")
        with suppress(ValueError):
            answer = json.loads(reply)
            if isinstance(answer, dict):
                return answer
        raise self._failed(f"said what is no JSON object: {reply[:200]!r}")

    def _failed(self, reason: str, *, slow: bool = False) -> WorkerFailureError:
        self._child.kill()
        code = self._child.wait()
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - STDERR_TAIL))
        words = self._stderr.read().decode("utf-8", "replace").strip()
        self.stop()
        return WorkerFailureError(
            f"it {reason} (exit status {code}); its last words:\n{words}", slow=slow
        )


def end(child: subprocess.Popen[str], stderr: IO[bytes], owner: int) -> None:
    """Kills and reaps a child, if it is this process's own and no fork's."""
    if os.getpid() != owner:
        return
    child.kill()
    for pipe in (child.stdin, child.stdout, stderr):
        with suppress(OSError):  # a request that was never read is still in the pipe's buffer
            if pipe is not None:
                pipe.close()
    child.wait()
