"""``posh-reward trace``: results -> packets -> scores -> descriptions -> weights -> runs."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from posh_reward.cli import EXIT_OK, EXIT_UNUSABLE, options

TRACE_HELP = """\
Follow files back to the weights, texts and settings behind them, and check each step that can be
checked here. PATH is a table of descriptions, scores or answers, a packet, its key, answers or
results, or a model's folder or checkpoint; texts of several tables have to agree. Exit status 2 if
anything contradicts a step, which is then marked BROKEN; steps without a record are named."""


def add_trace(command: argparse.ArgumentParser) -> None:
    options.describe_command(command, TRACE_HELP, "trace runs/scores.jsonl runs/said.jsonl")
    add = command.add_argument
    add("paths", metavar="PATH", type=Path, nargs="+", help="a file of ours, or a folder")
    add("--json", metavar="FILE", help="write the steps as JSON; - for standard output, instead of "
        "the text")  # fmt: skip
    command.set_defaults(command=trace_files)


def trace_files(flags: argparse.Namespace) -> int:
    from posh_reward.study.trace import Tracer

    options.check_replaceable(flags.json, options.FIGURES_START)
    steps = list(Tracer(flags.paths).steps())
    figures = {"steps": list(map(asdict, steps))}
    options.show_figures(flags, figures, "\n".join(map(str, steps)))
    broken = [f"{each.what} {each.place}".rstrip() for each in steps if each.problem]
    if not broken:
        return EXIT_OK
    print(f"{len(broken)} of {len(steps)} steps are broken: {'; '.join(broken)}", file=sys.stderr)
    return EXIT_UNUSABLE
