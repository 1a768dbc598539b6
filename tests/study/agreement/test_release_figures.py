"""Figures that the release's own program, evaluate_posh_coarse.py, printed for these very rows.

It was run at commit abbf611. Scores are whole numbers, which often tie, and one model of CapArena
fights once, so that a third of the draws leave it out.
"""

import numpy as np
import pytest

from posh_reward.study.agreement.agreement_report import AgreementSettings
from posh_reward.study.agreement.preferences import (
    LABELS,
    PairColumns,
    caparena_report,
    preferences_report,
    read_arena,
    read_preferences,
)
from posh_reward.study.rows.tables import Row

SETTINGS = AgreementSettings(resamples=0, quiet=True, columns=["m"])
AXES = {"mistakes": "mistakes", "omissions": "omissions", "overall": "overall_quality"}

DOCENT = {
    "mistakes rho": -0.16768536349665514,
    "mistakes tau": -0.12432851338427993,
    "mistakes acc": 0.38333333333333336,
    "omissions rho": -0.09655433904900117,
    "omissions tau": -0.05678557943472023,
    "omissions acc": 0.31666666666666665,
    "overall rho": 0.039939668725042725,
    "overall tau": 0.040829261908283884,
    "overall acc": 0.38333333333333336,
}
CAPARENA = {
    "overall desc acc": 0.39166666666666666,
    "overall model rho": 0.6071428571428572,
    "overall model tau": 0.33333333333333337,
    "overall acc in level 1": 0.4,
    "overall acc in level 2": 0.3,
    "overall acc in level 3": 0.36666666666666664,
    "overall acc in level 4": 0.5,
}


def docent_rows() -> list[Row]:
    rng = np.random.default_rng(0)
    rows = []
    for number in range(60):
        row: Row = {
            "uuid": f"u{number}", "reference": f"r{number}", "model1": "A", "model2": "B",
            "model1_generation": f"a{number}", "model2_generation": f"b{number}",
        }  # fmt: skip
        for axis, column in AXES.items():
            row[column] = list(LABELS)[int(rng.integers(0, 5))]
            row |= {f"m_{axis}{side}": int(rng.integers(1, 6)) for side in "12"}
        rows.append(row)
    return rows


def caparena_rows() -> list[Row]:
    rng = np.random.default_rng(6)
    rows: list[Row] = []
    for number in range(120):
        one, other = map(int, rng.choice(7, 2, replace=False))
        if 6 in (one, other):
            one, other = 0, 1
        if number == 0:
            one, other = 0, 6
        better = f"M{max(one, other)}"
        winner = better if rng.random() < 0.5 else ["equal", "skip", "bad", f"M{one}"][number % 4]
        rows.append({
            "img": f"{number}.jpg", "ref": f"r{number}", "winner": winner,
            "source1": f"M{one}", "source2": f"M{other}", "cluster": f"level {1 + number % 4}",
            "caption1": f"a{number}", "caption2": f"b{number}",
            "m1": int(rng.integers(1, 6)) + one // 3, "m2": int(rng.integers(1, 6)) + other // 3,
        })  # fmt: skip
    return rows


def test_docents_figures_are_the_releases() -> None:
    preferences = read_preferences(docent_rows(), PairColumns(), "rows")
    [line] = preferences_report(preferences, SETTINGS).lines
    assert {name: cell.estimate.value for name, cell in line.cells.items()} == pytest.approx(
        DOCENT, rel=1e-12
    )


def test_caparenas_figures_are_the_releases() -> None:
    [line] = caparena_report(read_arena(caparena_rows(), "rows"), SETTINGS).lines
    assert {name: cell.estimate.value for name, cell in line.cells.items()} == pytest.approx(
        CAPARENA, rel=1e-12
    )
