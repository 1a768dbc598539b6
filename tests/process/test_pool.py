"""A pool of real child processes: what they answer, and what becomes of those that die."""

from __future__ import annotations

import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward.process import ChildProcess
from posh_reward.process.pool import MAX_DEATHS_PER_ITEM, ChildPool, Work
from posh_reward.types import Failure

SQUARE = """
import json, os, signal, sys, time
for line in sys.stdin:
    numbers = json.loads(line)["numbers"]
    if -1 in numbers:
        os.kill(os.getpid(), signal.SIGKILL)
    if -2 in numbers:
        time.sleep(600)
    time.sleep(0.002)
    print(json.dumps({"squares": [n * n for n in numbers], "pid": os.getpid()}), flush=True)
"""
TIMEOUT_SECONDS = 1.0


def start_child() -> ChildProcess:
    child = ChildProcess([sys.executable, "-c", SQUARE], {})
    child.exchange({"numbers": []}, 30)  # it is ready
    return child


class Squares:
    """A pool that squares numbers, and the processes that have answered."""

    def __init__(self, size: int) -> None:
        self.pool = ChildPool(start_child, size)
        self.pids: set[int] = set()

    def __call__(self, numbers: list[int]) -> list[int | Failure | None]:
        def ask(child: ChildProcess, chunk: list[int]) -> list[int]:
            reply = child.exchange({"numbers": chunk}, TIMEOUT_SECONDS)
            self.pids.add(reply["pid"])
            squares: list[int] = reply["squares"]
            return squares

        return self.pool.map(numbers, ask)


@pytest.fixture
def squares() -> Iterator[Squares]:
    made = Squares(3)
    yield made
    made.pool.close()


def test_answers_come_in_order_from_all_of_them(squares: Squares) -> None:
    squares.pool.start()
    assert squares(list(range(200))) == [n * n for n in range(200)]
    assert squares([]) == []
    assert len(squares.pids) == 3


def test_several_threads_share_them(squares: Squares) -> None:
    found: dict[int, list[int | Failure | None]] = {}

    def work(start: int) -> None:
        found[start] = squares(list(range(start, start + 50)))

    threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 300, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[s] == [n * n for n in range(s, s + 50)] for s in range(0, 300, 50))
    assert len(squares.pids) <= 3


def test_an_item_that_ends_its_processes_fails_alone(squares: Squares) -> None:
    found = squares([*range(40), -1, *range(40, 80)])
    failure = found.pop(40)
    assert found == [n * n for n in range(80)]
    assert isinstance(failure, Failure)
    assert failure.kind == "engine"
    assert str(failure).startswith(
        f"ended {MAX_DEATHS_PER_ITEM} worker processes, of which the last died"
    )
    assert squares([3]) == [9]


def test_an_item_that_hangs_fails_alone(squares: Squares) -> None:
    begun = time.monotonic()
    found = squares([1, -2, 3])
    assert (found[0], found[2]) == (1, 9)
    assert "gave no answer within 1 s" in str(found[1])
    assert time.monotonic() - begun < 10 * MAX_DEATHS_PER_ITEM * TIMEOUT_SECONDS


def test_twenty_kills_lose_nothing(squares: Squares) -> None:
    squares.pool.start()
    done, draw = threading.Event(), random.Random(0)
    killed: list[int] = []

    def kill() -> None:
        while len(killed) < 20 and not done.wait(0.05):
            child = draw.choice(squares.pool._places).child
            keeper = child._keeper.pid if child else 0
            with suppress(OSError):  # it has just been replaced
                for each in Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split():
                    os.kill(int(each), signal.SIGKILL)
                    killed.append(int(each))

    thread = threading.Thread(target=kill)
    thread.start()
    rounds = 0
    try:
        while thread.is_alive():
            assert squares(list(range(60))) == [n * n for n in range(60)]
            rounds += 1
    finally:
        done.set()
        thread.join()
    assert len(killed) >= 20
    assert rounds > 1


def test_without_processes_nothing_is_tried_and_it_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def none() -> ChildProcess:
        child = ChildProcess(["/no/such/program"], {})
        child.receive(10)
        return child

    pool = ChildPool(none, 2)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert pool.map([1, 2, 3], lambda _, chunk: chunk) == [None] * 3
    assert pool.broken
    [warning] = caplog.messages
    assert "cannot be started" in warning
    assert "/no/such/program" in warning


def test_what_is_raised_is_raised_and_they_stay(squares: Squares) -> None:
    def refuse(child: ChildProcess, chunk: list[int]) -> list[int]:
        raise LookupError(chunk[0])

    with pytest.raises(LookupError):
        squares.pool.map([1, 2, 3], refuse)
    assert squares([2]) == [4]


def test_ctrl_c_waits_for_none_of_them(squares: Squares) -> None:
    squares.pool.start()
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        squares([-2, -2, -2])
    assert time.monotonic() - begun < TIMEOUT_SECONDS
    assert squares([1, 2, 3]) == [1, 4, 9]


def test_several_threads_may_start_them(squares: Squares) -> None:
    threads = [threading.Thread(target=squares.pool.start, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    children = [place.child for place in squares.pool._places]
    assert all(child is not None and child.is_alive for child in children)
    assert squares([3]) == [9]


@given(st.integers(0, 300), st.integers(1, 40))
def test_work_is_handed_out_once_and_in_ever_smaller_parts(count: int, processes: int) -> None:
    work: Work[int, int] = Work(list(range(count)), processes)
    chunks = list(iter(work.take, []))
    assert [number for chunk in chunks for number in chunk] == list(range(count))
    sizes = [len(chunk) for chunk in chunks]
    assert sizes == sorted(sizes, reverse=True)
    assert all(size <= max(2 * count / (3 * processes), 2) for size in sizes)


def test_the_documented_parts() -> None:
    work: Work[int, int] = Work(list(range(64)), 2)
    assert [len(work.take()) for _ in range(7)] == [21, 14, 9, 6, 4, 3, 2]
