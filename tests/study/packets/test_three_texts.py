"""Rankings of three texts in one task: drawn, answered in a browser, and read as comparisons."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from posh_reward.errors import InputError
from posh_reward.study.packets.answer_files import collect
from posh_reward.study.packets.draw import Design, draw
from posh_reward.study.packets.long_table import long_csv, long_rows
from posh_reward.study.packets.make import Packet, as_json, make_packet
from posh_reward.study.packets.rater_answers import sheets_in
from posh_reward.study.packets.rater_texts import AXES
from posh_reward.study.packets.results import judgments, results
from posh_reward.study.packets.results_page import results_page
from posh_reward.study.packets.study_items import StudyItems
from posh_reward.study.packets.study_records import RaterTask, comparisons
from tests.study.packets.studies import items, packet, saved

MODELS = ("a", "b", "c")
SAME = replace(items(1, MODELS).items[0], id="same",
               texts={"a": "A cat.", "b": "A dog.", "c": "A cat."})  # fmt: skip


def ranked(count: int = 6, **design: Any) -> Packet:
    return packet(found=items(count, MODELS), coarse=0, ranking=2, **design)


def places(task: RaterTask, best_first: tuple[str, ...]) -> dict[str, Any]:
    """A ranking in which nobody shares a place, on all axes."""
    said = [best_first.index(model) + 1 for model in task.models]
    return {"task": task.id, **dict.fromkeys(AXES, said), "seconds": 60, "comment": ""}


def test_every_order_of_three_is_shown_equally_often() -> None:
    drawn = draw(items(36, MODELS).items, Design(1, 0, 0, 0, ranking=3))
    for rater in drawn.values():
        assert rater.form == "ranking"
        assert Counter(task.models for task in rater.tasks) == dict.fromkeys(
            permutations(MODELS), 2
        )


def test_equal_texts_are_shown_once_and_share_their_place() -> None:
    made = packet(found=StudyItems(MODELS, (SAME,), ()), coarse=0, ranking=1)
    [task] = made.key.raters["rater-01"].tasks
    assert sorted(task.models) == ["a", "b"]
    [sheet] = sheets_in(saved(made.key, "rater-01", [places(task, ("b", "a"))]), made.key)
    rows = judgments(sheet.answers, made.key)
    assert {(row["earlier"], row["later"]): row["overall"] for row in rows} == {
        ("a", "b"): 1, ("b", "c"): -1,
    }  # fmt: skip
    assert [task.models for task in made.key.identical] == [("a", "c")]


def chosen_places(made: Packet, said: dict[str, list[int]]) -> bytes:
    """The first rater's file of Label Studio, with every task ranked alike."""
    labels = made.key.texts.places
    picks = [
        (f"{axis}_{seat}", labels[place - 1])
        for axis, each in said.items()
        for seat, place in enumerate(each, start=1)
    ]
    result = [{"from_name": name, "type": "choices", "value": {"choices": [label]}}
              for name, label in picks]  # fmt: skip
    rows = json.loads(made.files["label-studio/rater-01.json"])
    return as_json([{**row, "annotations": [{"result": result}]} for row in rows])


def test_rankings_come_back_from_label_studio() -> None:
    found = StudyItems(MODELS, (*items(1, MODELS).items, SAME), ())
    made = make_packet(found, Design(7, 0, 0, 0, ranking=1), None, {})
    tasks = made.key.raters["rater-01"].tasks
    said = {"mistakes": [1, 2, 3], "omissions": [1, 1, 3], "overall": [3, 1, 2]}
    [sheet] = sheets_in(chosen_places(made, said), made.key)
    assert sheet.unfinished == ()
    for task, answer in zip(tasks, sheet.answers, strict=True):  # of equal texts one is shown
        assert answer.places == {axis: (*each[: len(task.models)],) for axis, each in said.items()}
    [sheet] = sheets_in(chosen_places(made, {**said, "overall": [1]}), made.key)
    assert sheet.unfinished == ("task 1 (Overall quality)", "task 2 (Overall quality)")
    config = made.files["label-studio/ranking.xml"].decode()
    assert config.count('required="true"') == 6  # the third text may be none
    rows = made.files["label-studio/rater-01.json"]
    assert rows.decode().count('"third": "\N{EM DASH}"') == 1


@pytest.mark.parametrize(
    ("said", "preferences"),
    [
        ([1, 2, 3], {("x", "y"): 1, ("x", "z"): 2, ("y", "z"): 1}),
        ([1, 1, 3], {("x", "y"): 0, ("x", "z"): 1, ("y", "z"): 1}),  # nobody is second
        ([2, 2, 2], {("x", "y"): 0, ("x", "z"): 0, ("y", "z"): 0}),
        ([3, 1, 2], {("x", "y"): -2, ("x", "z"): -1, ("y", "z"): 1}),
    ],
)
def test_a_preference_is_the_distance_of_two_places(
    said: list[int], preferences: dict[tuple[str, str], int]
) -> None:
    made = ranked(2)
    [task, *_] = made.key.raters["rater-01"].tasks
    answer = {**places(task, task.models), "overall": said}
    [sheet] = sheets_in(saved(made.key, "rater-01", [answer]), made.key)
    x, y, z = task.models
    names = {"x": x, "y": y, "z": z}
    found = {each.task.models: each.preferences["overall"]
             for each in comparisons(sheet.answers, made.key)}  # fmt: skip
    assert found == {(names[a], names[b]): value for (a, b), value in preferences.items()}


@pytest.mark.parametrize(
    ("said", "why"),
    [([1, 2], "not places"), ([1, 2, 4], "not places"), ([0, 1, 2], "not places"),
     (2, "not places"), ([[0, 1]], "not places"), ("first", "mistakes")],
)  # fmt: skip
def test_what_are_no_places_is_refused(said: object, why: str) -> None:
    made = ranked(2)
    [task, *_] = made.key.raters["rater-01"].tasks
    with pytest.raises(InputError, match=why):
        sheets_in(
            saved(made.key, "rater-01", [{**places(task, MODELS), "mistakes": said}]), made.key
        )


def test_a_place_that_is_left_out_is_unfinished() -> None:
    made = ranked(2)
    [task, *_] = made.key.raters["rater-01"].tasks
    answer = {**places(task, task.models), "overall": [1, None, 2]}
    [sheet] = sheets_in(saved(made.key, "rater-01", [answer]), made.key)
    assert sheet.unfinished == ("task 1 (Overall quality)",)


def test_a_study_of_rankings_is_summed_up(tmp_path: Path) -> None:
    pytest.importorskip("choix")
    made = ranked(12, repeated=1, times=2)
    for name, rater in made.key.raters.items():
        answers = [places(task, ("c", "a", "b")) for task in rater.tasks]
        (tmp_path / name).write_bytes(saved(made.key, name, answers))
    collection = collect(tmp_path.iterdir(), made.key)
    found = results(collection, made.key)
    means = {(c.earlier, c.later): c.axes[2].mean.mean for c in found.comparisons}
    assert means == {("a", "b"): -1, ("a", "c"): 1, ("b", "c"): 2}
    assert [each.model for each in found.rankings[0].models] == ["c", "a", "b"]
    assert [each.form for each in found.raters] == ["ranking", "ranking"]
    page = results_page(found)
    assert "a preference is the distance between two places" in page
    assert "<td>ranks</td>" in page
    table = list(csv.DictReader(io.StringIO(
        long_csv(long_rows(collection.answers, made.key)).decode())))  # fmt: skip
    assert len(table) == 12 * 2 * 3 * 3  # images, raters, pairs, axes
    assert {row["form"] for row in table} == {"ranking"}


def test_a_ranking_takes_three_models_and_no_comparers() -> None:
    with pytest.raises(InputError, match="takes 3 models, not 2"):
        packet(coarse=0, ranking=2)
    with pytest.raises(InputError, match="either coarse or ranking"):
        Design(0, coarse=3, ranking=3)
