"""A fork of a process whose other threads score is refused by name, and does not hang."""

import os
import sys
import threading
import time
from collections.abc import Callable

import pytest

from posh_reward import PoSh
from posh_reward.errors import ForkError
from posh_reward.metrics.posh.judges.judge import PromptJudge
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.process import locks

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

FINE, REFUSED, ELSE = 0, 7, 9


def in_fork(work: Callable[[], object]) -> int:
    """The exit status of a fork that does some work; -9 if it took more than ten seconds."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(FINE)
        except ForkError:
            os._exit(REFUSED)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(ELSE)
    for _ in range(1000):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return -9


def test_a_fork_while_another_thread_scores_is_refused() -> None:
    scoring, ready = threading.Event(), threading.Event()

    def grade(_: Prompt) -> float:
        scoring.set()
        assert ready.wait(30)
        return 3.0

    slow = PoSh(PromptJudge(FakeModel(grade)))
    thread = threading.Thread(target=slow.score, args=(["A dog."], ["A red dog."]))
    thread.start()
    assert scoring.wait(30)
    fresh = PoSh()  # another metric shares the locks of classes and libraries
    try:
        assert in_fork(lambda: fresh.score(["A cat."], ["A cat."])) == REFUSED
    finally:
        ready.set()
        thread.join()
    assert in_fork(lambda: fresh.score(["A cat."], ["A cat."])) == FINE, "between two calls"


def test_the_thread_that_forks_while_it_scores_goes_on() -> None:
    with locks.at_work():
        assert in_fork(lambda: PoSh().score(["A cat."], ["A cat."])) == FINE
