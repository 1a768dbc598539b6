"""Tabulate runs of the demo: means over the runs, with the lowest and the highest.

    for seed in 0 1 2 3 4; do python recipes/demo/demo.py -o runs/demos/$seed --seed $seed; done
    export ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2
    for seed in 0 1 2 3 4; do
        python recipes/demo/demo.py -o runs/demos/avx2-$seed --seed $seed
    done
    python -m research.demo_seeds runs/demos/*

The variables restrict a CPU with AVX-512 to the kernels of one without. These round differently, so
that soon other completions are sampled, as on another machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from posh_reward.tables.standings import POSH_COLUMNS
from posh_reward.tables.statistics import Interval
from research.tables import Table

Runs = Mapping[str, Any]
"""Name of a run -> its ``summary.json``."""


def main(argv: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", help="each of one run of the demo")
    folders = parser.parse_args(argv).folders
    runs = {each.name: json.loads((each / "summary.json").read_bytes()) for each in folders}
    print(by_model(runs), by_gain(runs), precision_by_run(runs), sep="\n\n")


def by_model(runs: Runs) -> Table:
    """Return each model's scores and words."""
    scores = [
        POSH_COLUMNS.leading,
        *(name for name in POSH_COLUMNS.names if name != POSH_COLUMNS.leading),
    ]
    lines = []
    for model in _names(runs, "models"):
        own = [run["models"][model] for run in runs.values()]
        means = [over_runs((each["axes"][name]["mean"] for each in own), ".3f") for name in scores]
        lines.append([model, *means, over_runs((each["words"] for each in own), ".1f")])
    return Table(["model", *scores, "words"], lines)


def by_gain(runs: Runs) -> Table:
    """Return each difference, and how many of its intervals are above, around and below 0."""
    lines = []
    for name in _names(runs, "gains"):
        gains = [_gain(run, name) for run in runs.values()]
        above = sum(gain.excludes_zero and gain.mean > 0 for gain in gains)
        below = sum(gain.excludes_zero and gain.mean < 0 for gain in gains)
        counts = (above, len(gains) - above - below, below)
        lines.append([name, over_runs((gain.mean for gain in gains), "+.3f"), *map(str, counts)])
    return Table(["difference", "mean", "above 0", "around", "below"], lines)


def precision_by_run(runs: Runs) -> Table:
    """Return each run's differences in precision."""
    names = [name for name in _names(runs, "gains") if name.endswith("precision")]
    lines = [[run, *(str(_gain(summary, name)) for name in names)] for run, summary in runs.items()]
    return Table(["run", *names], lines)


def over_runs(values: Iterable[float], form: str) -> str:
    """E.g. "0.864 (0.856 to 0.872)"."""
    each = [*values]
    return f"{fmean(each):{form}} ({min(each):{form}} to {max(each):{form}})"


def _names(runs: Runs, part: str) -> list[str]:
    """Models or differences, as in the first run."""
    return [*next(iter(runs.values()))[part]]


def _gain(run: Mapping[str, Any], name: str) -> Interval:
    return Interval(**run["gains"][name])


if __name__ == "__main__":
    main()
