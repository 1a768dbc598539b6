"""Plots of one training run. Matplotlib is imported on use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

from posh_reward.study.rows.score_axes import SCALE
from posh_reward.study.rows.standings import Standing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIGNS = {
    "posh/length_ratio": "words per word of the reference",
    "posh/repeated_share": "share of repeated phrases",
    "posh/coverage": "share of content words in elements",
    "posh/failed_share": "share without a score",
    "judging_share": "share of the time spent judging",
}
"""Logged figures that rise (coverage: falls) when a policy games the reward or a judge fails."""
INK, GRID = "#1f2328", "#eaeef2"
PRECISION, RECALL = "#0969da", "#bc4c00"


def training_plot(
    history: Sequence[Mapping[str, Any]], standings: Sequence[Standing], path: Path, run: str
) -> None:
    """Plot a run's reward over steps, beside the held-out scores of each stage of training.

    ``history`` is TRL's ``trainer.state.log_history``; lines without ``reward`` are left out.
    """
    figure, (left, right) = _figure()
    _reward(left, history)
    left.set_title(f"Reward while training: {run}", loc="left", fontsize=11, color=INK)
    _standings(right, standings)
    figure.savefig(path, dpi=150)


def run_plot(history: Sequence[Mapping[str, Any]]) -> bytes:
    """A PNG of one run: the reward over steps, beside figures that reveal reward hacking.

    ``history`` is TRL's ``trainer.state.log_history``; lines without ``reward`` are left out.
    """
    figure, (left, right) = _figure()
    _reward(left, history)
    left.set_title("Reward while training", loc="left", fontsize=11, color=INK)
    for key, name in SIGNS.items():
        _line(right, history, key, linewidth=1.4, label=name)
    right.set_title("What to watch", loc="left", fontsize=11, color=INK)
    right.set_xlabel("step")
    right.locator_params(axis="x", integer=True)
    right.set_ylim(bottom=0)
    if right.lines:
        right.legend(edgecolor="none", fontsize=9)  # opaque, as lines may pass behind it
    content = BytesIO()
    figure.savefig(content, format="png", dpi=110)
    return content.getvalue()


def _line(axes: Axes, history: Sequence[Mapping[str, Any]], key: str, **style: Any) -> None:
    """Plot a figure over the steps at which it was logged, if it was."""
    lines = [line for line in history if line.get("reward") is not None]
    steps = [line.get("step", index + 1) for index, line in enumerate(lines)]
    pairs = zip(steps, lines, strict=True)
    points = [(step, line[key]) for step, line in pairs if line.get(key) is not None]
    if points:
        axes.plot(*zip(*points, strict=True), **style)


def _figure() -> tuple[Figure, Any]:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    panels = figure.subplots(1, 2, width_ratios=(3, 2))
    for axes in panels:
        plain(axes, grid="y")
    return figure, panels


def plain(axes: Axes, labelsize: int = 9, grid: Literal["both", "x", "y"] = "both") -> None:
    """Style axes: no frame above and right, a faint grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=labelsize)
    axes.grid(axis=grid, color=GRID)
    axes.set_axisbelow(True)


def _reward(axes: Axes, history: Sequence[Mapping[str, Any]]) -> None:
    # With objective separate, TRL logs the sum of two rewards, which is on another scale.
    two = any("rewards/posh_recall_reward/mean" in line for line in history)
    for key, name, color, width in (
        ("posh/precision", "precision", PRECISION, 1.2),
        ("posh/recall", "recall", RECALL, 1.2),
        ("posh/f1", "f1", INK, 2.4) if two else ("reward", "reward", INK, 2.4),
    ):
        _line(axes, history, key, color=color, linewidth=width, label=name)
    axes.set_xlabel("step")
    axes.locator_params(axis="x", integer=True)
    axes.set_ylabel("higher is better", fontsize=9, color=INK)
    axes.legend(frameon=False, fontsize=9)


def _standings(axes: Axes, standings: Sequence[Standing]) -> None:
    standings = [each for each in standings if each.axes]
    for place, each in enumerate(standings):
        f1 = each.axes["f1"]
        spread = [[f1.mean - f1.low], [f1.high - f1.mean]]
        labels = ("f1, 95 %", "precision", "recall") if place == 0 else (None,) * 3
        axes.bar(
            place, f1.mean, width=0.6, color="#d1d9e0", yerr=spread, ecolor=INK, capsize=4,
            label=labels[0],
        )  # fmt: skip
        precision, recall = (each.axes[name].mean for name in ("precision", "recall"))
        axes.scatter(place - 0.12, precision, color=PRECISION, zorder=3, s=22, label=labels[1])
        axes.scatter(place + 0.12, recall, color=RECALL, zorder=3, s=22, label=labels[2])
        axes.annotate(f"{f1.mean:.3f}", (place, 0.03), ha="center", fontsize=9, color=INK)
    many = len(standings) > 5
    names = [fill(each.model, 9 if many else 11) for each in standings]
    axes.set_xticks(range(len(standings)), names, fontsize=7 if many else 8)
    axes.set_ylim(0, 1.15)  # room for the legend above the highest points
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    axes.set_ylabel(SCALE, fontsize=9, color=INK)
    axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=3)
    axes.set_title("Held-out images", loc="left", fontsize=11, color=INK)
