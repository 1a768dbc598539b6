"""Figures for people who would rather look than read. Matplotlib is imported when used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

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
"""Figures of a log that rise when a policy finds pay without describing, or a judge gives way;
coverage falls then."""
INK = "#1f2328"
MISTAKES, OMISSIONS, REWARD = "#0969da", "#bc4c00", "#1f2328"


def training_plot(
    history: Sequence[Mapping[str, Any]], standings: Sequence[Standing], path: Path, run: str
) -> None:
    """Draw a run's reward over steps, and next to it the held-out scores, in the order of training.

    ``history`` is TRL's ``trainer.state.log_history``; lines without ``reward`` are left out.
    """
    figure, (left, right) = _figure()
    _reward(left, [line for line in history if line.get("reward") is not None])
    left.set_title(f"Reward while training: {run}", loc="left", fontsize=11, color=INK)
    _standings(right, standings)
    figure.savefig(path, dpi=150)


def run_plot(history: Sequence[Mapping[str, Any]]) -> bytes:
    """A PNG of one run: the reward over steps, and next to it what would betray a hacked reward.

    ``history`` is TRL's ``trainer.state.log_history``.
    """
    figure, (left, right) = _figure()
    lines = [line for line in history if line.get("reward") is not None]
    _reward(left, lines)
    _signs(right, lines)
    content = BytesIO()
    figure.savefig(content, format="png", dpi=110)
    return content.getvalue()


def _points(
    key: str, steps: Sequence[float], lines: Sequence[Mapping[str, Any]]
) -> list[tuple[float, float]]:
    """Steps at which a figure was logged, with its values."""
    pairs = zip(steps, lines, strict=True)
    return [(step, line[key]) for step, line in pairs if line.get(key) is not None]


def _signs(axes: Axes, lines: Sequence[Mapping[str, Any]]) -> None:
    steps = [line.get("step", index + 1) for index, line in enumerate(lines)]
    for key, name in SIGNS.items():
        points = _points(key, steps, lines)
        if points:
            axes.plot(*zip(*points, strict=True), linewidth=1.4, label=name)
    axes.set_title("What to watch", loc="left", fontsize=11, color=INK)
    axes.set_xlabel("step")
    axes.locator_params(axis="x", integer=True)
    axes.set_ylim(bottom=0)
    if axes.lines:
        # On a ground of its own: lines may pass behind it.
        axes.legend(edgecolor="none", fontsize=9)


def _figure() -> tuple[Figure, Any]:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots(1, 2, width_ratios=(3, 2))
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=INK, labelsize=9)
        axis.grid(axis="y", color="#eaeef2")
        axis.set_axisbelow(True)
    return figure, axes


def _reward(axes: Axes, lines: Sequence[Mapping[str, Any]]) -> None:
    steps = [line.get("step", index + 1) for index, line in enumerate(lines)]
    # With objective separate, TRL logs the sum of two rewards, which has another scale.
    two = any("rewards/posh_recall_reward/mean" in line for line in lines)
    for key, name, color, width in (
        ("posh/precision", "mistakes (precision)", MISTAKES, 1.2),
        ("posh/recall", "omissions (recall)", OMISSIONS, 1.2),
        ("posh/f1", "overall (f1)", REWARD, 2.4) if two else ("reward", "reward", REWARD, 2.4),
    ):
        points = _points(key, steps, lines)
        if points:
            axes.plot(*zip(*points, strict=True), color=color, linewidth=width, label=name)
    axes.set_title("Reward while training", loc="left", fontsize=11, color=INK)
    axes.set_xlabel("step")
    axes.locator_params(axis="x", integer=True)
    axes.set_ylabel("higher is better", fontsize=9, color=INK)
    axes.legend(frameon=False, fontsize=9)


def _standings(axes: Axes, standings: Sequence[Standing]) -> None:
    standings = [each for each in standings if each.axes]
    for place, each in enumerate(standings):
        overall = each.axes["overall"]
        spread = [[overall.mean - overall.low], [overall.high - overall.mean]]
        labels = ("overall, 95 %", "mistakes", "omissions") if place == 0 else (None,) * 3
        axes.bar(
            place, overall.mean, width=0.6, color="#d1d9e0", yerr=spread, ecolor=INK, capsize=4,
            label=labels[0],
        )  # fmt: skip
        mistakes, omissions = (each.axes[name].mean for name in ("mistakes", "omissions"))
        axes.scatter(place - 0.12, mistakes, color=MISTAKES, zorder=3, s=22, label=labels[1])
        axes.scatter(place + 0.12, omissions, color=OMISSIONS, zorder=3, s=22, label=labels[2])
        axes.annotate(f"{overall.mean:.3f}", (place, 0.03), ha="center", fontsize=9, color=INK)
    many = len(standings) > 5
    names = [fill(each.model, 9 if many else 11) for each in standings]
    axes.set_xticks(range(len(standings)), names, fontsize=7 if many else 8)
    axes.set_ylim(0, 1.15)  # room for the legend above the highest points
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    axes.set_ylabel(SCALE, fontsize=9, color=INK)
    axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=3)
    axes.set_title("Held-out images", loc="left", fontsize=11, color=INK)
