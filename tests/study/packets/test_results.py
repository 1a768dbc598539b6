"""Answers -> preferences, agreement and flags, against figures worked out by hand."""

from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest

from posh_reward.study.agreement.rater_agreement import count_ratings
from posh_reward.study.packets import results
from posh_reward.study.packets.make import Packet
from posh_reward.study.packets.rater_answers import AnswerCollection, collect_answers, read_sheets
from posh_reward.study.packets.results_page import (
    alpha_text,
    results_page,
    summary_text,
    verdict_text,
)
from posh_reward.study.packets.study_records import PREFERENCE_AXES, PacketKey, StudyItem
from posh_reward.tables.statistics import Interval
from tests.page_checks import unfilled
from tests.study.packets.studies import EVIL, coarse, items, packet, saved


def study(
    folder: Path, made: Packet, **answers: list[dict[str, Any]]
) -> tuple[AnswerCollection, results.StudyResults]:
    """Reads one file for each rater named (``rater_01=[...]``)."""
    for name, given in answers.items():
        rater = name.replace("_", "-")
        (folder / name).write_bytes(saved(made.key, rater, given))
    collected = collect_answers(folder.iterdir(), made.key)
    return collected, results.compute_results(collected, made.key)


def towards(
    key: PacketKey, rater: str, by_item: dict[str, int], **changes: Any
) -> list[dict[str, Any]]:
    """A rater's answers: how much better the later model is on each item."""
    return [
        {**coarse(key, task, by_item[task.item]), **changes} for task in key.raters[rater].tasks
    ]


def test_preferences_are_oriented_and_averaged_by_item(tmp_path: Path) -> None:
    made = packet(4, coarse=2, repeated=1, times=2)  # both raters see all four items
    names = [f"painting-{n}" for n in range(4)]
    first = dict(zip(names, (2, 1, 0, -1), strict=True))
    second = dict(zip(names, (2, 0, 0, -2), strict=True))
    _, found = study(
        tmp_path, made,
        rater_01=towards(made.key, "rater-01", first),
        rater_02=towards(made.key, "rater-02", second),
    )  # fmt: skip
    [comparison] = found.comparisons
    assert (comparison.earlier, comparison.later) == ("sft", "posh-tuned")
    assert (comparison.items, comparison.answers, comparison.several) == (4, 8, 4)
    for each in comparison.axes:
        # Means by item: 2, .5, 0, -1.5.
        assert each.mean.mean == pytest.approx(0.25)
        assert each.mean.low < 0.25 < each.mean.high
        assert (each.wins, each.ties, each.losses) == (2, 1, 1)
        assert each.counts == {2: 2, 1: 1, 0: 3, -1: 1, -2: 1}
        assert each.alpha is not None
        # By hand, ordinal, each pair in both orders: totals 3 2 6 2 3 put -2..2 at 1.5, 4, 8, 12
        # and 14.5. Observed, of n - 1 = 15: 2 * 2 * (4^2 + 2.5^2) = 89. Expected: over all pairs.
        assert each.alpha.mean == pytest.approx(1 - 15 * 89 / expected())


def expected() -> float:
    places = {-2: 1.5, -1: 4, 0: 8, 1: 12, 2: 14.5}
    totals = {-2: 3, -1: 2, 0: 6, 1: 2, 2: 3}
    return sum(totals[a] * totals[b] * (places[a] - places[b]) ** 2 for a in totals for b in totals)


def test_agreement_does_not_depend_on_which_model_is_named_first() -> None:
    """All raters prefer the later model: chance to an alpha in one order, though all agree."""
    units = [[1, 1], [1, 1], [1, 2], [2, 1], [1, 1], [1, 1]]
    turned = [[-a, -b] for a, b in units[:3]] + units[3:]
    assert count_ratings(units).alpha() < 0
    one, other = results.alpha_both_orders(units), results.alpha_both_orders(turned)
    assert one is not None
    assert other is not None
    assert one.mean == pytest.approx(other.mean)
    assert one.mean > 0.7


def test_agreement_on_few_pairs_is_not_stated() -> None:
    assert alpha_text(Interval(0.5, -1, 1, 5)) == "too few (5 pairs)"
    assert alpha_text(Interval(0.5, 0.25, 0.75, 6)) == "0.50 [0.25, 0.75]"


def test_each_answer_to_a_question_is_a_row() -> None:
    made = packet(2, coarse=1, granular=1)
    tasks = made.key.raters["rater-01"].tasks
    marks = [
        {"task": task.id, "mistakes": [[2, 9]], "omissions": [], "seconds": 50, "comment": ""}
        for task in made.key.raters["rater-02"].tasks
    ]
    compared = [coarse(made.key, task, 2) for task in tasks]
    files = saved(made.key, "rater-01", compared), saved(made.key, "rater-02", marks)
    answers = [answer for file in files for answer in read_sheets(file, made.key)[0].answers]
    rows = list(results.list_answer_rows(answers, made.key))
    assert len(rows) == 2 * 3 + 4 * 2
    assert [row["order"] for row in rows[:6]] == [1, 1, 1, 2, 2, 2]
    assert {row["preference"] for row in rows[:6]} == {2}
    assert {row["choice"] for row in rows[:6]} == {2, -2}  # as shown: sides are balanced
    assert {(row["earlier"], row["later"]) for row in rows[:6]} == {("sft", "posh-tuned")}
    # "A red dog with 0 spots sits under a table.": 2-9 touches two of ten words.
    assert {row["unmarked"] for row in rows[6:] if row["axis"] == "mistakes"} == {0.8}
    assert {row["later"] for row in rows[6:]} == {None}


def test_equal_texts_count_as_ties(tmp_path: Path) -> None:
    found = items(4)
    same = StudyItem("same", "A dog.", {"sft": "A cat.", "posh-tuned": "A cat."})
    made = packet(found=replace(found, items=(*found.items, same)), coarse=1)
    answers = towards(made.key, "rater-01", dict.fromkeys(made.key.items, 1))
    _, summed = study(tmp_path, made, rater_01=answers)
    [comparison] = summed.comparisons
    assert (comparison.items, comparison.identical, comparison.answers) == (5, 1, 4)
    assert comparison.axes[0].mean.mean == pytest.approx(0.8)
    assert comparison.axes[0].ties == 1
    assert comparison.axes[0].alpha is None


def test_marks_are_summed_up_by_model(tmp_path: Path) -> None:
    made = packet(2, coarse=0, granular=2, repeated=1, times=2)

    def answers(rater: str, *mistakes: list[int]) -> list[dict[str, Any]]:
        return [
            {"task": task.id, "mistakes": mistakes if task.models == ("sft",) else [],
             "omissions": [], "seconds": 50, "comment": ""}
            for task in made.key.raters[rater].tasks
        ]  # fmt: skip

    # "A red dog with 0 spots sits under a table.": ten words.
    _, found = study(tmp_path, made, rater_01=answers("rater-01", [2, 9]),
                     rater_02=answers("rater-02", [6, 9], [10, 14]))  # fmt: skip
    shares = {(each.model, each.side): each for each in found.marked}
    assert shares["sft", "mistakes"].unmarked.mean == pytest.approx(0.8)
    assert shares["sft", "mistakes"].marks.mean == pytest.approx(1.5)
    assert shares["posh-tuned", "mistakes"].unmarked.mean == 1
    [mistakes, omissions] = found.span_agreement
    assert mistakes.tasks == 4
    # The one mark of the first rater matches one of two: precision 1, recall 1/2.
    assert mistakes.f1 == pytest.approx(2 / 3)
    assert mistakes.f1_at_50 == pytest.approx(2 / 3)
    assert omissions.f1 is None


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"seconds": 1}, "8 of 8 tasks answered faster than 10 words per second"),
        ({"overall": 0}, "always answered 'Equal' to Overall quality"),
        ({"mistakes": 1, "omissions": 2, "overall": 0}, "#1 slightly better"),
        ({}, "same answer to all three questions"),
    ],
)
def test_answers_that_call_for_a_look_are_flagged(
    tmp_path: Path, changes: dict[str, int], flag: str
) -> None:
    made = packet(8, coarse=1)
    answers = towards(made.key, "rater-01", dict.fromkeys(made.key.items, 1), **changes)
    _, found = study(tmp_path, made, rater_01=answers)
    assert flag in "; ".join(found.raters[0].flags)


@pytest.mark.slow
def test_a_rater_can_be_left_out(tmp_path: Path) -> None:
    made = packet(4, coarse=2, repeated=1, times=2)
    up, down = (dict.fromkeys(made.key.items, value) for value in (2, -1))
    collected, both = study(tmp_path, made, rater_01=towards(made.key, "rater-01", up),
                            rater_02=towards(made.key, "rater-02", down))  # fmt: skip
    assert both.comparisons[0].axes[0].mean.mean == 0.5
    one = results.compute_results(collected, made.key, ["rater-02"])
    assert one.comparisons[0].axes[0].mean.mean == 2
    assert one.left_out == ("rater-02",)


@pytest.fixture
def shown(tmp_path: Path) -> results.StudyResults:
    evil = items(6, (EVIL, "posh-tuned"))
    made = packet(found=evil, coarse=2)
    (tmp_path / EVIL[:10].replace("/", "_")).write_bytes(b"{")
    answers = towards(made.key, "rater-01", dict.fromkeys(made.key.items, 1))
    return study(tmp_path, made, rater_01=answers)[1]


def test_the_page_is_safe_and_says_what_is_better(shown: results.StudyResults) -> None:
    html = results_page(shown)
    assert "<script" not in html
    assert "<img" not in html
    assert unfilled(html) == []
    assert "Above 0, posh-tuned is better" in html
    assert "posh-tuned, +1.00 [+1.00, +1.00]" not in html  # three items settle nothing
    assert "fewer mistakes: not settled between posh-tuned and" in html
    assert "Nothing counts yet from rater-02" in html
    assert "not JSON" in html
    assert html.count('<circle class="open"') == 3


def test_a_verdict_says_for_whom_it_holds(shown: results.StudyResults) -> None:
    comparison = replace(shown.comparisons[0], earlier="a", later="b", raters=3)
    axis = comparison.axes[0]
    wide, narrow = Interval(-1.0, -2.0, 0.1, 6), Interval(-1.0, -1.5, -0.5, 6)
    open_ = replace(axis, mean=wide, these_raters=wide)
    assert verdict_text(open_, comparison) == (
        "fewer mistakes: not settled between b and a; a is ahead by 1.00 [-0.10, 2.00]"
    )
    these = replace(open_, these_raters=narrow, settled_here=True)
    uncorrected = replace(these, settled_here=False)
    assert verdict_text(uncorrected, comparison).startswith(
        "fewer mistakes: not settled between b and"
    )
    assert verdict_text(these, comparison).startswith(
        "in the eyes of these 3 raters, a has fewer mistakes, by 1.00 [0.50, 1.50]; not settled for"
    )
    general = replace(these, mean=narrow, settled=True)
    assert verdict_text(general, comparison) == (
        "a has fewer mistakes, by 1.00 [0.50, 1.50] (3 raters)"
    )
    assert "one rater" in verdict_text(these, replace(comparison, raters=1))


def test_one_rater_settles_nothing_for_others_and_ties_are_no_items(tmp_path: Path) -> None:
    same = tuple(
        StudyItem(f"same-{n}", "A dog.", dict.fromkeys(("sft", "posh-tuned"), "A cat."))
        for n in range(3)
    )
    for count, excludes in ((5, False), (6, True)):
        made = packet(found=replace(items(count), items=(*items(count).items, *same)), coarse=1)
        answers = towards(made.key, "rater-01", dict.fromkeys(made.key.items, 2))
        (tmp_path / str(count)).mkdir()
        _, summed = study(tmp_path / str(count), made, rater_01=answers)
        [comparison] = summed.comparisons
        axis = comparison.axes[0]
        assert (comparison.items, comparison.raters) == (count + 3, 1)
        assert not axis.settled
        assert axis.these_raters.excludes_zero is excludes
        assert axis.mean.low < axis.mean.high


def test_names_can_neither_steer_the_terminal_nor_forge_its_lines() -> None:
    forged = "\x1b[31mb\nposh-reward: all is well"
    made = packet(found=items(6, ("a", forged)))
    answers = [
        sheet for name in made.key.raters for sheet in read_sheets(saved(made.key, name), made.key)
    ]
    shown = summary_text(
        results.compute_results(AnswerCollection(tuple(answers), (), ()), made.key)
    )
    assert "\x1b" not in shown
    assert not any(line.startswith("posh-reward:") for line in shown.splitlines())


CONTESTANTS = ("a", "b", "c")


def test_three_wins_of_four_are_odds_of_three() -> None:
    # Half a win more for each: odds 30.5 to 10.5, log of that apart, about the mean.
    games = [results.Game(0, 1, 1.0, str(n), "r") for n in range(30)]
    games += [results.Game(0, 1, 0.0, str(n), "r") for n in range(10)]
    strong, weak = results._fit_strengths(games, 2)
    assert strong - weak == pytest.approx(log(30.5 / 10.5))
    assert strong + weak == pytest.approx(0)


def contest(folder: Path, beats: set[tuple[str, str]]) -> results.StudyResults:
    """Twelve items, six raters who all prefer the first of each of the pairs."""
    made = packet(found=items(12, CONTESTANTS), coarse=6)
    for name, rater in made.key.raters.items():
        answers = [
            {"task": task.id, "seconds": 60, "comment": "",
             **dict.fromkeys(PREFERENCE_AXES, 1 if task.models in beats else -1)}
            for task in rater.tasks
        ]  # fmt: skip
        (folder / name).write_bytes(saved(made.key, name, answers))
    return results.compute_results(collect_answers(folder.iterdir(), made.key), made.key)


def test_models_are_ranked_with_intervals(tmp_path: Path) -> None:
    found = contest(tmp_path, {("c", "a"), ("c", "b"), ("a", "b")})
    assert len(found.comparisons) == 3
    assert [each.axis for each in found.rankings] == ["mistakes", "omissions", "overall"]
    for ranking in found.rankings:
        assert [each.model for each in ranking.models] == ["c", "a", "b"]
        best, middle, _ = ranking.models
        assert best.strength.low < best.strength.mean < best.strength.high
        assert best.chance > 0.9
        assert middle.chance == pytest.approx(0.5, abs=0.01)
    assert "ranking, overall" in summary_text(found)
    html = results_page(found)
    assert html.count("<h3>better overall</h3>") == 1
    assert "This page makes 9 statements" in html
