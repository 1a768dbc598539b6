"""Scored rows: back to scores, means by model, paired differences."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward.tables.standings import (
    POSH_COLUMNS,
    IdScores,
    ModelGain,
    ScoreTotals,
    average_by_model,
    compare_rows,
    compare_with_baseline,
    describe_gain,
    format_gains,
    format_leaderboard,
    read_averaged_score,
    sort_best_first,
)
from posh_reward.tables.statistics import bootstrap_mean, correct_by_holm
from posh_reward.tables.tables import Journal, read_journal, read_scores_of_row
from posh_reward.types import Element, Failure, ImageGrade, Scores, SentenceVerdict
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
    assert read_scores_of_row(row) == scores
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
    [it] = average_by_model(rows(0.5, None, 0.7))
    assert (it.model, it.count, it.failures) == ("sft", 2, 1)
    assert it.axes["f1"].mean == pytest.approx(0.6)
    unscored = format_leaderboard(average_by_model(rows(None)))
    assert "none of its 1 generations was scored" in unscored
    assert "higher is better" in format_leaderboard([it])


def test_differences_are_paired_by_item() -> None:
    gain = compare_rows(rows(0.6, 0.7, 0.8), list(reversed(rows(0.5, 0.6, 0.7))))
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
    [it] = average_by_model(rows(0.5))
    shown = format_leaderboard([replace(it, model="\x1b[31mb\nposh-reward: all is well")])
    assert "\\x1b[31mb posh-reward: all is well" in shown
    assert "\x1b" not in shown


def read_row(name: str, *contradicted: float) -> dict[str, object]:
    """A scored row with sentences of these probabilities of being contradicted."""
    spans = tuple(SentenceVerdict((0, 1), each, 1 - each, 0.0) for each in contradicted)
    scored = Scores(0.5, 0.5, 0.5, "posh|reader:x|version:1", sentences=spans)
    return {**scored_row(pair_item(name, "A dog.", "A dog."), scored), "model": "m"}


def test_sentences_are_counted_not_averaged_by_text() -> None:
    """One of one and one of three: two of four, not the mean of 1 and 1/3."""
    totals = ScoreTotals()
    for each in (read_row("a", 0.9), read_row("b", 0.8, 0.1, 0.2)):
        totals.add(each)
    assert "contradicted 2 of 4 sentences" in str(totals)
    assert totals.average_by_model()[0].contradicted_share == 0.5
    [plain] = average_by_model(rows(0.5))
    assert plain.contradicted_share is None
    shown = format_leaderboard([*totals.average_by_model(), replace(plain, model="other")])
    assert "lower is better" in " ".join(shown.split())
    assert [line.split()[6] for line in shown.splitlines()[-2:]] == ["0.500", "none"]
    assert "contradicted" not in format_leaderboard([plain])


def scores(*overall: float | None) -> list[IdScores]:
    """Items: three models' scores, of which those of "base" and "odd" are 0.5 and missing."""
    return [{"base": (0.5,) * 3, "tuned": (each,) * 3, "odd": (None,) * 3} for each in overall]


def test_any_two_models_are_compared_over_what_both_have() -> None:
    items: list[IdScores] = [*scores(0.6, 0.7, 0.6, 0.7, 0.6, 0.7, None), {"tuned": (0.1,) * 3}]
    tuned, odd = compare_with_baseline(items, ["base", "tuned", "odd"], "base")
    assert (tuned.model, tuned.count) == ("tuned", 6)
    assert tuned.axes["f1"].mean == pytest.approx(0.15)
    assert describe_gain(tuned.axes["f1"]) == "better"
    assert (odd.model, odd.axes) == ("odd", {})
    base, _ = compare_with_baseline(items, ["base", "tuned", "odd"], "tuned")
    assert describe_gain(base.axes["precision"]) == "worse"
    [single] = compare_with_baseline(scores(0.9), ["base", "tuned"], "base")
    assert describe_gain(single.axes["f1"]) == "too few ids"
    assert "tuned    6  +0.150" in format_gains([tuned, odd], "base")


def test_models_are_ranked_and_those_without_scores_come_last() -> None:
    low, high, none = (
        replace(*average_by_model(rows(overall)), model=str(overall))
        for overall in (0.4, 0.6, None)
    )
    assert [it.model for it in sort_best_first([none, low, high])] == ["0.6", "0.4", "None"]


def test_holm_multiplies_the_smallest_by_their_number_and_the_next_by_one_less() -> None:
    assert correct_by_holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert correct_by_holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert correct_by_holm([0.9, 0.8]) == [1, 1]
    assert correct_by_holm([]) == []


SILENT = {"generation": "", "precision": 1.0, "recall": 0.2, "f1": 0.33, "generation_elements": 0}


@given(st.lists(st.floats(0.2, 1), min_size=1, max_size=8), st.integers(0, 8), st.integers(1, 5))
def test_silence_never_raises_a_models_precision(
    precisions: list[float], silent: int, elements: int
) -> None:
    counts = {"generation_elements": elements, "reference_elements": elements}
    written = [{**row, **counts} for row in rows(*precisions)]
    quiet = [{**written[0], **SILENT, "id": f"silent {i}"} for i in range(silent)]
    [before], [after] = average_by_model(written), average_by_model([*written, *quiet])
    assert after.axes["precision"].mean == pytest.approx(before.axes["precision"].mean)
    for axis in ("recall", "f1"):
        assert after.axes[axis].mean <= before.axes[axis].mean + 1e-9
    assert after.count == len(written) + silent
    totals = ScoreTotals()
    for row in [*written, *quiet]:
        totals.add(row)
    said = f"the mean precision of sft leaves out {silent} of {len(written) + silent} rows"
    assert (said in str(totals)) == (silent > 0)


def test_a_model_that_is_silent_half_of_the_time_is_no_better() -> None:
    names = ("precision", "recall", "f1")
    full = {str(i): {**row, "generation_elements": 3} for i, row in enumerate(rows(*[0.25] * 12))}
    half = {i: row if int(i) % 2 else {**row, **SILENT} for i, row in full.items()}
    items: list[IdScores] = [
        {name: [read_averaged_score(some[i], axis) for axis in names]
         for name, some in (("full", full), ("half", half))}
        for i in full
    ]  # fmt: skip
    [gain] = compare_with_baseline(items, ["full", "half"], "full")
    assert gain.axes["precision"].mean == 0
    assert gain.axes["recall"].mean < 0
    assert gain.axes["f1"].mean < 0
    assert gain.count == 12
    assert "half" in format_gains([gain], "full")


def test_a_model_that_is_always_silent_has_no_precision() -> None:
    [it] = average_by_model([{**rows(0.5)[0], **SILENT}])
    assert "precision" not in it.axes
    assert "none" in format_leaderboard([it])
    assert it.axes["f1"].mean == pytest.approx(0.2)
    silent = ModelGain("a", {"f1": it.axes["f1"]})
    assert "a" in format_gains([silent], "b")


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
    assert [why for why in POSH_COLUMNS.doubts(row) if f"the {side} {reason}" in why]
    other = "generation" if side == "reference" else "reference"
    assert not [why for why in POSH_COLUMNS.doubts(row) if why.startswith(f"the {other}")]


@pytest.mark.parametrize("text", [ENGLISH, "It's Rembrandt's - a late one; 5 * 3 = 15."])
def test_a_plain_english_text_raises_no_doubt(text: str) -> None:
    assert [*POSH_COLUMNS.doubts({"generation": text, "reference": ENGLISH})] == []
