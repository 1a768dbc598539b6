"""Refuse work in a fork that was made while another thread was at work.

A fork has a copy of every lock and only one of the threads. What another thread held at that moment
(in ``functools.cached_property`` until Python 3.12, in spaCy's, torch's or a user's code) is held
for ever, and the first to need it waits for ever.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from posh_reward.errors import ForkError

_depths: Counter[int] = Counter()  # calls at work now, by thread
_unsafe = False


@contextmanager
def at_work() -> Iterator[None]:
    """Count this thread as at work.

    Raises:
        ForkError: this process is a fork, made while another thread was at work.
    """
    if _unsafe:
        raise ForkError(
            "this process was forked while another thread was scoring, and may wait for ever for "
            "a lock of that thread: fork before the first score, between two calls, or start it "
            "with multiprocessing.get_context('spawn')"
        )
    thread = threading.get_ident()
    _depths[thread] += 1
    try:
        yield
    finally:
        _depths[thread] -= 1
        if not _depths[thread]:
            del _depths[thread]


def _in_child() -> None:
    # Only the thread that forked goes on here.
    global _unsafe
    own = threading.get_ident()
    _unsafe = _unsafe or any(thread != own for thread in list(_depths))
    for thread in [each for each in _depths if each != own]:
        del _depths[thread]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
