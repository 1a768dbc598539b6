"""``posh-reward fetch``, ``doctor`` and ``init``: what comes before a run."""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from posh_reward.cli import EXIT_OK, EXIT_UNUSABLE, options
from posh_reward.errors import InputError, escape_controls
from posh_reward.shipped import FOLDERS, copy_to
from posh_reward.tables.tables import STANDARD_STREAM

FETCH_HELP = """\
Download what a configuration needs: policy, judge, witness, reader of sentences, dataset, spaCy
model, and Maverick with its environment. What is already here is not downloaded again. Afterwards
the run needs no network: set HF_HUB_OFFLINE=1 for it."""
DOCTOR_HELP = """\
Check, without training, that this node can run a recipe: packages and downloads, driver, GPUs,
memory, disk, ports, communication between ranks, a step of ZeRO-3 that is saved and resumed, and a
judge that scores a pair, sleeps, wakes and scores it alike. Prints one line per check, with its
remedy. Exit status 0 unless a line says FAILED.

With --first-hour FILE it climbs a ladder instead, in up to an hour: node, ranks, judge (three
wakings), policy (its vLLM against the trainer, on one GPU), and a run of two steps that is saved,
resumed, described and scored. FILE gets what each measured, with no path, host name or key, and a
later call with it goes on where the last one failed."""
INIT_HELP = f"""\
Copy {", ".join(FOLDERS)} into a folder, to change them and run them from there. Each
recipe is one file and one run; each configuration opens with its launch line. Nothing is
overwritten."""


def add_init(command: argparse.ArgumentParser) -> None:
    options.describe_command(command, INIT_HELP, "init runs/mine")
    command.add_argument("folder", metavar="DIR", help="folder to copy to; created if missing")
    command.set_defaults(command=copy_recipes)


def copy_recipes(flags: argparse.Namespace) -> int:
    for folder in copy_to(Path(flags.folder)):
        print(folder, file=sys.stderr)
    return EXIT_OK


def add_fetch(command: argparse.ArgumentParser) -> None:
    options.describe_command(command, FETCH_HELP, "fetch --config published")
    command.add_argument("--config", metavar="FILE", required=True, help="settings of a recipe, "
                         "of a judge, or of a metric (also by name: published)")  # fmt: skip
    command.add_argument("--check", action="store_true", help="only list what is here and what "
                         "is missing; uses no network")  # fmt: skip
    options.add_json(command.add_argument)
    options.add_trust(command.add_argument)
    add_recipe_flags(command)
    command.set_defaults(command=fetch_assets)


def add_recipe_flags(command: argparse.ArgumentParser) -> None:
    """Accept a recipe's flags, after ``--``: they may name another model than the configuration."""
    command.add_argument("recipe_flags", nargs=argparse.REMAINDER, metavar="-- FLAGS",
                         help="flags of the recipe")  # fmt: skip


def fetch_assets(flags: argparse.Namespace) -> int:
    from posh_reward.training.fetch import (
        ASSET_STATES,
        Asset,
        check_data,
        fetch_all,
        list_assets,
        prepare_data,
    )

    options.check_replaceable(flags.json, options.FIGURES_START)
    assets = list_assets(flags.config, flags.recipe_flags)
    states: dict[Asset, str] = {}
    for asset, state in fetch_all(assets, dry_run=flags.check):
        states[asset] = state
        if state not in ASSET_STATES:  # the reason of a failure
            state = f"failed: {state}"
        print(escape_controls(f"{asset}: {state}"), file=sys.stderr, flush=True)
    complete = set(states.values()) <= {"here", "fetched"}
    figures = [{**asdict(asset), "state": state} for asset, state in states.items()]
    options.write_figures(flags, {"assets": figures})
    check_data(flags.config, flags.recipe_flags)
    if complete and not flags.check:
        for line in prepare_data(flags.config, flags.recipe_flags):
            print(escape_controls(line), file=sys.stderr, flush=True)
    if not assets:
        print("nothing to fetch: everything is local or ships with the package", file=sys.stderr)
    elif complete:
        print("everything is here: the run works with HF_HUB_OFFLINE=1", file=sys.stderr)
    return EXIT_OK if complete else EXIT_UNUSABLE


def add_doctor(command: argparse.ArgumentParser) -> None:
    add = options.describe_command(
        command, DOCTOR_HELP, "doctor --config configs/dapo/qwen2_5_vl_7b.yaml"
    ).add_argument
    add("--config", metavar="FILE", type=Path, required=True, help="configuration of a recipe")
    add("--first-hour", metavar="FILE", type=Path, help="climb the ladder, into this JSON file")
    options.add_json(add)
    add("--timeout", metavar="SECONDS", type=float, help="limit of each trial (default: "
        "900, for a cold node's kernels; of a rung's 3600)")  # fmt: skip
    add("--processes", type=int, help="ranks on this node (default: by the launch line); not the "
        "metric's worker processes, which are a setting of the run")  # fmt: skip
    add("--machines", type=int, default=1, help="nodes of the job; run this on each of them")
    add("--machine-rank", type=int, default=0, help="number of this node, from 0")
    add("--address", default="127.0.0.1", help="address of the first node")
    add("--port", type=int, default=29500, help="port at which the ranks meet")
    options.add_trust(add)
    add_recipe_flags(command)
    command.set_defaults(command=check_node)


def check_node(flags: argparse.Namespace) -> int:
    import posh_reward.training.extra  # noqa: F401  # ends with one line where packages are missing

    # isort: split
    from posh_reward.training.doctor.diagnosis import TRIAL_SECONDS, NodePlace, diagnose
    from posh_reward.training.doctor.first_hour import run_stages

    # Users cannot fix deprecations of names that several versions of transformers support.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"(trl|transformers)\b")
    place = NodePlace(
        flags.machines, flags.machine_rank, flags.address, flags.port, flags.processes
    )
    more = [flag for flag in flags.recipe_flags if flag != "--"]
    failed = 0
    checks: list[Any] = []
    output = sys.stderr if flags.json == STANDARD_STREAM else sys.stdout
    options.check_replaceable(flags.json, options.FIGURES_START)
    if flags.first_hour is not None and flags.json is not None:
        raise InputError("--first-hour FILE is JSON already: leave out --json")
    if flags.first_hour is not None:
        stages = run_stages(flags.config, more, flags.first_hour, flags.processes, flags.timeout)
        for stage in stages:
            failed += stage.status != "ran"
            print(escape_controls(str(stage)), flush=True)
    else:
        for check in diagnose(flags.config, more, place, flags.timeout or TRIAL_SECONDS):
            failed += check.state == "FAILED"
            checks.append(asdict(check))
            print(escape_controls(str(check)), file=output, flush=True)
        if failed:
            print(f"{failed} of the above would stop the run", file=sys.stderr)
    options.write_figures(flags, {"checks": checks})
    return EXIT_UNUSABLE if failed else EXIT_OK
