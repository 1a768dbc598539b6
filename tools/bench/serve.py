"""Measure a served metric under load against direct calls, and test it under SIGKILL.

    OMP_NUM_THREADS=1 python -m tools.bench.serve load PLANTED_DEV.json [--seconds 12]
    OMP_NUM_THREADS=1 python -m tools.bench.serve kills [--limit 20]

load: pairs per second, the server's processor time per pair, and the 50th and 99th percentile of a
request's milliseconds, for 1, 8 and 64 clients that send one pair after the other, with batching
and without (``--batch 1``). Each row is measured between two runs of direct calls, 64 pairs at a
time, and has its ratio to them, since other work on the machine varies. No text repeats: each is
half of the sentences of a planted text. Two judges: the embedded one, which computes every pair,
and a stand-in for a language model on a GPU, whose calls take 100 ms whatever their size. Server,
direct calls and clients are separate processes.

kills: a server with a store is killed with SIGKILL under the load of some clients, and restarted,
repeatedly. All texts differ; their scores are compared with a direct call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

from posh_reward import PoSh
from posh_reward.models.fake_model import FakeModel, quoted_words
from posh_reward.models.model import Prompt
from posh_reward.posh.judge import PromptJudge
from posh_reward.serve.client import RemotePosh
from posh_reward.types import Reply, Verdict

CLIENTS = (1, 8, 64)
CALL_SECONDS = 0.1  # of the stand-in for a language model
CLI = [sys.executable, "-m", "posh_reward.cli", "serve"]
Pair = tuple[str, str]


class SlowModel(FakeModel):
    """Model whose calls take as long as a GPU's, whatever their size."""

    few_calls = True

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """As ``FakeModel``, after a pause."""
        time.sleep(CALL_SECONDS)
        return super().choose(prompts, labels)

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """As ``FakeModel``, after a pause."""
        time.sleep(CALL_SECONDS)
        return super().write(prompts, max_tokens)


def metric_of(judge: str) -> PoSh:
    """Make the metric with the judge ``embedded`` or ``stand-in``."""
    if judge == "embedded":
        return PoSh()
    return PoSh(PromptJudge(SlowModel(grader=quoted_words)))


def pairs_of(path: Path, seed: int) -> Iterator[Pair]:
    """Yield endless new pairs: half of a text's sentences, and its reference."""
    items = json.loads(path.read_text(encoding="utf-8"))
    draw = random.Random(seed)
    while True:
        item = draw.choice(items)
        sentences = re.split(r"(?<=[.!?])\s+", item["faithful"])
        sample = sorted(draw.sample(range(len(sentences)), max(1, len(sentences) // 2)))
        name = f"There is a sign with the number {draw.randrange(10**6)}."
        yield " ".join([*(sentences[at] for at in sample), name]), item["reference"]


def direct(judge: str, path: Path) -> None:
    """Read seconds from standard input; call the metric for as long, and print the rate."""
    posh, pairs = metric_of(judge), pairs_of(path, 1)
    posh.score(*map(list, zip(*islice(pairs, 64), strict=True)))
    print("ready", flush=True)
    for line in sys.stdin:
        total, begun, busy = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - begun < float(line):
            posh.score(*map(list, zip(*islice(pairs, 64), strict=True)))
            total += 64
        spent = time.process_time() - busy
        print(total / (time.perf_counter() - begun), 1e3 * spent / total, flush=True)


async def ask(url: str, pairs: Iterator[Pair], clients: int, seconds: float) -> list[float]:
    """Run clients that send one pair at a time; return the seconds of each request."""
    import httpx

    times: list[float] = []
    end = time.perf_counter() + seconds

    async def client(connection: httpx.AsyncClient) -> None:
        while (begun := time.perf_counter()) < end:
            text, reference = next(pairs)
            body = {"rows": [{"generation": text, "reference": reference}]}
            reply = (await connection.post("/v1/score", json=body)).json()
            assert reply["scores"][0]["generation"] == text
            times.append(time.perf_counter() - begun)

    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=600) as connection:
        await asyncio.gather(*(client(connection) for _ in range(clients)))
    return times


def processor_seconds(process: int) -> float:
    """Return the processor time of a process so far (proc(5))."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(path: Path, seconds: float) -> None:
    """Print the tables of research/results/performance.md."""
    own, pairs = [sys.executable, "-m", "tools.bench.serve"], pairs_of(path, 2)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    for judge in ("embedded", "stand-in"):
        head = (
            "batching | clients | pairs/s | of direct | processor ms | direct's | p50 ms | p99 ms"
        )
        print(f"judge: {judge}\n| {head} |\n{'|---' * 8}|", flush=True)
        with subprocess.Popen([*own, "direct", judge, str(path)], **pipes) as calls:

            def rates(calls: Any = calls) -> tuple[float, float]:
                calls.stdin.write(f"{seconds / 2}\n")
                calls.stdin.flush()
                rate, busy = calls.stdout.readline().split()
                return float(rate), float(busy)

            calls.stdout.readline()  # type: ignore[union-attr]
            for batch, window in ((256, 5), (1, 0)):
                command = [*own, "server", judge, str(batch), str(window)]
                with subprocess.Popen(command, **pipes) as server:
                    url = server.stdout.readline().strip()  # type: ignore[union-attr]
                    asyncio.run(ask(url, pairs, 1, 2))  # warm
                    for clients in CLIENTS:
                        before, busy = rates(), processor_seconds(server.pid)
                        begun = time.perf_counter()
                        times = asyncio.run(ask(url, pairs, clients, seconds))
                        rate = len(times) / (time.perf_counter() - begun)
                        busy = 1e3 * (processor_seconds(server.pid) - busy) / len(times)
                        base, own_busy = map(mean, zip(before, rates(), strict=True))
                        cuts = [1e3 * each for each in quantiles(times, n=100)]
                        print(f"| {'yes' if batch > 1 else 'no'} | {clients} | {rate:.1f} | "
                              f"{rate / base:.2f} | {busy:.0f} | {own_busy:.0f} | {cuts[49]:.0f} | "
                              f"{cuts[98]:.0f} |", flush=True)  # fmt: skip
                    server.terminate()
            calls.terminate()


def serve(judge: str, batch: int, milliseconds: float) -> None:
    """Serve a metric at a free port, and print its address."""
    from posh_reward.cli.serve_command import build_server
    from posh_reward.serve.app import create_app
    from posh_reward.serve.window import BatchedMetric

    metric = BatchedMetric(metric_of(judge), milliseconds, batch=batch)
    metric.score(["A dog."], ["A red dog."])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        build_server(create_app(metric)).run([listening])


def kills(
    folder: Path, count: int = 20, clients: int = 8, texts: int = 1000, seconds: float = 2.0
) -> dict[str, int]:
    """Kill a server ``count`` times, ``seconds`` after it starts; check its clients' scores."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    reference = "A short man in a green coat sleeps under a tree by a lake."
    distinct = [f"A man in coat {number} sleeps near {number % 7} dogs." for number in range(texts)]
    expected = PoSh("fake-model").score(distinct, [reference] * texts)
    command = [*CLI, "--port", str(port), "--judge", "fake-model"]
    command += ["--store", str(folder / "answers.sqlite")]
    remote = RemotePosh(f"http://127.0.0.1:{port}", batch=4, connections=1)
    over, lock, counts = threading.Event(), threading.Lock(), Counter[str]()

    def run_servers() -> None:
        while not over.is_set():
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
                assert server.stderr is not None
                while "served at" not in server.stderr.readline():
                    assert server.poll() is None
                over.wait(seconds if counts["kills"] < count else None)
                server.kill()
                with lock:
                    counts["kills"] += not over.is_set()

    def client(number: int) -> None:
        mine = range(number, texts, clients)
        while counts["kills"] < count or not counts[f"passes of {number}"]:
            for start in range(0, len(mine), 16):
                places = mine[start : start + 16]
                scores = remote.score([distinct[at] for at in places], [reference] * len(places))
                lost = sum(score.f1 is None for score in scores)
                right = [score == expected[at] for at, score in zip(places, scores, strict=True)]
                with lock:
                    counts["answered"] += len(scores) - lost
                    counts["lost"] += lost
                    counts["wrong"] += right.count(False)
            with lock:
                counts[f"passes of {number}"] += 1

    servers = threading.Thread(target=run_servers)
    servers.start()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client, range(clients)))
    over.set()
    servers.join()
    return {name: counts[name] for name in ("kills", "answered", "lost", "wrong")}


def main() -> None:
    """Run one of the commands."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", required=True)
    each = commands.add_parser("load")
    each.add_argument("pairs", type=Path)
    each.add_argument("--seconds", type=float, default=12)
    each = commands.add_parser("kills")
    each.add_argument("--limit", type=int, default=20)
    each = commands.add_parser("server")
    each.add_argument("judge")
    each.add_argument("batch", type=int)
    each.add_argument("milliseconds", type=float)
    each = commands.add_parser("direct")
    each.add_argument("judge")
    each.add_argument("pairs", type=Path)
    flags = parser.parse_args()
    if flags.command == "load":
        load(flags.pairs, flags.seconds)
    elif flags.command == "kills":
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(kills(Path(folder), flags.limit)))
    elif flags.command == "server":
        serve(flags.judge, flags.batch, flags.milliseconds)
    else:
        direct(flags.judge, flags.pairs)


if __name__ == "__main__":
    main()
