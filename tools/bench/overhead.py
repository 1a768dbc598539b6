"""Our own time and memory per pair: all that POSH does besides parsing and judging.

    OMP_NUM_THREADS=1 python tools/bench/overhead.py GOLDENS.jsonl [--json PATH]

Time: each golden pair is scored by ``PoSh.score`` from its parses. The judge makes the prompts
that a language model would get and then gives the recorded answers; giving them is not counted.
A pair's figure is its fastest run (noise only ever adds), in processor time; the median over
pairs is printed, in milliseconds and as a share of a fixed workload timed in the same run.

Memory: resident size while pair after pair is scored. No text comes twice: each is the first
half of one golden text and the second half of another.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from posh_reward import PoSh
from posh_reward.graph.read import Reader
from posh_reward.graph.rules.build import describe
from posh_reward.metrics.posh.judges.fake import FakeJudge
from posh_reward.metrics.posh.judges.judge import Judge
from posh_reward.metrics.posh.presets import prompt, rewrite_prompt
from posh_reward.types import (
    Clusters,
    Description,
    Failure,
    Reply,
    Request,
    RewriteRequest,
    Usage,
    Verdict,
)
from tools.bench.speed import reference_workload, seconds
from tools.goldens import SIDES, Golden, ReplayJudge, load, parsed

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

MARKS = (200, 500, 1000, 1500, 2000)
"""After how many pairs memory is read."""
AT_ONCE = 100
"""Pairs in each call where memory is measured."""
COLUMNS = ("words", "spaces", "pos", "tags", "lemmas", "deps", "sent_starts")
"""What a parse says of its tokens, their heads apart."""


class Watch:
    """Processor time that was spent within ``with`` blocks."""

    def __init__(self) -> None:
        self.spent = 0.0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Counts the time of one block."""
        start = time.process_time()
        yield
        self.spent += time.process_time() - start


class ParsedReader(Reader):
    """Reads texts whose parses are known, and counts what making their graphs took."""

    def __init__(self, parses: dict[str, tuple[Doc, Clusters]]) -> None:
        super().__init__(coref="none")
        self.parses = parses
        self.graphs = Watch()

    @property
    def parser_name(self) -> str:
        """Of no parser that anybody has."""
        return "given"

    def _describe(self, texts: list[str]) -> list[Description | Failure]:
        with self.graphs():
            return [describe(*self.parses[text]) for text in texts]


class PromptingJudge:
    """Makes the prompts that a language model would get; the answers come from elsewhere."""

    def __init__(self, answering: Judge) -> None:
        self.name = "prompting"
        self.usage = Usage()
        self.answering = answering
        self.prompts = Watch()
        self.answers = Watch()

    def grade(self, requests: Sequence[Request]) -> list[Verdict]:
        """One prompt a question."""
        with self.prompts():
            for request in requests:
                prompt(request)
        with self.answers():
            return self.answering.grade(requests)

    def rewrite(self, requests: Sequence[RewriteRequest]) -> list[Reply]:
        """One prompt a phrase."""
        with self.prompts():
            for request in requests:
                rewrite_prompt(request)
        with self.answers():
            return self.answering.rewrite(requests)

    def sleep(self) -> None:
        """Nothing to give back."""

    def wake(self) -> None:
        """Nothing to load."""

    def close(self) -> None:
        """Nothing to release."""


def metric(reader: Reader, judge: Judge) -> PoSh:
    """The metric, with another reader."""
    posh = PoSh(judge)
    posh.reader = reader
    return posh


@dataclass(frozen=True, slots=True)
class Times:
    """What one pair took, in milliseconds."""

    total: float
    """Without the judge's answers."""
    graphs: float
    prompts: float
    rest: float
    """Questions, elements, scores, and the bookkeeping between."""


PARTS = tuple(part.name for part in fields(Times))


def timed(golden: Golden, parses: dict[str, tuple[Doc, Clusters]]) -> Times:
    """Scores one golden pair once, from its parses."""
    reader, judge = ParsedReader(parses), PromptingJudge(ReplayJudge(golden))
    posh = metric(reader, judge)
    whole = Watch()
    with whole():
        (scores,) = posh.score([golden["generation"]], [golden["reference"]])
    assert scores.f1 is not None, scores.failure
    total = whole.spent - judge.answers.spent
    rest = total - reader.graphs.spent - judge.prompts.spent
    return Times(*(1e3 * part for part in (total, reader.graphs.spent, judge.prompts.spent, rest)))


def fastest(goldens: Sequence[Golden], vocab: Vocab, repeats: int) -> list[Times]:
    """The fastest of some runs of each pair."""
    parses = [{golden[side]: parsed(golden, side, vocab) for side in SIDES} for golden in goldens]
    runs = [[timed(*each) for each in zip(goldens, parses, strict=True)] for _ in range(repeats)]
    return [min(times, key=lambda time: time.total) for times in zip(*runs, strict=True)]


def spliced(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The first half of one text's sentences and the second half of another's, parsed."""
    end, start = middle(first), middle(second)
    shift = end - start
    mentions = [[[a, b] for a, b in cluster if b < end] for cluster in first["clusters"]] + [
        [[a + shift, b + shift] for a, b in cluster if a >= start] for cluster in second["clusters"]
    ]
    return {
        **{name: first[name][:end] + second[name][start:] for name in COLUMNS},
        "heads": first["heads"][:end] + [head + shift for head in second["heads"][start:]],
        "clusters": mentions,
    }


def middle(parse: dict[str, Any]) -> int:
    """The token that the second half of the sentences starts with."""
    starts = [token for token, start in enumerate(parse["sent_starts"]) if start]
    return starts[len(starts) // 2]


def new_pairs(goldens: Sequence[Golden], vocab: Vocab) -> Iterator[list[tuple[Doc, Clusters]]]:
    """Pairs of parses, no text twice: each golden with itself, the next, the one after that."""
    for distance in range(len(goldens)):
        for index, golden in enumerate(goldens):
            other = goldens[(index + distance) % len(goldens)]
            both = {s: spliced(golden["parsed"][s], other["parsed"][s]) for s in SIDES}
            yield [parsed({"parsed": both}, side, vocab) for side in SIDES]


def mentioned(request: Request) -> float:
    """5 if the last word of what is asked for is in the text, else 1."""
    asked = (request.text or request.identifier).split() or [""]
    return 5.0 if asked[-1] in request.target.text.lower() else 1.0


def memory(
    pairs: Iterable[Sequence[tuple[Doc, Clusters]]], marks: Iterable[int]
) -> Iterator[tuple[int, float, float]]:
    """(Pairs scored, resident MB, its peak so far) at each mark."""
    reader, answering = ParsedReader({}), FakeJudge(mentioned)
    posh = metric(reader, PromptingJudge(answering))
    left, done = iter(pairs), 0
    for mark in marks:
        while done < mark:
            batch = list(islice(left, min(AT_ONCE, mark - done)))
            reader.parses = {
                doc.text.strip(): (doc, links) for pair in batch for doc, links in pair
            }
            texts = [[doc.text for doc, _ in side] for side in zip(*batch, strict=True)]
            scores = posh.score(*texts)
            assert all(score.f1 is not None for score in scores)
            answering.requests.clear()
            done += len(batch)
        yield done, resident_mb(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_mb() -> float:
    """Memory that this process holds now, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    """Prints both, and writes them if asked to."""
    from spacy.vocab import Vocab

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("goldens", type=Path, help="goldens.jsonl")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--pairs", type=int, default=2000, help="how many to measure memory with")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    goldens, vocab = load(options.goldens), Vocab()
    if not 0 < options.pairs <= len(goldens) ** 2:
        parser.error(f"--pairs: {len(goldens)} goldens make 1 to {len(goldens) ** 2} new pairs")
    unit = 1e3 * seconds(reference_workload, options.repeats)
    times = fastest(goldens, vocab, options.repeats)
    figures = {name: median(getattr(each, name) for each in times) for name in PARTS}
    print(f"{len(goldens)} pairs, median of each one's fastest of {options.repeats} runs, in ms:")
    print(", ".join(f"{name} {spent:.2f}" for name, spent in figures.items()))
    print(f"{figures['total'] / unit:.4f} of the reference workload, which took {unit:.0f} ms")
    marks = [*(mark for mark in MARKS if mark < options.pairs), options.pairs]
    resident: dict[int, float] = {}
    peak: dict[int, float] = {}
    for done, resident[done], peak[done] in memory(new_pairs(goldens, vocab), marks):
        print(f"after {done} pairs: {resident[done]:.0f} MB, at most {peak[done]:.0f} MB so far")
    if options.json:
        written = {
            "ms_per_pair": figures["total"],
            "ms_of_parts": figures,
            "share_of_workload": figures["total"] / unit,
            "rss_mb_at": resident,
            "peak_rss_mb_at": peak,
        }
        options.json.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
