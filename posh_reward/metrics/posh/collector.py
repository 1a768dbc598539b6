"""Python's collector of cyclic garbage, asked to be patient while a batch is scored."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 20_000
"""New objects between two looks; Python's own is 700 to 2,000."""


@contextmanager
def patient_collector() -> Iterator[None]:
    """Has cyclic garbage looked for less often, and puts back what was set before.

    A batch makes hundreds of thousands of records that live until its end, and hardly a cycle;
    each look walks them, and now and then all that the libraries have loaded: a quarter of the
    time (``python -m tools.bench.text speed``). A collector that is off or more patient already is
    left alone.
    """
    first, *others = gc.get_threshold()
    if not 0 < first < PATIENCE:
        yield
        return
    gc.set_threshold(PATIENCE, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)
