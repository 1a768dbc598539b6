"""``posh-reward doctor``: a dry run of a node, before the run that needs it."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

from posh_reward.cli import OK, UNUSABLE
from posh_reward.cli.flags import describe
from posh_reward.errors import safe

DOCTOR = """\
Tries on this node, without training, all that a recipe's run needs: packages and downloads, driver,
cards, memory, disk, ports, ranks that talk to each other, a step of ZeRO-3 that is saved and
resumed, a judge that scores a pair. One line for each, with its remedy; two minutes at most. The
status is 0 unless a line says FAILED."""


def add_doctor(command: argparse.ArgumentParser) -> None:
    """Add the flags of ``doctor``."""
    add = describe(command, DOCTOR).add_argument
    add("--config", metavar="FILE", type=Path, required=True, help="a recipe's configuration")
    add("--seconds", type=float, default=120.0, help="for all of it (default: 120)")
    add("--processes", type=int, help="on this node (default: as the launch line says)")
    add("--machines", type=int, default=1, help="nodes of the job, on each of which this is run")
    add("--machine-rank", type=int, default=0, help="of this node, from 0")
    add("--address", default="127.0.0.1", help="of the first node")
    add("--port", type=int, default=29500, help="at which ranks meet (default: 29500)")
    add("recipe_flags", nargs=argparse.REMAINDER, metavar="-- FLAGS", help="of the recipe")
    command.set_defaults(command=doctor)


def doctor(flags: argparse.Namespace) -> int:
    """Print the checks; return an exit status."""
    from posh_reward.training.doctor.diagnosis import NodePlace, diagnose

    # Deprecations of names that both versions of transformers know are not the user's to mend.
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
