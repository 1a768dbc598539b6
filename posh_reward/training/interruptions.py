"""Signals and deadlines that stop a healthy run early."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from posh_reward.errors import ConfigError

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
"""The signals that ask a run to save a checkpoint and stop."""
JOB_END = "SLURM_JOB_END_TIME"
"""Environment variable with the job's end in Unix seconds; newer versions of Slurm set it, for
older ones our scripts do."""


class StopSignals:
    """Record the first of ``SIGNALS`` between ``listen`` and ``unlisten``; main thread only."""

    def __init__(self) -> None:
        self.first: str | None = None  # its name
        self._previous: dict[signal.Signals, Any] = {}

    def listen(self) -> None:
        """Start recording signals, which then no longer end the process."""
        self.first = None
        if self._previous or threading.current_thread() is not threading.main_thread():
            return
        self._previous = {each: signal.signal(each, self._note) for each in SIGNALS}

    def unlisten(self) -> None:
        """Restore the previous handlers."""
        for each, handler in self._previous.items():
            # None: a handler installed by C code, which Python cannot restore.
            signal.signal(each, signal.SIG_DFL if handler is None else handler)
        self._previous = {}

    def _note(self, number: int, frame: object) -> None:
        self.first = self.first or signal.Signals(number).name


class Deadline:
    """A time ``at`` (Unix seconds) by which the last step must end.

    The next step is assumed to last as long as the longest so far.
    """

    def __init__(self, at: float, now: Callable[[], float] = time.time) -> None:
        self.at = at
        self._now = now
        self._last = math.nan
        self._longest = 0.0

    def begin(self) -> None:
        """Start timing the first step."""
        self._last = self._now()
        self._longest = 0.0

    def end_step(self) -> None:
        """Record that a step has ended and the next one begins."""
        now = self._now()
        self._longest = max(self._longest, now - self._last)
        self._last = now

    @property
    def seconds_left(self) -> float:
        """Seconds from the last step's end to the deadline; negative if it has passed."""
        return self.at - self._last

    @property
    def is_over(self) -> bool:
        """True if another step would end after the deadline."""
        return self.seconds_left < self._longest


def job_deadline(minutes_before: float, environment: Mapping[str, str] = os.environ) -> float:
    """Return when training must stop, in Unix seconds; infinity outside of a Slurm job.

    Raises:
        ConfigError: ``minutes_before`` is negative, or ``SLURM_JOB_END_TIME`` is not a number.
    """
    if not minutes_before >= 0:
        raise ConfigError(f"stop_before is {minutes_before}: use 0 or more minutes")
    end = environment.get(JOB_END)
    if not end:
        return math.inf
    try:
        return float(end) - 60 * minutes_before
    except ValueError:
        raise ConfigError(f"{JOB_END} is {end!r}: use Unix seconds (date +%s)") from None
