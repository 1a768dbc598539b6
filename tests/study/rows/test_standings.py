"""Scored rows: back to scores, means by model, paired differences."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from posh_reward.study.rows.standings import (
    IdScores,
    best_first,
    difference,
    gains,
    gains_table,
    leaderboard,
    standings,
    verdict,
)
from posh_reward.study.rows.tables import Journal, read_journal, scores_of
from posh_reward.study.statistics import (
    bootstrap_mean,
)
from posh_reward.types import Element, Failure, ImageGrade, Scores
from tests.study.pairs import pair_item, scored_row

LOST = Failure("engine", "timed out")
ELEMENTS = (
    Element("precision", "attribute", "red", 1.5, ((2, 5),), "dog"),
    Element("precision", "entity", "dog", None, ((6, 9),), "dog", failure=LOST),
)
PAIR = pair_item("1", "A red dog.", "A dog.", "sft", "images/1.png")
SHOWN = Element(
    "precision", "entity", "fan", 4.5, ((2, 5),), "fan", image_grade=ImageGrade(4.5, 1.5)
)
UNTOLD = Element(
    "precision", "entity", "sky", 1.5, ((6, 9),), "sky", image_grade=ImageGrade(None, 1.5, LOST)
)
WITNESSED = Scores(0.6, 0.9, 0.7, "s", (SHOWN, UNTOLD), None, 0, "A fan sky.", "A dog.")
SCORES = Scores(None, 0.9, None, "s", ELEMENTS, LOST, 0, "A red dog.", "A dog.")


@pytest.mark.parametrize(
    "scores",
    [SCORES, WITNESSED, Scores.failed(Failure("text", "the reference is empty"), "s")],
    ids=["elements", "witness", "none"],
)
def test_a_scored_row_gives_its_scores_back(tmp_path: Path, scores: Scores) -> None:
    path = tmp_path / "rows.jsonl"
    texts = scores.generation, scores.reference
    pair = (
        pair_item("1", *texts, "sft", "images/1.png") if scores.elements else pair_item("1", "", "")
    )
    with closing(Journal(path)) as journal:
        journal.append([scored_row(pair, scores)])
    [row] = read_journal(path)
    assert scores_of(row) == scores
    assert row.get("image") == pair.image


def test_a_line_cut_short_by_a_kill_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"id": "1"}) + '\n{"id": "2", "mod')
    assert [row["id"] for row in read_journal(path)] == ["1"]
    with closing(Journal(path)) as journal:
        journal.append([{"id": "3"}])
    assert [row["id"] for row in read_journal(path)] == ["1", "3"]


def rows(*overall: float | None) -> list[dict[str, object]]:
    return [
        {**scored_row(PAIR, SCORES), "id": str(i), "f1": x} | {"precision": x, "recall": x}
        for i, x in enumerate(overall)
    ]


def test_failed_rows_are_counted_and_left_out() -> None:
    [it] = standings(rows(0.5, None, 0.7))
    assert (it.model, it.count, it.failures) == ("sft", 2, 1)
    assert it.axes["f1"].mean == pytest.approx(0.6)
    assert "none of its 1 generations was scored" in leaderboard(standings(rows(None)))
    assert "higher is better" in leaderboard([it])


def test_differences_are_paired_by_item() -> None:
    gain = difference(rows(0.6, 0.7, 0.8), list(reversed(rows(0.5, 0.6, 0.7))))
    assert (gain.mean, gain.low, gain.high) == pytest.approx((0.1, 0.1, 0.1))
    assert not gain.excludes_zero  # three items settle nothing


def test_five_items_that_agree_settle_no_sign_and_six_do() -> None:
    assert not bootstrap_mean([1.0] * 5).excludes_zero
    assert bootstrap_mean([1.0] * 6).excludes_zero


@pytest.mark.parametrize(("count", "covered"), [(5, 0.89), (10, 0.91)])
def test_the_interval_of_few_values_is_wide_enough(count: int, covered: float) -> None:
    rng = np.random.default_rng(0)
    found = [bootstrap_mean(list(rng.normal(0, 1, count)), resamples=1000) for _ in range(800)]
    share = sum(it.low <= 0 <= it.high for it in found) / len(found)
    assert covered < share < 0.97  # plain resampling covers 0.83 and 0.89


def test_a_models_name_can_neither_steer_the_terminal_nor_forge_a_line() -> None:
    [it] = standings(rows(0.5))
    shown = leaderboard([replace(it, model="\x1b[31mb\nposh-reward: all is well")])
    assert "\\x1b[31mb posh-reward: all is well" in shown
    assert "\x1b" not in shown


def scores(*overall: float | None) -> list[IdScores]:
    """Items: three models' scores, of which those of "base" and "odd" are 0.5 and missing."""
    return [
        {"base": (0.5,) * 3, "tuned": (each,) * 3, "odd": (0.9, None, None)} for each in overall
    ]


def test_any_two_models_are_compared_over_what_both_have() -> None:
    items: list[IdScores] = [*scores(0.6, 0.7, 0.6, 0.7, 0.6, 0.7, None), {"tuned": (0.1,) * 3}]
    tuned, odd = gains(items, ["base", "tuned", "odd"], "base")
    assert (tuned.model, tuned.count) == ("tuned", 6)
    assert tuned.axes["f1"].mean == pytest.approx(0.15)
    assert verdict(tuned.axes["f1"]) == "better"
    assert (odd.model, odd.axes) == ("odd", {})
    base, _ = gains(items, ["base", "tuned", "odd"], "tuned")
    assert verdict(base.axes["precision"]) == "worse"
    assert verdict(gains(scores(0.9), ["base", "tuned"], "base")[0].axes["f1"]) == "too few ids"
    assert "tuned    6  +0.150" in gains_table([tuned, odd], "base")


def test_models_are_ranked_and_those_without_scores_come_last() -> None:
    low, high, none = (
        replace(*standings(rows(overall)), model=str(overall)) for overall in (0.4, 0.6, None)
    )
    assert [it.model for it in best_first([none, low, high])] == ["0.6", "0.4", "None"]
