"""Scored rows: back to scores, means by model, paired differences."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr

from posh_reward.study.packets.study_plan import Opinions
from posh_reward.tables.standings import (
    POSH,
    Gain,
    IdScores,
    Tally,
    best_first,
    counted,
    difference,
    gains,
    gains_table,
    leaderboard,
    standings,
    verdict,
)
from posh_reward.tables.statistics import CrossedDesign, Floats, Ints, bootstrap_mean, holm
from posh_reward.tables.tables import Journal, read_journal, scores_of
from posh_reward.types import Element, Failure, ImageGrade, Scores
from tests.study.pairs import pair_item, scored_row

LOST = Failure("engine", "timed out")
ELEMENTS = (
    Element("precision", "attribute", "red", 1.5, ((2, 5),), "dog"),
    Element("precision", "entity", "dog", None, ((6, 9),), "dog", failure=LOST),
)
PAIR = pair_item("1", "A red dog.", "A dog.", "sft", "images/1.png")
SHOWN = Element("precision", "entity", "fan", 4.5, ((2, 5),), "fan",
                image_grade=ImageGrade(4.5, 1.5))  # fmt: skip
UNTOLD = Element("precision", "entity", "sky", 1.5, ((6, 9),), "sky",
                 image_grade=ImageGrade(None, 1.5, LOST))  # fmt: skip
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
    pair = pair_item("1", *texts, "sft", "images/1.png" if scores.elements else None)
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
    return [{"base": (0.5,) * 3, "tuned": (each,) * 3, "odd": (None,) * 3} for each in overall]


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


def test_an_item_counts_once_and_a_tie_counts_as_zero() -> None:
    # Item 0 has one answer, 2; item 1 has 1 and 0, mean 0.5; one tie: (2 + 0.5 + 0) / 3.
    design = CrossedDesign([0, 1, 1], [0, 0, 1], ties=1)
    assert design.test([2, 1, 0]).interval.mean == pytest.approx(2.5 / 3)
    assert (design.items, design.raters) == (2, 2)


def test_one_raters_interval_is_students() -> None:
    # 0 1 2 3: mean 1.5, s^2 = 5 / 3, standard error 0.6455, t(3) = 3.182: 1.5 +- 2.054.
    interval = CrossedDesign(range(4), [0] * 4).test([0, 1, 2, 3], largest=9).interval
    assert (interval.low, interval.high) == pytest.approx((-0.554, 3.554), abs=0.001)


def test_raters_of_their_own_items_are_compared_by_students_test_of_their_means() -> None:
    # Means of three raters: 0, 1, 2; s^2 = 1, standard error 0.5774, t(2) = 4.303: 1 +- 2.484.
    test = CrossedDesign(range(6), [0, 0, 1, 1, 2, 2]).test([-1, 1, 0, 2, 1, 3], largest=9)
    assert (test.interval.low, test.interval.high) == pytest.approx((-1.484, 3.484), abs=0.001)
    assert test.p == pytest.approx(2 * float(stdtr(2, -(3**0.5))), abs=1e-9)


def test_raters_who_all_see_all_add_to_the_interval_over_items() -> None:
    # Items 0 and 2 by raters who differ by nothing: items alone. By raters 1 apart, both count.
    items, raters = [0, 0, 1, 1, 2, 2], [0, 1] * 3
    alike = CrossedDesign(items, raters).test([0, 0, 1, 1, 2, 2], largest=9).interval
    assert alike.high - 1 == pytest.approx(4.303 / 3**0.5, abs=0.001)
    apart = CrossedDesign(items, raters).test([0, 1, 1, 2, 2, 3], largest=99).interval
    # Raters: means 1 and 2, s^2 / 2 = 0.25, t(1) = 12.706. Items: s^2 / 3 = 1/3, of which two
    # answers of variance 0.5 make 0.5 / 2 / 3; 0.25 is left, t(2) = 4.303. Equal shares, power
    # 1.5: t ** 1.5 is the mean of 45.29 and 8.926: t = 9.024, times the root of 0.25 + 0.25.
    assert apart.high - 1.5 == pytest.approx(9.024 * 0.5**0.5, abs=0.001)


def test_holm_multiplies_the_smallest_by_their_number_and_the_next_by_one_less() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([]) == []


def simulated(design: CrossedDesign, items: Ints, raters: Ints, lean: float) -> Floats:
    """(2000, answers) of equally good models, by raters who lean."""
    rng = np.random.default_rng(0)
    opinions = Opinions(0.3, lean=lean)
    latent = 0.3**0.5 * rng.standard_normal((2000, design.items))[:, items]
    latent += lean * rng.standard_normal((2000, design.raters))[:, raters]
    latent += (0.7 - lean**2) ** 0.5 * rng.standard_normal((2000, len(items)))
    return opinions.choices(latent)


@pytest.mark.parametrize("lean", [0.0, 0.3])
@pytest.mark.parametrize("count", [3, 7])
def test_intervals_hold_for_other_raters_too(count: int, lean: float) -> None:
    items = np.repeat(np.arange(60), 2)
    raters = (np.arange(120) + np.arange(120) // 14) % count
    design = CrossedDesign(items.tolist(), raters.tolist())
    values = simulated(design, items, raters, lean)
    means, variances = design.moments(values)
    covered = (np.abs(means) <= design.reach(variances)).mean()
    assert 0.93 <= covered <= 0.97
    if lean:  # over items alone, for these raters
        alone = CrossedDesign(items.tolist(), [0] * 120)
        means, variances = alone.moments(values)
        assert (np.abs(means) <= alone.reach(variances)).mean() < 0.9


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_intervals_hold_where_few_raters_do_most_of_the_work(count: int) -> None:
    # One rater answers everything, each other one 60 % of what the one before did.
    sizes = [max(10, round(60 * 0.6**rater)) for rater in range(count)]
    rng = np.random.default_rng(1)
    items = np.concatenate([rng.permutation(60)[:size] for size in sizes])
    raters = np.repeat(np.arange(count), sizes)
    design = CrossedDesign(items.tolist(), raters.tolist())
    means, variances = design.moments(simulated(design, items, raters, 0.3))
    assert 0.93 <= (np.abs(means) <= design.reach(variances)).mean() <= 0.975


SILENT = {"generation": "", "precision": 1.0, "recall": 0.2, "f1": 0.33, "generation_elements": 0}


@given(st.lists(st.floats(0.2, 1), min_size=1, max_size=8), st.integers(0, 8), st.integers(1, 5))
def test_silence_never_raises_a_models_precision(
    precisions: list[float], silent: int, elements: int
) -> None:
    written = [{**row, "generation_elements": elements} for row in rows(*precisions)]
    quiet = [{**written[0], **SILENT, "id": f"silent {i}"} for i in range(silent)]
    [before], [after] = standings(written), standings([*written, *quiet])
    assert after.axes["precision"].mean == pytest.approx(before.axes["precision"].mean)
    for axis in ("recall", "f1"):
        assert after.axes[axis].mean <= before.axes[axis].mean + 1e-9
    assert after.count == len(written) + silent
    tally = Tally()
    for row in [*written, *quiet]:
        tally.add(row)
    said = f"the mean precision of sft leaves out {silent} of {len(written) + silent} rows"
    assert (said in str(tally)) == (silent > 0)


def test_a_model_that_is_silent_half_of_the_time_is_no_better() -> None:
    names = ("precision", "recall", "f1")
    full = {str(i): {**row, "generation_elements": 3} for i, row in enumerate(rows(*[0.25] * 12))}
    half = {i: row if int(i) % 2 else {**row, **SILENT} for i, row in full.items()}
    items: list[IdScores] = [
        {name: [counted(some[i], axis) for axis in names]
         for name, some in (("full", full), ("half", half))}
        for i in full
    ]  # fmt: skip
    [gain] = gains(items, ["full", "half"], "full")
    assert gain.axes["precision"].mean == 0
    assert gain.axes["recall"].mean < 0
    assert gain.axes["f1"].mean < 0
    assert gain.count == 12
    assert "half" in gains_table([gain], "full")


def test_a_model_that_is_always_silent_has_no_precision() -> None:
    [it] = standings([{**rows(0.5)[0], **SILENT}])
    assert "precision" not in it.axes
    assert "none" in leaderboard([it])
    assert it.axes["f1"].mean == pytest.approx(0.2)
    silent = Gain("a", {"f1": it.axes["f1"]})
    assert "a" in gains_table([silent], "b")


ENGLISH = "A brown dog sleeps on a red mat."
DOUBTFUL = {
    "Ein brauner Hund schläft auf der roten Matte.": "does not read like English",
    "None": "is a placeholder", "null": "is a placeholder", " - ": "is a placeholder",
    "N/A": "is a placeholder", "...": "is a placeholder",
    "<p>A brown dog sleeps.</p>": "has markup", "A brown dog<br>sleeps.": "has markup",
    "A brown dog sleeps.<|im_end|>": "has markup", "**A dog** sleeps.": "has markup",
    "A brown\u200b dog sleeps.": "has markup", "A dog &amp; a cat sleep.": "has markup",
}  # fmt: skip


@pytest.mark.parametrize("side", ["generation", "reference"])
@pytest.mark.parametrize(("text", "reason"), DOUBTFUL.items())
def test_what_misleads_is_said_of_both_sides(side: str, text: str, reason: str) -> None:
    row = {"generation": ENGLISH, "reference": ENGLISH, side: text}
    assert [why for why in POSH.doubts(row) if f"the {side} {reason}" in why]
    other = "generation" if side == "reference" else "reference"
    assert not [why for why in POSH.doubts(row) if why.startswith(f"the {other}")]


@pytest.mark.parametrize("text", [ENGLISH, "It's Rembrandt's - a late one; 5 * 3 = 15."])
def test_a_plain_english_text_raises_no_doubt(text: str) -> None:
    assert [*POSH.doubts({"generation": text, "reference": ENGLISH})] == []
