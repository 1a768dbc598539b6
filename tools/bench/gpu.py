"""How many pairs a second a judge of Qwen3-14B's shape scores, and how near that is to the floor.

    python tools/bench/gpu.py --goldens GOLDENS.jsonl --tokenizer FOLDER [--json PATH]
    python tools/bench/gpu.py --small ...                       # a small model, also on a CPU
    python tools/bench/gpu.py --judge vllm ...                  # writes 30 GB to a temporary folder

Weights are random, so nothing is fetched, and their answers mean nothing: every prompt is really
computed, but which questions follow is decided by the recorded grades and phrases of the goldens.
Two things differ from real weights: replies never end early (20 tokens for each phrase), and
distributions are flat. The floor is two operations for each weight and each token that cannot be
shared, at the speed of one large bfloat16 product in the same run.

Exit status 1 if a judgment fails, or answers differ from those of each prompt alone.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from posh_reward.models.base import Model, Prompt
from posh_reward.models.packed import TransformersModel
from tools.bench.forwarding import Clock, Figures, Forwarding, clock_of, measure, questions
from tools.bench.qwen import qwen_tokenizer
from tools.bench.random_qwen import SHAPES, random_model
from tools.bench.unshared import Difference, difference, ratios
from tools.goldens import load

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PRESETS = ("released", "prefix-first")
FLOAT32_TOLERANCE = 1e-4
"""Most by which a grade may differ from that of the prompt alone, in float32."""
BFLOAT16_TOLERANCE = 0.1
"""The same in bfloat16."""
SAMPLE = 24
"""Prompts that are compared."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is measured where."""

    shape: str
    device: torch.device
    dtype: torch.dtype

    @staticmethod
    def of(options: argparse.Namespace) -> Setting:
        """The setting that the command line asks for."""
        import torch

        card = torch.cuda.is_available()
        if not card and not options.small:
            raise SystemExit("there is no CUDA card here: give --small to try it on the CPU")
        device = torch.device("cuda", torch.cuda.current_device()) if card else torch.device("cpu")
        shape = options.shape or ("small" if options.small else "Qwen3-14B")
        large = shape == "Qwen3-14B"
        return Setting(shape, device, torch.bfloat16 if large else torch.float32)

    @property
    def tolerance(self) -> float:
        """Of grades."""
        return BFLOAT16_TOLERANCE if self.dtype.itemsize == 2 else FLOAT32_TOLERANCE

    def __str__(self) -> str:
        import torch

        card = self.device.type == "cuda"
        where = torch.cuda.get_device_name(self.device) if card else "CPU"
        return f"{self.shape} in {str(self.dtype).removeprefix('torch.')} on {where}"


def product_speed(device: torch.device, clock: Clock) -> float:
    """Operations a second of a large product, the fastest of some: bfloat16 on a card."""
    import torch

    card = device.type == "cuda"
    size, dtype = (8192, torch.bfloat16) if card else (1024, torch.float32)
    first, second = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    times = []
    for _ in range(20):
        with finished(device):
            start = clock()
            with finished(device):
                torch.mm(first, second)
            times.append(clock() - start)
    return 2 * size**3 / min(times)


@contextmanager
def finished(device: torch.device) -> Iterator[None]:
    """Waits until a card has done what it was given within."""
    import torch

    yield
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Judges:
    """Makes judges of one random model, their caches empty."""

    def __init__(
        self,
        options: argparse.Namespace,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
    ) -> None:
        self._files = tempfile.TemporaryDirectory() if options.judge == "vllm" else None
        self._vllm = {"python": options.vllm_python, "memory_gb": options.memory_gb}
        self._model = model
        self._tokenizer = tokenizer
        if self._files:
            model.save_pretrained(self._files.name)
            tokenizer.save_pretrained(self._files.name)

    def make(self) -> Model:
        """Another judge, not awake yet."""
        if self._files is None:
            return TransformersModel.of(self._model, self._tokenizer, "bench", sleep=False)
        from posh_reward.models.vllm import VllmModel

        dtype = str(self._model.dtype).removeprefix("torch.")
        return VllmModel(self._files.name, dtype=dtype, **self._vllm)


def compare(
    setting: Setting,
    judges: Judges,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    waves: Sequence[Sequence[Prompt]],
) -> dict[str, Difference]:
    """Compares packed grades with those of each prompt alone."""
    import torch

    prompts = [each for wave in waves for each in wave]
    sample = prompts[:: max(len(prompts) // SAMPLE, 1)]
    plain = random_model("tiny", torch.device("cpu"), torch.float32)
    # Copied, not made there: the same seed gives other numbers on another device.
    here = random_model("tiny", torch.device("cpu"), torch.float32).to(setting.device)
    packed = TransformersModel.of(here, tokenizer, "bench", memory_gb=0.5)
    with closing(judges.make()) as judge:
        differences = {
            "a tiny model in float32, packed here and alone on the CPU": difference(
                packed, plain, tokenizer, sample, FLOAT32_TOLERANCE
            ),
            f"{setting}, by the judge and alone": difference(
                judge, model, tokenizer, sample, setting.tolerance
            ),
        }
    for what, found in differences.items():
        print(
            f"largest difference of a grade, {what}: {found.largest:.1e} "
            f"(bound {found.bound}, grades {found.spread:.1g} apart)",
            flush=True,
        )
    return differences


def report(figures: Sequence[Figures], speed: float) -> None:
    """Prints one line for each preset."""
    print(f"large product: {speed / 1e12:.2f} TFLOP/s")
    print(
        f"{'preset':13}{'pairs':>6}{'s/pair':>9}{'grading':>9}{'writing':>9}{'pairs/s':>9}"
        f"{'submitted':>11}{'computed':>10}{'decoded':>9}{'TFLOP/s':>9}{'floor':>8}{'x floor':>9}"
    )
    for f in figures:
        print(
            f"{f.preset:13}{f.pairs:6}{f.per_pair:9.3f}{f.grading / f.pairs:9.3f}"
            f"{f.rewriting / f.pairs:9.3f}{1 / f.per_pair:9.3f}{f.submitted / f.pairs:11.0f}"
            f"{f.computed / f.pairs:10.0f}{f.decoded / f.pairs:9.0f}{f.tflops:9.2f}"
            f"{f.floor / f.pairs:8.3f}{f.seconds / f.floor:9.2f}"
        )
    print("seconds and tokens are per pair")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures and prints everything."""
    import torch

    setting = Setting.of(options)
    goldens = load(options.goldens)[: options.pairs or (3 if options.small else None)]
    tokenizer = qwen_tokenizer(options.tokenizer)
    model = random_model(setting.shape, setting.device, setting.dtype)
    speed = product_speed(setting.device, clock_of(model))
    print(f"{setting}, {len(goldens)} pairs, judge {options.judge}", flush=True)
    judges = Judges(options, model, tokenizer)
    figures: list[Figures] = []
    asked: dict[str, Forwarding] = {}
    for preset in options.presets:
        with closing(judges.make()) as judge:
            clock = time.perf_counter if options.judge == "vllm" else clock_of(model)
            one, asked[preset] = measure(judge, preset, goldens, model, speed, clock)
        figures.append(one)
    peak = torch.cuda.max_memory_allocated() if setting.device.type == "cuda" else 0
    report(figures, speed)
    print(f"peak memory of the card: {peak / 1e9:.1f} GB", flush=True)
    first = options.presets[0]
    waves = questions(asked[first], first, goldens[: options.compared])
    differences = compare(setting, judges, model, tokenizer, waves)
    seconds = ratios(model, tokenizer, waves)
    for other in ("padded", "alone"):
        print(f"packed is {seconds[other] / seconds['packed']:.1f} times as fast as {other}")
    failures = sum(each.failures for each in figures)
    sound = not failures and all(found.sound for found in differences.values())
    return {
        "setting": str(setting),
        "judge": options.judge,
        "matmul_tflops": speed / 1e12,
        "presets": [{**asdict(f), "x_floor": f.seconds / f.floor} for f in figures],
        "differences": {what: asdict(found) for what, found in differences.items()},
        "seconds_of_the_same_questions": seconds,
        "peak_gb": peak / 1e9,
        "failures": failures,
        "sound": sound,
    }


def main() -> int:
    """0 if all went well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--goldens", type=Path, required=True, help="goldens.jsonl")
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder with Qwen's")
    parser.add_argument("--judge", choices=("transformers", "vllm"), default="transformers")
    parser.add_argument("--small", action="store_true", help="a small model, on what there is")
    parser.add_argument("--shape", choices=sorted(SHAPES), help="another shape of the model")
    parser.add_argument("--pairs", type=int, help="of the goldens; all, or 3 if small")
    parser.add_argument("--compared", type=int, default=1, help="pairs for packed against alone")
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=PRESETS)
    parser.add_argument("--vllm-python", help="interpreter that has vLLM, if not this one")
    parser.add_argument("--memory-gb", type=float, default=32.0, help="of vLLM, for prefixes")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    # Of random weights nobody expects labels.
    logging.getLogger("posh_reward.metrics.posh.judges.prompted").setLevel(logging.ERROR)
    started = time.perf_counter()
    found = run(options)
    found["total_seconds"] = time.perf_counter() - started
    print("all judgments made, all answers equal" if found["sound"] else "FAILED: see above")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0 if found["sound"] else 1


if __name__ == "__main__":
    sys.exit(main())
