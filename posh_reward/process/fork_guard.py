"""Refuse to score in a fork that was made while another thread was scoring.

A fork copies every lock but only one thread. A lock that another thread held at that moment (in
``functools.cached_property`` before Python 3.12, spaCy, torch or user code) is never released, and
whoever needs it in the fork waits forever.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from posh_reward.errors import ForkError

_depths: Counter[int] = Counter()  # nested calls in progress, by thread
_unsafe = False


@contextmanager
def at_work() -> Iterator[None]:
    """Mark this thread as scoring."""
    if _unsafe:
        raise ForkError(
            "this process was forked while another thread was scoring, and may wait forever for "
            "a lock of that thread: fork before the first score, fork between calls, or start "
            "the process with multiprocessing.get_context('spawn')"
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
    # Only the thread that forked exists here.
    global _unsafe
    own = threading.get_ident()
    _unsafe = _unsafe or any(thread != own for thread in list(_depths))
    for thread in [each for each in _depths if each != own]:
        del _depths[thread]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
