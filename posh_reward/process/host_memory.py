"""Memory that a process may use, on the machine or in its job."""

from __future__ import annotations

from itertools import product
from pathlib import Path

CGROUPS = (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"))
"""Mount points of both versions of control groups, and their files of limits."""


def host_memory() -> int:
    """Return the bytes of memory available to this process, on the machine or in its job."""
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    limits = [kib["MemAvailable"] * 1024]
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    groups = {Path(line.split(":", 2)[2].strip("/")) for line in lines}
    for (mount, name), group in product(CGROUPS, groups):
        for each in (group, *group.parents):  # a job's limit is above that of its step
            limit = Path(mount, each, name)
            if limit.is_file() and (text := limit.read_text(encoding="utf-8").strip()).isdigit():
                limits.append(int(text))
    return min(limits)
