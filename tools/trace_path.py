"""Count the files and functions involved in scoring one completion.

    python -m tools.trace_path reward     # TRL's call -> a reward
    python -m tools.trace_path score      # a row of a CSV file -> a scored row
    python -m tools.trace_path report     # a scored row -> a page
    python -m tools.trace_path reward --way 40    # the first 40 steps, in order

A file counts if one of its functions runs. The path runs once before it is traced, so that imports
and caches are left out.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from itertools import islice
from pathlib import Path
from types import FrameType

PACKAGE = Path(__file__).resolve().parents[1] / "posh_reward"
GENERATION = "A tall woman in a red dress stands beside a brown dog. She holds a fan."
REFERENCE = "A woman in a red dress stands to our left. A small dog sleeps beside her."


@dataclass
class Trace:
    """Functions of the package that ran, and calls between files."""

    functions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(file, function) -> number of calls."""
    steps: dict[tuple[str, str, str], None] = field(default_factory=dict)
    """(file of the caller, file, function), each once, in order of the first call."""
    crossings: int = 0

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        """Record one call; a ``sys.setprofile`` function."""
        if event != "call" or (name := _file(frame)) is None:
            return
        caller = frame.f_back
        while caller is not None and _file(caller) is None:  # skip the standard library
            caller = caller.f_back
        origin = "" if caller is None else _file(caller) or ""
        function = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)  # from 3.11
        self.functions[name, function] += 1
        if origin != name:
            self.crossings += 1
            self.steps.setdefault((origin, name, function))

    @property
    def files(self) -> Counter[str]:
        """Number of functions run in each file."""
        return Counter(name for name, _ in self.functions)


def _file(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    return str(path.relative_to(PACKAGE)) if path.is_relative_to(PACKAGE) else None


@contextmanager
def trace_calls() -> Iterator[Trace]:
    """Trace all threads inside this context."""
    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def reward_path(folder: Path) -> Callable[[], object]:
    """Return TRL's call of a loaded reward on one completion."""
    from posh_reward import PoshReward

    reward = PoshReward()
    return lambda: reward(prompts=[""], completions=[GENERATION], reference=[REFERENCE])


def score_path(folder: Path) -> Callable[[], object]:
    """Return ``posh-reward score`` on a file with one row."""
    from posh_reward.cli import main

    table, output = folder / "pairs.csv", folder / "scores.jsonl"
    table.write_text(f'generation,reference\n"{GENERATION}","{REFERENCE}"\n', encoding="utf-8")

    def score() -> None:
        output.unlink(missing_ok=True)
        main(["score", str(table), "-o", str(output), "--elements"])

    return score


def report_path(folder: Path) -> Callable[[], object]:
    """Return ``posh-reward report`` on one scored row."""
    from posh_reward.cli import main

    score_path(folder)()
    page = folder / "page.html"
    return lambda: main(["report", str(folder / "scores.jsonl"), "-o", str(page)])


PATHS = {"reward": reward_path, "score": score_path, "report": report_path}


def trace_path(name: str) -> Trace:
    """Run a path twice, and trace the second run."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        walk = PATHS[name](Path(folder))
        walk()
        with trace_calls() as trace:
            walk()
    return trace


def main() -> None:
    """Print the files of a path, then its totals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", choices=PATHS)
    parser.add_argument("--way", type=int, default=0, metavar="N", help="print the first N steps")
    flags = parser.parse_args()
    trace = trace_path(flags.path)
    for origin, name, function in islice(trace.steps, flags.way):
        print(f"{origin or 'the caller'} -> {name}: {function}")
    for name, functions in sorted(trace.files.items()):
        print(f"{functions:5} {name}")
    stand_ins = sum(name.startswith("embedded/") for name in trace.files)
    print(
        f"{flags.path}: {len(trace.files)} files, {stand_ins} of them stand-ins, "
        f"{len(trace.functions)} functions, {trace.crossings:,} calls from file to file"
    )


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly
    main()
