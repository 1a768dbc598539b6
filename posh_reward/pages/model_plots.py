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
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from posh_reward.errors import MissingDependencyError, install_command, on_one_line
from posh_reward.process.locks import whole_file
from posh_reward.tables.standings import ModelMeans, ModelTotals, ScoreTotals, sort_best_first
from posh_reward.tables.statistics import Interval, bootstrap_mean
from posh_reward.tables.tables import AXIS_MEANINGS, SCORE_SCALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INK_COLOR = "#1f2328"
GRID_COLOR = "#eaeef2"
PRECISION_COLOR = "#0969da"
RECALL_COLOR = "#bc4c00"


def style_axes(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK_COLOR, labelsize=9)
    axes.grid(color=GRID_COLOR)
    axes.set_axisbelow(True)


MODEL_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's colour-blind safe palette, without its yellow."""
MODEL_SHAPES = ("o", "s", "^", "D", "v", "p")
"""One fewer than colours, so that 42 models differ in colour or shape."""
PLOT_AXES = (
    ("precision", PRECISION_COLOR, "o", 0.22),
    ("f1", INK_COLOR, "D", 0.0),
    ("recall", RECALL_COLOR, "s", -0.22),
)
"""Axis, colour, shape, and vertical offset from its model's line."""
MAX_LENGTH_QUANTILE = 0.99
"""Quantile of the lengths to plot: a single runaway text would leave the plot empty."""
PLOT_STYLE = {"text.parse_math": False, "svg.hashsalt": "posh", "font.size": 9.0}
"""No formulas, as a model may be called ``$x$``; a fixed salt, so equal scores make equal files."""


@dataclass(frozen=True)
class Plot:
    """A figure with its file name, without the suffix, and a text alternative."""

    name: str
    what: str
    figure: Figure


def require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingDependencyError(f"plots need matplotlib: {install_command('study')}") from None


def model_plots(totals: ScoreTotals) -> list[Plot]:
    """Plot all models that have a score; an empty list if there is none."""
    table = [
        each
        for each in sort_best_first(totals.average_by_model())
        if len(each.axes) == len(AXIS_MEANINGS)
    ]
    if not table:
        return []
    names = ", ".join(on_one_line(each.model) for each in table)
    leaderboard = f"Mean scores, best model first: {names}"
    with plot_style():
        return [
            Plot("leaderboard", leaderboard, _plot_leaderboard(table)),
            Plot("length", "f1 against words", _plot_length(table, totals.models)),
            Plot(
                "precision_recall",
                "Precision against recall",
                _plot_precision_recall(table, totals.models),
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
                file.write(render_plot(plot, ending))
            paths.append(path)
    return paths


def render_plot(plot: Plot, ending: str) -> bytes:
    content = BytesIO()
    no_date = {"Date": None} if ending == "svg" else None
    with plot_style():
        plot.figure.savefig(content, format=ending, dpi=150, metadata=no_date)
    return content.getvalue()


@contextmanager
def plot_style() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context(PLOT_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # drawn as a box
        yield


def _plot_leaderboard(table: Sequence[ModelMeans]) -> Figure:
    figure, axes = _make_canvas(9, 1.1 + 0.42 * len(table))
    places = range(len(table))[::-1]
    for axis, color, shape, off in PLOT_AXES:
        intervals = [each.axes[axis] for each in table]
        axes.errorbar(
            [it.mean for it in intervals], [place + off for place in places],
            xerr=_error_bars(intervals), fmt=shape, color=color, markersize=5, linewidth=1.3,
            label=axis,
        )  # fmt: skip
    for place, each in zip(places, table, strict=True):
        text = f"{each.axes['f1'].mean:.3f}"
        axes.annotate(text, (1.01, place), xycoords=("axes fraction", "data"), va="center")
    names = [shorten_name(each.model, 44) for each in table]
    axes.set_yticks(places, names)
    axes.set_ylim(-0.6, len(table) - 0.4)
    axes.set_xlabel(f"{SCORE_SCALE}; means with 95 % intervals")
    axes.annotate("f1", (1.01, 1), xycoords="axes fraction", va="bottom", fontsize=8)
    figure.legend(loc="outside upper left", ncols=3, frameon=False)
    return figure


def _plot_length(table: Sequence[ModelMeans], totals: Mapping[str, ModelTotals]) -> Figure:
    clouds = []
    for each in table:
        lengths, scores = totals[each.model].lengths, totals[each.model].scores["f1"]
        mean = bootstrap_mean(lengths)
        clouds.append(Cloud(each.model, lengths, scores, mean, each.axes["f1"]))
    longest = 0.0
    for cloud in clouds:
        longest = max(longest, float(np.quantile(cloud.x, MAX_LENGTH_QUANTILE)), cloud.mean_x.high)
    return _plot_clouds(
        clouds, "words of a text", f"f1 ({SCORE_SCALE})", x_limits=(0, 1.05 * longest)
    )


def _plot_precision_recall(
    table: Sequence[ModelMeans], totals: Mapping[str, ModelTotals]
) -> Figure:
    clouds = []
    for each in table:
        scores, means = totals[each.model].scores, each.axes
        x, y = scores["recall"], scores["precision"]
        clouds.append(Cloud(each.model, x, y, means["recall"], means["precision"]))
    return _plot_clouds(
        clouds, f"recall: {AXIS_MEANINGS['recall']}", f"precision: {AXIS_MEANINGS['precision']}"
    )


@dataclass(frozen=True)
class Cloud:
    """A model's texts as points (x, y), with the means of both coordinates."""

    model: str
    x: array[int] | array[float]
    y: array[float]
    mean_x: Interval
    mean_y: Interval


def _plot_clouds(
    clouds: Sequence[Cloud], x: str, y: str, x_limits: tuple[float, float] | None = None
) -> Figure:
    """Plot each model's means with intervals, and its texts as faint points."""
    figure, axes = _make_canvas(9, 4.6)
    faint = min(0.4, max(0.12, 100 / sum(len(cloud.x) for cloud in clouds)))
    for rank, cloud in enumerate(clouds, start=1):
        color = MODEL_COLORS[(rank - 1) % len(MODEL_COLORS)]
        shape = MODEL_SHAPES[(rank - 1) % len(MODEL_SHAPES)]
        axes.scatter(
            cloud.x, cloud.y, s=9, color=color, alpha=faint, linewidths=0, rasterized=True, zorder=1
        )
        mean = cloud.mean_x.mean, cloud.mean_y.mean
        axes.annotate(
            str(rank), mean, (8, 8), textcoords="offset points", color=color, fontsize=8,
            fontweight="bold", zorder=4,
        )  # fmt: skip
        axes.errorbar(
            *mean,
            xerr=_error_bars([cloud.mean_x]), yerr=_error_bars([cloud.mean_y]),
            fmt=shape, color=color, markersize=7, markeredgecolor="white",
            markeredgewidth=0.6, linewidth=1.3, zorder=3,
            label=f"{rank}  {shorten_name(cloud.model, 30)}",
        )  # fmt: skip
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if x_limits is not None:
        axes.set_xlim(*x_limits)
    figure.legend(
        loc="outside right upper", frameon=False, title="means, 95 %; best first", alignment="left"
    )
    return figure


def _make_canvas(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    style_axes(axes)
    return figure, axes


def _error_bars(intervals: Sequence[Interval]) -> list[list[float]]:
    """Lengths of Matplotlib's error bars: below the means, and above."""
    return [[it.mean - it.low for it in intervals], [it.high - it.mean for it in intervals]]


def shorten_name(name: str, most: int) -> str:
    """Cut a model's name in the middle, since names of runs differ at both ends."""
    name = on_one_line(name) or "(no model)"
    if len(name) <= most:
        return name
    tail = (most - 1) * 2 // 3
    return f"{name[: most - 1 - tail]}\u2026{name[-tail:]}"
