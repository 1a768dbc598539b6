"""When a run should stop although nothing is wrong."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator

import pytest

from posh_reward.errors import ConfigError
from posh_reward.training.stopping import SIGNALS, Deadline, StopSignals, job_deadline


@pytest.fixture
def requests() -> Iterator[StopSignals]:
    made = StopSignals()
    yield made
    made.unlisten()


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_is_noted(requests: StopSignals, number: signal.Signals) -> None:
    requests.listen()
    os.kill(os.getpid(), number)
    os.kill(os.getpid(), signal.SIGTERM)
    assert requests.first == number.name


def test_the_handlers_from_before_return(requests: StopSignals) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    requests.listen()
    requests.listen()
    assert [signal.getsignal(each) for each in SIGNALS] != before
    requests.unlisten()
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_a_step_as_long_as_the_longest_must_still_fit() -> None:
    times = iter((0, 10, 40, 50, 90))
    deadline = Deadline(100, now=lambda: next(times))
    deadline.begin()
    seen = []
    for _ in range(4):
        deadline.end_step()
        seen.append(deadline.is_over)
    assert seen == [False, False, False, True], "at 90 a step of 40 would end at 130"


def test_without_a_job_there_is_no_deadline() -> None:
    assert job_deadline(15, {}) == math.inf
    deadline = Deadline(math.inf)
    deadline.begin()
    deadline.end_step()
    assert not deadline.is_over


def test_the_deadline_is_minutes_before_the_jobs_end() -> None:
    assert job_deadline(15, {"SLURM_JOB_END_TIME": "10000"}) == 9100


@pytest.mark.parametrize(
    ("minutes", "end", "message"),
    [
        (-1, "10000", "stop_before is -1"),
        (math.nan, "", "stop_before is nan"),
        (15, "tomorrow", "is 'tomorrow': use Unix seconds"),
    ],
)
def test_what_is_not_a_time_is_refused(minutes: float, end: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        job_deadline(minutes, {"SLURM_JOB_END_TIME": end})
