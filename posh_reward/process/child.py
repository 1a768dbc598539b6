"""A child process that exchanges JSON lines, with a deadline for each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from posh_reward.process.child_environment import redact, secrets_of

KEEPER = Path(__file__).with_name("keeper.py")
STDERR_TAIL = 2000  # last bytes of stderr that an error quotes
GRACE = 10.0
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
        self._secrets = secrets_of(environment)
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        # -I -S: import nothing from the keeper's folder or the user's packages.
        keeper = [sys.executable, "-I", "-S", str(KEEPER), str(self.owner)]
        self._keeper = subprocess.Popen(  # noqa: S603
            [*keeper, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            encoding="utf-8",
            errors="replace",
            env=dict(environment),
            start_new_session=True,  # Ctrl-C reaches only the parent, which then ends the child
        )
        self.stop = weakref.finalize(self, end, self._keeper, self._stderr, self.owner)

    def ask(self, request: Mapping[str, object], timeout: float) -> dict[str, Any]:
        """Send a request and return the answer with its ``id``; see ``receive``."""
        reply = self.exchange(request, timeout)
        if reply.get("id") != request["id"]:
            raise self.failed(f"answered something else: {str(reply)[:200]}")
        return reply

    def exchange(self, request: Mapping[str, object], timeout: float) -> dict[str, Any]:
        """Send a request and return the child's next message; see ``receive``."""
        return self.receive(timeout, json.dumps(request) + "\n")

    def receive(self, timeout: float, request: str = "") -> dict[str, Any]:
        """Return the child's next message, after writing ``request`` to it.

        Raises:
            ChildFailureError: no JSON object arrived within ``timeout`` seconds.
        """
        keeper = self._keeper
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        # A timer that kills instead of ``select``: writing blocks, too, if the child stops reading,
        # and a child that missed a deadline is useless anyway.
        expired = threading.Event()

        def expire() -> None:  # killing unblocks both the write and the read
            expired.set()
            kill(keeper)

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
        raise self.failed(f"sent something other than a JSON object: {reply[:200]!r}")

    def failed(self, reason: str, *, slow: bool = False) -> ChildFailureError:
        """End the child and return the error to raise, with the end of its stderr."""
        code = kill(self._keeper)
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - STDERR_TAIL))
        words = self._stderr.read().decode("utf-8", "replace").strip()
        self.stop()
        reason, words = (redact(self._secrets, text) for text in (reason, words))
        return ChildFailureError(f"{reason} (exit status {code})", words, slow=slow)


def kill(keeper: subprocess.Popen[str]) -> int:
    """End a child and its descendants, freeing their memory; return the exit status."""
    keeper.terminate()
    try:
        return keeper.wait(GRACE)
    except subprocess.TimeoutExpired:  # the keeper is stopped, or the child hangs in the kernel
        keeper.kill()  # the child dies with it
        return keeper.wait()


def end(keeper: subprocess.Popen[str], stderr: IO[bytes], owner: int) -> None:
    """End a child unless it belongs to the parent of this process, a fork."""
    if os.getpid() != owner:
        return
    kill(keeper)
    for pipe in (keeper.stdin, keeper.stdout, stderr):
        with suppress(OSError):  # closing flushes a request that was never read
            if pipe is not None:
                pipe.close()
