"""What one comparison found, ready to be shown: as a table, a page, a plot or JSON."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

import numpy as np

from posh_reward.study.agreement.compare import Cell, Figure, Line
from posh_reward.study.agreement.published import Published
from posh_reward.study.statistics import Estimate, Floats

LEVEL = "95 %"
WIDEST = 5
"""Figures that stand next to each other."""
SURE = 0.05
"""A p-value below it is marked."""
ENOUGH = 10
"""Groups to resample: with 8 of them, intervals of 95 % hold the truth in 86 % of cases."""


@dataclass(frozen=True)
class Report:
    """Figures of several metrics on one set of judgments."""

    title: str
    figures: Sequence[Figure]
    lines: Sequence[Line]
    notes: Sequence[str] = ()
    """What a reader has to know of the figures."""
    published: Sequence[Published] = ()
    """The paper's figures of the same names."""
    table: int | str | None = None
    """Number of the paper's table that they are from, or several: ``2, 3``."""
    against: str | None = None
    """The metric that the others are compared with."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More for JSON, such as the ratings of models."""

    @property
    def blocks(self) -> list[tuple[str, list[Figure]]]:
        """Each axis with its figures, in order, at most ``WIDEST`` at a time."""
        axes: dict[str, list[Figure]] = {}
        for figure in self.figures:
            axes.setdefault(figure.axis, []).append(figure)
        return [
            (axis, figures[start : start + WIDEST])
            for axis, figures in axes.items()
            for start in range(0, len(figures), WIDEST)
        ]


def left_out(people: Mapping[str, Floats], what: str) -> list[str]:
    """A note on the rows about which people said nothing, if there are any."""
    counts = {axis: int(np.isnan(values).sum()) for axis, values in people.items()}
    named = ", ".join(f"{axis} {count:,}" for axis, count in counts.items() if count)
    return [f"Rows without a {what}, left out: {named}."] if named else []


def few(groups: Sequence[Hashable], what: str = "images") -> list[str]:
    """A note that intervals are not to be trusted, if there is too little to resample."""
    count = len(set(groups))
    if count >= ENOUGH:
        return []
    return [
        f"Intervals are too narrow for so few {what} ({count}): {ENOUGH} or more are needed, and "
        "one alone has none."
    ]


def scaled(figure: Figure, value: float) -> str:
    """A figure as tables show it: accuracies in percent, the others with three decimals."""
    if isnan(value):
        return "-"
    return f"{100 * value:.1f}" if figure.percent else f"{value:.3f}"


def printed(figure: Figure, value: float | None) -> str:
    """A number of the paper as it is printed there."""
    if value is None:
        return "-"
    return f"{value:.1f}" if figure.percent else f"{value:.3f}"


def with_interval(figure: Figure, estimate: Estimate) -> str:
    """A figure with its interval, if it has one."""
    shown = scaled(figure, estimate.value)
    if isnan(estimate.low):
        return shown
    return f"{shown} [{scaled(figure, estimate.low)}, {scaled(figure, estimate.high)}]"


def marked(figure: Figure, cell: Cell) -> str:
    """A cell with its interval; a correlation that may well be 0 has a question mark."""
    doubtful = cell.p >= SURE  # nan is not
    return with_interval(figure, cell.estimate) + ("?" if doubtful else "")


def with_p_value(figure: Figure, difference: Estimate, *, interval: bool = True) -> str:
    """A difference with sign and p-value, and with its interval where there is room."""
    if isnan(difference.value):
        return "-"
    sign = "+" if difference.value > 0 else ""
    shown = with_interval(figure, difference) if interval else scaled(figure, difference.value)
    p = "" if isnan(difference.p) else f" p {difference.p:.3f}"
    return f"{sign}{shown}{p}"


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain data; figures that are not defined are null, accuracies 0 to 1."""
    return {
        "title": report.title,
        "compared_with": report.against,
        "metrics": [_line(line) for line in report.lines],
        "paper": {
            "table": report.table,
            "metrics": [{"name": p.name, "figures": dict(p.figures)} for p in report.published],
        },
        "notes": list(report.notes),
        **report.extra,
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "name": line.name,
        "signature": line.signature,
        "missing": line.missing or None,
        "failures": dict(line.failures),
        "figures": {
            key: {**_estimate(cell.estimate), "p": _number(cell.p), "rows": cell.rows}
            for key, cell in line.cells.items()
        },
        "differences": {
            key: {**_estimate(each), "p": _number(each.p)} for key, each in line.differences.items()
        },
    }


def _estimate(estimate: Estimate) -> dict[str, float | None]:
    return {
        "value": _number(estimate.value),
        "low": _number(estimate.low),
        "high": _number(estimate.high),
    }


def _number(value: float) -> float | None:
    return None if isnan(value) else value
