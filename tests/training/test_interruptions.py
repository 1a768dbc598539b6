"""When a run should stop although nothing is wrong."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

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


def test_a_step_as_long_as_the_longest_must_still_fit() -> None:
    times = iter((0, 10, 40, 50, 90))
    deadline = Deadline(100, now=lambda: next(times))
    assert deadline.begin()
    seen = [deadline.step_ends_in_time() for _ in range(4)]
    assert seen == [True, True, True, False], "at 90 a step of 40 would end at 130"


def test_the_deadline_is_minutes_before_the_jobs_end() -> None:
    assert job_deadline(15, {"SLURM_JOB_END_TIME": "10000"}) == 9100
