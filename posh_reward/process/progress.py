"""Progress of long work: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from tqdm import tqdm

TERMINAL = "TTY_COMPATIBLE"
"""Variable that says 1 where standard error is a pipe whose reader shows all on a terminal."""
SECONDS = 30.0  # between two lines; shorter work has none
LINE = "{desc}: {n_fmt} of {total_fmt} {unit}s after {elapsed}, {remaining} left{postfix}"
ENDLESS = "{desc}: {n_fmt} {unit}s after {elapsed}{postfix}"
"""The line where it is not known how many there are."""


def on_terminal() -> bool:
    """True if what is written to standard error can be written over."""
    return os.environ.get(TERMINAL) == "1" or sys.stderr.isatty()


def progress_bar(
    name: str, total: int | None, unit: str, quiet: bool = False, **options: Any
) -> tqdm[Any]:
    """Make tqdm's bar, which in a log file is a line now and then."""
    from tqdm import tqdm

    if not on_terminal():
        options |= {
            "file": LineStream(sys.stderr), "bar_format": ENDLESS if total is None else LINE,
            "delay": SECONDS, "mininterval": SECONDS, "maxinterval": SECONDS,
        }  # fmt: skip
    return tqdm(desc=name, total=total, unit=unit, disable=quiet, **options)


class LineStream:
    """A text stream that makes a line of its own of each state of a bar."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write a state without what would move the cursor; an empty one not at all."""
        if line := text.strip("\r\n "):
            self._stream.write(f"{line}\n")

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()
