"""Recompute Figure 9 of "Fine-grained evaluation of VLMs using LLM-as-Judge" from Tables A1-A5.

    python -m research.rubric_figure research/results

The paper's accuracy is 100 - 100 RMSE / 15 in every column. Only the total has a range of 15: a
metric has 2 to 5 points, so the same error is a larger share of its range. Rewrites the tables in
research/results/rubric.md (both accuracies and Pearson's r), prints those of errors and rank
correlations, and draws ``rubric_figure.png``. ``scores.csv`` has the paper's tables,
``published.csv`` its figure.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import kendalltau, pearsonr, spearmanr

from posh_reward.other_metrics.rubric_judge import load_rubric
from posh_reward.tables.statistics import Floats
from research.tables import write_between

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).parent
HUMAN = "Human"
TOTAL = "Total"
METRICS = tuple(metric.name for metric in load_rubric("animals").metrics)
COLUMNS = (*METRICS, TOTAL)
OWN = {
    **{metric.name: metric.highest - metric.lowest for metric in load_rubric("animals").metrics},
    TOTAL: load_rubric("animals").highest,
}
"""Column -> its range in points."""
PAPERS = dict.fromkeys(COLUMNS, OWN[TOTAL])
"""Column -> the paper's divisor: always the total's range."""
PEARSON = "Pearson's r"
CORRELATIONS: dict[str, Callable[[Floats, Floats], tuple[float, float]]] = {
    PEARSON: pearsonr,
    "Spearman's rho": spearmanr,
    "Kendall's tau": kendalltau,
}

Table = Mapping[str, Mapping[str, Floats]]  # rater -> column -> (items,) points
Row = Mapping[str, float]  # column -> figure


def main(argv: Sequence[str] | None = None) -> None:
    """Rewrite the page's tables and draw the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the page")
    folder = parser.parse_args(argv).folder
    page = folder / "rubric.md"
    if not page.is_file():
        parser.error(f"no file {str(page)!r}: name the page's folder, research/results")
    scores = read_scores()
    write_between(page, "rubric figure", tables(scores))
    draw(scores, folder / "rubric_figure.png")
    print(more_tables(scores))


def read_scores() -> Table:
    """Read Tables A1-A5.

    Raises:
        ValueError: the points of an item do not add up to its total.
    """
    with (HERE / "scores.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if sum(int(row[name]) for name in METRICS) != int(row[TOTAL]):
            raise ValueError(f"{row['rater']}, {row['item']}: the points are not the total")
    raters = dict.fromkeys(row["rater"] for row in rows)
    return {
        rater: {
            column: np.array([float(row[column]) for row in rows if row["rater"] == rater])
            for column in COLUMNS
        }
        for rater in raters
    }


def read_published() -> dict[str, Row]:
    """Read Figure 9 as printed: model -> column -> accuracy in percent."""
    with (HERE / "published.csv").open(encoding="utf-8") as file:
        return {
            row["model"]: {column: float(row[column]) for column in COLUMNS}
            for row in csv.DictReader(file)
        }


def models(scores: Table) -> list[str]:
    """Return the raters that are compared with the human."""
    return [rater for rater in scores if rater != HUMAN]


def rmse(scores: Table, model: str) -> Row:
    """Return the root mean square error of a model's points; lower is better."""
    apart = {name: scores[model][name] - scores[HUMAN][name] for name in COLUMNS}
    return {name: float(np.sqrt(np.mean(np.square(values)))) for name, values in apart.items()}


def accuracy(scores: Table, model: str, ranges: Mapping[str, int]) -> Row:
    """Return 100 - 100 RMSE / range, in percent; higher is better."""
    return {name: 100 - 100 * each / ranges[name] for name, each in rmse(scores, model).items()}


def correlation(scores: Table, model: str, kind: str) -> Row:
    """Return the correlations of a model's points with the human's, -1 to 1."""
    return {
        name: float(CORRELATIONS[kind](scores[model][name], scores[HUMAN][name])[0])
        for name in COLUMNS
    }


def unlike(scores: Table) -> list[str]:
    """List the cells of Figure 9 that do not follow from the tables."""
    return [
        f"{model} {name}: {ours[name]:.1f}, printed {printed[name]:.1f}"
        for model, printed in read_published().items()
        for ours in [accuracy(scores, model, PAPERS)]
        for name in COLUMNS
        if f"{ours[name]:.1f}" != f"{printed[name]:.1f}"
    ]


def tables(scores: Table) -> str:
    """Return the accuracies by both ranges and Pearson's r, in Markdown, for the page."""
    ranges = ", ".join(f"{name} {OWN[name]}" for name in COLUMNS)
    kinds = {
        "accuracy % over the total's range, 15, as in the paper": [
            (model, accuracy(scores, model, PAPERS), 1) for model in models(scores)
        ],
        f"accuracy % over each column's own range ({ranges})": [
            (model, accuracy(scores, model, OWN), 1) for model in models(scores)
        ],
        PEARSON: [(model, correlation(scores, model, PEARSON), 2) for model in models(scores)],
    }
    blocks = [_table(title, rows) for title, rows in kinds.items()]
    missed = "; ".join(unlike(scores))
    return "\n\n".join([*blocks, f"Figure 9 does not follow from the tables in: {missed}."])


def more_tables(scores: Table) -> str:
    """Return the errors in points and the rank correlations, in Markdown, for the terminal."""
    errors = [(model, rmse(scores, model), 2) for model in models(scores)]
    ranks = {
        kind: [(model, correlation(scores, model, kind), 2) for model in models(scores)]
        for kind in CORRELATIONS
        if kind != PEARSON
    }
    kinds = {"RMSE in points (lower is better)": errors, **ranks}
    return "\n\n".join(_table(title, rows) for title, rows in kinds.items())


def _table(title: str, rows: Sequence[tuple[str, Row, int]]) -> str:
    lines = [f"| {title} | {' | '.join(COLUMNS)} |", f"|---|{'---:|' * len(COLUMNS)}"]
    for model, row, digits in rows:
        cells = (f"{row[name]:.{digits}f}" for name in COLUMNS)
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(scores: Table, path: Path) -> None:
    """Draw the accuracies by both ranges, one panel per model."""
    from matplotlib.figure import Figure

    names = models(scores)
    figure = Figure(figsize=(9, 5.4), layout="constrained")
    panels = figure.subplots(2, 2, sharey=True).flat
    for axes, model in zip(panels, names, strict=True):
        _panel(axes, scores, model)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle("Accuracy of judges, 100 - 100 RMSE / range, in % (higher is better)")
    figure.savefig(path, dpi=110)


def _panel(axes: Axes, scores: Table, model: str) -> None:
    places = np.arange(len(COLUMNS))
    for by, ranges, colour, label in (
        (-0.2, PAPERS, "#8c959f", "range 15 in every column (the paper's Fig. 9)"),
        (0.2, OWN, "#0969da", "each column's own range"),
    ):
        ours = accuracy(scores, model, ranges)
        bars = axes.bar(places + by, [ours[n] for n in COLUMNS], 0.4, color=colour, label=label)
        axes.bar_label(bars, fmt="%.0f", fontsize=7, padding=1)
    axes.set_title(model, fontsize=10, loc="left")
    axes.set_xticks(places, COLUMNS)
    axes.set_ylim(0, 112)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
