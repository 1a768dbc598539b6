"""Compare rewards: what sample texts earn, and the effect of training one SFT model.

    python -m research.compare_rewards pays ../shared/data/planted/planted_dev.json
    python -m research.compare_rewards train --model demo/sft --output runs/rewards \
        --rewards f1 separate separate:precision_weight=2 --seeds 0 1 2 3 4
    python -m research.compare_rewards table runs/rewards

``pays`` scores honest and dishonest texts. ``train`` runs the demo's DAPO stage for every reward
and seed, each time from the same model, and compares held-out descriptions, scored by POSH as
published, with that model's on the same images. A reward is an objective with non-default flags of
the recipe, such as ``f1:witness=oracle``. Runs on uneven references are evaluated against full
ones, which describe everything drawn. Each finished run is a line of ``runs.jsonl``; when started
again, ``train`` skips those. ``--docs`` writes tables into a page of documentation.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from posh_reward import PoSh
from posh_reward.tables.tables import read_journal
from research.compare_rewards import pays, report, runs
from research.tables import write_between

PLAIN = "scenes:train=2000:heldout=256:plain=1"


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    _paying(commands.add_parser("pays", help="what honest and dishonest texts earn"))
    _training(commands.add_parser("train", help="train with several rewards and seeds"))
    _showing(commands.add_parser("table", help="tables of the finished runs"))
    one = commands.add_parser("dapo", help="one training, as train starts it")
    one.add_argument("--noise", type=float, default=0.0)
    flags, rest = parser.parse_known_args(argv)
    if flags.command == "dapo":
        runs.dapo(flags.noise, rest)
    elif rest:
        parser.error(f"unrecognised arguments: {' '.join(rest)}")
    elif flags.command == "pays":
        show_pays(flags)
    else:
        if flags.command == "train":
            plan = [
                runs.Run(reward, seed, flags.dataset, flags.noise)
                for seed in flags.seeds
                for reward in flags.rewards
            ]
            runs.run_all(flags.model, flags.output, plan)
        show_runs(flags)


def _paying(command: argparse.ArgumentParser) -> None:
    command.add_argument("planted", type=Path)
    command.add_argument("--docs", type=Path, help="write the table between its marks there")
    command.add_argument("--json", type=Path, help="write the figures there")


def _training(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", type=Path, required=True, help="the SFT model")
    command.add_argument("--rewards", nargs="+", default=["f1", "separate"])
    command.add_argument("--seeds", nargs="+", type=int, default=[0])
    command.add_argument("--dataset", default=PLAIN)
    command.add_argument("--noise", type=float, default=0.0, help="error of the judge's grades")
    command.add_argument("-o", "--output", type=Path, required=True)
    command.set_defaults(docs=None)


def _showing(command: argparse.ArgumentParser) -> None:
    command.add_argument("output", type=Path)
    command.add_argument("--docs", type=Path, help="write tables and plot there")


def show_pays(flags: argparse.Namespace) -> None:
    """Print the table of ``pays``, and write it to the requested files."""
    rows = pays.pays(PoSh(), pays.cases(pays.read_items(flags.planted)))
    table = str(pays.table(rows))
    print(table)
    if flags.json:
        flags.json.write_text(json.dumps([asdict(paid) for paid in rows], indent=2) + "\n")
    if flags.docs:
        write_between(flags.docs, "pays", table)


def show_runs(flags: argparse.Namespace) -> None:
    """Print the tables of finished runs; write the first and the plots into a page."""
    rows = read_journal(flags.output / "runs.jsonl")
    if not rows:
        sys.exit(f"{flags.output / 'runs.jsonl'} has no finished run: train first")
    tables = {
        "rewards": str(report.by_reward(rows)),
        "runs": str(report.by_run(rows)),
        "over f1": str(report.against_f1(rows)),
        "spreads": str(report.by_spread(rows)),
    }
    print("\n\n".join(tables.values()))
    if flags.docs:
        write_between(flags.docs, "rewards", tables["rewards"])
        report.plot_spreads(rows, flags.docs.parent / "spreads.png")
        report.plot_gains(rows, flags.docs.parent / "gains.png")


if __name__ == "__main__":
    main()
