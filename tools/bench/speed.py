"""How many pairs a second the embedded metric scores on one core.

    OMP_NUM_THREADS=1 python tools/bench/speed.py --planted PLANTED_DEV.json --nga NGA.json

Two figures: from texts, with parsing and coreference; and from descriptions that are parsed
already. Neither descriptions nor readings are kept between runs: each time a new judge reads all
texts anew; only the dictionary is warm, as it is in any run but the first seconds. Times are of
the processor, the best of the repeats. Machines are noisy and differ, so a fixed workload in
plain Python is timed in the same run, and each figure is also given as pairs per workload.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from posh_reward.graph.read import Reader
from posh_reward.types import Description, Failure

Pair = tuple[str, str]
"""(Generation, reference)."""
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def planted_pairs(path: Path) -> list[Pair]:
    """Each artwork's faithful version against its reference; no text twice."""
    items = json.loads(path.read_text(encoding="utf-8"))
    return [(item["faithful"], item["reference"]) for item in items]


def nga_pairs(path: Path) -> list[Pair]:
    """Each museum description, with every fifth sentence left out, against itself in full."""
    texts = [item["description"] for item in json.loads(path.read_text(encoding="utf-8"))]
    return [(without_every_fifth(text), text) for text in texts]


def without_every_fifth(text: str) -> str:
    """``text`` but for its fifth, tenth ... sentence."""
    return " ".join(s for i, s in enumerate(SENTENCE_END.split(text), 1) if i % 5)


def reference_workload() -> int:
    """A fixed amount of dictionary and string work, about a quarter of a second."""
    counts: dict[str, int] = {}
    for number in range(600_000):
        key = str(number * 7919 % 10_007)
        counts[key] = counts.get(key, 0) + number
    return sum(counts.values())


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Least processor time of some runs: noise only ever adds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def report(name: str, pairs: int, spent: float, unit: float) -> None:
    """Prints one figure; ``unit`` is the time of the reference workload."""
    print(f"{name}: {pairs / spent:.1f} pairs/s, {pairs / spent * unit:.2f} pairs per workload")


def main() -> None:
    """Prints pairs a second."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--planted", type=Path)
    parser.add_argument("--nga", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    pairs = planted_pairs(options.planted) if options.planted else []
    pairs += nga_pairs(options.nga) if options.nga else []
    if not pairs:
        parser.error("give --planted, --nga or both")
    words = sum(len(text.split()) for pair in pairs for text in pair) / len(pairs)
    print(f"{len(pairs)} pairs of {words:.0f} words together, one core")
    unit = seconds(reference_workload, options.repeats)
    print(f"reference workload: {unit:.3f} s")
    measure(pairs, unit, options.repeats)


def measure(pairs: Sequence[Pair], unit: float, repeats: int) -> None:
    """Times both ways; pipeline and dictionary are loaded before."""
    from posh_reward import PoSh

    generations, references = [g for g, _ in pairs], [r for _, r in pairs]
    read = PoSh().reader.read([*generations, *references])
    known = KnownReader([text for text in read if isinstance(text, Description)])

    def read_and_judge() -> None:
        PoSh().score(generations, references)

    def judge() -> None:
        posh = PoSh()
        posh.reader = known
        posh.score(generations, references)

    judge()
    report("from texts", len(pairs), seconds(read_and_judge, repeats), unit)
    report("from parsed texts", len(pairs), seconds(judge, repeats), unit)


class KnownReader(Reader):
    """Has read all texts already."""

    def __init__(self, descriptions: Sequence[Description]) -> None:
        super().__init__()
        self.known = {description.text: description for description in descriptions}

    def _describe(self, texts: list[str]) -> list[Description | Failure]:
        return [self.known[text] for text in texts]


if __name__ == "__main__":
    main()
