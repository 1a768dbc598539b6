"""``posh-reward doctor``: check a node before a run."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

from posh_reward.cli import OK, UNUSABLE
from posh_reward.cli.flags import describe
from posh_reward.errors import safe

DOCTOR = """\
Check, without training, that this node can run a recipe: packages and downloads, driver, cards,
memory, disk, ports, communication between ranks, a step of ZeRO-3 that is saved and resumed, and a
judge that scores a pair. Prints one line per check, with its remedy, in two minutes at most. Exit
status 0 unless a line says FAILED."""


def add_doctor(command: argparse.ArgumentParser) -> None:
    """Add the flags of ``doctor``."""
    add = describe(command, DOCTOR, "doctor --config configs/dapo/qwen2_5_vl_7b.yaml").add_argument
    add("--config", metavar="FILE", type=Path, required=True, help="configuration of a recipe")
    add("--seconds", type=float, default=120.0, help="time limit for all checks")
    add("--processes", type=int, help="processes on this node (default: by the launch line)")
    add("--machines", type=int, default=1, help="nodes of the job; run this on each of them")
    add("--machine-rank", type=int, default=0, help="number of this node, from 0")
    add("--address", default="127.0.0.1", help="address of the first node")
    add("--port", type=int, default=29500, help="port at which the ranks meet")
    add("recipe_flags", nargs=argparse.REMAINDER, metavar="-- FLAGS", help="flags of the recipe")
    command.set_defaults(command=doctor)


def doctor(flags: argparse.Namespace) -> int:
    """Print the checks; return the exit status."""
    from posh_reward.training.doctor.diagnosis import NodePlace, diagnose

    # Users cannot fix deprecations of names that several versions of transformers support.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"(trl|transformers)\b")
    place = NodePlace(
        flags.machines, flags.machine_rank, flags.address, flags.port, flags.processes
    )
    more = [flag for flag in flags.recipe_flags if flag != "--"]
    failed = 0
    for check in diagnose(flags.config, more, place, flags.seconds):
        failed += check.state == "FAILED"
        print(safe(str(check)), flush=True)
    if failed:
        print(f"{failed} of the above would stop the run", file=sys.stderr)
    return UNUSABLE if failed else OK
