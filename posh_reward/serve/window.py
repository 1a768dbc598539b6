"""Calls that arrive within a few milliseconds, as one call of the metric.

Trainers that reward each sample on its own, and the clients of a server, call concurrently with a
text or two. A metric wants many at a time: they share prefixes, parses and the judge's calls.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from posh_reward.errors import BusyError, InputError, JudgeError
from posh_reward.metrics.metric import check_lists, check_sizes

Item = TypeVar("Item")
Result = TypeVar("Result")


class BatchWindow(Generic[Item, Result]):
    """Gathers items from threads and event loops, and has each batch of them done in one call.

    The first item waits ``milliseconds`` for company; what arrives while a batch is at work is the
    next batch. An item whose result is not awaited any more is dropped if its batch has not begun.

    Args:
        work: returns one result for each item, in order. It is called from one thread. If it
            raises, the batch is halved until the item at fault is alone: only that one's caller
            gets the error. A ``JudgeError``, after which no item would fare better, goes to all.
        milliseconds: that an item waits for others.
        batch: most items of one call.
        capacity: most items that wait.

    Raises:
        InputError: a size is below 1, or ``milliseconds`` below 0.

    Example:
        ``window = BatchWindow(lambda pairs: posh.score(*map(list, zip(*pairs))))``, then
        ``window(pair)`` in any thread, or ``await window.call_async(pair)``.
    """

    def __init__(
        self,
        work: Callable[[list[Item]], Sequence[Result]],
        milliseconds: float = 5.0,
        *,
        batch: int = 256,
        capacity: int = 4096,
    ) -> None:
        check_sizes(batch=batch, capacity=capacity)
        if not 0 <= milliseconds < 60_000:
            raise InputError(f"milliseconds is {milliseconds}: give a number from 0, such as 5")
        self.milliseconds, self.batch, self.capacity = milliseconds, batch, capacity
        self._work = work
        self._begin()

    observer: Callable[[int, float], None] | None = None
    """Receives the size and the seconds of each call of ``work``."""

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Item, Future[Result]]] = deque()
        self._at_work = False
        self._worker = ThreadPoolExecutor(1, "posh-window")  # its thread ends with this object

    def __len__(self) -> int:
        """Number of items that wait."""
        return len(self._waiting)

    def __getstate__(self) -> dict[str, Any]:
        own = ("milliseconds", "batch", "capacity", "_work")
        return {name: self.__dict__[name] for name in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def submit(self, items: Sequence[Item]) -> list[Future[Result]]:
        """Put all of ``items`` into the queue, or none; return their results to come.

        Raises:
            BusyError: the queue has no room for them.
            InputError: it never will have.
        """
        if self._process != os.getpid():  # a fork has no copy of the thread
            self._begin()
        if len(items) > self.capacity:
            raise InputError(f"{len(items)} items at once: submit {self.capacity} at most")
        futures: list[Future[Result]] = [Future() for _ in items]
        # All or none: the caller sends what was refused again, as a whole.
        with self._lock:
            if len(self._waiting) + len(items) > self.capacity:
                raise BusyError(f"{len(self._waiting)} items wait already: try again later")
            if items and not self._at_work:
                self._worker.submit(self._drain)
                self._at_work = True
            self._waiting.extend(zip(items, futures, strict=True))
        return futures

    def __call__(self, item: Item) -> Result:
        """The result of one item; blocks this thread until it is there."""
        while True:
            try:
                [future] = self.submit([item])
                break
            except BusyError:
                time.sleep(self._pause)
        return results_of([future])[0]

    async def call_async(self, item: Item) -> Result:
        """The result of one item; the event loop goes on meanwhile."""
        while True:
            try:
                [future] = self.submit([item])
                break
            except BusyError:
                await asyncio.sleep(self._pause)
        return await asyncio.wrap_future(future)

    @property
    def _pause(self) -> float:
        """Seconds between two looks for room in the queue."""
        return max(self.milliseconds, 1.0) / 1000

    def _drain(self) -> None:
        """Work until nothing waits."""
        while True:
            # Callers that got the last batch's results send the next items within this time.
            if len(self._waiting) < self.batch:
                time.sleep(self.milliseconds / 1000)
            with self._lock:
                size = min(self.batch, len(self._waiting))
                if not size:  # under the lock, so that no item comes in between and is left there
                    self._at_work = False
                    return
                batch = [self._waiting.popleft() for _ in range(size)]
            # From here on an item can no longer be cancelled; one that was is left out.
            self._settle([pair for pair in batch if pair[1].set_running_or_notify_cancel()])

    def _settle(self, batch: Sequence[tuple[Item, Future[Result]]]) -> None:
        """Give each item of a batch its result, or its error."""
        if not batch:
            return
        begun = time.perf_counter()
        try:
            results = list(self._work([item for item, _ in batch]))
            if len(results) != len(batch):
                raise RuntimeError(f"{len(results)} results for {len(batch)} items")
        except BaseException as error:
            shared = isinstance(error, JudgeError) or not isinstance(error, Exception)
            if shared or len(batch) == 1:
                for _, future in batch:
                    future.set_exception(error)
            else:
                middle = len(batch) // 2
                self._settle(batch[:middle])
                self._settle(batch[middle:])
            return
        if self.observer is not None:
            self.observer(len(batch), time.perf_counter() - begun)
        for (_, future), result in zip(batch, results, strict=True):
            future.set_result(result)


def results_of(futures: Sequence[Future[Result]]) -> list[Result]:
    """Wait for results, in order; those that no one waits for any more are cancelled.

    Raises:
        Exception: the error of the first item that has one.
    """
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()  # does nothing to one that is done


class BatchedMetric:
    """A metric whose concurrent calls are gathered in a ``BatchWindow``; all else is the metric's.

    It takes any metric's place: in a thread, ``BatchedMetric(PoSh()).score(...)`` is what
    ``PoSh().score(...)`` is, and ``PoshReward(BatchedMetric(PoSh()))`` may be called from many.

    Args:
        metric: of any kind. Lists among its ``score``'s arguments have one value for each text;
            other arguments, such as a task, hold for the whole call.
        window: settings of the ``BatchWindow``.
    """

    def __init__(self, metric: Any, milliseconds: float = 5.0, **window: int) -> None:
        self.metric = metric
        self.window: BatchWindow[tuple[_Call, tuple[Any, ...]], Any] = BatchWindow(
            self._score_rows, milliseconds, **window
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "metric":  # pickle looks before there is a metric
            raise AttributeError(name)
        return getattr(self.metric, name)

    def score(self, *arguments: Any, **options: Any) -> list[Any]:
        """As the metric's own.

        Raises:
            BusyError: too many texts wait already.
        """
        return results_of(self.submit(*arguments, **options))

    def submit(self, *arguments: Any, **options: Any) -> list[Future[Any]]:
        """The scores to come of the same call.

        Raises:
            BusyError: too many texts wait already.
            InputError: lists differ in length.
        """
        values: dict[int | str, Any] = dict(enumerate(arguments))
        values.update(options.items())
        lists = {name: each for name, each in values.items() if isinstance(each, list | tuple)}
        check_lists(**{f"values of argument {name}": each for name, each in lists.items()})
        constants = tuple((name, each) for name, each in values.items() if name not in lists)
        call = (tuple(lists), constants)
        rows = [(call, row) for row in zip(*lists.values(), strict=True)]
        return self.window.submit(rows)

    def _score_rows(self, rows: list[tuple[_Call, tuple[Any, ...]]]) -> list[Any]:
        """Score rows with one call of the metric for each form of call among them."""
        results: list[Any] = [None] * len(rows)
        places: dict[_Call, list[int]] = {}
        for place, (call, _) in enumerate(rows):
            places.setdefault(call, []).append(place)
        for (names, constants), here in places.items():
            columns = zip(*(rows[place][1] for place in here), strict=True)
            values = dict(constants) | dict(zip(names, map(list, columns), strict=True))
            positions = sorted(name for name in values if isinstance(name, int))
            options = {name: each for name, each in values.items() if isinstance(name, str)}
            scores = self.metric.score(*(values[position] for position in positions), **options)
            for place, score in zip(here, scores, strict=True):
                results[place] = score
        return results


_Call = tuple[tuple[int | str, ...], tuple[tuple[int | str, Any], ...]]
"""Form of a call: positions and names of its lists, and its other arguments with their values."""
