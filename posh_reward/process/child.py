"""A child process that answers JSON lines, with a deadline for every line."""

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
STDERR_TAIL = 2000  # bytes of the child's last words that an error repeats
GRACE = 10.0
"""Seconds within which the keeper has to end a child; dying with much memory takes seconds."""


class ChildFailureError(Exception):
    """The child died, was too slow, or said something that is not an answer. It is gone now."""

    def __init__(self, reason: str, last_words: str = "", *, slow: bool = False) -> None:
        super().__init__(f"it {reason}; its last words:\n{last_words}")
        self.reason = reason  # one line: what "it" did
        self.last_words = last_words
        self.slow = slow


class ChildProcess:
    """One child process, with everything that it starts.

    It ends with this object, and at the latest with this process: a keeper between the two sees
    to that, however this process ends and whatever the child is doing (``keeper.py``).
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.owner = os.getpid()
        """Only this process may talk to the child; a fork of it needs a child of its own."""
        self._secrets = secrets_of(environment)
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        # -I -S: only the keeper's own imports, none from its folder or the user's.
        keeper = [sys.executable, "-I", "-S", str(KEEPER), str(self.owner)]
        self._keeper = subprocess.Popen(  # noqa: S603
            [*keeper, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            encoding="utf-8",
            errors="replace",
            env=dict(environment),
            start_new_session=True,  # Ctrl-C is for the parent, which then ends the child
        )
        self.stop = weakref.finalize(self, end, self._keeper, self._stderr, self.owner)

    def ask(self, request: Mapping[str, object], timeout: float) -> dict[str, Any]:
        """Send a request; return the answer to it, within ``timeout`` seconds.

        Raises:
            ChildFailureError: there was none.
        """
        reply = self.exchange(request, timeout)
        if reply.get("id") != request["id"]:
            raise self.failed(f"answered something else: {str(reply)[:200]}")
        return reply

    def exchange(self, request: Mapping[str, object], timeout: float) -> dict[str, Any]:
        """Send a request; return what the child says next, within ``timeout`` seconds.

        Raises:
            ChildFailureError: it said nothing.
        """
        return self._exchange(json.dumps(request) + "\n", timeout)

    def receive(self, timeout: float) -> dict[str, Any]:
        """Return what the child says without being asked, within ``timeout`` seconds.

        Raises:
            ChildFailureError: it said nothing.
        """
        return self._exchange("", timeout)

    def _exchange(self, line: str, timeout: float) -> dict[str, Any]:
        keeper = self._keeper
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        # A timer that kills, not ``select``: a write blocks, too, when the child no longer reads,
        # and a child that missed a deadline is of no more use.
        expired = threading.Event()

        def give_up() -> None:  # unblocks both: a pipe that is not read, and one that is silent
            expired.set()
            kill(keeper)

        deadline = threading.Timer(timeout, give_up)
        deadline.daemon = True
        deadline.start()
        reply = ""
        try:
            keeper.stdin.write(line)
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
        raise self.failed(f"said something that is not a JSON object: {reply[:200]!r}")

    def failed(self, reason: str, *, slow: bool = False) -> ChildFailureError:
        """End the child, and return the error to raise, with its last words."""
        code = kill(self._keeper)
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - STDERR_TAIL))
        words = self._stderr.read().decode("utf-8", "replace").strip()
        self.stop()
        reason, words = (redact(self._secrets, text) for text in (reason, words))
        return ChildFailureError(f"{reason} (exit status {code})", words, slow=slow)


def kill(keeper: subprocess.Popen[str]) -> int:
    """End a child with all that it started, so that its memory is free; return its exit status."""
    keeper.terminate()
    try:
        return keeper.wait(GRACE)
    except subprocess.TimeoutExpired:  # it is stopped, or the child hangs in the kernel
        keeper.kill()  # the child is killed with it
        return keeper.wait()


def end(keeper: subprocess.Popen[str], stderr: IO[bytes], owner: int) -> None:
    """End a child, if it is this process's own and not its parent's."""
    if os.getpid() != owner:
        return
    kill(keeper)
    for pipe in (keeper.stdin, keeper.stdout, stderr):
        with suppress(OSError):  # a request that was never read is still in the pipe's buffer
            if pipe is not None:
                pipe.close()
