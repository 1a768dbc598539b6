"""Pairs of texts that people compared: DOCENT's coarse judgments, and files like them (A.3.2)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

import numpy as np

from posh_reward.errors import InputError
from posh_reward.graph.reader import is_missing
from posh_reward.study.agreement.compare import Figure, Sheet, on_rows
from posh_reward.study.agreement.correlation import kendall, kendall_p, spearman, spearman_p
from posh_reward.study.agreement.items import Column, Item
from posh_reward.study.agreement.pairwise import accuracy, label_score
from posh_reward.study.agreement.sources import check_columns, image_of, text_of
from posh_reward.study.rows.posh_rows import NAMES
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats

DOCENT = "amitha/docent-eval-coarse"


@dataclass(frozen=True)
class PairColumns:
    """What the columns of a table of pairs are called; by default as in DOCENT."""

    text1: str = "model1_generation"
    text2: str = "model2_generation"
    reference: str = "reference"
    image: str = "uuid"
    """Pairs of one image are resampled together. Without such a column each row is its own."""
    labels: Mapping[str, str] = field(
        default_factory=lambda: dict(zip(NAMES, ("mistakes", "omissions", "overall_quality"),
                                         strict=True))
    )  # fmt: skip
    """Axis -> column of labels. Empty: the first text is better in every row, on every axis."""


@dataclass(frozen=True)
class Compared:
    """Pairs that people compared; items 2 i and 2 i + 1 are the texts of pair i."""

    name: str
    items: Sequence[Item]
    people: Mapping[str, Floats]
    """Axis -> (pairs,) how much better the first text is, -2 to 2; nan where nobody said."""
    groups: Sequence[Hashable]

    @property
    def sheet(self) -> Sheet:
        """The pairs as rows of figures."""
        return Sheet(self.name, self.people, self.groups, differences)


DECIMALS = 12
"""Of differences: 0.9 - 0.8 and 0.8 - 0.7 are the same one, though not in binary."""


def differences(column: Column, axis: str) -> Floats:
    """(pairs,) a metric's score of the first text minus that of the second."""
    scores = column.scores[axis]
    return np.round(scores[::2] - scores[1::2], DECIMALS)


def compared(rows: Sequence[Row], columns: PairColumns, name: str) -> Compared:
    """The pairs of a table.

    Raises:
        InputError: a column is missing, a cell is not a text, or a label is unknown; the message
            has the row.
    """
    needed = {"--text1": columns.text1, "--text2": columns.text2, "--reference": columns.reference}
    labels = {f"--label {axis}=": column for axis, column in columns.labels.items()}
    wanted = needed | labels
    if columns == PairColumns():  # DOCENT's own, which has no flags for its columns
        wanted = {f"a column {column!r}": column for column in wanted.values()}
    check_columns(rows, wanted, name)
    items: list[Item] = []
    groups: list[Hashable] = []
    people: dict[str, list[float]] = {axis: [] for axis in columns.labels or NAMES}
    for number, row in enumerate(rows, start=1):
        where = f"{name}, row {number}"
        image = image_of(row, columns.image)
        references = (text_of(row, columns.reference, where),)
        for side, column in (("1", columns.text1), ("2", columns.text2)):
            items.append(Item(text_of(row, column, where), references, image, row, side))
        groups.append(number if image is None else image)
        for axis, values in people.items():
            values.append(_label(row, columns.labels.get(axis), where))
    arrays = {axis: np.array(values) for axis, values in people.items()}
    return Compared(name, items, arrays, groups)


def _label(row: Row, column: str | None, where: str) -> float:
    if column is None:
        return 1.0
    if is_missing(row.get(column)) or row[column] == "":
        return nan
    try:
        return label_score(row[column])
    except InputError as error:
        raise InputError(f"{where}, {column}: {error}") from None


def pair_figures(axes: Sequence[str]) -> list[Figure]:
    """The paper's figures of each axis: accuracy over better, tie and worse; rho and tau."""
    return [
        figure
        for axis in axes
        for figure in (
            Figure(axis, "acc", on_rows(accuracy), percent=True),
            Figure(axis, "rho", on_rows(spearman), spearman_p),
            Figure(axis, "tau", on_rows(kendall), kendall_p),
        )
    ]
