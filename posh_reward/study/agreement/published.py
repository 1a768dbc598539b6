"""The paper's tables, to print with our figures: ``tables/tableN.csv``, numbers as printed there.

Table 6 has GPT4o and GPT5 three times; what each was shown (image, reference, both) is told by
symbols that our copy of the paper lacks, so they are numbered in its order. Table 3 is a choice
from it, with GPT4o (3) and GPT5 (2).
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import resources

TABLES = (2, 3, 6, 8, 9)


@dataclass(frozen=True, slots=True)
class Published:
    """One line of a table of the paper."""

    name: str
    figures: Mapping[str, float]
    """``Figure.key`` -> number as printed: accuracies in percent. Without those not reported."""


def published(table: int, folder: str = "") -> list[Published]:
    """The lines of one of ``TABLES``, or of another paper's, which has a folder of its own."""
    file = resources.files(__package__).joinpath(f"tables/{folder}/table{table}.csv")
    rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    return [
        Published(row.pop("metric"), {key: float(cell) for key, cell in row.items() if cell})
        for row in rows
    ]


def with_figures(lines: list[Published], keys: Collection[str]) -> list[Published]:
    """Only the lines that have one of these figures, with only these."""
    kept = (
        Published(line.name, {k: v for k, v in line.figures.items() if k in keys}) for line in lines
    )
    return [line for line in kept if line.figures]
