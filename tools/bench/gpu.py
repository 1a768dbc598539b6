"""Measure pairs per second of judges of Qwen3's shapes against a floor, and how they wake.

    python -m tools.bench.gpu GOLDENS.jsonl TOKENIZER [--json PATH]
    python -m tools.bench.gpu --shape Qwen3-1.7B Qwen3-4B Qwen3-14B ...   # one after the other
    python -m tools.bench.gpu --small ...              # a small model, also on a CPU
    python -m tools.bench.gpu --judge vllm ...         # writes 30 GB to a temporary folder

Weights are random, so nothing is downloaded and the answers mean nothing: every prompt is computed,
but the recorded grades and phrases of the goldens decide which questions follow. Unlike with real
weights, replies never end early (20 tokens per phrase), and distributions are flat. The floor is
two operations per weight for each token that cannot be shared, at the speed of one large bfloat16
product in the same run. Before any figure, one pair is scored to warm up.

The JSON file is whole after each preset of each shape, so that a kill costs one preset at most; a
shape's report without "equal" is unfinished. The exit status is 1 if a judgment fails, or if
answers differ from those of each prompt alone.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.models.model import Model, Prompt
from posh_reward.models.packed import TransformersModel
from posh_reward.posh.batch import run_batched
from posh_reward.posh.judge import PromptJudge
from posh_reward.posh.rewriter import Rewriter
from posh_reward.posh.wording import build_prompt
from posh_reward.process.locks import whole_file
from posh_reward.process.resources import BYTES_PER_GIB
from posh_reward.types import Phrase, Question, Reply, Usage, Verdict
from tools.bench.qwen import SHAPES, qwen_tokenizer, random_model
from tools.bench.unshared import clock_of, compare, ratios
from tools.goldens import SIDES, Golden, ReplayJudge, both_ways, load, read_golden

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Clock = Callable[[], float]
PRESETS = ("released", "prefix-first")
SLEEP_REPEATS = 3


class Forwarding(ReplayJudge):
    """Judge that asks a language model everything, but returns the goldens' answers."""

    def __init__(self, judge: PromptJudge, goldens: Sequence[Golden], clock: Clock) -> None:
        super().__init__(*goldens)
        self.waves: list[list[Question]] = []  # the questions of each call
        self.grading = self.rewriting = 0.0  # seconds that the model took
        self._judge, self._clock = judge, clock

    def grade(self, requests: Sequence[Question]) -> list[Verdict]:
        """Return the recorded distributions."""
        self.waves.append(list(requests))
        start = self._clock()
        self._judge.grade(requests)
        self.grading += self._clock() - start
        return super().grade(requests)

    def rewrite(self, requests: Sequence[Phrase]) -> list[Reply]:
        """Return the recorded phrases."""
        start = self._clock()
        self._judge.rewrite(requests)
        self.rewriting += self._clock() - start
        return super().rewrite(requests)

    def prompts(self, preset: str, of: Sequence[Golden]) -> list[list[Prompt]]:
        """Return the prompts of each call about these pairs, in the model's order."""
        texts = {golden[side] for golden in of for side in SIDES}
        waves = [
            {build_prompt(r, preset) for r in wave if r.source.text in texts} for wave in self.waves
        ]
        return [sorted(wave, key=lambda p: (p.prefix, p.suffix)) for wave in waves if wave]


@dataclass(frozen=True, slots=True)
class Figures:
    """Cost of scoring all pairs with one preset, in seconds and tokens."""

    preset: str
    pairs: int
    seconds: float
    grading: float  # part of ``seconds``
    rewriting: float  # part of ``seconds``
    submitted: int
    computed: int
    decoded: int
    tflops: float  # the floor's operations per measured second
    floor: float  # seconds of these operations at the speed of a large product
    x_floor: float  # seconds as a multiple of the floor; lower is better
    peak_gib: float  # of this process's tensors on the GPU; 0 without one
    failures: int

    def __str__(self) -> str:
        parts = (self.seconds, self.grading, self.rewriting)
        tokens = (self.submitted, self.computed, self.decoded)
        return (
            f"{self.preset:13}{self.pairs:6}"
            + "".join(f"{part / self.pairs:9.3f}" for part in parts)
            + f"{self.pairs / self.seconds:9.3f}"
            + "".join(f"{count / self.pairs:11.0f}" for count in tokens)
            + f"{self.tflops:9.2f}{self.floor / self.pairs:8.3f}{self.x_floor:9.2f}"
            + f"{self.peak_gib:10.2f}"
        )


HEADER = (
    f"{'preset':13}{'pairs':>6}{'s/pair':>9}{'grading':>9}{'writing':>9}{'pairs/s':>9}"
    f"{'submitted':>11}{'computed':>11}{'decoded':>11}{'TFLOP/s':>9}{'floor':>8}{'x floor':>9}"
    f"{'peak GiB':>10}"
)


@dataclass(frozen=True, slots=True)
class Sleep:
    """A judge's sleep: seconds to fall asleep and to wake, and GiB in use on the GPU after each.

    The first sleep makes the copy in host memory. Without a GPU nothing moves.
    """

    sleep_seconds: float
    asleep_gib: float
    wake_seconds: float
    awake_gib: float

    def __str__(self) -> str:
        return (
            f"sleep {self.sleep_seconds:.2f} s, then {self.asleep_gib:.1f} GiB on the GPU; "
            f"wake {self.wake_seconds:.2f} s, then {self.awake_gib:.1f} GiB"
        )


def measure(
    model: Model, preset: str, goldens: Sequence[Golden], shape: PreTrainedModel, speed: float,
    clock: Clock,
) -> tuple[Figures, Forwarding]:  # fmt: skip
    """Score the pairs in one batch, with the model awake and its cache empty."""
    import torch

    prompt_judge = PromptJudge(model, preset)
    judge = Forwarding(prompt_judge, goldens, clock)
    steps = both_ways([read_golden(golden) for golden in goldens])
    prompt_judge.wake()
    gpu = shape.device.type == "cuda"
    if gpu:
        torch.cuda.reset_peak_memory_stats(shape.device)
    start = clock()
    examined = run_batched(steps, judge, Rewriter(judge))
    seconds = clock() - start
    assert not any(each.failure for each in examined)
    usage = model.usage
    operations = floor_operations(shape, usage)
    figures = Figures(
        preset, len(goldens), seconds, judge.grading, judge.rewriting,
        usage.prompt_tokens_submitted, usage.prompt_tokens_computed, usage.tokens_decoded,
        operations / seconds / 1e12, operations / speed, seconds * speed / operations,
        torch.cuda.max_memory_allocated(shape.device) / BYTES_PER_GIB if gpu else 0.0,
        sum(usage.failures.values()),
    )  # fmt: skip
    return figures, judge


def floor_operations(model: PreTrainedModel, usage: Usage) -> int:
    """Count two per weight: layers for each token, the head for each token of an answer.

    A prompt's last token yields the first of its answer. Attention is not counted.
    """
    layers: int = sum(p.numel() for p in model.get_decoder().layers.parameters())
    head: int = model.get_output_embeddings().weight.numel()
    answers = usage.requests + usage.rewrites - usage.cache_hits
    passed = usage.prompt_tokens_computed + usage.tokens_decoded - answers
    return 2 * (layers * passed + head * usage.tokens_decoded)


def product_speed(device: torch.device, clock: Clock) -> float:
    """Measure operations per second of a large product, the fastest of 20."""
    import torch

    gpu = device.type == "cuda"

    def finish() -> None:
        if gpu:
            torch.cuda.synchronize(device)

    size, dtype = (8192, torch.bfloat16) if gpu else (1024, torch.float32)
    first, second = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    times = []
    for _ in range(20):
        finish()
        start = clock()
        torch.mm(first, second)
        finish()
        times.append(clock() - start)
    return 2 * size**3 / min(times)


def sleeps(judge: Model, device: torch.device, clock: Clock) -> Iterator[Sleep]:
    """Let an awake judge sleep and wake, and measure both."""
    import torch

    def in_use() -> float:
        """Of all processes: an engine has its own."""
        if device.type != "cuda":
            return 0.0
        free, total = torch.cuda.mem_get_info(device)
        return (total - free) / BYTES_PER_GIB

    for _ in range(SLEEP_REPEATS):
        start = clock()
        judge.sleep()
        asleep, asleep_gib = clock(), in_use()
        waking = clock()
        judge.wake()
        yield Sleep(asleep - start, asleep_gib, clock() - waking, in_use())


def device_of(options: argparse.Namespace) -> torch.device:
    """The GPU; with ``--small`` and without one, the CPU."""
    import torch

    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    if not options.small:
        raise SystemExit("no CUDA GPU found: add --small to run on the CPU")
    return torch.device("cpu")


def judges(
    options: argparse.Namespace,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
) -> Callable[[], Model]:
    """Return a function that makes a sleeping judge of the random model, its cache empty."""
    if options.judge == "transformers":
        return lambda: TransformersModel.of(model, tokenizer, "bench")
    from posh_reward.models.vllm import VllmModel

    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    dtype = str(model.dtype).removeprefix("torch.")
    python, memory_gb = options.vllm_python, options.memory_gb
    return lambda: VllmModel(str(folder), dtype=dtype, python=python, memory_gb=memory_gb)


def reports(options: argparse.Namespace, shape: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Measure and print everything of one shape; yield the report whenever it has grown."""
    import torch

    device, tokenizer = device_of(options), qwen_tokenizer(options.tokenizer)
    dtype = torch.bfloat16 if shape.startswith("Qwen3") else torch.float32
    model = random_model(shape, device, dtype)
    goldens = load(options.goldens)[: options.limit or (3 if options.small else None)]
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    setting = f"{shape} in {str(dtype).removeprefix('torch.')} on {where}"
    speed = product_speed(device, clock_of(model))
    print(f"{setting}, {len(goldens)} pairs, judge {options.judge}")
    print(f"large product: {speed / 1e12:.2f} TFLOP/s", flush=True)
    judge_of = judges(options, model, tokenizer, folder)
    clock = time.perf_counter if options.judge == "vllm" else clock_of(model)
    first = options.presets[0]
    with closing(judge_of()) as judge:
        measure(judge, first, goldens[:1], model, speed, clock)  # to warm up
    report: dict[str, Any] = {
        "setting": setting, "judge": options.judge, "matmul_tflops": speed / 1e12, "presets": [],
    }  # fmt: skip
    measured: dict[str, tuple[Figures, Forwarding]] = {}
    print("seconds and tokens are per pair", HEADER, sep="\n")
    for preset in options.presets:
        with closing(judge_of()) as judge:
            measured[preset] = measure(judge, preset, goldens, model, speed, clock)
        figures = measured[preset][0]
        print(figures, flush=True)
        report["presets"].append(asdict(figures))
        yield report
    with closing(judge_of()) as judge:
        judge.wake()
        slept = list(sleeps(judge, device, clock))
        print(*slept, sep="\n", flush=True)
        yield report | {"sleeps": [asdict(each) for each in slept]}
        waves = measured[first][1].prompts(first, goldens[: options.compared])
        differences = compare(setting, judge, model, tokenizer, waves)
    seconds = ratios(model, tokenizer, waves)
    for other in ("padded", "alone"):
        print(f"packed is {seconds[other] / seconds['packed']:.1f} times as fast as {other}")
    failures = sum(each.failures for each, _ in measured.values())
    yield report | {
        "sleeps": [asdict(each) for each in slept],
        "differences": {what: asdict(each) for what, each in differences.items()},
        "seconds_of_the_same_questions": seconds,
        "failures": failures,
        "equal": not failures and all(each.agrees for each in differences.values()),
    }


def free_memory() -> None:
    """Give back what an earlier model took on the GPU."""
    import torch

    gc.collect()
    torch.cuda.empty_cache()  # does nothing without CUDA


def run(options: argparse.Namespace, folder: Path) -> bool:
    """Measure each shape; True if all judgments were made, and all answers are equal."""
    started = time.perf_counter()
    by_shape: dict[str, Mapping[str, Any]] = {}
    for shape in options.shape:
        for report in reports(options, shape, folder / shape):
            took = time.perf_counter() - started
            by_shape[shape] = report
            if options.json:
                whole = {"shapes": by_shape, "total_seconds": took}
                with whole_file(options.json) as file:
                    file.write(json.dumps(whole, indent=2).encode() + b"\n")
        free_memory()
    return all(report["equal"] for report in by_shape.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; 0 if all went well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("goldens", type=Path, help="goldens.jsonl")
    parser.add_argument("tokenizer", type=Path, help="folder of Qwen's tokenizer")
    parser.add_argument("--judge", choices=("transformers", "vllm"), default="transformers")
    parser.add_argument("--small", action="store_true", help="a small model, with or without GPU")
    parser.add_argument(
        "--shape", nargs="+", choices=sorted(SHAPES), help="other shapes, one after the other"
    )
    parser.add_argument("--limit", type=int, help="how many goldens; all, or 3 if small")
    parser.add_argument("--compared", type=int, default=1, help="pairs for packed against alone")
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=PRESETS)
    parser.add_argument("--vllm-python", help="interpreter that has vLLM, if not this one")
    parser.add_argument("--memory-gb", type=float, default=32.0, help="of vLLM, for prefixes")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    options.shape = options.shape or ["small" if options.small else "Qwen3-14B"]
    # Random weights do not reply with labels: leave out the warnings about it.
    logging.getLogger("posh_reward.models.asker").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        equal = run(options, Path(folder))
    print("all judgments made, all answers equal" if equal else "FAILED: see above")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
