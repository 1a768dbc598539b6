"""Measure how time grows with the length of hostile texts, stage by stage.

    OMP_NUM_THREADS=1 python -m tools.bench.exponents                  # all families
    OMP_NUM_THREADS=1 python -m tools.bench.exponents --families bangs story --timeout 5

A collapsed policy writes "!!!!" up to the length limit, and every rank waits for the slowest text.
Each family is one kind of such a text, scored against itself. The table shows processor seconds of
each stage at growing lengths, and the exponent k of the fit ``seconds ~ length ** k``: 1 is linear,
and "!" marks values above ``FLAGGED``. ``questions`` is the search with a judge that takes no time,
``judge`` the same with the embedded judge, and ``whole`` the sum of the stages. Stages that take
almost no time are left out.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import string
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import log
from pathlib import Path
from statistics import linear_regression

from posh_reward.graph.coref import load_coref
from posh_reward.graph.parse import load_parser, tokenize
from posh_reward.graph.reader import describe
from posh_reward.metrics.posh.examine import examine
from posh_reward.metrics.posh.judges.fake_judge import FakeJudge
from posh_reward.metrics.posh.judges.judge import Judge
from posh_reward.metrics.posh.judges.load_judge import load_judge
from posh_reward.metrics.posh.posh import Rewriter, run_together

LENGTHS = (2_500, 5_000, 10_000, 20_000)  # characters; the last is the length limit of a reader
FLAGGED = 1.3  # exponent above which a stage is marked
SMALLEST = 0.01  # seconds; smaller times are mostly noise and left out of the fit
VISIBLE = 0.1  # seconds; stages that never take as long are not shown
Table = dict[str, dict[int, float]]  # stage -> length in characters -> processor seconds
ARTWORKS = Path(__file__).resolve().parents[2] / "research" / "calibration" / "artworks.json"


def repeat(unit: str) -> Callable[[int], str]:
    """Make a family that repeats one string."""
    return lambda length: (unit * (length // len(unit) + 1))[:length]


def random_text(alphabet: str, seed: int = 0) -> Callable[[int], str]:
    """Make a family of random characters, so that no cache of equal words helps."""
    return lambda length: "".join(random.Random(seed).choices(alphabet, k=length))


def ordinary(length: int) -> str:
    """Join museum descriptions, to compare the other families with."""
    texts = [item["reference"] for item in json.loads(ARTWORKS.read_text(encoding="utf-8"))]
    return repeat(" ".join(texts) + " ")(length)


def namesakes(length: int) -> str:
    """Name many entities by one noun, each with its own adjective."""
    qualities = (f"{first}{second}ish" for first in CONSONANTS for second in CONSONANTS)
    return repeat("".join(f"A {quality} man holds a cup. " for quality in qualities))(length)


CONSONANTS = "bcdfghjklmnpqrstvwxyz"
FAMILIES: dict[str, Callable[[int], str]] = {
    "ordinary": ordinary,
    "bangs": repeat("!"),
    "brackets": repeat("("),
    "pairs": repeat("[]"),
    "stars": repeat("*"),
    "dots": repeat(". . "),
    "quotes": repeat("\"'"),
    "emoji": repeat("\U0001f600"),
    "smileys": repeat(":)"),
    "joined": repeat("\u200b"),
    "digits": repeat("1234567890"),
    "newlines": repeat("\n"),
    "lines": repeat("a\n\n"),
    "word": repeat("a"),
    "hyphens": repeat("a-"),
    "address": repeat("www.a.com/"),
    "mixed": random_text(string.punctuation),
    "mixed words": random_text(string.ascii_letters + string.punctuation + string.digits),
    "bang words": repeat("! "),
    "very": repeat("very "),
    "man": repeat("man "),
    "and": repeat("a man and "),
    "of": repeat("a man of "),
    "sons": repeat("the king's son's "),
    "story": lambda length: "A man met a woman. " + repeat("He liked her. ")(length - 19),
    "namesakes": namesakes,
}
"""Name -> a text of as many characters as asked for."""


class Stages:
    """The stages of one text, each using the results of the one before."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.nlp = load_parser()
        self.coref = load_coref()

    def __iter__(self) -> Iterator[tuple[str, Callable[[], None]]]:
        yield "tokenize", self.tokenize
        for name, pipe in self.nlp.pipeline:
            yield name, partial(pipe, self.doc)
        yield "coref", self.link
        yield "graph", self.describe
        yield "questions", lambda: self.examine(FakeJudge(lambda _: 5.0))
        yield "judge", lambda: self.examine(load_judge("embedded"))

    def tokenize(self) -> None:
        """Make ``doc``."""
        self.doc = tokenize(self.nlp, self.text)

    def link(self) -> None:
        """Make ``clusters``."""
        (self.clusters,) = self.coref.resolve([self.doc])

    def describe(self) -> None:
        """Make ``description``."""
        self.description = describe(self.doc, self.clusters)

    def examine(self, judge: Judge) -> None:
        """Search the text for all of its own elements, in both directions."""
        this = self.description
        steps = [examine(this, this, "precision"), examine(this, this, "recall")]
        run_together(steps, judge, Rewriter(judge))


def measure(family: Callable[[int], str], lengths: Sequence[int], limit: float) -> Table:
    """Measure seconds of each stage at each length, up to one that would take too long."""
    table: Table = {}
    for length in lengths:
        total = 0.0
        for name, stage in Stages(family(length).strip()):
            gc.collect()  # so that this stage does not pay for the garbage of others
            start = time.process_time()
            stage()
            spent = time.process_time() - start
            table.setdefault(name, {})[length] = spent
            total += spent
        table.setdefault("whole", {})[length] = total
        if total * 4 > limit:
            break
    return table


def exponent(seconds: Mapping[int, float]) -> float | None:
    """Return the slope of log seconds over log length; None if too few times are measurable."""
    seconds_of = {length: spent for length, spent in seconds.items() if spent >= SMALLEST}
    if len(seconds_of) < 2:
        return None
    lengths, times = zip(
        *((log(length), log(spent)) for length, spent in seconds_of.items()), strict=True
    )
    return linear_regression(lengths, times).slope


def row(family: str, stage: str, seconds: Mapping[int, float], lengths: Sequence[int]) -> str:
    """Format a line of the table."""
    slope = exponent(seconds)
    times = "".join(f"{seconds[n]:9.3f}" if n in seconds else f"{'-':>9}" for n in lengths)
    figure = "" if slope is None else f"{slope:6.1f}{'!' if slope > FLAGGED else ''}"
    return f"{family:<12} {stage:<12}{times}{figure}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS)
    parser.add_argument("--timeout", type=float, default=60, help="seconds that a text may take")
    parser.add_argument("--all", action="store_true", help="also stages that take no time")
    options = parser.parse_args()
    measure(ordinary, LENGTHS[:1], math.inf)  # loads the pipeline and the dictionary
    print(f"{'family':<12} {'stage':<12}{''.join(f'{n:>9,}' for n in options.lengths)}  exponent")
    for family in options.families:
        for stage, seconds in measure(FAMILIES[family], options.lengths, options.timeout).items():
            if options.all or stage == "whole" or max(seconds.values()) >= VISIBLE:
                print(row(family, stage, seconds, options.lengths), flush=True)


if __name__ == "__main__":
    main()
