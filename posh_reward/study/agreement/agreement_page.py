"""Agreement report -> text for terminals, one HTML page without scripts, a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from posh_reward.study.agreement.agreement_report import (
    LEVEL,
    AgreementReport,
    cell_text,
    difference_text,
    paper_text,
)
from posh_reward.study.agreement.compare import Figure, MetricLine
from posh_reward.study.pages.html import render
from posh_reward.study.pages.model_plots import INK, plain
from posh_reward.study.rows.tables import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 100  # columns of notes in a terminal


def terminal_text(report: AgreementReport) -> str:
    """Format the whole report: figures of each axis, the paper's, and differences."""
    parts = [report.title, fill(_legend(report), WIDTH)]
    for axis, figures in report.blocks:
        parts.append(align(_figure_rows(report, axis, figures, terminal=True)))
        if differences := _difference_rows(report, figures, interval=False):
            parts.append(align(differences))
    failures = (
        f"{line.name}: {count:,} texts have no score: {reason}"
        for line in report.lines
        for reason, count in line.failures.items()
    )
    parts += ["\n".join(_missing(report)), "\n".join(failures)]
    parts += [fill(note, WIDTH) for note in report.notes]
    return "\n\n".join(part for part in parts if part)


def html_page(report: AgreementReport) -> str:
    """Render the report as one HTML document that needs no other file."""
    blocks = [
        (axis, [_figure_rows(report, "metric", figures, terminal=False),
                *filter(None, [_difference_rows(report, figures, interval=True)])])
        for axis, figures in report.blocks
    ]  # fmt: skip
    signatures = [f"{line.name}: {line.signature}" for line in report.lines]
    return render(
        "agreement.html",
        __package__ or "",
        title=report.title,
        lead=_legend(report),
        blocks=blocks,
        footer=[*report.notes, *_missing(report), *signatures],
    )


def _legend(report: AgreementReport) -> str:
    text = f"Higher is better; {LEVEL} intervals by bootstrap over images. "
    if any(figure.percent for figure in report.figures):
        text += "Accuracies in percent. "
    if any(figure.p_value for figure in report.figures):
        text += "A question mark: not significantly different from 0 (p of 0.05 or more). "
    return text.strip()


def _missing(report: AgreementReport) -> list[str]:
    return [f"{line.name}: not measured: {line.missing}" for line in report.lines if line.missing]


def _figure_rows(
    report: AgreementReport, head: str, figures: Sequence[Figure], *, terminal: bool
) -> list[list[str]]:
    """Table of figures, heads first; the paper's lines are below ours."""
    rows = [[head, *(["rows"] if terminal else []), *(figure.name for figure in figures)]]
    for line in report.lines:
        if line.cells:
            cells = [line.cells[figure.key] for figure in figures]
            count = [f"{max(cell.rows for cell in cells):,}"] if terminal else []
            texts = (cell_text(figure, c) for figure, c in zip(figures, cells, strict=True))
            rows.append([line.name, *count, *texts])
    source = f"paper, Table {report.table}" if terminal else "paper"
    for paper in report.paper:
        if any(figure.key in paper.figures for figure in figures):
            texts = (paper_text(figure, paper.figures.get(figure.key)) for figure in figures)
            rows.append([f"{paper.name} ({source})", *([""] if terminal else []), *texts])
    return rows


def _difference_rows(
    report: AgreementReport, figures: Sequence[Figure], *, interval: bool
) -> list[list[str]]:
    def row(line: MetricLine) -> list[str]:
        differences = ((figure, line.differences[figure.key]) for figure in figures)
        return [line.name, *(difference_text(f, d, interval=interval) for f, d in differences)]

    rows = [row(line) for line in report.lines if line.differences]
    return (
        [[f"minus {report.against}", *(figure.name for figure in figures)], *rows] if rows else []
    )


def align(rows: Sequence[Sequence[str]]) -> str:
    """Format rows of cells in columns: the first left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            f"{cell:<{width}}" if place == 0 else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def draw_plot(report: AgreementReport, path: Path) -> None:
    """Draw each figure as a point with its interval; the paper's points are hollow."""
    from matplotlib.figure import Figure as Canvas

    blocks = report.blocks
    widest = max(len(figures) for _, figures in blocks)
    names = [line.name for line in report.lines if line.cells]
    height = 0.8 + 0.32 * (len(names) + len(report.paper))
    size = (1.4 + 2.4 * widest, height * len(blocks))
    canvas = Canvas(figsize=size, layout="constrained")
    grid = canvas.subplots(len(blocks), widest, squeeze=False, sharey="row")
    for row, (axis, figures) in zip(grid, blocks, strict=True):
        _draw_block(row, report, axis, figures)
    canvas.suptitle(report.title, fontsize=10, color=INK)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        canvas.savefig(file, format=path.suffix[1:], dpi=150)


def _draw_block(
    panels: Sequence[Axes], report: AgreementReport, axis: str, figures: Sequence[Figure]
) -> None:
    lines = [line for line in report.lines if line.cells]
    labels = [line.name for line in lines] + [f"{p.name} (paper)" for p in report.paper]
    for panel, figure in zip(panels, figures, strict=False):
        scale = 100 if figure.percent else 1
        for place, line in enumerate(lines):
            estimate = line.cells[figure.key].estimate
            panel.plot([scale * estimate.low, scale * estimate.high], [place] * 2, color=INK, lw=1)
            panel.plot(scale * estimate.value, place, "o", color=INK, ms=4)
        for place, paper in enumerate(report.paper, start=len(lines)):
            if figure.key in paper.figures:
                panel.plot(paper.figures[figure.key], place, "o", color=INK, ms=4, mfc="none")
        panel.set_yticks(range(len(labels)), labels, fontsize=7)
        panel.set_title(f"{axis}: {figure.name}", fontsize=8, color=INK)
        plain(panel, labelsize=7, grid="x")
        panel.spines["left"].set_visible(False)
    panels[0].invert_yaxis()
    for panel in panels[len(figures) :]:
        panel.axis("off")
