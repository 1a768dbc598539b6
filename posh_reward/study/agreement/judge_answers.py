"""A judge's grades against people's answers to the same questions (paper, A.4.2; Table 9).

A question asks if an element is in the other text; a grade below a threshold means absent. The
paper reports the highest F1 over all thresholds without naming the class, so there are three: F1 of
the present elements, F1 of the absent ones, and their mean, each at its own best threshold.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.agreement.agreement_report import (
    AgreementReport,
    AgreementSettings,
    few_groups_note,
    paper_table,
)
from posh_reward.study.agreement.compare import Cell, Figure, MetricLine
from posh_reward.study.agreement.judgment_files import check_columns, image_in
from posh_reward.study.agreement.metric_scores import number_in
from posh_reward.study.rows.score_axes import JUDGED
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats, Ints, bootstrap

DIRECTIONS = {"precision": "mistakes", "recall": "omissions"}
"""Direction in scored rows -> the paper's axis; both names are accepted."""
CLASSES = ("f1", "f1 absent", "f1 macro")  # present elements, absent ones, mean of both
KEYS = tuple(f"{axis} {name}" for axis in JUDGED for name in CLASSES)
TRUE, FALSE = ("true", "yes", "1", "1.0", "present"), ("false", "no", "0", "0.0", "absent")


@dataclass(frozen=True)
class HumanAnswers:
    """Elements with the judge's grade and a person's answer."""

    axis: Sequence[str]  # (elements,) mistakes or omissions
    grades: Floats  # (elements,) 1 to 5; nan where the judge failed
    present: Floats  # (elements,) 1 if a person found it in the other text, else 0
    groups: Sequence[Hashable]  # (elements,) pairs of texts, which are resampled whole


def read_answers(rows: Sequence[Row], answer: str, pair: str, name: str) -> HumanAnswers:
    """Read a table of elements: columns ``direction``, ``grade``, ``answer``'s and ``pair``'s.

    Raises:
        InputError: a column is missing, or a cell is invalid.
    """
    flags = {"a column 'direction'": "direction", "a column 'grade'": "grade", "--answer": answer}
    check_columns(rows, flags, name)
    axis, grades, present = [], [], []
    groups: list[Hashable] = []
    for place, row in enumerate(rows, start=1):
        where = f"{name}, row {place}"
        direction = str(row.get("direction"))
        axis.append(DIRECTIONS.get(direction, direction))
        if axis[-1] not in DIRECTIONS.values():
            raise InputError(f"{where}: the direction {direction[:40]!r} is neither mistakes (or "
                             "precision) nor omissions (or recall)")  # fmt: skip
        grade = number_in(row, "grade", f"{where}: ")
        if grade is not None and not 1 <= grade <= 5:
            raise InputError(f"{where}: the grade {grade:g} is not within 1 to 5")
        grades.append(np.nan if grade is None else grade)
        cell = str(row.get(answer)).strip().lower()
        if cell not in TRUE + FALSE:
            raise InputError(f"{where}: the answer {str(row.get(answer))[:40]!r} is neither one of "
                             f"{', '.join(TRUE)} nor of {', '.join(FALSE)}")  # fmt: skip
        present.append(float(cell in TRUE))
        group, _ = image_in(row, pair)
        groups.append(place if group is None else group)
    return HumanAnswers(axis, np.array(grades), np.array(present), groups)


def best_f1s(grades: Floats, present: Floats) -> tuple[float, float, float]:
    """Highest F1 over all thresholds, in the order of ``CLASSES``; nan where a class is empty."""
    if not len(grades):
        return np.nan, np.nan, np.nan
    # After one sort, counts below each threshold are cumulative sums.
    order = np.argsort(grades)
    # (thresholds,) elements below each distinct grade, and below one above all
    below = np.append(np.unique(grades[order], return_index=True)[1], len(grades))
    present_below = np.concatenate([[0], np.cumsum(present[order].astype(bool))])[below]
    total = int(present_below[-1])
    f1s = [
        _f1(total - present_below, len(grades) - below, total),
        _f1(below - present_below, below, len(grades) - total),
    ]
    best = [float(each.max()) for each in (*f1s, (f1s[0] + f1s[1]) / 2)]
    return best[0], best[1], best[2]


def _f1(hits: Ints, predictions: Ints, total: int) -> Floats:
    """(thresholds,) F1 of a class from its true positives, predictions and size."""
    if not total:  # nothing was tested: undefined, not perfect
        return np.full(len(hits), np.nan)
    f1: Floats = 2 * hits / (predictions + total)
    return f1


def answer_figures(answers: HumanAnswers, rows: Ints) -> list[float]:
    """Figures for some elements, in the order of ``KEYS``; failed judgments are left out."""
    rows = rows[~np.isnan(answers.grades[rows])]
    axes = np.array(answers.axis)[rows]
    figures: list[float] = []
    for axis in JUDGED:
        own = rows if axis == "overall" else rows[axes == axis]
        figures += best_f1s(answers.grades[own], answers.present[own])
    return figures


def answers_report(
    answers: HumanAnswers, name: str, settings: AgreementSettings
) -> AgreementReport:
    """Agreement of the judge with people's answers, above the paper's Table 9."""
    estimates = bootstrap(
        partial(answer_figures, answers), answers.groups, resamples=settings.resamples,
        seed=settings.seed,
    )  # fmt: skip
    usable = np.array(answers.axis)[~np.isnan(answers.grades)]
    rows = {axis: int((usable == axis).sum()) for axis in JUDGED} | {"overall": len(usable)}
    cells = {
        key: Cell(each, rows[key.split()[0]]) for key, each in zip(KEYS, estimates, strict=True)
    }
    failures = len(answers.grades) - len(usable)
    notes = [
        "Highest F1 over all thresholds. f1: present elements, f1 absent: absent ones, f1 macro: "
        "their mean. The paper does not say which it reports; its figures are listed under f1.",
        *few_groups_note(answers.groups, "pairs of texts"),
    ]
    figures = [Figure(axis, kind) for axis in JUDGED for kind in CLASSES]
    title = f"{name}: {len(answers.axis):,} questions that people answered"
    line = MetricLine("judge", cells, {}, {"the judge gave no grade": failures} if failures else {})
    return AgreementReport(title, figures, [line], notes, paper_table(9), 9)
