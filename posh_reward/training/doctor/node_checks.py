"""Checks of a machine: GPUs, compilers, memory, files, ports."""

from __future__ import annotations

import math
import os
import shutil
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from posh_reward.errors import install_command
from posh_reward.process.child import run_command
from posh_reward.process.resources import KERNEL_ROOT, host_memory, most_host_memory

State = Literal["ok", "warning", "FAILED", "skipped"]

GIB, GB = 2**30, 10**9
SHARED_MEMORY_GIB = 1.0  # NCCL's buffers, and images from the workers that decode them
PROBE_BYTES = 64 * 2**20  # bytes written to the run's disk
OLDEST_DRIVERS = {12: 525, 13: 580}  # CUDA's major version -> the oldest driver that it runs with
GPU_QUERY = "name,driver_version,memory.total,memory.used,compute_mode"


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """Result of checking one requirement of a run."""

    name: str
    state: State
    detail: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f": {self.remedy}" if self.remedy else ""
        return f"{self.state:<8} {self.name:<14} {self.detail}{remedy}"


def _pass_or_fail(name: str, enough: bool, detail: str, remedy: str) -> NodeCheck:
    return NodeCheck(name, "ok", detail) if enough else NodeCheck(name, "FAILED", detail, remedy)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as reported by nvidia-smi."""

    name: str
    driver: str
    total: float  # GiB
    used: float  # GiB
    mode: str


def read_gpus() -> list[Gpu] | None:
    """List this node's GPUs from nvidia-smi; None without a working driver."""
    command = ["nvidia-smi", f"--query-gpu={GPU_QUERY}", "--format=csv,noheader,nounits"]
    try:
        process = run_command(
            command, timeout=20, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if process.returncode:
        return None
    gpus = []
    for line in process.stdout.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(GPU_QUERY.split(",")):
            name, driver, total, used, mode = cells
            gpus.append(Gpu(name, driver, _gib_from_mib(total), _gib_from_mib(used), mode))
    return gpus


def _gib_from_mib(mib: str) -> float:
    if not mib.isdecimal():  # [N/A]: a slice, or shared memory
        return math.nan
    return float(mib) / 1024


def check_gpus(
    gpus: Sequence[Gpu] | None, need: int, gib: float, *, shared: bool
) -> Iterator[NodeCheck]:
    """Check the driver, compute mode and memory of this node's GPUs.

    The run needs ``need`` GPUs, 0 on the CPU, with ``gib`` free on each; they are ``shared`` if a
    judge's process runs next to the trainer.
    """
    if not need:
        yield NodeCheck("driver", "skipped", "the run is on the CPU")
        return
    if gpus is None:
        remedy = "install NVIDIA's driver, or ask for a node with GPUs (--gpus-per-node)"
        yield NodeCheck("driver", "FAILED", "nvidia-smi does not answer", remedy)
        return
    names = "no GPU"
    if gpus:
        names = f"{len(gpus)} x {gpus[0].name}, driver {gpus[0].driver}"
    if len(gpus) < need:
        remedy = f"ask for {need} (--gpus-per-node), or lower num_processes"
        yield NodeCheck("driver", "FAILED", f"{names}, and the run needs {need}", remedy)
        return
    yield NodeCheck("driver", "ok", names)
    exclusive = sum("exclusive" in gpu.mode.lower() for gpu in gpus)
    if exclusive and shared:
        detail = f"{exclusive} GPUs are in EXCLUSIVE_PROCESS, which allows the trainer but no judge"
        remedy = "nvidia-smi --compute-mode=DEFAULT (as root), or slurm/dapo_judge_server.sh"
        yield NodeCheck("compute mode", "FAILED", detail, remedy)
    else:
        yield NodeCheck("compute mode", "ok", gpus[0].mode)
    free = min(gpu.total - gpu.used for gpu in gpus)
    if math.isnan(free):
        detail = f"nvidia-smi does not say how much is free, of {gib:.0f} GiB that the run needs"
        yield NodeCheck("GPU memory", "warning", detail)
        return
    detail = f"{free:.0f} GiB free on each, of {gib:.0f} that the run needs"
    remedy = "end other processes on them (nvidia-smi), or see --check for what to lower"
    yield _pass_or_fail("GPU memory", free >= gib, detail, remedy)


def check_driver(gpus: Sequence[Gpu], cuda: str | None = None) -> NodeCheck:
    """Check the driver against torch's CUDA; a newer CUDA may come with a compatibility package.

    ``torch.cuda.device_count`` asks NVML, so it counts the GPUs of a driver that is too old, too.
    """
    import torch

    cuda = cuda or torch.version.cuda
    if cuda is None:
        return NodeCheck("CUDA", "skipped", "torch has none")
    needed = OLDEST_DRIVERS.get(int(cuda.partition(".")[0]), max(OLDEST_DRIVERS.values()))
    major = gpus[0].driver.partition(".")[0]
    detail = f"driver {gpus[0].driver}, and CUDA {cuda} of torch needs {needed} or newer"
    if not major.isdecimal() or int(major) >= needed:
        return NodeCheck("CUDA", "ok", detail)
    if torch.cuda.is_available():  # asks CUDA itself
        return NodeCheck("CUDA", "warning", f"{detail}; it works, by a compatibility package")
    remedy = f"ask for driver {needed}, or install NVIDIA's cuda-compat package"
    return NodeCheck("CUDA", "FAILED", detail, remedy)


def check_torch(gpus: int) -> NodeCheck:
    """Check that torch sees as many GPUs as the run needs, 0 on the CPU."""
    import torch

    seen = torch.cuda.device_count()
    if seen >= gpus:
        cuda = torch.version.cuda or "none"
        return NodeCheck("torch", "ok", f"{torch.__version__}, CUDA {cuda}")
    remedy = (
        f"{install_command('gpu')}, which has CUDA, or a newer driver; "
        "CUDA_VISIBLE_DEVICES may hide GPUs"
    )
    detail = f"torch {torch.__version__} sees {seen} GPUs, of {gpus}"
    return NodeCheck("torch", "FAILED", detail, remedy)


def check_compiler() -> NodeCheck:
    """Compile a file that includes Python.h, as Triton does on first use, inside vLLM."""
    # triton/runtime/build.py: $CC, else gcc, else clang
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        remedy = "apt-get install gcc, load a module that has it, or set CC"
        return NodeCheck("compiler", "FAILED", "neither CC, gcc nor clang, one of which Triton "
                         "needs", remedy)  # fmt: skip
    include = sysconfig.get_paths()["include"]
    command = [*compiler.split(), "-fsyntax-only", f"-I{include}", "-x", "c", "-"]
    try:
        done = subprocess.run(  # noqa: S603
            command, input="#include <Python.h>\n", capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        errors = []
        if done.returncode:
            errors = done.stderr.strip().splitlines()
    except (OSError, subprocess.SubprocessError) as error:
        errors = [str(error)]
    if not errors:
        return NodeCheck("compiler", "ok", f"{compiler}, with Python.h")
    remedy = "apt-get install python3-dev (of this Python's version), or use uv's or conda's Python"
    return NodeCheck("compiler", "FAILED", f"{compiler} with Python.h: {errors[0]}", remedy)


def check_memory(
    needed: float,
    shared_memory: Path = Path("/dev/shm"),  # noqa: S108
    root: Path = KERNEL_ROOT,
) -> Iterator[NodeCheck]:
    """Check the host's memory, in GiB, and its shared memory.

    A shortage is only a warning where memory may grow (``most_host_memory``, also for ``root``).
    """
    available, most = host_memory(root) / GIB, most_host_memory(root) / GIB
    detail = f"{available:.0f} GiB available, of {needed:.0f} that the run needs"
    remedy = "ask for more (sbatch --mem), or put the judge on a node of its own"
    if available < needed <= most:
        to = f"to {most:.0f} GiB" if math.isfinite(most) else "how far is unknown"
        detail = f"{detail}; memory may grow with its use, {to}"
        yield NodeCheck("host memory", "warning", detail, remedy)
    else:
        yield _pass_or_fail("host memory", available >= needed, detail, remedy)
    try:
        free = shutil.disk_usage(shared_memory).free / GIB
    except OSError as error:
        yield NodeCheck("shared memory", "FAILED", str(error), "mount a tmpfs at /dev/shm")
        return
    enough = SHARED_MEMORY_GIB
    detail = f"{shared_memory} has {free:.1f} GiB, of {enough:g} that NCCL and decoders need"
    remedy = "start the container with --shm-size=16g (or --ipc=host)"
    yield _pass_or_fail("shared memory", free >= enough, detail, remedy)


def check_files(output: Path, needed: float, checkpoint: float, minutes: float) -> NodeCheck:
    """Write, sync and rename a file where the run will save its checkpoints.

    All checkpoints take ``needed`` GB, including those that a run to be continued has in
    ``output``; one takes ``checkpoint`` GB, and ``minutes`` are reserved for saving it.
    """
    folder = next(each for each in (output, *output.absolute().parents) if each.exists())
    probe = folder / f".posh-doctor-{os.getpid()}"
    try:
        free = shutil.disk_usage(folder).free / GB
        files = [path for path in output.glob("checkpoint-*/**/*") if path.is_file()]
        needed -= sum(path.stat().st_size for path in files) / GB
        if free < needed:
            remedy = "name another --output_dir, or lower save_total_limit"
            detail = f"{folder} has {free:.1f} GB free, of {needed:.1f} for checkpoints"
            return NodeCheck("file system", "FAILED", detail, remedy)
        began = time.perf_counter()
        with probe.open("wb") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
        rate = PROBE_BYTES / (time.perf_counter() - began)
        moved = probe.with_suffix(".renamed")
        probe.replace(moved)
        moved.unlink()
    except OSError as error:
        with suppress(OSError):
            probe.unlink()
        remedy = "name an --output_dir on a disk that all ranks can write"
        return NodeCheck("file system", "FAILED", f"{folder} cannot be written: {error}", remedy)
    seconds = checkpoint * GB / rate
    detail = f"{free:.0f} GB free, {rate / 1e6:.0f} MB/s synced; a checkpoint takes {seconds:.0f} s"
    if seconds > 60 * minutes:
        remedy = f"set --stop_before to {seconds / 60 + 5:.0f} or more"
        return NodeCheck("file system", "warning", detail, remedy)
    return NodeCheck("file system", "ok", detail)


def free_port() -> int:
    """Return a port on which no one listens now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def check_port(port: int) -> NodeCheck:
    """Check that the ranks' port is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except (OSError, OverflowError) as error:
            remedy = "name another (--main_process_port), or end its owner (ss -ltnp)"
            return NodeCheck("port", "FAILED", f"{port} cannot be used ({error})", remedy)
    return NodeCheck("port", "ok", f"{port} is free")
