"""Tables of finished runs' differences, by reward and by seed, and plots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from posh_reward.tables.statistics import Interval, paired_difference
from posh_reward.tables.tables import Row
from research.compare_rewards.runs import AXES, FIGURES, Run
from research.tables import Table

EARLY = 5  # first steps, in which most is learned
SPREADS = {
    "precision": "spread of precision",
    "recall": "spread of recall",
    "correlation": "correlation of the two",
    "follows_precision": "of advantage and precision",
    "follows_recall": "of advantage and recall",
}
"""Keys of ``runs.spreads`` -> column heads."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's palette, safe for colour-blind readers."""
MARKERS = "osD^"


@dataclass(frozen=True)
class Arm:
    """All seeds of one reward on one data set."""

    reward: str
    dataset: str
    noise: float
    rows: Sequence[Row]

    @property
    def title(self) -> str:
        """Description for tables and plots."""
        scenes = "plain" if "plain=1" in self.dataset else "rich"
        uneven = ", uneven references" if "uneven=1" in self.dataset else ""
        noise = f", noise {self.noise:g}" if self.noise else ""
        return f"`{self.reward}`, {scenes} scenes{uneven}{noise}"

    def spread(self, name: str, steps: slice) -> float:
        """Return a figure's mean over some steps of all seeds."""
        return fmean(value for row in self.rows for value in row["spreads"][name][steps])


def arms(rows: Iterable[Row]) -> list[Arm]:
    """Group runs that differ only in their seeds."""
    by_key: defaultdict[tuple[str, float, str], list[Row]] = defaultdict(list)
    for row in rows:
        run = Run(**row["run"])
        by_key[run.dataset, run.noise, run.reward].append(row)
    return [
        Arm(reward, dataset, noise, sorted(some, key=lambda row: row["run"]["seed"]))
        for (dataset, noise, reward), some in sorted(by_key.items())
    ]


def by_reward(rows: Iterable[Row]) -> Table:
    """Return one line per arm: differences from the SFT model, mean and range over seeds."""
    head = ["reward", "seeds", *AXES, "words"]
    lines = [
        [arm.title, str(len(arm.rows)), *(over_seeds(arm, axis) for axis in AXES),
         f"{fmean(row['words'] for row in arm.rows):.1f}"]
        for arm in arms(rows)
    ]  # fmt: skip
    return Table(head, lines)


def over_seeds(arm: Arm, axis: str) -> str:
    """Return the mean difference of an arm's runs, with the range of several."""
    means = [row["gains"][axis]["mean"] for row in arm.rows]
    among = f" ({min(means):+.3f} to {max(means):+.3f})" if len(means) > 1 else ""
    return f"{fmean(means):+.3f}{among}"


def by_run(rows: Iterable[Row]) -> Table:
    """Return one line per run: paired differences from the SFT model on the same images."""
    rows_ = list(rows)
    names = figures_in(rows_)
    lines = [
        [arm.title, str(row["run"]["seed"]), *(cell(row, name) for name in names),
         f"{row['words']:.1f}"]
        for arm in arms(rows_) for row in arm.rows
    ]  # fmt: skip
    return Table(["reward", "seed", *names, "words"], lines)


def figures_in(rows: Sequence[Row]) -> list[str]:
    """Return the figures that any of the runs has: true details were added later."""
    return [name for name in FIGURES if any(name in row["gains"] for row in rows)]


def cell(row: Row, name: str) -> str:
    """Return a run's difference from the SFT model; empty if an older run did not record it."""
    return emphasised(Interval(**row["gains"][name])) if name in row["gains"] else ""


def emphasised(interval: Interval) -> str:
    """Format a difference with its interval, in bold if the interval excludes 0."""
    return f"**{interval}**" if interval.excludes_zero else str(interval)


def against_f1(rows: Iterable[Row]) -> Table:
    """Return one line per run: paired differences from the f1 run with the same seed and data."""
    rows_ = list(rows)
    baselines = {Run(**row["run"]): row for row in rows_ if row["run"]["reward"] == "f1"}
    names = figures_in(rows_)
    lines = [
        [arm.title, str(row["run"]["seed"]), *(over(row, baseline, name) for name in names)]
        for arm in arms(row for row in rows_ if row["run"]["reward"] != "f1")
        for row in arm.rows
        if (baseline := baselines.get(replace(Run(**row["run"]), reward="f1"))) is not None
    ]
    return Table(["reward, over f1", "seed", *names], lines)


def over(row: Row, baseline: Row, name: str) -> str:
    """Compare two runs' descriptions, image by image; above 0 the first is better."""
    if name not in row["scores"] or name not in baseline["scores"]:
        return ""
    return emphasised(paired_difference(row["scores"][name], baseline["scores"][name]))


def by_spread(rows: Iterable[Row]) -> Table:
    """Return two lines per arm, for the first steps and the rest: spreads within groups."""
    head = ["reward", "seeds", "steps", *SPREADS.values()]
    lines = [
        [arm.title, str(len(arm.rows)), steps, *(f"{arm.spread(n, part):.3f}" for n in SPREADS)]
        for arm in arms(rows)
        for steps, part in ((f"1-{EARLY}", slice(EARLY)), (f"{EARLY + 1}-", slice(EARLY, None)))
    ]
    return Table(head, lines)


def plot_spreads(rows: Iterable[Row], path: Path) -> None:
    """Plot the unshaped spread within groups by axis and step: a panel per reward, seed means."""
    from matplotlib.figure import Figure

    arms_ = [arm for arm in arms(rows) if ":" not in arm.reward]
    figure = Figure(figsize=(3.6 * len(arms_), 3), layout="constrained")
    panels = figure.subplots(1, len(arms_), sharey=True, squeeze=False)[0]
    for panel, arm in zip(panels, arms_, strict=True):
        for axis in ("precision", "recall"):
            seeds = (row["spreads"][axis] for row in arm.rows)
            means = [fmean(values) for values in zip(*seeds, strict=True)]
            panel.plot(range(1, len(means) + 1), means, label=axis)
        panel.set(title=arm.title.replace("`", ""), xlabel="step")
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel("spread within groups")
    panels[0].legend()
    figure.savefig(path, dpi=120)


def plot_gains(rows: Iterable[Row], path: Path) -> None:
    """Plot gains in precision against gains in recall: a point per run, a colour per reward."""
    from matplotlib.figure import Figure

    arms_ = arms(rows)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    panel = figure.subplots()
    panel.axhline(0, color="#8c959f", linewidth=0.8)
    for place, arm in enumerate(arms_):
        precision, recall, _ = ([r["gains"][axis]["mean"] for r in arm.rows] for axis in AXES)
        panel.scatter(recall, precision, color=COLOURS[place % len(COLOURS)], s=36,
                      marker=MARKERS[place // len(COLOURS)],
                      label=arm.title.replace("`", ""))  # fmt: skip
    panel.set(xlabel="recall: gain over SFT (right: less left out)",
              ylabel="precision: gain over SFT (up: fewer mistakes)")  # fmt: skip
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)
