"""Child processes of the doctor: each runs one trial and prints a line of JSON.

    python -m posh_reward.training.doctor.trial judge SETTINGS
    python -m posh_reward.training.doctor.trial ranks
    python -m posh_reward.training.doctor.trial zero3 FOLDER

``ranks`` and ``zero3`` run once per rank, with torch's variables (RANK, WORLD_SIZE, ...).
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta
from typing import Any

from posh_reward.errors import PoshError

WIDTH = 512  # of a layer: more parameters than DeepSpeed keeps whole on each rank (100,000)
PAIRS = (
    ("A man in a red coat with a dog.", "A tall man in a red coat."),
    ("A woman holds a green umbrella.", "A woman in a hat holds an umbrella."),
)
"""Generations and references. The second is scored after the engine has slept."""
SECONDS = 30  # timeout of a collective


def judge(settings: str) -> dict[str, float]:
    """Score two pairs in two calls, so that the judge's engine wakes, sleeps and wakes again."""
    from posh_reward.metrics.load_metric import load_metric

    metric = load_metric(json.loads(settings))
    result: dict[str, float] = {}
    for name, (generation, reference) in zip(("first", "second"), PAIRS, strict=True):
        began = time.perf_counter()
        [score] = metric.score([generation], [reference])
        if score.failure is not None:
            raise PoshError(str(score.failure))
        result[name] = time.perf_counter() - began
        result["f1"] = float(score.f1 or 0.0)
    return result


def ranks() -> dict[str, float]:
    """Sum a tensor over all ranks, by NCCL on cards and gloo without."""
    import torch
    import torch.distributed as dist

    device = _device()
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=SECONDS))
    world = dist.get_world_size()
    numbers = torch.full((1 << 20,), float(dist.get_rank()), device=device)
    dist.all_reduce(numbers)
    began = time.perf_counter()
    dist.all_reduce(torch.ones(1 << 24, device=device))  # 64 MiB
    seconds = time.perf_counter() - began
    dist.destroy_process_group()
    if numbers[0].item() != world * (world - 1) / 2:
        raise PoshError(f"the sum of {world} ranks is {numbers[0].item():g}")
    return {"seconds": seconds}


def zero3(folder: str) -> dict[str, float]:
    """Train a tiny model one step under ZeRO-3, save it, load it into another, and compare."""
    import deepspeed
    import torch

    device = _device()
    deepspeed.init_distributed("nccl" if device.type == "cuda" else "gloo")
    config = {
        "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True},
        "zero_optimization": {"stage": 3},
    }  # fmt: skip

    def engine(seed: int) -> Any:
        torch.manual_seed(seed)
        layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2)]
        model = torch.nn.Sequential(*layers)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        return deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]

    batch = torch.ones(1, WIDTH, dtype=torch.bfloat16, device=device)
    ours, other = engine(0), engine(1)
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


def _device() -> Any:
    import torch

    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cuda", torch.cuda.current_device())


def main(what: str, *arguments: str) -> int:
    """Run one trial, and print its result or failure as the last line of standard output."""
    try:
        result: dict[str, Any] = {"judge": judge, "ranks": ranks, "zero3": zero3}[what](*arguments)  # type: ignore[operator]
    except Exception as error:  # libraries raise anything, and all of it is a result
        lines = (str(error).strip() or type(error).__name__).splitlines()
        result = {"failure": f"{type(error).__name__}: {lines[0]}"}
    print(json.dumps(result), flush=True)
    return int("failure" in result)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
