"""Practice, attention, consent and background: asked by the page, and never counted as answers."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posh_reward.errors import InputError
from posh_reward.study.packets.draw import Design
from posh_reward.study.packets.make import Packet, make_packet, read_key, read_known_items
from posh_reward.study.packets.rater_answers import (
    AnswerCollection,
    collect_answers,
    read_page_sheet,
    read_sheets,
    sign_answers,
)
from posh_reward.study.packets.results import compute_results, report_raters
from posh_reward.study.packets.study_records import (
    PREFERENCE_AXES,
    BackgroundQuestion,
    PacketKey,
    RaterTask,
    shipped_texts,
)
from tests.study.packets.studies import coarse, content, exported, items, packet, saved

Row = dict[str, Any]


def known_packet(**texts: Any) -> Packet:
    """Two raters, an item to practise on and two attention items."""
    row = {
        "reference": "A brown dog.",
        "better": "A brown dog.",
        "worse": "A cat.",
        "why": "A dog.",
    }
    known = (*read_known_items([row], "practice"), *read_known_items([row, row], "attention"))
    own = replace(shipped_texts(), **texts)
    return make_packet(replace(items(4), known=known), Design(7, 2, 0, 0), None, {}, texts=own)


def known_answers(key: PacketKey, name: str, overall: Callable[[RaterTask], int]) -> list[Row]:
    """All answers of a page, of which those to known items are given by the task."""
    rows = []
    for task in key.raters[name].tasks:
        if task.purpose == "study":
            rows.append(coarse(key, task))
        else:
            value = overall(task)
            axes = dict.fromkeys(PREFERENCE_AXES, value)
            rows.append({"task": task.id, **axes, "seconds": 5, "comment": ""})
    return rows


def prefers_better(task: RaterTask) -> int:
    return 2 if task.models[0] == "better" else -2


def test_practice_and_attention_do_not_count_and_misses_are_flagged(tmp_path: Path) -> None:
    """rater-01 finds both attention tasks equal, rater-02 finds the better text in both."""
    made = known_packet()
    for name, overall in (("rater-01", lambda task: 0), ("rater-02", prefers_better)):
        data = saved(made.key, name, known_answers(made.key, name, overall))
        (tmp_path / f"{name}.json").write_bytes(data)
    collection = collect_answers(tmp_path.glob("*.json"), made.key)
    assert collection.refusals == ()
    assert len(collection.answers) == 4  # of the four items of the study, one rater each
    results = compute_results(collection, made.key)
    assert results.comparisons[0].items == 4
    first, second = results.raters
    assert (first.tasks, first.answered) == (4, 4), "as on the rater's page"
    assert "missed 2 of 2 attention tasks" in first.flags
    assert not any("attention" in flag for flag in second.flags)


def test_an_attention_task_looks_like_any_other() -> None:
    made = known_packet()
    tasks = made.key.raters["rater-01"].tasks
    assert [task.purpose for task in tasks][:2] == ["practice", "study"]
    assert sorted(task.purpose for task in tasks[2:]) == ["attention", "attention", "study"]
    page = made.files["rater-01.html"].decode().partition('id="packet">')[2].partition("</")[0]
    shown = json.loads(page)["tasks"]
    assert {tuple(task) for task in shown[1:]} == {("id", "image", "reference", "texts")}
    assert "attention" not in page
    imported = json.loads(made.files["label-studio/rater-01.json"])
    assert len(imported) == 4  # without practice, whose answer Label Studio cannot show


def test_what_raters_say_of_themselves_is_read() -> None:
    job = BackgroundQuestion("Your job?")
    made = known_packet(consent="We store your answers.", background=(job,))
    rows = known_answers(made.key, "rater-01", prefers_better)
    token = made.key.raters["rater-01"].token
    about = {"agreed": True, "background": ["curator"]}
    signed = content(made.key, "rater-01", rows) | {"about": about}
    [sheet] = read_sheets(sign_answers(signed, token), made.key)
    report, _ = report_raters(AnswerCollection((sheet,), (), ()), made.key)
    assert (report.background, report.flags) == ({"Your job?": "curator"}, ())
    for without in ({**about, "agreed": False}, None):
        data = sign_answers({**signed, "about": without}, token)
        with pytest.raises(InputError, match="has not agreed"):
            read_sheets(data, made.key)
    # An export of Label Studio has no consent, and a link takes none.
    with pytest.raises(InputError, match="not a file of answers from our page"):
        read_page_sheet(b"[]", made.key)


def test_attention_tasks_that_are_left_open_are_flagged() -> None:
    made = known_packet()
    rows = known_answers(made.key, "rater-01", prefers_better)
    attention = {
        task.id for task in made.key.raters["rater-01"].tasks if task.purpose == "attention"
    }
    rest = [row for row in rows if row["task"] not in attention]
    data = sign_answers(content(made.key, "rater-01", rest), made.key.raters["rater-01"].token)
    [sheet] = read_sheets(data, made.key)
    report, _ = report_raters(AnswerCollection((sheet,), (), ()), made.key)
    assert report.flags == ("left 2 of 2 attention tasks open",)


def test_a_file_that_is_nested_too_deeply_spoils_no_other() -> None:
    made = known_packet()
    for depth in range(300, 1200, 3):
        deep = f'{{"packet": "{made.key.packet}", "x": {"[" * depth}{"]" * depth}}}'
        with pytest.raises(InputError):
            read_sheets(deep.encode(), made.key)


def test_keys_and_answers_of_version_0_1_are_read(tmp_path: Path) -> None:
    """They know neither purposes of tasks nor images, consent or background."""
    made = packet(4)
    old = json.loads(made.key_file)
    del old["known"], old["texts"]["consent"], old["texts"]["background"]
    for item in old["items"].values():
        del item["image"], item["why"]
    for rater in old["raters"].values():
        for task in rater["tasks"]:
            del task["purpose"]
    (tmp_path / "key.json").write_text(json.dumps(old))
    key = read_key(tmp_path / "key.json")
    [sheet] = read_sheets(saved(key, "rater-01"), key)
    assert (len(sheet.answers), sheet.about) == (2, None)


def test_an_item_without_a_right_answer_is_refused() -> None:
    with pytest.raises(InputError, match="attention, row 1: no text in the column 'worse'"):
        read_known_items([{"reference": "A dog.", "better": "A dog."}], "attention")
    same = {"reference": "A dog.", "better": "A dog.", "worse": " A  dog. "}
    with pytest.raises(InputError, match="practice, row 1: 'better' and 'worse' are the same"):
        read_known_items([same], "practice")


def test_attention_is_noticed_in_label_studio_too() -> None:
    made = known_packet()
    tasks = json.loads(made.files["label-studio/rater-01.json"])
    result = [
        {"from_name": axis, "to_name": "first", "type": "choices", "value": {"choices": ["0"]}}
        for axis in PREFERENCE_AXES
    ]
    [sheet] = read_sheets(exported(made.key, tasks, result), made.key)
    assert (len(sheet.answers), len(sheet.attention), sheet.unfinished) == (2, 2, ())
