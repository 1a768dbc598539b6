"""``posh-reward fetch``: downloads what a run needs, before the run."""

from __future__ import annotations

import argparse
import sys

from posh_reward.cli.exits import OK, UNUSABLE
from posh_reward.errors import safe

FETCH = """\
Downloads what a configuration needs: policy, judge, dataset, spaCy model, and Maverick with its
environment. What is here already is not fetched again. Afterwards the run needs no network: set
HF_HUB_OFFLINE=1 for it."""


def add_flags(command: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    command.add_argument("--config", metavar="FILE", required=True, help="a recipe's, "
        "a metric's (also published, by name) or a judge's settings")  # fmt: skip
    command.add_argument("--dry-run", action="store_true", help="only say what is here and what is "
        "missing; asks no network")  # fmt: skip
    command.set_defaults(command=fetch)


def fetch(flags: argparse.Namespace) -> int:
    """Fetches; one line for each thing."""
    from posh_reward.training.fetch import assets_of, fetch_all

    assets = assets_of(flags.config)
    complete = True
    for asset, state in fetch_all(assets, dry_run=flags.dry_run):
        complete &= state in ("here", "fetched")
        state = state if len(state) < 10 else f"failed: {state}"
        print(safe(f"{asset}: {state}"), file=sys.stderr, flush=True)
    if not assets:
        print("nothing to fetch: all of it is local, or comes with the package", file=sys.stderr)
    elif complete:
        print("all is here: the run works with HF_HUB_OFFLINE=1", file=sys.stderr)
    return OK if complete else UNUSABLE
