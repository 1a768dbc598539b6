"""DOCENT's and CapArena's procedures on sets whose true order is known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from posh_reward.errors import ConfigError, InputError
from posh_reward.study.agreement.agreement_report import AgreementSettings, MetricLine, paper_table
from posh_reward.study.agreement.judgment_files import read_rows
from posh_reward.study.agreement.preferences import (
    LABEL_SCORES,
    PairColumns,
    caparena_report,
    preferences_report,
    read_arena,
    read_preferences,
)
from posh_reward.tables.statistics import Estimate
from posh_reward.tables.tables import Row
from tests.study.agreement.judgment_rows import MODELS, Quality, caparena_rows, docent_rows

QUIET = AgreementSettings(resamples=100, quiet=True)


def figure(line: MetricLine, key: str) -> Estimate:
    return line.cells[key].estimate


def test_docent_from_a_saved_dataset(tmp_path: Path) -> None:
    rows = docent_rows(120)
    DatasetDict({"test": Dataset.from_list(rows)}).save_to_disk(tmp_path / "docent")
    read = read_rows(str(tmp_path / "docent"))
    assert read == rows
    judged = read_preferences(read, PairColumns(), "docent")
    truth, noisy = Quality("truth"), Quality("noisy", 1.5)
    report = preferences_report(judged, replace(QUIET, measures=[truth, noisy], table=3))
    assert len(set(truth.asked)) == len(truth.asked)  # equal pairs are scored once
    best, worse = report.lines
    assert figure(best, "overall acc").value > 0.9
    assert figure(best, "overall rho").value > figure(worse, "overall rho").value + 0.1
    assert best.cells["overall rho"].p < 1e-6
    assert best.cells["overall rho"].rows == 120
    difference = worse.differences["overall rho"]
    assert difference.high < 0
    assert difference.p < 0.05
    assert report.against == "truth"
    assert {line.name for line in report.paper} >= {"POSH", "SPICE"}
    with pytest.raises(ConfigError, match="has no split 'dev'"):
        read_rows(str(tmp_path / "docent"), split="dev")


def test_equal_metrics_do_not_differ() -> None:
    judged = read_preferences(docent_rows(60), PairColumns(), "docent")
    report = preferences_report(judged, replace(QUIET, measures=[Quality("a"), Quality("b")]))
    difference = report.lines[1].differences["mistakes tau"]
    assert (difference.value, difference.low, difference.high, difference.p) == (0, 0, 0, 1)


def test_a_pair_that_a_metric_cannot_score_is_left_out_for_it_alone() -> None:
    rows = docent_rows(40)
    for number, row in enumerate(rows):
        row["half1"], row["half2"] = (None, None) if number % 2 else (number, -number)
    judged = read_preferences(rows, PairColumns(), "docent")
    choices = replace(QUIET, measures=[Quality("a")], columns=["half"])
    whole, half = preferences_report(judged, choices).lines
    assert (whole.cells["overall acc"].rows, half.cells["overall acc"].rows) == (40, 20)
    assert half.failures == {"the table has no score here": 40}


def test_rows_without_a_label_and_too_few_images_are_said() -> None:
    rows = docent_rows(6)
    rows[1]["omissions"] = None
    judged = read_preferences(rows, PairColumns(), "docent")
    report = preferences_report(judged, replace(QUIET, measures=[Quality("a")]))
    assert "Rows without a label, left out: omissions 1." in report.notes
    assert "so few images (3)" in report.notes[-1]


def test_an_unknown_label_is_named_with_its_row() -> None:
    rows = docent_rows(3)
    rows[1]["omissions"] = "better"
    with pytest.raises(InputError, match="docent, row 2, omissions: the label 'better' is unknown"):
        read_preferences(rows, PairColumns(), "docent")
    rows[1]["omissions"] = None
    people = read_preferences(rows, PairColumns(), "docent").people["omissions"]
    assert np.isnan(people).tolist() == [False, True, False]


def test_caparena_by_its_rules(tmp_path: Path) -> None:
    rows = caparena_rows(400)
    human = {**rows[0], "source1": "human", "caption1": "A text by a human"}
    battles = read_arena([human, *rows], "caparena")
    assert (len(battles.outcome), battles.left_out, battles.models) == (400, 1, sorted(MODELS))
    close = [row["winner"] in ("equal", "bad", "skip") for row in rows]
    assert (battles.outcome == 0).tolist() == close
    choices = replace(QUIET, measures=[Quality("truth"), Quality("noise", 50)], resamples=20)
    report = caparena_report(battles, choices)
    best, noise = report.lines
    assert figure(best, "overall desc acc").value > 0.99
    assert 0.25 < figure(noise, "overall desc acc").value < 0.5
    assert figure(best, "overall model rho").value == pytest.approx(1)
    assert figure(best, "overall model tau").low > 0.6
    people = report.extra["ratings"]["people"]
    assert sorted(people, key=people.__getitem__) == list(MODELS)
    within = [figure(best, f"overall acc in {name}").value for name in ("nature", "people")]
    assert np.mean(within) == pytest.approx(figure(best, "overall desc acc").value, abs=0.01)


def test_an_unknown_winner_is_named_with_its_row() -> None:
    rows = caparena_rows(2)
    rows[1]["winner"] = "omega"
    with pytest.raises(InputError, match="caparena, row 2: the winner 'omega' is neither"):
        read_arena(rows, "caparena")
    with pytest.raises(InputError, match="every pair of caparena has a text by 'human'"):
        read_arena([{**rows[0], "source2": "human"}], "caparena")


def test_the_papers_figures() -> None:
    for table in (3, 6):
        by_name = {line.name: line.figures for line in paper_table(table)}
        posh = by_name["POSH"]
        assert list(posh.values()) == [
            60.7, 0.519, 0.405, 62.7, 0.581, 0.451, 70.7, 0.599, 0.466, 59.2, 0.931, 0.796,
        ]  # fmt: skip
        assert "overall desc acc" not in by_name["DCScore"]
    selected, whole = ({line.name: line.figures for line in paper_table(n)} for n in (3, 6))
    assert len(whole) == 21
    for name, figures in selected.items():
        assert figures == whole[{"GPT4o": "GPT4o (3)", "GPT5": "GPT5 (2)"}.get(name, name)]
    table2 = [line.figures["omissions best"] for line in paper_table(2)]
    assert table2 == [0.499, 0.641, 0.658, 0.68]


def test_names_and_columns_that_are_not_there() -> None:
    judged = read_preferences(docent_rows(4), PairColumns(), "docent")
    twice = replace(QUIET, measures=[Quality("a"), Quality("a")])
    with pytest.raises(InputError, match="two metrics are called 'a'"):
        preferences_report(judged, twice)
    with pytest.raises(InputError, match="no metric 'b' to compare with: use one of 'a'"):
        preferences_report(judged, replace(QUIET, measures=[Quality("a")], against="b"))
    with pytest.raises(InputError, match="the rows need a column 'spice1', or 'spice_mistakes1'"):
        preferences_report(judged, replace(QUIET, columns=["spice"]))


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


def tied_docent() -> list[Row]:
    rng = np.random.default_rng(0)
    rows = []
    for number in range(60):
        row: Row = {
            "uuid": f"u{number}", "reference": f"r{number}", "model1": "A", "model2": "B",
            "model1_generation": f"a{number}", "model2_generation": f"b{number}",
        }  # fmt: skip
        for axis, column in AXES.items():
            row[column] = list(LABEL_SCORES)[int(rng.integers(0, 5))]
            row |= {f"m_{axis}{side}": int(rng.integers(1, 6)) for side in "12"}
        rows.append(row)
    return rows


def tied_caparena() -> list[Row]:
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


def test_the_figures_of_both_sets_are_the_releases() -> None:
    judged = read_preferences(tied_docent(), PairColumns(), "rows")
    battles = read_arena(tied_caparena(), "rows")
    reports = preferences_report(judged, SETTINGS), caparena_report(battles, SETTINGS)
    for report, expected in zip(reports, (DOCENT, CAPARENA), strict=True):
        found = {name: cell.estimate.value for name, cell in report.lines[0].cells.items()}
        assert found == pytest.approx(expected, rel=1e-12)
