"""An interrupt at any moment leaves the metric as it was: later scores are the same."""

import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from posh_reward import PoSh
from posh_reward.lexicon import likeness, meaning

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals need the main thread"
)

NOUNS = "woman man dog shawl barrow cabbage umbrella child tower wall bridge river".split()


def text(seed: int) -> str:
    """Sentences with numbers, other ones for each seed."""
    rng = random.Random(seed)
    return " ".join(
        f"A {rng.choice(NOUNS)} of {rng.randrange(10_000)} and {rng.randrange(10_000)} red "
        f"{rng.choice(NOUNS)}s stand on a {rng.choice(NOUNS)}."
        for _ in range(5)
    )


@contextmanager
def interrupted(seconds: float, error: type[BaseException]) -> Iterator[None]:
    """Raises ``error`` in this thread after some seconds, wherever it is then."""

    def raise_error(_number: int, frame: FrameType | None) -> None:
        if frame is not None and "hypothesis" in frame.f_code.co_filename:
            # It watches the collector: an error inside its callback would be lost.
            signal.setitimer(signal.ITIMER_REAL, 0.0001)
            return
        raise error

    before = signal.signal(signal.SIGALRM, raise_error)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_scores_after_an_interrupt_are_those_without(error: type[BaseException]) -> None:
    pairs = [([text(seed)], [text(seed + 1)]) for seed in range(8)]
    expected = [PoSh().score(*pair)[0] for pair in pairs]
    posh, rng, raised = PoSh(), random.Random(0), 0
    for _ in range(6):
        for pair, score in zip(pairs, expected, strict=True):
            if rng.random() < 0.5:  # words that have to be looked up again, as in a new process
                for cached in (likeness.traits, likeness.probes, meaning.senses):
                    cached.cache_clear()
            try:
                with interrupted(rng.uniform(0.0002, 0.02), error):
                    posh.score(*pair)
            except error:
                raised += 1
            assert posh.score(*pair)[0] == score
    assert raised > 10
