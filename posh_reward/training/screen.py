"""Show how long the output has been silent, for runs whose first step takes a while."""

from __future__ import annotations

import codecs
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from posh_reward.process.progress import TERMINAL

PATIENCE = 3.0  # seconds of silence after which the wait is shown
GRACE = 20.0  # seconds for an interrupted command to end by itself, with all its ranks
SAVE, RESTORE, ERASE = "\0337", "\0338", "\033[K"
"""Terminal codes: save the cursor's position, restore it, clear the rest of the line."""


class WaitingStream:
    """Text stream that shows how long nothing has been written to it.

    On a terminal the wait stands after the last line and is erased by the next output; elsewhere it
    is a line of its own.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._last = self._last_tick = time.monotonic()
        self._waiting = False

    def write(self, text: str) -> int:
        """Erase the wait, and write."""
        with self._lock:
            if self._waiting and self._stream.isatty():
                self._stream.write(ERASE)
            self._waiting = False
            self._last = self._last_tick = time.monotonic()
            return self._stream.write(text)

    def tick(self) -> None:
        """Show the wait if it has been long."""
        with self._lock:
            now = time.monotonic()
            if now - self._last_tick < PATIENCE:
                return
            self._last_tick = now
            text = f"  ... {now - self._last:.0f} s"
            terminal = self._stream.isatty()
            self._stream.write(f"{SAVE}{text}{RESTORE}" if terminal else f"{text}\n")
            self._stream.flush()
            self._waiting = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def lively() -> Iterator[None]:
    """Show how long standard output and error together have been silent."""
    before = sys.stdout, sys.stderr
    screen = WaitingStream(sys.stdout)
    sys.stdout = sys.stderr = screen
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(1.0):
            screen.tick()

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        ended.set()
        ticker.join()
        sys.stdout, sys.stderr = before


def show(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> int:
    """Run a command, forwarding its output; return its exit status.

    It runs in its own process group, so that Ctrl-C reaches only us, and we end it once.
    """
    if sys.stdout.isatty():
        environment = {**environment, TERMINAL: "1"}
    child = subprocess.Popen(  # noqa: S603
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        while data := os.read(child.stdout.fileno(), 65536):
            sys.stdout.write(decoder.decode(data))
            sys.stdout.flush()
        return child.wait()
    except BaseException:
        _end(child)
        raise
    finally:
        child.stdout.close()


def _end(child: subprocess.Popen[bytes]) -> None:
    try:
        child.terminate()
        child.communicate(timeout=GRACE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
