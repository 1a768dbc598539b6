"""A served metric under load, beside direct calls of it, and under SIGKILL.

    OMP_NUM_THREADS=1 python -m tools.bench.serve load --pairs PLANTED_DEV.json [--seconds 20]
    OMP_NUM_THREADS=1 python -m tools.bench.serve kills [--count 20]

load: pairs a second, and the 50th and 99th percentile of a request's milliseconds, at 1, 8 and 64
clients that each ask for one pair after the other: with batching, and without (``--batch 1``).
Before and after, direct calls in a process of their own: all pairs at once, and one at a time.
Ratios are to the mean of the direct calls at once, of the same run. Two judges: the embedded one,
which is busy for every pair, and a stand-in for a language model on a card, which takes 100 ms for
a call however many questions it has. The server and the clients have a process each.

kills: a server with a store is killed with SIGKILL under the load of some clients and started
again, again and again. Each text is unlike the others; its scores are compared with a direct call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, quantiles

from posh_reward import PoSh
from posh_reward.metrics.posh.judges.prompt_judge import PromptJudge
from posh_reward.models.fake_model import FakeModel, quoted_words
from posh_reward.models.model import Prompt
from posh_reward.serve.client import RemotePosh
from posh_reward.types import Reply, Verdict

CLIENTS = (1, 8, 64)
CALL_SECONDS = 0.1
"""Of the stand-in for a language model."""
CLI = [sys.executable, "-m", "posh_reward.cli", "serve"]
Pair = tuple[str, str]


class SlowModel(FakeModel):
    """A model whose calls take as long as a card's, whatever they hold."""

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
    """The metric with the judge ``embedded`` or ``stand-in``."""
    if judge == "embedded":
        return PoSh()
    return PoSh(PromptJudge(SlowModel(grader=quoted_words)))


def read_pairs(path: Path) -> list[Pair]:
    """Faithful texts with their references."""
    items = json.loads(path.read_text(encoding="utf-8"))
    return [(each["faithful"], each["reference"]) for each in items]


def direct(judge: str, pairs: Sequence[Pair], seconds: float) -> dict[str, float]:
    """Pairs a second of direct calls, at once and one at a time."""
    posh = metric_of(judge)
    posh.score(*map(list, zip(*pairs[:2], strict=True)))
    rates = {}
    for name, size in (("at once", len(pairs)), ("one at a time", 1)):
        done, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            batch = [pairs[(done + place) % len(pairs)] for place in range(size)]
            posh.score(*map(list, zip(*batch, strict=True)))
            done += size
        rates[name] = done / (time.perf_counter() - begun)
    return rates


async def ask(url: str, pairs: Sequence[Pair], clients: int, seconds: float) -> dict[str, float]:
    """Pairs a second and milliseconds a request of some clients, each with one pair at a time."""
    import httpx

    times: list[float] = []
    places = iter(range(10**9))
    end = time.perf_counter() + seconds

    async def client(connection: httpx.AsyncClient) -> None:
        while (begun := time.perf_counter()) < end:
            text, reference = pairs[next(places) % len(pairs)]
            body = {"rows": [{"generation": text, "reference": reference}]}
            reply = (await connection.post("/v1/score", json=body)).json()
            assert reply["scores"][0]["generation"] == text.strip()
            times.append(time.perf_counter() - begun)

    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=600) as connection:
        begun = time.perf_counter()
        await asyncio.gather(*(client(connection) for _ in range(clients)))
        spent = time.perf_counter() - begun
    cuts = quantiles(times, n=100) if len(times) > 1 else [times[0]] * 99
    return {"pairs": len(times) / spent, "p50": 1e3 * cuts[49], "p99": 1e3 * cuts[98]}


def load(path: Path, seconds: float) -> None:
    """Print the table of docs/performance.md."""
    pairs = read_pairs(path)
    own = [sys.executable, "-m", "tools.bench.serve"]
    for judge in ("embedded", "stand-in"):
        aside = [*own, "direct", judge, str(path), str(seconds)]
        before = json.loads(subprocess.check_output(aside))
        rows = []
        for batch, window in ((256, 5), (1, 0)):
            with subprocess.Popen(
                [*own, "server", judge, str(batch), str(window)], stdout=subprocess.PIPE, text=True
            ) as server:
                assert server.stdout is not None
                url = server.stdout.readline().strip()
                asyncio.run(ask(url, pairs, 1, 2))  # warm
                for clients in CLIENTS:
                    figures = asyncio.run(ask(url, pairs, clients, seconds))
                    rows.append(("yes" if batch > 1 else "no", clients, figures))
                server.terminate()
        after = json.loads(subprocess.check_output(aside))
        whole, single = (mean((before[n], after[n])) for n in ("at once", "one at a time"))
        spread = abs(before["at once"] - after["at once"]) / whole
        print(f"{judge}: direct, {len(pairs)} at once {whole:.1f} pairs/s (before and after differ "
              f"by {spread:.0%}), one at a time {single:.1f} ({single / whole:.2f})")  # fmt: skip
        print("| batching | clients | pairs/s | of direct | p50 ms | p99 ms |")
        print("|---|---|---|---|---|---|")
        for batching, clients, each in rows:
            rate = each["pairs"]
            print(f"| {batching} | {clients} | {rate:.1f} | {rate / whole:.2f} | {each['p50']:.0f} "
                  f"| {each['p99']:.0f} |", flush=True)  # fmt: skip


def serve(judge: str, batch: int, milliseconds: float) -> None:
    """Serve a metric at a free port, and print its address."""
    import socket

    import uvicorn

    from posh_reward.serve.app import create_app
    from posh_reward.serve.window import BatchedMetric

    metric = BatchedMetric(metric_of(judge), milliseconds, batch=batch)
    metric.score(["A dog."], ["A red dog."])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        config = uvicorn.Config(create_app(metric), log_level="error", lifespan="off")
        uvicorn.Server(config).run([listening])


def kills(
    folder: Path, count: int = 20, clients: int = 8, texts: int = 1000, seconds: float = 2.0
) -> dict[str, int]:
    """Kill a server ``count`` times, ``seconds`` after it is up; check what its clients get."""
    port, reference = _free_port(), "A short man in a green coat sleeps under a tree by a lake."
    distinct = [f"A man in coat {number} sleeps near {number % 7} dogs." for number in range(texts)]
    expected = PoSh("fake-model").score(distinct, [reference] * texts)
    command = [*CLI, "--port", str(port), "--judge", "fake-model"]
    command += ["--store", str(folder / "answers.sqlite")]
    remote = RemotePosh(f"http://127.0.0.1:{port}", batch=4, connections=1)
    over, lock, found = threading.Event(), threading.Lock(), Counter[str]()

    def run_servers() -> None:
        while not over.is_set():
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
                assert server.stderr is not None
                while "served at" not in server.stderr.readline():
                    assert server.poll() is None
                over.wait(seconds if found["kills"] < count else None)
                server.kill()
                with lock:
                    found["kills"] += not over.is_set()

    def client(number: int) -> None:
        mine = range(number, texts, clients)
        while found["kills"] < count or not found[f"passes of {number}"]:
            for start in range(0, len(mine), 16):
                places = mine[start : start + 16]
                scores = remote.score([distinct[at] for at in places], [reference] * len(places))
                lost = sum(score.f1 is None for score in scores)
                right = [score == expected[at] for at, score in zip(places, scores, strict=True)]
                with lock:
                    found["answered"] += len(scores) - lost
                    found["lost"] += lost
                    found["wrong"] += right.count(False)
            with lock:
                found[f"passes of {number}"] += 1

    servers = threading.Thread(target=run_servers)
    servers.start()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client, range(clients)))
    over.set()
    servers.join()
    return {name: found[name] for name in ("kills", "answered", "lost", "wrong")}


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> None:
    """Run one of the commands."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", required=True)
    each = commands.add_parser("load")
    each.add_argument("--pairs", type=Path, required=True)
    each.add_argument("--seconds", type=float, default=20)
    each = commands.add_parser("kills")
    each.add_argument("--count", type=int, default=20)
    each = commands.add_parser("server")
    each.add_argument("judge")
    each.add_argument("batch", type=int)
    each.add_argument("milliseconds", type=float)
    each = commands.add_parser("direct")
    each.add_argument("judge")
    each.add_argument("pairs", type=Path)
    each.add_argument("seconds", type=float)
    flags = parser.parse_args()
    if flags.command == "load":
        load(flags.pairs, flags.seconds)
    elif flags.command == "kills":
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(kills(Path(folder), flags.count)))
    elif flags.command == "server":
        serve(flags.judge, flags.batch, flags.milliseconds)
    else:
        print(json.dumps(direct(flags.judge, read_pairs(flags.pairs), flags.seconds)))


if __name__ == "__main__":
    main()
