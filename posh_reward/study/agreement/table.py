"""A report in plain text, for terminals."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from posh_reward.study.agreement.compare import Figure, Line
from posh_reward.study.agreement.report import LEVEL, Report, marked, printed, with_p_value

WIDTH = 100
"""Columns of what is explained."""


def text_of(report: Report) -> str:
    """The whole report: per axis a table of figures, the paper's, and the differences."""
    parts = [report.title, fill(explained(report), WIDTH)]
    parts += [_block(report, axis, figures) for axis, figures in report.blocks]
    parts += [_missing(report.lines), _failed(report.lines)]
    parts += [fill(note, WIDTH) for note in report.notes]
    return "\n\n".join(part for part in parts if part)


def explained(report: Report) -> str:
    """How to read the figures."""
    said = f"Higher is better; {LEVEL} intervals by bootstrap over images. "
    if any(figure.percent for figure in report.figures):
        said += "Accuracies in percent. "
    if any(figure.p_value for figure in report.figures):
        said += "A question mark: p of 0.05 or more that it is 0. "
    return said.strip()


def _block(report: Report, axis: str, figures: Sequence[Figure]) -> str:
    rows = [[axis, "rows", *(figure.name for figure in figures)]]
    rows += [_figures_row(line, figures) for line in report.lines if line.cells]
    for paper in report.published:
        cells = [paper.figures.get(figure.key) for figure in figures]
        if any(cell is not None for cell in cells):
            shown = [printed(f, c) for f, c in zip(figures, cells, strict=True)]
            rows.append([f"{paper.name} (paper, Table {report.table})", "", *shown])
    said = aligned(rows)
    differing = [line for line in report.lines if line.differences]
    if differing:
        heads = [f"minus {report.against}", *(figure.name for figure in figures)]
        said += "\n\n" + aligned([heads, *(_difference_row(line, figures) for line in differing)])
    return said


def _figures_row(line: Line, figures: Sequence[Figure]) -> list[str]:
    cells = [line.cells[figure.key] for figure in figures]
    counts = {cell.rows for cell in cells}
    shown = [marked(figure, cell) for figure, cell in zip(figures, cells, strict=True)]
    return [line.name, f"{max(counts):,}", *shown]


def _difference_row(line: Line, figures: Sequence[Figure]) -> list[str]:
    differences = line.differences
    return [line.name, *(with_p_value(f, differences[f.key], interval=False) for f in figures)]


def _missing(lines: Sequence[Line]) -> str:
    return "\n".join(f"{line.name}: not measured: {line.missing}" for line in lines if line.missing)


def _failed(lines: Sequence[Line]) -> str:
    return "\n".join(
        f"{line.name}: {count:,} texts have no score: {reason}"
        for line in lines
        for reason, count in line.failures.items()
    )


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells in columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            f"{cell:<{width}}" if place == 0 else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
