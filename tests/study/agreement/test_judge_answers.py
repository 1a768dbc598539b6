"""The judge against answers by hand."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from posh_reward.errors import InputError
from posh_reward.study.agreement.agreement_report import AgreementSettings
from posh_reward.study.agreement.judge_answers import answers_report, best_f1s, read_answers


def settings(resamples: int) -> AgreementSettings:
    return AgreementSettings(resamples=resamples, quiet=True)


def test_best_f1_by_hand() -> None:
    grades, present = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 1.0, 0.0, 1.0])
    present_f1, absent_f1, macro = best_f1s(grades, present)
    assert present_f1 == pytest.approx(4 / 5)  # from grade 2 on: three found, two right
    assert absent_f1 == pytest.approx(4 / 5)  # below grade 4: three found, two right
    assert macro == pytest.approx((4 / 5 + 2 / 3) / 2)


def test_questions_that_the_judge_or_people_left_open() -> None:
    """An element without a grade is not among the rows; F1 of a class that is not there is none."""
    rows = [
        {"id": n, "direction": "mistakes", "grade": grade, "answer": True}
        for n, grade in enumerate([5, 4, None])
    ]
    report = answers_report(read_answers(rows, "answer", "id", "set"), "set", settings(10))
    cells = report.lines[0].cells
    assert (cells["mistakes f1"].rows, cells["overall f1"].rows) == (2, 2)
    assert cells["mistakes f1"].estimate.value == 1
    assert isnan(cells["mistakes f1 absent"].estimate.value)
    assert isnan(cells["mistakes f1 macro"].estimate.value)
    rows[1]["grade"] = 9
    with pytest.raises(InputError, match="set, row 2: the grade 9 is not within 1 to 5"):
        read_answers(rows, "answer", "id", "set")


def test_best_f1_of_many_different_grades_takes_no_table_of_all_by_all() -> None:
    draws = np.random.default_rng(0)
    grades, present = draws.uniform(1, 5, 100_000), draws.integers(0, 2, 100_000).astype(float)
    assert best_f1s(grades, present)[0] == pytest.approx(2 / 3, abs=0.01)  # all are found


def test_a_report_on_answers() -> None:
    rows = [
        {"id": 1, "direction": "precision", "grade": 4.5, "answer": True},
        {"id": 1, "direction": "mistakes", "grade": "1.5", "answer": "no"},
        {"id": 2, "direction": "omissions", "grade": None, "answer": "yes"},
        {"id": 2, "direction": "recall", "grade": 2, "answer": "1"},
    ]
    report = answers_report(read_answers(rows, "answer", "id", "set"), "set", settings(5))
    [line] = report.lines
    assert line.cells["mistakes f1"].estimate.value == 1
    assert line.cells["overall f1 macro"].estimate.value == 1
    assert line.failures == {"the judge gave no grade": 1}
    for change, why in (({"answer": "maybe"}, "answer 'maybe' is neither one of true"),
                        ({"direction": "up"}, "direction 'up' is neither mistakes"),
                        ({"grade": "high"}, "grade is 'high', not a number")):  # fmt: skip
        with pytest.raises(InputError, match=why):
            read_answers([{**rows[0], **change}], "answer", "id", "set")
