"""A judge against people who answered its questions by hand (paper, A.4.2; Table 9).

A question asks whether an element is in the other text. An element raises an alert if its grade is
below a threshold. The paper reports the highest F1 over all thresholds without saying of which
class, so three are given: F1 of the elements that are present, F1 of those that are absent, and
their mean, each at its own best threshold.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.agreement.items import number
from posh_reward.study.agreement.sources import check_columns, image_of
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats, Ints

DIRECTIONS = {"precision": "mistakes", "recall": "omissions"}
"""How scored rows name a direction -> the paper's name; both are read."""
CLASSES = ("f1", "f1 absent", "f1 macro")
"""Of present elements, of absent ones, and their mean."""
AXES = ("mistakes", "omissions", "overall")
KEYS = tuple(f"{axis} {name}" for axis in AXES for name in CLASSES)
TRUE, FALSE = ("true", "yes", "1", "1.0", "present"), ("false", "no", "0", "0.0", "absent")


@dataclass(frozen=True)
class Answered:
    """Elements with the judge's grade and a person's answer."""

    axis: Sequence[str]
    """(elements,) mistakes or omissions."""
    grades: Floats
    """(elements,) 1 to 5; nan where the judge failed."""
    present: Floats
    """(elements,) 1 where a person found it in the other text, else 0."""
    groups: Sequence[Hashable]
    """(elements,) the pair of texts that each comes from, resampled together."""


def answered(rows: Sequence[Row], answer: str, pair: str, name: str) -> Answered:
    """The elements of a table: columns ``direction``, ``grade``, the answers', and the pairs'.

    Raises:
        InputError: a column is missing, or a cell cannot be used.
    """
    wanted = {"a column 'direction'": "direction", "a column 'grade'": "grade", "--answer": answer}
    check_columns(rows, wanted, name)
    axis, grades, present = [], [], []
    groups: list[Hashable] = []
    for place, row in enumerate(rows, start=1):
        where = f"{name}, row {place}"
        axis.append(_axis(row, where))
        try:
            grade = number(row, "grade")
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        if grade is not None and not 1 <= grade <= 5:
            raise InputError(f"{where}: the grade {grade:g} is not one from 1 to 5")
        grades.append(np.nan if grade is None else grade)
        present.append(_answer(row.get(answer), where))
        group = image_of(row, pair)
        groups.append(place if group is None else group)
    return Answered(axis, np.array(grades), np.array(present), groups)


def _axis(row: Row, where: str) -> str:
    given = row.get("direction")
    axis = DIRECTIONS.get(str(given), str(given))
    if axis not in DIRECTIONS.values():
        raise InputError(f"{where}: the direction {str(given)[:40]!r} is neither mistakes (or "
                         "precision) nor omissions (or recall)")  # fmt: skip
    return axis


def _answer(value: object, where: str) -> float:
    plain = str(value).strip().lower()
    if plain in TRUE or plain in FALSE:
        return float(plain in TRUE)
    raise InputError(f"{where}: the answer {str(value)[:40]!r} is neither one of "
                     f"{', '.join(TRUE)} nor of {', '.join(FALSE)}")  # fmt: skip


def best_f1s(grades: Floats, present: Floats) -> tuple[float, float, float]:
    """The highest F1 over thresholds, in the order of ``CLASSES``.

    nan where people found no element of the class: a judge that never names it is not perfect.
    """
    if not len(grades):
        return np.nan, np.nan, np.nan
    order = np.argsort(grades)
    # (thresholds,) elements below each: the start of each grade, and one above all
    below = np.append(np.unique(grades[order], return_index=True)[1], len(grades))
    present_below = np.concatenate([[0], np.cumsum(present[order].astype(bool))])[below]
    there = int(present_below[-1])
    f1s = [
        _f1(there - present_below, len(grades) - below, there),
        _f1(below - present_below, below, len(grades) - there),
    ]
    best = [float(each.max()) for each in (*f1s, (f1s[0] + f1s[1]) / 2)]
    return best[0], best[1], best[2]


def _f1(hits: Ints, found: Ints, there: int) -> Floats:
    """(thresholds,) of a class: elements that are found rightly, found at all, and there."""
    if not there:
        return np.full(len(hits), np.nan)
    f1: Floats = 2 * hits / (found + there)
    return f1


def answer_figures(answered: Answered, rows: Ints) -> list[float]:
    """All figures of some elements, in the order of ``KEYS``; failed judgments are left out."""
    rows = rows[~np.isnan(answered.grades[rows])]
    axes = np.array(answered.axis)[rows]
    found: list[float] = []
    for axis in AXES:
        own = rows if axis == "overall" else rows[axes == axis]
        found += best_f1s(answered.grades[own], answered.present[own])
    return found
