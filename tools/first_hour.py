"""Tabulate what ladders of a first hour have measured.

    python -m tools.first_hour research/results/first_hour_*.json

prints the section of research/results/performance.md between its two marks;
``posh-reward doctor --first-hour FILE`` and slurm/first_hour.sh write such files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import posh_reward.training.extra  # noqa: F401

# isort: split
from posh_reward.training.doctor.first_hour import STAGES, Measurement

BEGIN, END = "<!-- tools.first_hour -->", "<!-- end -->"


def lines(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line on GPUs, then a table per machine."""
    with_gpus = [each for each in documents if each["machine"]["gpus"]]
    if not with_gpus:
        yield "Machines with GPUs that have climbed it: **none yet**."
    for document in documents:
        machine, run = document["machine"], document["run"]
        gpus = machine["gpus"]
        what = f"{len(gpus)} x {gpus[0]}" if gpus else f"CPU, {machine['cores']} cores"
        versions = ", ".join(f"{name} {version}" for name, version in document["packages"].items())
        yield f"\n**{what}**: {run['config']}, {run['processes']} processes, ZeRO-{run['zero']}."
        if note := run.get("note"):
            yield f"**Not a real run: {note}.**"
        yield f"{machine['system']}, Python {machine['python']}; {versions}.\n"
        yield "| rung | status | seconds | measured (`fit`'s estimate) | not tried |"
        yield "|---|---|---|---|---|"
        rungs = {rung["name"]: rung for rung in document["rungs"]}
        for name in STAGES:
            yield row(name, rungs.get(name))


def row(name: str, rung: Mapping[str, Any] | None) -> str:
    """Format a rung, or one that was not reached."""
    if rung is None:
        return f"| {name} | not reached | | | |"
    figures = "; ".join(str(Measurement(**figure)) for figure in rung["figures"])
    reason = rung["reason"] and f"**{rung['reason']}** "
    cells = [name, rung["status"], f"{rung['seconds']:.0f}", f"{reason}{figures}",
             "; ".join(rung["left_out"])]  # fmt: skip
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def main(paths: Sequence[str]) -> None:
    """Print the section."""
    documents = [json.loads(Path(path).read_text(encoding="utf-8")) for path in paths]
    print("\n".join(lines(documents)))


if __name__ == "__main__":
    main(sys.argv[1:])
