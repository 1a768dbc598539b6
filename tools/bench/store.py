"""What a store costs beside plain JSON.

    OMP_NUM_THREADS=1 python tools/bench/store.py [--verdicts 200000]

Processor time to put and to get verdicts in batches of 1,000, each beside writing and reading
the same verdicts as JSON in the same run; and the size of the file.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from posh_reward.models.ask import read_verdict, write_verdict
from posh_reward.store import Store
from posh_reward.types import Verdict

BATCH = 1000
T = TypeVar("T")


def verdicts(count: int) -> Iterator[dict[str, Verdict]]:
    """Batches of verdicts by prompt, as long as a museum's prompts are."""
    drawn = random.Random(0)
    for start in range(0, count, BATCH):
        yield {
            f"{index} {'A prompt of some length. ' * 60}": _verdict(drawn)
            for index in range(start, start + BATCH)
        }


def _verdict(drawn: random.Random) -> Verdict:
    weights = [drawn.random() for _ in range(5)]
    return Verdict(tuple(weight / sum(weights) for weight in weights), mass=drawn.random())


def milliseconds(work: Callable[[T], object], argument: T) -> float:
    """Processor time of one call."""
    start = time.process_time()
    work(argument)
    return (time.process_time() - start) * 1000


def main() -> None:
    """Measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--verdicts", type=int, default=200_000)
    count = parser.parse_args().verdicts
    spent = {"write JSON": 0.0, "read JSON": 0.0, "put": 0.0, "get": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        store = Store(path)
        for batch in verdicts(count):
            texts = {prompt: write_verdict(verdict) for prompt, verdict in batch.items()}
            values, written = batch.values(), texts.values()
            spent["write JSON"] += milliseconds(lambda some: list(map(write_verdict, some)), values)
            spent["read JSON"] += milliseconds(lambda some: list(map(read_verdict, some)), written)
            spent["put"] += milliseconds(partial(store.put, "verdict", "bench"), texts)
        for batch in verdicts(count):
            spent["get"] += milliseconds(partial(store.get, "verdict", "bench"), list(batch))
        print(store)
        store.close()
        print(f"{path.stat().st_size / count:.0f} bytes on disk a verdict")
    for what, total in spent.items():
        print(f"{what}: {total / count * 1000:.1f} ms per 1,000 verdicts")


if __name__ == "__main__":
    main()
