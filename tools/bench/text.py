"""Measure POSH without a language model, on one core: processor time and memory.

    OMP_NUM_THREADS=1 python -m tools.bench.text overhead GOLDENS.jsonl [--json PATH]
    OMP_NUM_THREADS=1 python -m tools.bench.text speed --planted PLANTED_DEV.json --nga NGA.json
    OMP_NUM_THREADS=1 python -m tools.bench.text processes GOLDENS.jsonl [--processes 2]
    OMP_NUM_THREADS=1 python -m tools.bench.text store [--verdicts 200000]
    OMP_NUM_THREADS=1 python -m tools.bench.text figures GOLDENS.jsonl

figures: the commit, then overhead and store, as in research/results/performance.md.

overhead: everything besides parsing and judging. ``PoSh.score`` scores each golden pair from its
parses; the judge makes a language model's prompts, then returns the recorded answers, which is not
counted. A pair's figure is its fastest run, since noise only adds; the median over pairs is shown.
Then memory, while pair after pair is scored. No text repeats: each joins the first half of one
golden text and the second half of another.

speed: pairs per second with the embedded judge, from texts and from parsed texts; the best of the
repeats. Each run has a new metric; only the dictionary is warm, as after the first seconds of any
run.

processes: wall time of a step of 64 completions for 8 references, and of a table of 50 pairs, with
worker processes and without, by turns; then the step again, simulated for other numbers of them.

store: putting and getting verdicts in batches of 1,000, and writing and reading them as JSON.

Since machines differ and are noisy, a fixed workload in plain Python is timed in the same run.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from posh_reward import PoSh
from posh_reward.graph.reader import describe_doc
from posh_reward.models.asker import read_verdict, write_verdict
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.process.pool import Work
from posh_reward.store import Store
from posh_reward.types import Clusters, Description, Question, Verdict
from tools.bench.watched import (
    ParsedReader,
    PromptingJudge,
    Watch,
    metric,
    reference_workload,
    seconds,
)
from tools.goldens import COLUMNS, SIDES, Golden, ReplayJudge, load, recorded_parse

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

MARKS = (200, 500, 1000, 1500, 2000)  # numbers of pairs after which memory is read
AT_ONCE = 100  # pairs in each call where memory is measured
VERDICTS_PER_BATCH = 1000  # verdicts that go to a store at once
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def time_pair(golden: Golden, parses: dict[str, tuple[Doc, Clusters]]) -> dict[str, float]:
    """Score one golden pair from its parses; return milliseconds, without the judge's answers."""
    reader = ParsedReader(lambda text: describe_doc(*parses[text]))
    judge, whole = PromptingJudge(ReplayJudge(golden)), Watch()
    posh = metric(reader, judge)
    with whole:
        (scores,) = posh.score([golden["generation"]], [golden["reference"]])
    assert scores.f1 is not None, scores.failure
    total = whole.spent - judge.answers.spent
    parts = {"total": total, "graphs": reader.watch.spent, "prompts": judge.prompts.spent}
    parts["rest"] = 2 * total - sum(parts.values())  # the sum includes the total
    return {part: 1e3 * spent for part, spent in parts.items()}


def fastest(goldens: Sequence[Golden], vocab: Vocab, repeats: int) -> list[dict[str, float]]:
    """Return the fastest of several runs of each pair."""
    parses = [
        {golden[side]: recorded_parse(golden, side, vocab) for side in SIDES} for golden in goldens
    ]
    runs = [
        [time_pair(*each) for each in zip(goldens, parses, strict=True)] for _ in range(repeats)
    ]
    return [min(times, key=lambda parts: parts["total"]) for times in zip(*runs, strict=True)]


def splice(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Join the parsed first half of one text's sentences and second half of another's."""
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
    """Return the token that starts the second half of the sentences."""
    starts = [token for token, start in enumerate(parse["sent_starts"]) if start]
    return starts[len(starts) // 2]


def new_pairs(goldens: Sequence[Golden], vocab: Vocab) -> Iterator[list[tuple[Doc, Clusters]]]:
    """Yield parses of new pairs: each golden spliced with itself, the next, the one after."""
    for distance in range(len(goldens)):
        for index, golden in enumerate(goldens):
            other = goldens[(index + distance) % len(goldens)]
            both = {s: splice(golden["parsed"][s], other["parsed"][s]) for s in SIDES}
            yield [recorded_parse({"parsed": both}, side, vocab) for side in SIDES]


def mention(request: Question) -> float:
    """Return 5 if the last word of the element is in the text, else 1."""
    words = (request.text or request.identifier).split() or [""]
    return 5.0 if words[-1] in request.target.text.lower() else 1.0


def memory(
    pairs: Iterable[Sequence[tuple[Doc, Clusters]]], marks: Iterable[int]
) -> Iterator[tuple[int, float, float]]:
    """Yield (pairs scored, resident MB, peak MB so far) at each mark."""
    parses: dict[str, tuple[Doc, Clusters]] = {}
    answering = FakeJudge(mention)
    posh = metric(ParsedReader(lambda text: describe_doc(*parses[text])), PromptingJudge(answering))
    left, count = iter(pairs), 0
    for mark in marks:
        while count < mark:
            batch = list(islice(left, min(AT_ONCE, mark - count)))
            parses.clear()
            parses.update((doc.text.strip(), (doc, links)) for pair in batch for doc, links in pair)
            texts = [[doc.text for doc, _ in side] for side in zip(*batch, strict=True)]
            assert all(score.f1 is not None for score in posh.score(*texts))
            answering.questions.clear()
            count += len(batch)
        yield count, resident_mb(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_mb() -> float:
    """Return this process's memory in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def overhead(options: argparse.Namespace) -> None:
    """Measure our own time and memory per pair."""
    from spacy.vocab import Vocab

    goldens, vocab = load(options.goldens), Vocab()
    if not 0 < options.limit <= len(goldens) ** 2:
        most = len(goldens) ** 2
        raise SystemExit(f"--pairs: {len(goldens)} goldens make 1 to {most} new pairs")
    unit = 1e3 * seconds(reference_workload, options.repeats)
    times = fastest(goldens, vocab, options.repeats)
    parts = {part: median(each[part] for each in times) for part in times[0]}
    print(f"{len(goldens)} pairs, median of each one's fastest of {options.repeats} runs, in ms:")
    print(", ".join(f"{part} {spent:.2f}" for part, spent in parts.items()))
    print(f"{parts['total'] / unit:.4f} of the reference workload, which took {unit:.0f} ms")
    marks = [*(mark for mark in MARKS if mark < options.limit), options.limit]
    resident: dict[int, float] = {}
    peak: dict[int, float] = {}
    for count, resident[count], peak[count] in memory(new_pairs(goldens, vocab), marks):
        print(f"after {count} pairs: {resident[count]:.0f} MB, at most {peak[count]:.0f} MB so far")
    if options.json:
        record = {
            "commit": commit(),
            "ms_per_pair": parts["total"],
            "ms_of_parts": parts,
            "share_of_workload": parts["total"] / unit,
            "rss_mb_at": resident,
            "peak_rss_mb_at": peak,
        }
        options.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def speed(options: argparse.Namespace) -> None:
    """Measure pairs per second with the embedded judge."""
    if not options.planted and not options.nga:
        raise SystemExit("add --planted, --nga or both")
    planted, museum = (
        json.loads(path.read_text(encoding="utf-8")) if path else []
        for path in (options.planted, options.nga)
    )
    pairs = [(item["faithful"], item["reference"]) for item in planted]
    for text in (item["description"] for item in museum):
        kept = [s for i, s in enumerate(SENTENCE_END.split(text), 1) if i % 5]
        pairs.append((" ".join(kept), text))  # without every fifth sentence
    words = sum(len(text.split()) for pair in pairs for text in pair) / len(pairs)
    print(f"{len(pairs)} pairs of {words:.0f} words together, one core")
    unit = seconds(reference_workload, options.repeats)
    print(f"reference workload: {unit:.3f} s")
    texts = [list(side) for side in zip(*pairs, strict=True)]
    read = PoSh().graph_reader.read([text for side in texts for text in side])
    parses = {each.text: each for each in read if isinstance(each, Description)}
    ways: dict[str, Callable[[], object]] = {
        "from texts": lambda: PoSh().score(*texts),
        "from parsed texts": lambda: metric(ParsedReader(parses.__getitem__)).score(*texts),
    }
    ways["from parsed texts"]()  # loads the dictionary
    for way, work in ways.items():
        rate = len(pairs) / seconds(work, options.repeats)
        print(f"{way}: {rate:.1f} pairs/s, {rate * unit:.2f} pairs per workload")


def step_of(goldens: Sequence[Golden], turn: int) -> list[tuple[str, str]]:
    """Make 64 pairs of new texts: 8 generations for each of 8 references."""
    count = len(goldens)
    return [
        (
            f"{goldens[(turn + 8 * group + own) % count]['generation']} There are {turn} birds.",
            f"{goldens[(turn + group) % count]['reference']} There are {turn} birds.",
        )
        for group in range(8)
        for own in range(8)
    ]


def table_of(goldens: Sequence[Golden], turn: int) -> list[tuple[str, str]]:
    """Make a pair of new texts of each golden."""
    return [
        (f"{each['generation']} Of {turn} men.", f"{each['reference']} Of {turn} men.")
        for each in goldens
    ]


def wall_seconds(work: Callable[[], object]) -> float:
    """Return the wall time of one run: the work is done by other processes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def processes(options: argparse.Namespace) -> None:
    """Compare worker processes with one process, by turns."""
    goldens = load(options.goldens)
    pooled = PoSh(processes=options.processes)
    print(f"{options.processes} processes start in {wall_seconds(pooled.start):.1f} s")
    for name, pairs_of in (("step", step_of), ("table", table_of)):
        ratios, spent = [], Watch()
        for turn in range(-1, options.repeats):
            texts = [list(side) for side in zip(*pairs_of(goldens, turn), strict=True)]
            alone = wall_seconds(partial(PoSh(processes=1).score, *texts))
            with spent:
                shared = wall_seconds(partial(pooled.score, *texts))
            if turn < 0:  # loads the dictionary
                spent = Watch()
                continue
            ratios.append(alone / shared)
            print(f"{name}: {len(texts[0])} pairs, alone {alone:.2f} s, shared {shared:.2f} s")
        own = spent.spent / options.repeats / len(texts[0])
        print(
            f"{name}: {median(ratios):.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f}); "
            f"sharing out takes {1e3 * own:.1f} ms a pair"
        )
    simulate(goldens, own, (options.processes, *SIMULATED))


SIMULATED = (4, 8, 16)
REQUESTS = (1, 2, 4, 8, 16)  # sizes whose cost is measured


def simulate(goldens: Sequence[Golden], own: float, counts: Iterable[int]) -> None:
    """Simulate a step on more cores than there are, from what its requests cost on one.

    References are read first, then pairs are scored. After each request the process that shares
    them out takes ``own`` seconds a pair, for one worker after the other.
    """
    posh, cost = PoSh(processes=1), {}
    for size in REQUESTS:
        pairs = step_of(goldens, 1000 + size)
        references = list(dict.fromkeys(reference for _, reference in pairs))
        reading, scoring = Watch(), Watch()
        for each in references:
            with reading:
                posh.graph_reader.read([each], keep=True)
        with scoring:
            for start in range(0, len(pairs), size):
                posh.score(*map(list, zip(*pairs[start : start + size], strict=True)))
        cost[size] = scoring.spent / len(pairs)
    one_reading = reading.spent / len(references)
    alone = reading.spent + len(pairs) * cost[max(REQUESTS)]
    for count in counts:
        whole = schedule(len(references), count, lambda size: size * one_reading, own)
        whole += schedule(len(pairs), count, lambda size: size * cost[nearest(size)], own)
        print(f"simulated, {count} processes: {alone / whole:.1f} times as fast")


def nearest(size: int) -> int:
    """Return the measured size below a request's."""
    return max(each for each in REQUESTS if each <= size)


def schedule(items: int, count: int, cost: Callable[[int], float], own: float) -> float:
    """Return the seconds until all items are done, as ``process.pool`` shares them out."""
    work: Work[int, int] = Work(range(items), count)
    free = [0.0] * count  # when each worker can take a request
    answered = 0.0  # when this process has taken the last answer
    for chunk in iter(work.take, []):
        begun = heapq.heappop(free)
        answered = max(answered, begun + cost(len(chunk))) + own * len(chunk)
        heapq.heappush(free, answered)
    return answered


def verdicts(count: int) -> Iterator[dict[str, Verdict]]:
    """Yield batches of random verdicts by prompt, with prompts as long as for a museum's text."""
    rng = random.Random(0)
    for start in range(0, count, VERDICTS_PER_BATCH):
        batch = {}
        for index in range(start, start + VERDICTS_PER_BATCH):
            weights = [rng.random() for _ in range(5)]
            shares = tuple(weight / sum(weights) for weight in weights)
            prompt = f"{index} {'A prompt of some length. ' * 60}"
            batch[prompt] = Verdict(shares, mass=rng.random())
        yield batch


def store(options: argparse.Namespace) -> None:
    """Measure a store's time and size per verdict."""
    watches = {what: Watch() for what in ("write JSON", "read JSON", "put", "get")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        database = Store(path)
        for batch in verdicts(options.verdicts):
            with watches["write JSON"]:
                texts = {prompt: write_verdict(verdict) for prompt, verdict in batch.items()}
            with watches["read JSON"]:
                list(map(read_verdict, texts.values()))
            with watches["put"]:
                database.put("verdict", "bench", texts)
        for batch in verdicts(options.verdicts):
            with watches["get"]:
                database.get("verdict", "bench", list(batch))
        print(database)
        database.close()
        print(f"{path.stat().st_size / options.verdicts:.0f} bytes on disk per verdict")
    for what, watch in watches.items():
        print(f"{what}: {1e6 * watch.spent / options.verdicts:.1f} ms per 1,000 verdicts")


def figures(options: argparse.Namespace) -> None:
    """Print the commit and the figures of research/results/performance.md, "Our own time"."""
    print(f"commit {commit()}")
    overhead(options)
    store(options)


def commit() -> str:
    """Return the checkout's commit, with a mark if files differ from it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return process.stdout.strip() or "unknown: not a checkout"


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    flags = {
        command: commands.add_parser(command.__name__)
        for command in (overhead, speed, processes, store, figures)
    }
    for command, each in flags.items():
        each.set_defaults(command=command)
    for each in (flags[overhead], flags[figures]):
        each.add_argument("goldens", type=Path, help="goldens.jsonl")
        each.add_argument("--json", type=Path, help="also write the figures to this file")
        each.add_argument("--limit", type=int, default=2000, help="to measure memory with")
        each.add_argument("--repeats", type=int, default=7)
    flags[speed].add_argument("--planted", type=Path)
    flags[speed].add_argument("--nga", type=Path)
    flags[speed].add_argument("--repeats", type=int, default=5)
    flags[processes].add_argument("goldens", type=Path, help="goldens.jsonl")
    flags[processes].add_argument("--processes", type=int, default=2)
    flags[processes].add_argument("--repeats", type=int, default=5)
    for each in (flags[store], flags[figures]):
        each.add_argument("--verdicts", type=int, default=200_000)
    options = parser.parse_args()
    options.command(options)


if __name__ == "__main__":
    main()
