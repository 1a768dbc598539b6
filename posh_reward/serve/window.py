"""Batching of concurrent calls: those within a few milliseconds become one call of the metric.

Trainers that reward each sample on its own, and clients of a server, call concurrently with a text
or two each. A metric is faster on many texts, which share prefixes, parses and judge calls.
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
from posh_reward.metrics.metric import check_lengths, check_sizes

Item = TypeVar("Item")
Result = TypeVar("Result")


class BatchWindow(Generic[Item, Result]):
    """Collect items from threads and event loops, and process them in batches.

    The first item waits ``milliseconds`` for others; items that arrive while a batch is processed
    form the next one. An item whose result is no longer awaited is dropped if its batch has not
    started.

    Args:
        work: returns one result per item, in order; called from one thread. If it raises, the
            batch is halved until the faulty item is alone, and only its caller gets the error. A
            ``JudgeError`` goes to all callers, since no item would fare better.
        milliseconds: time that an item waits for others.
        batch: most items in a call.
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
            raise InputError(f"milliseconds is {milliseconds}: use 0 to 59,999, such as 5")
        self.milliseconds, self.batch, self.capacity = milliseconds, batch, capacity
        self._work = work
        self._start_worker()

    observer: Callable[[int, float], None] | None = None
    """Called with the size and the seconds of each call of ``work``."""

    def _start_worker(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Item, Future[Result]]] = deque()
        self._at_work = False
        self._worker = ThreadPoolExecutor(1, "posh-window")  # the thread ends with this object

    def __len__(self) -> int:
        return len(self._waiting)

    def __getstate__(self) -> dict[str, Any]:
        own = ("milliseconds", "batch", "capacity", "_work")
        return {name: self.__dict__[name] for name in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start_worker()

    def submit(self, items: Sequence[Item]) -> list[Future[Result]]:
        """Queue all ``items`` or none; return their futures."""
        if self._process != os.getpid():  # a forked process lacks the thread
            self._start_worker()
        if len(items) > self.capacity:
            raise InputError(f"{len(items)} items at once: submit {self.capacity} at most")
        futures: list[Future[Result]] = [Future() for _ in items]
        # All or none, because the caller retries a refused call as a whole.
        with self._lock:
            if len(self._waiting) + len(items) > self.capacity:
                raise BusyError(f"{len(self._waiting)} items are waiting: try again later")
            if items and not self._at_work:
                self._worker.submit(self._process_waiting)
                self._at_work = True
            self._waiting.extend(zip(items, futures, strict=True))
        return futures

    def __call__(self, item: Item) -> Result:
        """Return the result of one item; blocks this thread."""
        while True:
            try:
                [future] = self.submit([item])
                break
            except BusyError:
                time.sleep(self._retry_seconds)
        return wait_for_results([future])[0]

    async def call_async(self, item: Item) -> Result:
        """Return the result of one item, without blocking the event loop."""
        while True:
            try:
                [future] = self.submit([item])
                break
            except BusyError:
                await asyncio.sleep(self._retry_seconds)
        return await asyncio.wrap_future(future)

    @property
    def _retry_seconds(self) -> float:
        """Seconds between two attempts to enter a full queue."""
        return max(self.milliseconds, 1.0) / 1000

    def _process_waiting(self) -> None:
        while True:
            # Within this time, callers that got the last batch's results send their next items.
            if len(self._waiting) < self.batch:
                time.sleep(self.milliseconds / 1000)
            with self._lock:
                size = min(self.batch, len(self._waiting))
                if not size:  # under the lock, so that submit() cannot queue an item unseen
                    self._at_work = False
                    return
                batch = [self._waiting.popleft() for _ in range(size)]
            # From here on an item can no longer be cancelled; skip those that were.
            self._complete([pair for pair in batch if pair[1].set_running_or_notify_cancel()])

    def _complete(self, batch: Sequence[tuple[Item, Future[Result]]]) -> None:
        """Set the result or the error of each item of a batch."""
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
                self._complete(batch[:middle])
                self._complete(batch[middle:])
            return
        if self.observer is not None:
            self.observer(len(batch), time.perf_counter() - begun)
        for (_, future), result in zip(batch, results, strict=True):
            future.set_result(result)


def wait_for_results(futures: Sequence[Future[Result]]) -> list[Result]:
    """Wait for results, in order; after an error cancel the rest."""
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()  # has no effect on one that is done


class BatchedMetric:
    """A metric whose concurrent calls are batched by a ``BatchWindow``; all else is the metric's.

    It can replace any metric: ``BatchedMetric(PoSh()).score(...)`` returns what
    ``PoSh().score(...)`` does, and ``PoshReward(BatchedMetric(PoSh()))`` can be called from many
    threads.

    Args:
        metric: any metric. Lists among the arguments of its ``score`` have one value per text;
            other arguments, such as a task, apply to the whole call.
        window: settings of the ``BatchWindow``.
    """

    def __init__(self, metric: Any, milliseconds: float = 5.0, **window: int) -> None:
        self.metric = metric
        self.window: BatchWindow[tuple[_Call, tuple[Any, ...]], Any] = BatchWindow(
            self._score_rows, milliseconds, **window
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "metric":  # pickle asks before there is a metric
            raise AttributeError(name)
        return getattr(self.metric, name)

    def score(self, *arguments: Any, **options: Any) -> list[Any]:
        return wait_for_results(self.submit(*arguments, **options))

    def submit(self, *arguments: Any, **options: Any) -> list[Future[Any]]:
        """Queue a call of ``score``; return its scores as futures."""
        values: dict[int | str, Any] = dict(enumerate(arguments))
        values.update(options.items())
        lists: dict[int | str, Any] = {}
        constants: list[tuple[int | str, Any]] = []
        for name, each in values.items():
            if isinstance(each, list | tuple):
                lists[name] = each
            else:
                constants.append((name, each))
        check_lengths(**{f"values of argument {name}": each for name, each in lists.items()})
        call = (tuple(lists), tuple(constants))
        return self.window.submit([(call, row) for row in zip(*lists.values(), strict=True)])

    def _score_rows(self, rows: list[tuple[_Call, tuple[Any, ...]]]) -> list[Any]:
        """Score rows, with one call of the metric for each form of call among them."""
        results: list[Any] = [None] * len(rows)
        places: dict[_Call, list[int]] = {}
        for place, (call, _) in enumerate(rows):
            places.setdefault(call, []).append(place)
        for (names, constants), here in places.items():
            columns = zip(*(rows[place][1] for place in here), strict=True)
            values = dict(constants) | dict(zip(names, map(list, columns), strict=True))
            options = {name: each for name, each in values.items() if isinstance(name, str)}
            arguments = [values[position] for position in range(len(values) - len(options))]
            scores = self.metric.score(*arguments, **options)
            for place, score in zip(here, scores, strict=True):
                results[place] = score
        return results


_Call = tuple[tuple[int | str, ...], tuple[tuple[int | str, Any], ...]]
"""Form of a call: positions or names of its lists; its other arguments with their values."""
