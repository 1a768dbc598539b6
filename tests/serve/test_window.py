"""Concurrent calls: in one batch, in order, and each with its own fate."""

import asyncio
import os
import pickle
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from posh_reward import InputError, JudgeError, PoSh
from posh_reward.errors import BusyError
from posh_reward.serve.window import BatchedMetric, BatchWindow, wait_for_results

TEXTS = ["A red dog.", "A man sleeps.", "Two cats on a table.", "A short man in a green coat."]
REFERENCE = "A short man in a green coat sleeps."


class Squares:
    """Work that notes its batches, and does not like some numbers."""

    def __init__(self, bad: Sequence[int] = (), gone: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.bad, self.gone = set(bad), gone
        self.go = threading.Event()
        self.go.set()

    def __call__(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        self.go.wait(10)
        if self.gone:
            raise JudgeError("out of order")
        if self.bad & set(items):
            raise InputError(f"{self.bad & set(items)} cannot be squared")
        return [item * item for item in items]


def from_threads(window: BatchWindow[int, int], count: int) -> list[int | Exception]:
    def call(item: int) -> int | Exception:
        try:
            return window(item)
        except Exception as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))


def test_threads_that_call_together_share_a_batch() -> None:
    work = Squares()
    window = BatchWindow(work, 200)
    assert from_threads(window, 40) == [item * item for item in range(40)]
    assert len(work.batches) == 1
    assert sorted(work.batches[0]) == list(range(40))


def test_one_bad_item_fails_alone() -> None:
    results = from_threads(BatchWindow(Squares(bad=[7, 8]), 50), 20)
    for item, result in enumerate(results):
        if item in (7, 8):
            assert isinstance(result, InputError)
            assert str(result) == f"{{{item}}} cannot be squared"
        else:
            assert result == item * item


def test_a_judge_that_is_gone_is_not_asked_again_for_each_item() -> None:
    work = Squares(gone=True)
    results = from_threads(BatchWindow(work, 200), 20)
    assert all(isinstance(each, JudgeError) for each in results)
    assert len(work.batches) == 1


def test_too_few_results_are_nobodys_else() -> None:
    def work(items: list[int]) -> list[int]:
        return [item for item in items if item != 3]

    window = BatchWindow(work, 50)
    results = from_threads(window, 6)
    assert [each for each in results if not isinstance(each, Exception)] == [0, 1, 2, 4, 5]
    assert isinstance(results[3], RuntimeError)


def test_the_queue_is_bounded_and_callers_wait_for_room() -> None:
    work = Squares()
    work.go.clear()
    window = BatchWindow(work, 0, batch=2, capacity=3)
    first = window.submit([1])
    while not work.batches:  # at work on the first
        time.sleep(0.001)
    second = window.submit([2, 3])
    with pytest.raises(BusyError, match="2 items are waiting"):
        window.submit([4, 5])
    assert len(window) == 2  # all or none
    with pytest.raises(InputError, match="submit 3 at most"):
        window.submit([1, 2, 3, 4])

    async def late() -> list[int]:
        calls = [window.call_async(item) for item in range(10)]
        threading.Timer(0.05, work.go.set).start()
        return await asyncio.gather(*calls)

    assert asyncio.run(late()) == [item * item for item in range(10)]
    assert wait_for_results(first + second) == [1, 4, 9]
    assert max(map(len, work.batches)) == 2


def test_a_cancelled_item_is_left_out_and_its_neighbours_are_not() -> None:
    work = Squares()
    work.go.clear()
    window = BatchWindow(work, 0)
    blocking = window.submit([0])
    while not work.batches:
        time.sleep(0.001)

    async def main() -> list[int]:
        tasks = [asyncio.ensure_future(window.call_async(item)) for item in (1, 2, 3)]
        await asyncio.sleep(0.01)
        tasks[1].cancel()
        work.go.set()
        return [await tasks[0], await tasks[2]]

    assert asyncio.run(main()) == [1, 9]
    assert wait_for_results(blocking) == [0]
    assert work.batches == [[0], [1, 3]]


def test_one_that_is_cancelled_at_work_harms_nobody() -> None:
    work = Squares()
    work.go.clear()
    window = BatchWindow(work, 20)

    async def main() -> int:
        tasks = [asyncio.ensure_future(window.call_async(item)) for item in (1, 2)]
        while not work.batches:
            await asyncio.sleep(0.001)
        tasks[0].cancel()
        work.go.set()
        return await tasks[1]

    assert asyncio.run(main()) == 4
    assert window(5) == 25


def test_it_works_in_a_fork_and_after_pickling() -> None:
    window = BatchWindow(Squares(), 1)
    assert window(3) == 9
    assert pickle.loads(pickle.dumps(BatchWindow(sorted, 1)))(4) == 4
    child = os.fork()
    if child == 0:
        os._exit(window(4) != 16)
    assert os.waitpid(child, 0)[1] == 0
    assert window(5) == 25


def test_a_batched_metric_scores_as_the_metric_does() -> None:
    posh = PoSh()
    batched = BatchedMetric(posh, 50)
    expected = posh.score([*TEXTS, None], [REFERENCE] * 5)

    def one(text: str | None) -> object:
        return batched.score([text], [REFERENCE])[0]

    with ThreadPoolExecutor(5) as pool:
        assert list(pool.map(one, [*TEXTS, None])) == expected
    assert batched.score(TEXTS, [REFERENCE] * 4) == expected[:4]
    assert batched.score([], []) == []
    assert batched.signature == posh.signature
    with pytest.raises(InputError, match="4 values of argument 0 but 1 values of argument 1"):
        batched.score(TEXTS, [REFERENCE])
