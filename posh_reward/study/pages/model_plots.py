"""Plots that compare models: a leaderboard, scores against length, precision against recall.

Models differ in colour, in shape and by their rank, the number next to each point. Matplotlib is
imported on use.
"""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import hypot
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posh_reward.errors import MissingDependencyError, on_one_line
from posh_reward.study.rows.scored_rows import AXES, SCALE
from posh_reward.study.rows.standings import Standing, Tally, Totals, best_first
from posh_reward.study.rows.tables import whole_file
from posh_reward.study.statistics import Interval, bootstrap_mean

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


COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's colour-blind safe palette, without its yellow."""
SHAPES = ("o", "s", "^", "D", "v", "p")
"""One fewer than colours, so that 42 models differ in colour or shape."""
PLOT_AXES = (
    ("precision", PRECISION, "o", 0.22),
    ("f1", INK, "D", 0.0),
    ("recall", RECALL, "s", -0.22),
)
"""Axis, colour, shape, and vertical offset from its model's line."""
LONGEST = {"leaderboard": 44, "legend": 30}
"""Characters of a model's name; longer names are cut in the middle."""
FAR = 0.99
"""Quantile of the lengths to plot: a single runaway text would leave the plot empty."""
PER_POINT = 2  # pixels per point (1/72 inch) while a figure is laid out
AROUND = [(10, 0), (-10, 0), (0, 10), (0, -10), (8, 8), (-8, 8), (8, -8), (-8, -8)]
"""Candidate offsets of a point's number, in points (1/72 inch)."""
STYLE = {"text.parse_math": False, "svg.hashsalt": "posh", "font.size": 9.0}
"""No formulas, as a model may be called ``$x$``; a fixed salt, so equal scores make equal files."""


@dataclass(frozen=True)
class Plot:
    """A figure with its file name, without the suffix, and a text alternative."""

    name: str
    what: str
    figure: Figure


def require_matplotlib() -> None:
    """Raise ``MissingDependencyError`` early if Matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingDependencyError("plots need matplotlib: pip install matplotlib") from None


def model_plots(tally: Tally) -> list[Plot]:
    """Plot all models that have a score; an empty list if there is none."""
    table = [each for each in best_first(tally.standings()) if each.axes]
    if not table:
        return []
    names = ", ".join(on_one_line(each.model) for each in table)
    with plot_style():
        return [
            Plot("leaderboard", f"Mean scores, best model first: {names}", _leaderboard(table)),
            Plot("length", "f1 against words", _length(table, tally.models)),
            Plot(
                "precision_recall",
                "Precision against recall",
                _precision_recall(table, tally.models),
            ),
        ]


def save_plots(plots: Sequence[Plot], folder: Path) -> list[Path]:
    """Write each plot as PNG and SVG; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for plot in plots:
        for ending in ("png", "svg"):
            path = folder / f"{plot.name}.{ending}"
            with whole_file(path) as file:
                file.write(draw(plot, ending))
            paths.append(path)
    return paths


def draw(plot: Plot, ending: str) -> bytes:
    """Render a plot as the content of a png or svg file."""
    content = BytesIO()
    no_date = {"Date": None} if ending == "svg" else None
    with plot_style():
        plot.figure.savefig(content, format=ending, dpi=150, metadata=no_date)
    return content.getvalue()


@contextmanager
def plot_style() -> Iterator[None]:
    """Use our plot style inside the block."""
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # drawn as a box
        yield


def _leaderboard(table: Sequence[Standing]) -> Figure:
    figure, axes = _canvas(9, 1.1 + 0.42 * len(table))
    places = range(len(table))[::-1]
    for axis, color, shape, off in PLOT_AXES:
        intervals = [each.axes[axis] for each in table]
        axes.errorbar(
            [it.mean for it in intervals], [place + off for place in places],
            xerr=_reach(intervals), fmt=shape, color=color, markersize=5, linewidth=1.3,
            label=axis,
        )  # fmt: skip
    for place, each in zip(places, table, strict=True):
        text = f"{each.axes['f1'].mean:.3f}"
        axes.annotate(text, (1.01, place), xycoords=("axes fraction", "data"), va="center")
    names = [short_name(each.model, LONGEST["leaderboard"]) for each in table]
    axes.set_yticks(places, names)
    axes.set_ylim(-0.6, len(table) - 0.4)
    axes.set_xlabel(f"{SCALE}; means with 95 % intervals")
    axes.annotate("f1", (1.01, 1), xycoords="axes fraction", va="bottom", fontsize=8)
    figure.legend(loc="outside upper left", ncols=3, frameon=False)
    return figure


def _length(table: Sequence[Standing], totals: Mapping[str, Totals]) -> Figure:
    clouds = []
    for each in table:
        lengths, scores = totals[each.model].lengths, totals[each.model].scores["f1"]
        mean = bootstrap_mean(lengths)
        clouds.append(Cloud(each.model, lengths, scores, mean, each.axes["f1"]))
    longest = max(float(np.quantile(cloud.x, FAR)) for cloud in clouds)
    reach = max(longest, *(cloud.mean_x.high for cloud in clouds))
    return _scatter(clouds, "words of a text", f"f1 ({SCALE})", x_limits=(0, 1.05 * reach))


def _precision_recall(table: Sequence[Standing], totals: Mapping[str, Totals]) -> Figure:
    names = ("recall", "precision")  # on the x axis, on the y axis
    clouds = []
    for each in table:
        x, y = (totals[each.model].scores[name] for name in names)
        clouds.append(Cloud(each.model, x, y, *(each.axes[name] for name in names)))
    x_label, y_label = (f"{name}: {AXES[name]}" for name in names)
    return _scatter(clouds, x_label, y_label)


@dataclass(frozen=True)
class Cloud:
    """A model's texts as points (x, y), with the means of both coordinates."""

    model: str
    x: array[int] | array[float]
    y: array[float]
    mean_x: Interval
    mean_y: Interval


def _scatter(
    clouds: Sequence[Cloud], x: str, y: str, x_limits: tuple[float, float] | None = None
) -> Figure:
    """Plot each model's means with intervals, and its texts as faint points."""
    figure, axes = _canvas(9, 4.6)
    faint = min(0.4, max(0.12, 100 / sum(len(cloud.x) for cloud in clouds)))
    for rank, cloud in enumerate(clouds, start=1):
        color, shape = _color(rank), SHAPES[(rank - 1) % len(SHAPES)]
        axes.scatter(
            cloud.x, cloud.y, s=9, color=color, alpha=faint, linewidths=0, rasterized=True, zorder=1
        )
        axes.errorbar(
            [cloud.mean_x.mean], [cloud.mean_y.mean],
            xerr=_reach([cloud.mean_x]), yerr=_reach([cloud.mean_y]),
            fmt=shape, color=color, markersize=7, markeredgecolor="white",
            markeredgewidth=0.6, linewidth=1.3, zorder=3,
            label=f"{rank}  {short_name(cloud.model, LONGEST['legend'])}",
        )  # fmt: skip
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if x_limits is not None:
        axes.set_xlim(*x_limits)
    figure.legend(
        loc="outside right upper", frameon=False, title="means, 95 %; best first", alignment="left"
    )
    _number(figure, axes, [(cloud.mean_x.mean, cloud.mean_y.mean) for cloud in clouds])
    return figure


def _number(figure: Figure, axes: Axes, points: Sequence[tuple[float, float]]) -> None:
    """Write each point's rank beside it, as far as possible from points and other numbers."""
    from matplotlib.patheffects import withStroke

    figure.draw_without_rendering()  # the layout fixes the points' places on the canvas
    marks = [(float(x), float(y)) for x, y in axes.transData.transform(points) / PER_POINT]
    for rank, (point, (x, y)) in enumerate(zip(points, list(marks), strict=True), start=1):
        free = {
            (right, up): min(hypot(x + right - a, y + up - b) for a, b in marks)
            for right, up in AROUND
        }
        best = max(free, key=lambda offset: free[offset])
        marks.append((x + best[0], y + best[1]))
        axes.annotate(
            str(rank), point, best, textcoords="offset points", ha="center", va="center",
            color=_color(rank), fontsize=8, fontweight="bold", zorder=4,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip


def _color(rank: int) -> str:
    return COLORS[(rank - 1) % len(COLORS)]


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=72 * PER_POINT)
    axes = figure.subplots()
    plain(axes)
    return figure, axes


def _reach(intervals: Sequence[Interval]) -> list[list[float]]:
    """Lengths of error bars below and above the means."""
    return [[it.mean - it.low for it in intervals], [it.high - it.mean for it in intervals]]


def short_name(name: str, most: int) -> str:
    """Cut a model's name in the middle, since names of runs differ at both ends."""
    name = on_one_line(name) or "(no model)"
    if len(name) <= most:
        return name
    tail = (most - 1) * 2 // 3
    return f"{name[: most - 1 - tail]}\u2026{name[-tail:]}"
