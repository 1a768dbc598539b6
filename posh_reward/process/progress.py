"""Progress of long work: a bar on a terminal, elsewhere occasional lines; and long waits."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from tqdm import tqdm

TERMINAL_VARIABLE = "TTY_COMPATIBLE"
"""Variable set to 1 if standard error is a pipe whose output is shown on a terminal."""
SECONDS_BETWEEN_LINES = 30.0  # shorter work prints none
QUIET_SECONDS = 3.0  # a wait this short is not worth a line
LINE_FORMAT = "{desc}: {n_fmt} of {total_fmt} {unit}s after {elapsed}, {remaining} left{postfix}"
ENDLESS_FORMAT = "{desc}: {n_fmt} {unit}s after {elapsed}{postfix}"
"""The line if the total is unknown."""


def on_terminal() -> bool:
    """Return True if standard error is shown on a terminal."""
    return os.environ.get(TERMINAL_VARIABLE) == "1" or sys.stderr.isatty()


def progress_bar(
    name: str, total: int | None, unit: str, quiet: bool = False, **options: Any
) -> tqdm[Any]:
    """Make a tqdm bar, which prints occasional lines to a log."""
    from tqdm import tqdm

    if not on_terminal():
        options |= dict.fromkeys(("delay", "mininterval", "maxinterval"), SECONDS_BETWEEN_LINES)
        options["file"] = LineStream(sys.stderr)
        options["bar_format"] = ENDLESS_FORMAT if total is None else LINE_FORMAT
    return tqdm(desc=name, total=total, unit=unit, disable=quiet, **options)


@contextmanager
def say_while_waiting(what: str) -> Iterator[None]:
    """Print what a block waits for, and how long it has; on a terminal once, for bars to follow."""
    ended = Event()

    def say() -> None:
        begun, pause = time.monotonic(), QUIET_SECONDS
        while not ended.wait(pause):
            print(f"{what} ({time.monotonic() - begun:.0f} s)", file=sys.stderr, flush=True)
            pause = SECONDS_BETWEEN_LINES
            if on_terminal():
                return

    Thread(target=say, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


class LineStream:
    """A text stream that prints each state of a bar on its own line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write a state without carriage returns; skip empty ones."""
        if line := text.strip("\r\n "):
            self._stream.write(f"{line}\n")

    def flush(self) -> None:
        self._stream.flush()
