"""Runs asynchronous work from anywhere: a notebook's cell, a trainer, a process after a fork."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

WAKING = 0.1
"""Seconds between two looks of the waiting thread: a signal just before it begins to wait would
not wake it."""


def run_apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What ``work`` returns or raises, in an event loop and a thread of its own.

    Both end with it, so nothing is left to close, to pickle or to lose in a fork. An interrupt
    cancels the work.
    """
    outcome: Future[T] = Future()
    started: Future[Callable[[], object]] = Future()

    async def main() -> T:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        assert task is not None
        started.set_result(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work()

    def run() -> None:
        try:
            outcome.set_result(asyncio.run(main()))
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="posh-server-judge", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(WAKING)
    except BaseException:
        with suppress(RuntimeError):  # it has just ended
            started.result()()
        thread.join()
        raise
    return outcome.result()
