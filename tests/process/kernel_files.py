"""Linux's account of its memory, in the layout of its own files."""

import os
from pathlib import Path

from posh_reward.process.resources import BYTES_PER_GIB

ZONE = """Node 0, zone   Normal
  pages free     1234
        boost    0
        min      2112
        spanned  {spanned}
        present  {present}
        managed  {managed}
        cma      0
        protection: (0, 0, 21117, 21117, 21117)
      nr_free_pages 766232
"""


def kernel_files(
    root: Path, *, available_gib: float, present_gib: float, managed_gib: float
) -> Path:
    """Writes a machine of two zones; returns its root."""
    pages = BYTES_PER_GIB // os.sysconf("SC_PAGE_SIZE")
    zone = ZONE.format(
        spanned=round(2 * present_gib * pages),
        present=round(present_gib * pages / 2),
        managed=round(managed_gib * pages / 2),
    )
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/zoneinfo").write_text(2 * zone)
    (root / "proc/meminfo").write_text(
        f"MemTotal:       {managed_gib * 2**20:.0f} kB\n"
        f"MemFree:             512 kB\n"
        f"MemAvailable:   {available_gib * 2**20:.0f} kB\n"
        "HugePages_Total:       0\n"
    )
    (root / "proc/self/cgroup").write_text("0::/\n")
    return root
