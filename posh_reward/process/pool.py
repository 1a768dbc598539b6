"""Child processes that work side by side; one that dies is replaced, and nothing is lost."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeVar

from posh_reward.process.child import ChildFailureError, ChildProcess
from posh_reward.types import Failure

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

MIN_ITEMS_PER_REQUEST, MAX_ITEMS_PER_REQUEST = 2, 32
"""A parser takes half as long again for a text alone as for many together."""
MAX_DEATHS_PER_ITEM = 3
"""Processes that may die on an item before it is given up. If it were one, each kill would lose an
item that did not cause it; if two, a second kill soon after the first would."""
MAX_FAILED_STARTS = 3  # in a row


@dataclass(slots=True)
class Place:
    """Place of one child process in a pool."""

    child: ChildProcess | None = None
    starting: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Work(Generic[T, R]):
    """The items of one call, and what became of them."""

    items: Sequence[T]
    processes: int
    results: list[R | Failure | None] = field(init=False)
    stopped: bool = False

    def __post_init__(self) -> None:
        self.results = [None] * len(self.items)
        self._left = deque(range(len(self.items)))
        self._again: deque[int] = deque()
        self._deaths = [0] * len(self.items)
        self._lock = threading.Lock()

    def take(self) -> list[int]:
        """Take the next items, by their numbers; empty if none are left.

        Two thirds of a process's share of what is left: large requests first, small ones last, so
        that all end at about the same time. Of 64 items for 2 processes: 21, 14, 9, 6, 4, 3, 2, ...
        """
        with self._lock:
            if self.stopped:
                return []
            if self._again:  # alone, so that one item's death spares the others
                return [self._again.popleft()]
            share = 2 * len(self._left) // (3 * self.processes)
            size = min(max(share, MIN_ITEMS_PER_REQUEST), MAX_ITEMS_PER_REQUEST, len(self._left))
            return [self._left.popleft() for _ in range(size)]

    def put_back(self, chunk: Sequence[int]) -> None:
        """Leave items to others: no process could be started for them."""
        with self._lock:
            self._again.extend(chunk)

    def record_death(self, chunk: Sequence[int], reason: str) -> None:
        """Try the items again that a process died on, or give up those with too many deaths."""
        with self._lock:
            for number in chunk:
                self._deaths[number] += 1
                if self._deaths[number] < MAX_DEATHS_PER_ITEM:
                    self._again.append(number)
                else:
                    self.results[number] = Failure(
                        "engine",
                        f"ended {MAX_DEATHS_PER_ITEM} worker processes, of which the last "
                        f"{reason}: fewer processes have more memory and time each",
                    )

    def stop(self) -> None:
        """Hand out no more items."""
        with self._lock:
            self.stopped = True


class ChildPool:
    """Child processes that each answer one request at a time.

    They start when there is work for them. One that dies or misses its deadline is replaced, and
    its items are tried again, each alone. A fork needs a pool of its own (``owner``).

    Args:
        start: starts a child that is ready to work; raises ``ChildFailureError`` or ``OSError``.
        size: most processes.
    """

    def __init__(self, start: Callable[[], ChildProcess], size: int) -> None:
        self.owner = os.getpid()
        self.broken = False
        """True once processes could not be started ``MAX_FAILED_STARTS`` times in a row."""
        self._start = start
        self._places = [Place() for _ in range(size)]
        self._idle: SimpleQueue[Place] = SimpleQueue()
        for place in self._places:
            self._idle.put(place)
        self._failed_starts = 0

    def start(self) -> None:
        """Start all processes that do not run, at the same time, and wait until they are ready."""
        run_in_threads([partial(self._get_child, place) for place in self._places])

    def map(
        self, items: Sequence[T], ask: Callable[[ChildProcess, list[T]], list[R]]
    ) -> list[R | Failure | None]:
        """Return what ``ask`` makes of the items, in order.

        ``ask`` exchanges one message about some items with a child, and returns a result for each.
        A ``Failure`` stands for an item on which processes kept dying, None for one that was not
        tried, because no process could be started.

        Raises:
            Exception: whatever ``ask`` raises, except ``ChildFailureError``.
        """
        work: Work[T, R] = Work(items, len(self._places))
        count = min(len(self._places), len(items))
        try:
            run_in_threads([partial(self._work_through, work, ask)] * count)
        finally:
            work.stop()  # Ctrl-C: what the threads wait for is not needed
        return work.results

    def close(self) -> None:
        """End all processes; later work starts others."""
        for place in self._places:
            child, place.child = place.child, None
            if child is not None:
                child.stop()

    def _work_through(
        self, work: Work[T, R], ask: Callable[[ChildProcess, list[T]], list[R]]
    ) -> None:
        while chunk := work.take():
            place = self._idle.get()
            try:
                child = self._get_child(place)
                if child is None:
                    work.put_back(chunk)
                    return
                answers = ask(child, [work.items[number] for number in chunk])
                for number, answer in zip(chunk, answers, strict=True):
                    work.results[number] = answer
            except ChildFailureError as failure:
                place.child = None
                if not work.stopped:
                    logger.warning("a worker process failed and is replaced: %s", failure)
                work.record_death(chunk, failure.reason)
            except BaseException:
                work.stop()
                raise
            finally:
                self._idle.put(place)

    def _get_child(self, place: Place) -> ChildProcess | None:
        """Return the running child of a place; None if none can be started."""
        with place.starting:
            return self._start_if_needed(place)

    def _start_if_needed(self, place: Place) -> ChildProcess | None:
        if place.child is not None and not place.child.is_alive:  # no item's fault
            place.child.stop()
            place.child = None
        while place.child is None and not self.broken:
            try:
                place.child = self._start()
                self._failed_starts = 0
            except (ChildFailureError, OSError) as error:
                self._failed_starts += 1
                if self._failed_starts >= MAX_FAILED_STARTS and not self.broken:
                    self.broken = True
                    logger.warning(
                        "worker processes cannot be started, so the rest is done in this one: %s",
                        error,
                    )
        return place.child


def run_in_threads(calls: Sequence[Callable[[], object]]) -> None:
    """Make several calls at the same time; raise the first error of any.

    Ctrl-C does not wait for them, nor does the end of the program: their threads are daemons. Calls
    for which there can be no thread are not made.
    """
    errors: list[BaseException] = []

    def call_in_thread(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call_in_thread, args=(call,), daemon=True) for call in calls]
    started = []
    with suppress(RuntimeError):  # too many threads, or the interpreter is shutting down
        for thread in threads:
            thread.start()
            started.append(thread)
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]
