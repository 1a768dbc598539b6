"""A report as one HTML page without scripts, and its plot as an image file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.metrics.inputs import filled
from posh_reward.study.agreement.compare import Figure
from posh_reward.study.agreement.report import Report, marked, printed, with_p_value
from posh_reward.study.agreement.table import explained
from posh_reward.study.pages.html import template

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE = """
table { border-collapse: collapse; margin: .4rem 0 1.2rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.scroll { overflow-x: auto; }
"""
IMAGES = (".png", ".svg", ".pdf")
INK, LINE = "#1f2328", "#eaeef2"


def page_of(report: Report) -> str:
    """The report as an HTML document that needs no other file."""
    said = [*report.notes]
    said += [f"{each.name}: not measured: {each.missing}" for each in report.lines if each.missing]
    values = {
        "title": escape(report.title),
        "lead": escape(explained(report)),
        "style": template("posh.css") + template("shell.css") + STYLE,
        "figure": "",
        "key": "",
        "items": "\n".join(_block(report, *each) for each in report.blocks),
        "footer": "<br>".join(
            escape(each) for each in [*said, *(f"{x.name}: {x.signature}" for x in report.lines)]
        ),
    }
    return filled(template("page.html"), values)


def _block(report: Report, axis: str, figures: Sequence[Figure]) -> str:
    rows = [
        [line.name, *(marked(figure, line.cells[figure.key]) for figure in figures)]
        for line in report.lines
        if line.cells
    ]
    rows += [
        [f"{paper.name} (paper)", *(printed(f, paper.figures.get(f.key)) for f in figures)]
        for paper in report.published
        if any(figure.key in paper.figures for figure in figures)
    ]
    names = [figure.name for figure in figures]
    said = f"<article><h2>{escape(axis)}</h2>{_table(['metric', *names], rows)}"
    differing = [
        [line.name, *(with_p_value(figure, line.differences[figure.key]) for figure in figures)]
        for line in report.lines
        if line.differences
    ]
    if differing:
        said += _table([f"minus {report.against}", *names], differing)
    return f"{said}</article>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def check_plot(path: str) -> None:
    """Makes sure that a plot can be drawn, before anything is scored.

    Raises:
        InputError: the ending is not that of an image.
        MissingDependencyError: Matplotlib is not installed.
    """
    if not path.lower().endswith(IMAGES):
        raise InputError(f"{path!r} does not end in {', '.join(IMAGES)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingDependencyError("plots need matplotlib: pip install matplotlib") from None


def plot(report: Report, path: Path) -> None:
    """Draws every figure as a point with its interval; the paper's are hollow.

    Args:
        report: what was found.
        path: a .png, .svg or .pdf file.
    """
    from matplotlib.figure import Figure as Canvas

    blocks = report.blocks
    widest = max(len(figures) for _, figures in blocks)
    names = [line.name for line in report.lines if line.cells]
    height = 0.8 + 0.32 * (len(names) + len(report.published))
    size = (1.4 + 2.4 * widest, height * len(blocks))
    canvas = Canvas(figsize=size, layout="constrained")
    grid = canvas.subplots(len(blocks), widest, squeeze=False, sharey="row")
    for row, (axis, figures) in zip(grid, blocks, strict=True):
        _plot_block(row, report, axis, figures)
    canvas.suptitle(report.title, fontsize=10, color=INK)
    canvas.savefig(path, dpi=150)


def _plot_block(
    panels: Sequence[Axes], report: Report, axis: str, figures: Sequence[Figure]
) -> None:
    lines = [line for line in report.lines if line.cells]
    labels = [line.name for line in lines] + [f"{p.name} (paper)" for p in report.published]
    for panel, figure in zip(panels, figures, strict=False):
        scale = 100 if figure.percent else 1
        for place, line in enumerate(lines):
            estimate = line.cells[figure.key].estimate
            panel.plot([scale * estimate.low, scale * estimate.high], [place] * 2, color=INK, lw=1)
            panel.plot(scale * estimate.value, place, "o", color=INK, ms=4)
        for place, paper in enumerate(report.published, start=len(lines)):
            if figure.key in paper.figures:
                panel.plot(paper.figures[figure.key], place, "o", color=INK, ms=4, mfc="none")
        panel.set_yticks(range(len(labels)), labels, fontsize=7)
        panel.set_title(f"{axis}: {figure.name}", fontsize=8, color=INK)
        panel.tick_params(labelsize=7, colors=INK)
        panel.grid(axis="x", color=LINE)
        panel.spines[["top", "right", "left"]].set_visible(False)
    panels[0].invert_yaxis()
    for panel in panels[len(figures) :]:
        panel.axis("off")
