"""Finished runs -> a table of differences, pooled over seeds, and a plot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from posh_reward.study.rows.journal import Row
from tools.compare_rewards.runs import AXES, Run
from tools.compare_rewards.tables import Table


@dataclass(frozen=True)
class Arm:
    """All seeds of one reward on one data set."""

    reward: str
    dataset: str
    noise: float
    rows: Sequence[Row]

    @property
    def title(self) -> str:
        """For people."""
        scenes = "plain" if "plain=1" in self.dataset else "rich"
        return f"`{self.reward}`, {scenes} scenes" + (
            f", noise {self.noise:g}" if self.noise else ""
        )

    def gains(self, axis: str) -> list[float]:
        """Of each seed."""
        return [row["gains"][axis]["mean"] for row in self.rows]

    def mean(self, group: str, name: str) -> float:
        """A figure's mean over seeds."""
        return fmean(row[group][name] for row in self.rows)


def arms(rows: Iterable[Row]) -> list[Arm]:
    """Runs that differ in their seeds alone, together."""
    found: defaultdict[tuple[str, float, str], list[Row]] = defaultdict(list)
    for row in rows:
        run = Run(**row["run"])
        found[run.dataset, run.noise, run.reward].append(row)
    return [
        Arm(reward, dataset, noise, sorted(some, key=lambda row: row["run"]["seed"]))
        for (dataset, noise, reward), some in sorted(found.items())
    ]


def by_run(rows: Iterable[Row]) -> Table:
    """One line a run: paired differences to the SFT model on the same pictures."""
    head = ["reward", "seed", *AXES, "words"]
    lines = [
        [arm.title, str(row["run"]["seed"]), *(cell(row, axis) for axis in AXES),
         f"{row['words']:.1f}"]
        for arm in arms(rows) for row in arm.rows
    ]  # fmt: skip
    return Table(head, lines)


def cell(row: Row, axis: str) -> str:
    """A difference with its interval; bold where the interval excludes 0."""
    gain = row["gains"][axis]
    text = f"{gain['mean']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}]"
    return f"**{text}**" if gain["low"] > 0 or gain["high"] < 0 else text


def by_spread(rows: Iterable[Row]) -> Table:
    """One line an arm: how far siblings differ on each axis, and what advantages follow."""
    head = ["reward", "seeds", "spread of precision", "of recall", "of f1",
            "advantage follows precision", "follows recall"]  # fmt: skip
    names = ("precision", "recall", "f1", "follows_precision", "follows_recall")
    lines = [
        [arm.title, str(len(arm.rows)), *(f"{arm.mean('spreads', name):.3f}" for name in names)]
        for arm in arms(rows)
    ]
    return Table(head, lines)


def plot(rows: Iterable[Row], path: Path) -> None:
    """Mistakes against omissions, one point a run, one colour a reward; up and right is better."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for arm in arms(rows):
        axes.scatter(
            arm.gains("omissions"), arm.gains("mistakes"), label=arm.title.replace("`", "")
        )
    axes.axhline(0, color="0.6", linewidth=0.8)
    axes.set_xlabel("omissions, difference to SFT (higher: fewer)")
    axes.set_ylabel("mistakes, difference to SFT (higher: fewer)")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)
