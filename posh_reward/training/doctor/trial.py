"""Child processes of the doctor: each runs one trial and prints a line of JSON.

    python -m posh_reward.training.doctor.trial judge DEVICE WAKINGS SETTINGS CHECK
    python -m posh_reward.training.doctor.trial ranks DEVICE SECONDS
    python -m posh_reward.training.doctor.trial zero3 DEVICE SECONDS FOLDER
    python -m posh_reward.training.doctor.trial train DEVICE CONFIG [flags of the recipe]

DEVICE is "cuda" or "cpu": a trial for GPUs fails without them. All but ``judge`` run once per rank,
with torch's variables (RANK, WORLD_SIZE, ...).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from posh_reward.errors import JudgeError, PoshError

LAYER_WIDTH = 512  # of a layer: more parameters than DeepSpeed keeps whole on each rank (100,000)
GENERATION = "A man in a red coat with a dog holds a green umbrella."
REFERENCE = "A tall man in a red coat holds an umbrella, and a woman in a hat sleeps."
MAX_GRADE_CHANGE = 0.05
"""Largest difference of a grade after a waking: bfloat16 alone moved grades by up to 0.038."""
GIB = 2**30
LOGGED_KEYS = {
    "at": "step",
    "loss": "loss",
    "reward": "reward",
    "failed": "posh/failed_share",
    "gradient": "grad_norm",
    "cut": "completions/clipped_ratio",
    "moved": "weights_moved",
    "gap": "sampling/sampling_logp_difference/mean",  # only with vLLM's importance correction
}
"""Names of a step's figures -> those in the trainer's log."""


def grade_after_wakings(device: str, wakings: str, settings: str, check: str) -> dict[str, Any]:
    """Score a pair after each waking of the judge's engine, which must not change its grades.

    A judge that cannot judge fails (``check_judge``), unless ``check`` is "false".
    """
    from posh_reward.models.vllm.vllm_model import separate_vllm_caches
    from posh_reward.posh.check import check_judge
    from posh_reward.posh.load_metric import load_metric

    separate_vllm_caches(os.environ)  # compiles where the first rank of a run will look
    _select_device(device)
    metric = load_metric(json.loads(settings))
    metric.graph_reader.read([GENERATION])  # loads the parser, and compiles its kernels
    began = time.perf_counter()
    metric.graph_reader.read([REFERENCE])
    result: dict[str, Any] = {"reading": time.perf_counter() - began, **_reader_devices(metric)}
    before = _used_gib(device)
    graded: list[list[float]] = []
    for name in ("waking", "sleeping", "scoring", "awake", "asleep"):
        result[name] = []
    for _ in range(int(wakings)):
        began = time.perf_counter()
        metric.judge.wake()
        result["waking"].append(time.perf_counter() - began)
        result["awake"].append(_used_gib(device) - before)
        began = time.perf_counter()
        metric.judge.sleep()
        result["sleeping"].append(time.perf_counter() - began)
        result["asleep"].append(_used_gib(device) - before)
        began = time.perf_counter()
        [score] = metric.score([GENERATION], [REFERENCE])
        result["scoring"].append(time.perf_counter() - began)
        if score.failure is not None:
            raise PoshError(str(score.failure))
        graded.append([element.grade or 0.0 for element in score.elements])
    if json.loads(check):
        check_judge(metric)
    changes = [0.0]
    for grades in graded:
        changes += [abs(first - later) for first, later in zip(graded[0], grades, strict=False)]
    result["moved"] = max(changes)
    if result["moved"] > MAX_GRADE_CHANGE or len({len(grades) for grades in graded}) > 1:
        raise JudgeError(
            f"grades move by {result['moved']:.2f} after the judge has slept and woken: vLLM has "
            "lost its weights; set sleep: false, or use another version of vLLM"
        )
    return result


def _reader_devices(metric: Any) -> dict[str, str]:
    """Return the devices of the parser and of Maverick, if the metric has them."""
    from posh_reward.graph.parse import is_on_gpu

    devices = {"parser": "GPU" if is_on_gpu(metric.graph_reader.nlp) else "CPU"}
    if hasattr(metric.graph_reader.coref, "on_gpu"):
        devices["coref"] = "GPU" if metric.graph_reader.coref.on_gpu else "CPU"
    return devices


def sum_over_ranks(device: str, seconds: str) -> dict[str, Any]:
    """Sum a tensor over all ranks, by NCCL on GPUs and gloo on the CPU."""
    import torch
    import torch.distributed as dist

    place = _select_device(device)
    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=float(seconds)))
    world = dist.get_world_size()
    numbers = torch.full((1 << 20,), float(dist.get_rank()), device=place)
    dist.all_reduce(numbers)
    began = time.perf_counter()
    total = torch.ones(1 << 24, device=place)  # 64 MiB
    dist.all_reduce(total)
    total[0].item()  # waits for the GPU
    took = time.perf_counter() - began
    dist.destroy_process_group()
    if numbers[0].item() != world * (world - 1) / 2:
        raise PoshError(f"the sum of {world} ranks is {numbers[0].item():g}")
    return {"seconds": took, "backend": backend}


def resume_zero3_step(device: str, seconds: str, folder: str) -> dict[str, Any]:
    """Train a tiny model one step under ZeRO-3, save it, load it into another, and compare."""
    import deepspeed
    import torch

    place = _select_device(device)
    deepspeed.init_distributed(
        "nccl" if device == "cuda" else "gloo", timeout=timedelta(seconds=float(seconds))
    )
    config = {
        "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True},
        "zero_optimization": {"stage": 3},
    }  # fmt: skip

    def build_engine(seed: int) -> Any:
        torch.manual_seed(seed)
        layers = [torch.nn.Linear(LAYER_WIDTH, LAYER_WIDTH, bias=False) for _ in range(2)]
        model = torch.nn.Sequential(*layers)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        return deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]

    batch = torch.ones(1, LAYER_WIDTH, dtype=torch.bfloat16, device=place)
    ours, other = build_engine(0), build_engine(1)
    ours.backward(ours(batch).float().pow(2).mean())
    ours.step()
    ours.save_checkpoint(folder, tag="step1")
    path, _ = other.load_checkpoint(folder, tag="step1")
    with torch.no_grad():
        same = path is not None and torch.equal(ours(batch), other(batch))
    torch.distributed.destroy_process_group()
    if not same:
        raise PoshError("the resumed model computes something else than the saved one")
    return {"ranks": float(os.environ["WORLD_SIZE"])}


def train_and_measure(device: str, config: str, *flags: str) -> dict[str, Any]:
    """Train as the recipe does; return what each step logged, and time and memory by phase."""
    from posh_reward.models.vllm.vllm_model import separate_vllm_caches, set_vllm_defaults
    from posh_reward.training.doctor.diagnosis import load_recipe
    from posh_reward.training.launch import finish, parse_settings, show_headlines, train

    separate_vllm_caches(os.environ)
    set_vllm_defaults(os.environ)
    _select_device(device)
    recipe = load_recipe(Path(config))
    with PhaseMeter(device) as meter:
        script, args, model = parse_settings(recipe.SETTINGS, ["--config", config, *flags])
        trainer = recipe.make_trainer(script, args, model)
        show_headlines(trainer)  # else ``train`` would, and replace the meter
        trainer.on_phase = meter.enter_phase
        train(trainer)
        meter.enter_phase("saving")
        trainer.save_model(args.output_dir)
        trainer.save_state()
    steps = []
    for line in trainer.state.log_history:
        if "reward" in line:
            steps.append({name: line.get(key) for name, key in LOGGED_KEYS.items()})
    rope = set()  # dtypes of the rotary frequencies
    for name, buffer in trainer.model.named_buffers():
        if name.endswith("inv_freq"):
            rope.add(str(buffer.dtype).rpartition(".")[2])
    result = {
        "step": trainer.state.global_step,
        "steps": steps,
        "rope": sorted(rope),
        "runner": _model_runner(trainer),
        "seconds": dict(meter.seconds),
        "gib": {kind: dict(peaks) for kind, peaks in meter.gib.items()},
    }
    finish(trainer)
    return result


def _model_runner(trainer: Any) -> str | None:
    """Return which of its model runners a colocated vLLM runs, V1 or V2; None without one."""
    llm = getattr(getattr(trainer, "vllm_generation", None), "llm", None)
    if llm is None:
        return None
    worker = llm.llm_engine.model_executor.driver_worker
    return "V2" if getattr(worker, "use_v2_model_runner", False) else "V1"


class PhaseMeter:
    """Seconds and most GiB of each phase on this rank's GPU; on a CPU only seconds.

    ``gib`` has three kinds of memory: "card" is in use by all processes, sampled ten times a
    second; "allocated" are torch's tensors in this process; "reserved" includes what torch's
    allocator keeps for later ones.
    """

    def __init__(self, device: str) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.gib: dict[str, dict[str, float]] = {}
        self._device, self._phase, self._began = device, "starting", time.perf_counter()
        self._done = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)

    def enter_phase(self, phase: str) -> None:
        """Begin a phase."""
        if self._device == "cuda":
            self.record_peaks(_torch_peaks())
        now = time.perf_counter()
        self.seconds[self._phase] += now - self._began
        self._phase, self._began = phase, now

    def record_peaks(self, gib: Mapping[str, float]) -> None:
        """Keep the most of each kind of memory in the current phase, which may come again."""
        for kind, value in gib.items():
            peaks = self.gib.setdefault(kind, {})
            peaks[self._phase] = max(peaks.get(self._phase, 0.0), value)

    def __enter__(self) -> PhaseMeter:
        """Begin to sample."""
        if self._device == "cuda":
            self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the last phase."""
        self.enter_phase("done")
        self._done.set()

    def _sample(self) -> None:
        while not self._done.wait(0.1):
            self.record_peaks({"card": _used_gib(self._device)})


def _torch_peaks() -> dict[str, float]:
    """Return the most GiB that torch's allocator had given out and held since the last call."""
    import torch

    peaks = {
        "allocated": torch.cuda.max_memory_allocated() / GIB,
        "reserved": torch.cuda.max_memory_reserved() / GIB,
    }
    torch.cuda.reset_peak_memory_stats()
    return peaks


def _used_gib(device: str) -> float:
    """Return the GiB in use on this rank's GPU, by all processes; 0 on the CPU."""
    if device == "cpu":
        return 0.0
    import torch

    free, total = torch.cuda.mem_get_info()
    return (total - free) / GIB


def _select_device(device: str) -> Any:
    """Return this rank's device; raise PoshError if it is to be a GPU and torch has none."""
    import torch

    if device == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise PoshError(
            f"torch {torch.__version__} finds no GPU that it can use: check the driver's version, "
            "CUDA_VISIBLE_DEVICES, and that torch is a build with CUDA"
        )
    from posh_reward.process.child import gpu_index

    torch.cuda.set_device(gpu_index(os.environ))
    return torch.device("cuda", torch.cuda.current_device())


TRIALS = {
    "judge": grade_after_wakings,
    "ranks": sum_over_ranks,
    "zero3": resume_zero3_step,
    "train": train_and_measure,
}


def main(what: str, arguments: Sequence[str]) -> int:
    """Run one trial, and print its result or failure as a line of standard output.

    Of the ranks of a training only the first prints its result.
    """
    try:
        result: dict[str, Any] = TRIALS[what](*arguments)  # type: ignore[operator]
    except Exception as error:  # libraries raise anything, and all of it is a result
        lines = (str(error).strip() or type(error).__name__).splitlines()
        result = {"failure": f"{type(error).__name__}: {lines[0]}"}
    if "failure" in result or what != "train" or os.environ.get("RANK", "0") == "0":
        print(f"\n{json.dumps(result)}", flush=True)
    return int("failure" in result)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
