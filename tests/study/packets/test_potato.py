"""Projects for Potato, and what it saves, in the form that the real one (2.12.1) writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from posh_reward.cli.packet_answers import answer_files
from posh_reward.errors import InputError
from posh_reward.study.packets.draw import Design
from posh_reward.study.packets.make import Packet, make_packet
from posh_reward.study.packets.potato import display_text, places, project
from posh_reward.study.packets.rater_answers import sheets
from posh_reward.study.packets.rater_texts import shipped_texts
from posh_reward.study.packets.study_records import RaterTask, SpanMarks
from tests.study.packets.studies import items, packet

SPOTS = " A red dog\r\nwith 🐶\u2028spots."

CHOICES = {value: label for label, value in shipped_texts().values.items()}


def made(text: str | None = None, **design: Any) -> Packet:
    found = items(4)
    if text is not None:
        changed = (replace(i, texts=dict.fromkeys(i.texts, text)) for i in found.items)
        found = replace(found, items=tuple(changed))
    chosen = Design(**{"seed": 7, "coarse": 2, "granular": 0, "repeated": 0, **design})
    return make_packet(found, chosen, None, {}, with_potato=True)


def label(schema: str, name: str, value: object = None) -> list[Any]:
    return [{"schema": schema, "name": name}, name if value is None else value]


def span(schema: str, start: int, end: int, field: str) -> list[Any]:
    place = {"start": start, "end": end, "target_field": field}
    return [{"schema": schema, "name": "Mistake", "title": "Mistake", **place}, 1]


def state(
    tasks: dict[str, list[Any]],
    spans: dict[str, list[Any]] | None = None,
    times: dict[str, Any] | None = None,
) -> bytes:
    return json.dumps({
        "user_id": "anna",
        "instance_id_to_label_to_value": tasks,
        "instance_id_to_span_to_value": spans or {},
        "instance_id_to_behavioral_data": times or {},
    }).encode()  # fmt: skip


def chosen(value: int) -> list[Any]:
    return [label(axis, CHOICES[value]) for axis in ("mistakes", "omissions", "overall")]


def test_a_project_shows_a_rater_no_more_than_the_page_does() -> None:
    found = made()
    names = [name for name in found.files if name.startswith("potato/")]
    assert sorted(names) == [f"potato/rater-0{n}/{file}" for n in (1, 2)
                             for file in ("config.yaml", "tasks.jsonl")]  # fmt: skip
    config = yaml.safe_load(found.files["potato/rater-01/config.yaml"])
    assert [each["name"] for each in config["annotation_schemes"]] == [
        "mistakes", "omissions", "overall",
    ]  # fmt: skip
    rows = found.files["potato/rater-01/tasks.jsonl"].decode().splitlines()
    assert [set(json.loads(row)) for row in rows] == [{"id", "reference", "first", "second"}] * 2
    assert b"posh-tuned" not in b"".join(found.files[name] for name in names)
    assert "potato start" in found.files["READ-ME-FIRST.txt"].decode()
    assert not any(name.startswith("potato/") for name in packet(4).files)


def test_preferences_and_times_are_read() -> None:
    found = made()
    first, second = found.key.raters["rater-01"].tasks
    data = state({first.id: chosen(-1)}, times={first.id: {"total_time_ms": 4728}})
    [sheet] = sheets(data, found.key)
    assert (sheet.rater, len(sheet.unfinished)) == ("rater-01", 1)
    [answer] = sheet.answers
    assert set(answer.preferences.values()) == {-1}
    assert answer.seconds == pytest.approx(4.728)
    [sheet] = sheets(state({first.id: chosen(2), second.id: chosen(0)}), found.key)
    assert sheet.unfinished == ()


@pytest.mark.parametrize(
    "text", ["", " ", "a", "  a <b>\r\n\tc  ", SPOTS, "\ufeff\x00a\x1f b", "👩\u200d🦰  e\u0301 \n"]
)
def test_every_character_that_is_shown_has_its_place(text: str) -> None:
    seen = display_text(text)
    assert "<" not in seen  # the page of Potato would run it
    assert len(places(text)) == len(seen)
    for sign, place in zip(seen, places(text), strict=True):
        assert sign == text[place] or sign == " " or (sign, text[place]) == ("\uff1c", "<")


def test_marks_are_offsets_into_the_text_as_it_was() -> None:
    found = made(SPOTS, coarse=0, granular=2)
    text = display_text(SPOTS)
    task = found.key.raters["rater-01"].tasks[0]
    place = text.index("spots")
    denied = label("no_omissions", "Nothing is missing", "true")
    data = state({task.id: [denied]}, {task.id: [span("mistakes", place, place + 5, "generation")]})
    [answer] = sheets(data, found.key)[0].answers
    assert answer.marks is not None
    [(start, end)] = answer.marks.mistakes
    assert SPOTS[start:end] == "spots"
    assert answer.marks.omissions == ()
    unsaid = state({task.id: [label("no_omissions", "Nothing is missing", False)]},
                   {task.id: [span("mistakes", 0, 1, "generation")]})  # fmt: skip
    assert "Missing details" in sheets(unsaid, found.key)[0].unfinished[0]


def other(found: Packet) -> RaterTask:
    return found.key.raters["rater-02"].tasks[0]


def test_what_no_rater_can_have_said_is_refused() -> None:
    found = made()
    task = found.key.raters["rater-01"].tasks[0].id
    for data, why in (
        (state({"t-99": chosen(0)}), "foreign: this packet has no task 't-99'"),
        (state({}), "it has no answers"),
        (state({task: chosen(0), other(found).id: chosen(0)}), "seeing generations twice"),
        (state({task: [label("overall", "the first")]}), "the choice 'the first' is not one of"),
        (state({task: [["overall"]]}), "not saved by one of our Potato projects"),
        (b'{"user_id": "anna"}', "not a file of answers from our page, Label Studio or Potato"),
    ):
        with pytest.raises(InputError, match=why):
            sheets(data, found.key)
    marked = made(coarse=0, granular=1)
    task = marked.key.raters["rater-01"].tasks[0].id
    outside = {task: [span("mistakes", 0, 999, "generation")]}
    denied = [label("no_omissions", "Nothing is missing", "true")]
    with pytest.raises(InputError, match=r"0-999 is outside the \d+ characters shown"):
        sheets(state({task: denied}, outside), marked.key)


def test_a_project_is_in_the_language_of_its_texts() -> None:
    key = replace(made(coarse=0, granular=2).key, images=True, texts=shipped_texts("de"))
    by_id = {item.id: item for item in items(4).items}
    files = project("rater-01", key, by_id, dict.fromkeys(by_id, "data:image/png,"))
    config = yaml.safe_load(files["config.yaml"])
    words = [field["label"] for field in config["instance_display"]["fields"]]
    words += [scheme["description"] for scheme in config["annotation_schemes"]]
    assert words[0] == "Bild"
    assert words[-3::2] == ["Fehler", "Fehlende Einzelheiten"]  # over "nothing to mark"


def test_suggested_marks_are_not_for_potato() -> None:
    found = items(2)
    marked = replace(found.items[0], suggested={"sft": SpanMarks(((0, 1),), ())})
    design = Design(1, coarse=0, granular=1, repeated=0)
    with pytest.raises(InputError, match="leave out --potato or --suggest"):
        make_packet(replace(found, items=(marked, found.items[1])), design, None, {},
                    with_potato=True)  # fmt: skip


def test_answers_are_found_where_potato_puts_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "potato" / "rater-01" / "annotation_output" / "anna" / "user_state.json"
    saved.parent.mkdir(parents=True)
    saved.write_bytes(state({}))
    (tmp_path / "empty").mkdir()
    assert answer_files([str(tmp_path)]) == [saved]
    said = capsys.readouterr().err
    assert "empty" in said  # a folder in which nothing is looked for is named
    assert "potato" not in said
