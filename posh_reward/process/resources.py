"""Memory and cores that this process may use, by the kernel's files and its control groups."""

from __future__ import annotations

import math
import multiprocessing
import os
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

BYTES_PER_KIB, BYTES_PER_GIB = 2**10, 2**30
CGROUP_MOUNTS = ("sys/fs/cgroup", "sys/fs/cgroup/memory", "sys/fs/cgroup/cpu")
"""Mount points of control groups: version 2, and the two controllers of version 1 read here."""
MEMORY_LIMIT_FILES = ("memory.max", "memory.limit_in_bytes")
"""Files of a group's limit, in both versions."""
MAX_RESERVED_SHARE = 1 / 16
"""Largest share of a machine's memory that Linux never manages: usually 2 %, to describe pages."""
KERNEL_ROOT = Path("/")
"""Folder that has the kernel's ``proc`` and ``sys``."""


def host_memory(root: Path = KERNEL_ROOT) -> float:
    """Return the bytes of memory available to this process now, on the machine or in its job.

    Infinity where that is unknown, as on macOS.
    """
    return min([_read_available(root), *_read_limits(root)])


def most_host_memory(root: Path = KERNEL_ROOT) -> float:
    """Return the bytes of memory that this process may get, as the machine's memory grows.

    A control group's limit is certain. What /proc/meminfo counts is not: some virtual machines set
    memory up only as it is used, or lend it to their host (a balloon). In /proc/zoneinfo such pages
    are present but not managed: with 24.0 GiB present, 3.1 managed and 3.0 available, this process
    may get 3.0 + 24.0 - 3.1. Infinity where nothing is known: without that file (as in gVisor,
    whose MemTotal is made up), or with virtio-mem, by which a host adds memory.
    """
    return min([_read_available(root) + _estimate_growth(root), *_read_limits(root)])


def _read_available(root: Path) -> float:
    """Bytes of memory that are free, or that caches would give up; infinity if unknown."""
    lines = _read_file(root / "proc/meminfo").splitlines()
    if not lines:
        return math.inf
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return kib["MemAvailable"] * BYTES_PER_KIB


def _estimate_growth(root: Path) -> float:
    """Bytes that are present but not managed, beyond those that Linux reserves for itself."""
    zones = root / "proc/zoneinfo"
    if not zones.is_file() or any((root / "sys/bus/virtio/drivers/virtio_mem").glob("virtio*")):
        return math.inf
    text = zones.read_text(encoding="utf-8")
    present, managed = _sum_pages(text, "present"), _sum_pages(text, "managed")
    pages = present - managed
    if pages <= MAX_RESERVED_SHARE * present:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _sum_pages(zones: str, kind: str) -> int:
    """Number of pages of a kind in all zones of /proc/zoneinfo."""
    return sum(map(int, re.findall(rf"^ +{kind} +(\d+)$", zones, re.MULTILINE)))


def _read_limits(root: Path) -> Iterator[int]:
    """Bytes that this process's control groups and those above them are limited to."""
    for folder, name in product(_find_groups(root), MEMORY_LIMIT_FILES):
        if (limit := _read_file(folder / name)).isdigit():
            yield int(limit)


def _find_groups(root: Path) -> Iterator[Path]:
    """Folders of this process's control groups, and of those above: a job's is above its step's."""
    lines = _read_file(root / "proc/self/cgroup").splitlines()
    folders = set() if lines else {Path()}
    for line in lines:
        group = Path(line.split(":", 2)[2].strip("/"))
        folders |= {group, *group.parents}
    for mount, folder in product(CGROUP_MOUNTS, folders):
        yield root / mount / folder


def _read_file(file: Path) -> str:
    """Contents of a file of the kernel; empty if there is none."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def cores_of_rank(root: Path = KERNEL_ROOT) -> int:
    """Count the cores of this process: its share of the machine's, where a launcher runs several.

    A process that a pool of others has started has one.
    """
    if multiprocessing.parent_process() is not None:
        return 1
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return max(min([cores, *_read_quotas(root)]) // ranks_here(), 1)


def ranks_here() -> int:
    """Count the ranks that a launcher runs on this machine."""
    size = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(int(size), 1) if size.isdecimal() else 1


def _read_quotas(root: Path) -> Iterator[int]:
    """Cores of each quota of processor time, at least 1: 400,000 of 100,000 microseconds are 4."""
    for folder in _find_groups(root):
        version_1 = [_read_file(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        for words in (_read_file(folder / "cpu.max").split(), version_1):
            if len(words) == 2 and all(map(str.isdigit, words)):  # not "max", nor -1
                yield max(int(words[0]) // int(words[1]), 1)
