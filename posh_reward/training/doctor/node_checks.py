"""Checks of a machine: GPUs, compilers, memory, files, ports."""

from __future__ import annotations

import ctypes
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
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from posh_reward.errors import install
from posh_reward.models.packed.checkpoint import host_memory

State = Literal["ok", "warning", "FAILED", "skipped"]

GIB, GB = 2**30, 1e9
SHARED = 1.0  # GiB of shared memory: NCCL's buffers, and images from the workers that decode them
STALE = 10.0  # minutes after which a lock of torch's compiler counts as abandoned
PROBE = 64 * 2**20  # bytes written to the run's disk
DRIVERS = {12: 525, 13: 580}  # CUDA's major version -> the oldest driver that it runs with
VLLM_CUDA = 13  # major version that the wheels of vLLM 0.31 are built for
QUERY = "name,driver_version,memory.total,memory.used,compute_mode"


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """Result of checking one requirement of a run."""

    name: str
    state: State
    detail: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = self.remedy and f": {self.remedy}"
        return f"{self.state:<8} {self.name:<14} {self.detail}{remedy}"


def _result(name: str, enough: bool, detail: str, remedy: str) -> NodeCheck:
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
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    rows = [[cell.strip() for cell in line.split(",")] for line in process.stdout.splitlines()]
    return [
        Gpu(name, driver, _gib(total), _gib(used), mode)
        for name, driver, total, used, mode in (row for row in rows if len(row) == 5)
    ]


def _gib(mib: str) -> float:
    return float(mib) / 1024 if mib.isdecimal() else math.nan  # [N/A]: a slice, or shared memory


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
    names = f"{len(gpus)} x {gpus[0].name}, driver {gpus[0].driver}" if gpus else "no GPU"
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
    yield _result("GPU memory", free >= gib, detail, remedy)


def check_driver(gpus: Sequence[Gpu], cuda: str | None = None) -> NodeCheck:
    """Check the driver against torch's CUDA; a newer CUDA may come with a compatibility package.

    ``torch.cuda.device_count`` asks NVML, so it counts the GPUs of a driver that is too old, too.
    """
    import torch

    cuda = cuda or torch.version.cuda
    if cuda is None:
        return NodeCheck("CUDA", "skipped", "torch has none")
    needed = DRIVERS.get(int(cuda.partition(".")[0]), max(DRIVERS.values()))
    found = gpus[0].driver
    detail = f"driver {found}, and CUDA {cuda} of torch needs {needed} or newer"
    if not found.partition(".")[0].isdecimal() or int(found.partition(".")[0]) >= needed:
        return NodeCheck("CUDA", "ok", detail)
    if torch.cuda.is_available():  # asks CUDA itself
        return NodeCheck("CUDA", "warning", f"{detail}; it works, by a compatibility package")
    remedy = f"ask for driver {needed}, or install NVIDIA's cuda-compat package"
    return NodeCheck("CUDA", "FAILED", detail, remedy)


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
        errors = done.stderr.strip().splitlines() if done.returncode else []
    except (OSError, subprocess.SubprocessError) as error:
        errors = [str(error)]
    if not errors:
        return NodeCheck("compiler", "ok", f"{compiler}, with Python.h")
    remedy = "apt-get install python3-dev (of this Python's version), or use uv's or conda's Python"
    return NodeCheck("compiler", "FAILED", f"{compiler} with Python.h: {errors[0]}", remedy)


def check_toolkit(gpus: int, compiles: bool) -> Iterator[NodeCheck]:
    """Check torch's and vLLM's CUDA, and what has to be compiled on the node.

    ``compiles``: DeepSpeed's offloaded optimizer, which needs a C++ compiler and nvcc.

    The run needs ``gpus`` GPUs, 0 on the CPU.
    """
    import torch

    if torch.cuda.device_count() < gpus:
        remedy = (
            f"{install('gpu')}, which has CUDA, or a newer driver; "
            "CUDA_VISIBLE_DEVICES may hide GPUs"
        )
        detail = f"torch {torch.__version__} sees {torch.cuda.device_count()} GPUs, of {gpus}"
        yield NodeCheck("torch", "FAILED", detail, remedy)
    else:
        yield NodeCheck("torch", "ok", f"{torch.__version__}, CUDA {torch.version.cuda or 'none'}")
    if not gpus:
        yield NodeCheck("compiler", "skipped", "not needed on the CPU")
        return
    if find_spec("vllm") is not None:
        yield check_library(f"libcudart.so.{VLLM_CUDA}")
    yield check_compiler()
    missing = [name for name in (os.environ.get("CXX", "c++"), "nvcc") if not shutil.which(name)]
    if missing and compiles:
        remedy = "load CUDA's toolkit and a C++ compiler, or set offload_optimizer_device: none"
        detail = f"no {' and no '.join(missing)}, for the offloaded optimizer"
        yield NodeCheck("toolkit", "FAILED", detail, remedy)
    else:
        yield NodeCheck("toolkit", "ok", shutil.which("nvcc") or "no nvcc; this run needs none")


def check_library(name: str) -> NodeCheck:
    """Load a library that vLLM's own is linked to; torch's wheel brings and loads it."""
    try:
        ctypes.CDLL(name)
    except OSError as error:
        remedy = "pip install -c constraints-gpu.txt '.[gpu]' in the clone, whose torch brings it"
        return NodeCheck("vLLM's CUDA", "FAILED", f"vLLM needs {name}: {error}", remedy)
    return NodeCheck("vLLM's CUDA", "ok", name)


def check_locks() -> Iterator[NodeCheck]:
    """Yield stale locks in torch's compile cache: every later process would wait for them."""
    home = os.environ.get("TORCH_EXTENSIONS_DIR") or Path.home() / ".cache" / "torch_extensions"
    for lock in Path(home).rglob("lock"):
        minutes = (time.time() - lock.stat().st_mtime) / 60
        if minutes > STALE:
            detail = f"torch would wait forever for {lock}, which is {minutes:.0f} minutes old"
            yield NodeCheck("lock", "FAILED", detail, "remove it, unless something compiles there")


def check_memory(needed: float, shared_memory: Path = Path("/dev/shm")) -> Iterator[NodeCheck]:  # noqa: S108
    """Check the host's memory, in GiB, and its shared memory."""
    available = host_memory() / GIB
    detail = f"{available:.0f} GiB available, of {needed:.0f} that the run needs"
    remedy = "ask for more (sbatch --mem), or put the judge on a node of its own"
    yield _result("host memory", available >= needed, detail, remedy)
    try:
        free = shutil.disk_usage(shared_memory).free / GIB
    except OSError as error:
        yield NodeCheck("shared memory", "FAILED", str(error), "mount a tmpfs at /dev/shm")
        return
    detail = f"{shared_memory} has {free:.1f} GiB, of {SHARED:g} that NCCL and decoders need"
    remedy = "start the container with --shm-size=16g (or --ipc=host)"
    yield _result("shared memory", free >= SHARED, detail, remedy)


def check_files(output: Path, needed: float, checkpoint: float, minutes: float) -> NodeCheck:
    """Write, sync and rename a file where the run will save its checkpoints.

    Args:
        output: need not exist yet; a run that continues has checkpoints in it.
        needed: GB of all checkpoints, those included.
        checkpoint: GB of one checkpoint.
        minutes: reserved for saving one at the end of a job.
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
            file.write(bytes(PROBE))
            file.flush()
            os.fsync(file.fileno())
        rate = PROBE / (time.perf_counter() - began)
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


def check_ports(port: int, machines: int) -> Iterator[NodeCheck]:
    """Check that a port is free, and that other nodes can reach this host by name."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            remedy = "name another (--main_process_port), or end its owner (ss -ltnp)"
            yield NodeCheck("port", "FAILED", f"{port} is taken ({error.strerror})", remedy)
        except OverflowError:
            remedy = "name one from 1024 to 32767 (--main_process_port)"
            yield NodeCheck("port", "FAILED", f"{port} is not a port", remedy)
        else:
            yield NodeCheck("port", "ok", f"{port} is free")
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        address = f"nothing ({error})"
    local = address.startswith(("127.", "nothing"))
    interfaces = {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"} <= os.environ.keys()
    if machines > 1 and local and not interfaces:
        detail = f"{name} resolves to {address}: other nodes cannot reach it"
        remedy = "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to the network interface (ip addr)"
        yield NodeCheck("host name", "warning", detail, remedy)
    else:
        yield NodeCheck("host name", "ok", f"{name} is {address}")
