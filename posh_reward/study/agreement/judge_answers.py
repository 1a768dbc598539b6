"""A judge against people who answered its questions by hand (paper, A.4.2; Table 9).

A question is whether an element is in the other text. An element raises an alert if its grade is
below a threshold. The paper reports the highest F1 over all thresholds without naming the class, so
three are given: F1 of the elements that are present, F1 of those that are absent, and their mean,
each at its own best threshold.
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
from posh_reward.study.rows.score_axes import NAMES
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats, Ints, bootstrap

DIRECTIONS = {"precision": "mistakes", "recall": "omissions"}
"""Name of a direction in scored rows -> the paper's axis; both are read."""
CLASSES = ("f1", "f1 absent", "f1 macro")  # of present elements, of absent ones, and their mean
KEYS = tuple(f"{axis} {name}" for axis in NAMES for name in CLASSES)
TRUE, FALSE = ("true", "yes", "1", "1.0", "present"), ("false", "no", "0", "0.0", "absent")


@dataclass(frozen=True)
class HumanAnswers:
    """Elements with the judge's grade and a person's answer."""

    axis: Sequence[str]  # (elements,) mistakes or omissions
    grades: Floats  # (elements,) 1 to 5; nan where the judge failed
    present: Floats  # (elements,) 1 where a person found it in the other text, else 0
    # (elements,) the pair of texts that each comes from, resampled together.
    groups: Sequence[Hashable]


def read_answers(rows: Sequence[Row], answer: str, pair: str, name: str) -> HumanAnswers:
    """The elements of a table: columns ``direction``, ``grade``, the answers', and the pairs'.

    Raises:
        InputError: a column is missing, or a cell cannot be used.
    """
    flags = {"a column 'direction'": "direction", "a column 'grade'": "grade", "--answer": answer}
    check_columns(rows, flags, name)
    axis, grades, present = [], [], []
    groups: list[Hashable] = []
    for place, row in enumerate(rows, start=1):
        where = f"{name}, row {place}"
        axis.append(_axis(row, where))
        try:
            grade = number_in(row, "grade")
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        if grade is not None and not 1 <= grade <= 5:
            raise InputError(f"{where}: the grade {grade:g} is not one from 1 to 5")
        grades.append(np.nan if grade is None else grade)
        present.append(_answer(row.get(answer), where))
        group, _ = image_in(row, pair)
        groups.append(place if group is None else group)
    return HumanAnswers(axis, np.array(grades), np.array(present), groups)


def _axis(row: Row, where: str) -> str:
    direction = str(row.get("direction"))
    axis = DIRECTIONS.get(direction, direction)
    if axis not in DIRECTIONS.values():
        raise InputError(f"{where}: the direction {direction[:40]!r} is neither mistakes (or "
                         "precision) nor omissions (or recall)")  # fmt: skip
    return axis


def _answer(value: object, where: str) -> float:
    plain = str(value).strip().lower()
    if plain in TRUE or plain in FALSE:
        return float(plain in TRUE)
    raise InputError(f"{where}: the answer {str(value)[:40]!r} is neither one of "
                     f"{', '.join(TRUE)} nor of {', '.join(FALSE)}")  # fmt: skip


def best_f1s(grades: Floats, present: Floats) -> tuple[float, float, float]:
    """The highest F1 over thresholds, in the order of ``CLASSES``; nan where a class is empty."""
    if not len(grades):
        return np.nan, np.nan, np.nan
    # One sort serves all thresholds: below each, counts are cumulative sums.
    order = np.argsort(grades)
    # (thresholds,) elements below each: the start of each grade, and one above all
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
    """(thresholds,) of a class: its true positives, its predictions, and its size."""
    if not total:  # a judge that never names what is not there is not perfect: nothing was tested
        return np.full(len(hits), np.nan)
    f1: Floats = 2 * hits / (predictions + total)
    return f1


def answer_figures(answers: HumanAnswers, rows: Ints) -> list[float]:
    """All figures of some elements, in the order of ``KEYS``; failed judgments are left out."""
    rows = rows[~np.isnan(answers.grades[rows])]
    axes = np.array(answers.axis)[rows]
    figures: list[float] = []
    for axis in NAMES:
        own = rows if axis == "overall" else rows[axes == axis]
        figures += best_f1s(answers.grades[own], answers.present[own])
    return figures


def answers_report(
    answers: HumanAnswers, name: str, settings: AgreementSettings
) -> AgreementReport:
    """The judge against people's own answers, below it the paper's Table 9."""
    estimates = bootstrap(
        partial(answer_figures, answers), answers.groups, resamples=settings.resamples,
        seed=settings.seed,
    )  # fmt: skip
    usable = np.array(answers.axis)[~np.isnan(answers.grades)]
    rows = {axis: int((usable == axis).sum()) for axis in NAMES} | {"overall": len(usable)}
    cells = {
        key: Cell(each, rows[key.split()[0]]) for key, each in zip(KEYS, estimates, strict=True)
    }
    failures = len(answers.grades) - len(usable)
    notes = [
        "The highest F1 over all thresholds: f1 of elements that are present, f1 absent of those "
        "that are not, f1 macro their mean. The paper does not say which it reports; its figures "
        "stand under f1.",
        *few_groups_note(answers.groups, "pairs of texts"),
    ]
    figures = [Figure(axis, kind) for axis in NAMES for kind in CLASSES]
    title = f"{name}: {len(answers.axis):,} questions that people answered"
    line = MetricLine("judge", cells, {}, {"the judge gave no grade": failures} if failures else {})
    return AgreementReport(title, figures, [line], notes, paper_table(9), 9)
