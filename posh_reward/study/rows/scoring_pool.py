"""POSH in several processes: the same scores, for judges that run on the CPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from posh_reward.errors import InputError, JudgeError
from posh_reward.types import Scores

if TYPE_CHECKING:
    from posh_reward.metrics.posh.posh import PoSh

_posh: PoSh | None = None  # of a worker process


class ScoringPool:
    """A metric that scores pairs in worker processes; a context manager.

    Args:
        posh: the metric, used only for its signature.
        settings: from which each worker makes its own (``load_metric``).
        jobs: number of worker processes.

    Raises:
        InputError: the judge is a language model, or there is a witness.
    """

    wants_images = False

    def __init__(self, posh: PoSh, settings: Mapping[str, Any], jobs: int) -> None:
        # A language model batches pairs by itself, and a witness's images would be copied between
        # processes.
        if not posh.judge.name.startswith("embedded") or posh.wants_images:
            raise InputError(
                f"--jobs is for the embedded judge without a witness, not for {posh.judge.name}: "
                "leave it out"
            )
        self._posh = posh
        self._jobs = jobs
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # else each worker uses a thread per core
        self._pool = ProcessPoolExecutor(
            jobs, get_context("spawn"), initializer=_start, initargs=(dict(settings),)
        )

    def __enter__(self) -> ScoringPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def signature(self) -> str:
        """The metric's."""
        return self._posh.signature

    def score(
        self, generations: Sequence[str | None], references: Sequence[str | None]
    ) -> list[Scores]:
        """Score pairs, in order; ``JudgeError`` if a worker died, for example out of memory."""
        # Contiguous chunks: neighbours often share a reference, which a worker then parses once.
        size = -(-len(generations) // self._jobs)  # rounded up
        starts = range(0, len(generations), size)
        try:
            parts = self._pool.map(
                _score,
                [generations[start : start + size] for start in starts],
                [references[start : start + size] for start in starts],
            )
            return list(chain.from_iterable(parts))
        except BrokenProcessPool:
            raise JudgeError(
                "a process of --jobs died, perhaps out of memory: use fewer jobs"
            ) from None


def _start(settings: dict[str, Any]) -> None:
    from posh_reward.metrics.load_metric import load_metric

    global _posh
    _posh = load_metric(settings)


def _score(generations: Sequence[str | None], references: Sequence[str | None]) -> list[Scores]:
    assert _posh is not None
    return _posh.score(generations, references)
