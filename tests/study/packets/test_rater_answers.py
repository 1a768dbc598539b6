"""Files that come back: read, or refused one by one with the reason."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from posh_reward.errors import InputError
from posh_reward.study.packets.draw import Design
from posh_reward.study.packets.make import Packet, make_packet
from posh_reward.study.packets.rater_answers import (
    collect_answers,
    count_reading,
    read_sheets,
    sign_answers,
)
from posh_reward.study.packets.study_records import (
    LANGUAGES,
    MARKED_SIDES,
    PREFERENCE_AXES,
    PacketKey,
    read_texts,
    shipped_texts,
    texts_source,
)
from tests.study.packets.studies import (
    coarse,
    content,
    exported,
    items,
    markings,
    packet,
    preferences,
    saved,
)

PACKET = packet(granular=1)
KEY = PACKET.key
FIRST, SECOND, MARKER = KEY.raters
Row = dict[str, Any]


def marking(task_id: str, mistakes: Any = ((0, 1),), omissions: Any = ()) -> Row:
    return {
        "task": task_id, "mistakes": mistakes, "omissions": omissions, "seconds": 9, "comment": "",
    }  # fmt: skip


def test_a_finished_file_is_read() -> None:
    [sheet] = read_sheets(saved(KEY, FIRST), KEY)
    assert (sheet.rater, sheet.unfinished) == (FIRST, ())
    for answer, task in zip(preferences(sheet), KEY.raters[FIRST].tasks, strict=True):
        assert (answer.task, answer.models) == (task.id, task.models)
        assert answer.overall == (1 if task.models[0] == "posh-tuned" else -1)
        assert answer.seconds == 60


def test_a_file_of_marks_is_read() -> None:
    [sheet] = read_sheets(marked(mistakes=[[8, 11], [0, 1], [8, 11]]), KEY)
    first, *others = markings(sheet)
    task = KEY.raters[MARKER].tasks[0]
    assert (first.rater, first.item, first.models) == (MARKER, task.item, task.models)
    assert first.by_side == {"mistakes": ((0, 1), (8, 11)), "omissions": ()}
    assert {answer.mistakes for answer in others} == {((0, 1),)}


@pytest.mark.parametrize(
    ("changes", "open_parts"),
    [
        ({"mistakes": 2}, "Mistakes"),  # a choice marks nothing
        ({"mistakes": None, "omissions": None}, "Mistakes, Missing details"),
        ({"overall": 7, "models": ["x"], "rater": "x", "later": 1}, None),  # not of this form
    ],
)
def test_an_answer_of_the_other_form_is_open(changes: Row, open_parts: str | None) -> None:
    [sheet] = read_sheets(marked(**changes), KEY)
    assert sheet.unfinished == (() if open_parts is None else (f"task 1 ({open_parts})",))
    assert {answer.rater for answer in markings(sheet)} == {MARKER}


def edited(change: Callable[[Row], object]) -> bytes:
    """A file that was changed before the page made its check: what a bug could write."""
    made = content(KEY, FIRST)
    change(made)
    return sign_answers(made, KEY.raters[FIRST].token)


def answer(place: int, **changes: Any) -> Callable[[Row], object]:
    return lambda made: made["answers"][place].update(changes)


def marked(**changes: Any) -> bytes:
    tasks = KEY.raters[MARKER].tasks
    answers = [marking(task.id) for task in tasks]
    answers[0].update(changes)
    return saved(KEY, MARKER, answers)


TORN = saved(KEY, FIRST)[:-9]
FOREIGN = {"packet": "another"}
REFUSED = {
    "torn": (TORN, "not JSON"),
    "not UTF-8": (b"\xff\xfe", "not JSON"),
    "deep": (b"[" * 100_000, "not JSON"),
    "another form": (b'{"a": 1}', "not a file of answers from our page or Label Studio"),
    "a number": (b"3", "not a file of answers from our page or Label Studio"),
    "another packet": (edited(lambda made: made.update(FOREIGN)), "foreign: it answers the packet"),
    "unknown rater": (edited(lambda made: made.update(rater="rater-99")), "no rater 'rater-99'"),
    "another rater's": (edited(lambda made: made.update(rater=SECOND)), "changed since"),
    "no answers": (edited(lambda made: made.pop("answers")), "answers: Field required"),
    "changed": (saved(KEY, FIRST).replace(b'"seconds":60', b'"seconds":61', 1), "changed since"),
    "foreign task": (edited(answer(0, task="0" * 12)), "foreign: the rater has no task"),
    "twice": (edited(lambda m: m["answers"].append(m["answers"][0])), "answers a task twice"),
    "out of scale": (edited(answer(1, overall=3)), "task 2: the choice 3 is not one of"),
    "not whole": (edited(answer(0, overall=0.5)), "answers.0.overall"),
    "a text": (edited(answer(0, overall="1")), "answers.0.overall"),
    "a time that sorts after all": (edited(lambda m: m.update(saved="zzzz")), "'zzzz' is not a"),
    "the year 9999": (
        edited(lambda m: m.update(saved="9999-01-01T00:00:00.000Z")),
        "set the rater",
    ),
    "no such day": (edited(lambda m: m.update(saved="2026-02-30T00:00:00.000Z")), "saved: "),
    "endless time": (edited(answer(0, seconds=1e300)), "its time is 1e[+]300 seconds"),
    "negative time": (edited(answer(0, seconds=-1)), "its time is -1"),
    "marks outside": (marked(mistakes=[[0, 999]]), "task 1: the mark 0-999 is not in a text"),
    "marks reversed": (marked(omissions=[[5, 2]]), "task 1: the mark 5-2 is not in a text"),
    "marks for a choice": (edited(answer(0, mistakes=[])), "task 1: the choice"),
    "marks of texts": (marked(mistakes=[["a", "b"]]), "not a file of answers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_does_not_count_says_why(name: str) -> None:
    data, why = REFUSED[name]
    with pytest.raises(InputError, match=why):
        read_sheets(data, KEY)


def test_answers_pasted_into_a_mail_are_read() -> None:
    data = saved(KEY, FIRST)
    mail = b"Here it is:\r\n\r\n" + data.replace(b',"answers"', b',\r\n "answers"') + b"\n-- \n{A}"
    [sheet] = read_sheets(mail, KEY)
    assert len(sheet.answers) == 3
    with pytest.raises(InputError, match="If it was pasted, paste it again"):
        read_sheets(mail.replace(b"rater-01", b"rater-\n01"), KEY)


DIGESTS = ["0d101e33", "676070c5"]  # of one rater's answers, and of two raters'
MARKS_DIGEST = "ea965622"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["data", "annotations", "task", "result", "value", "packet", "answers"]),
        inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_no_json_breaks_the_reader(value: Any) -> None:
    with pytest.raises(InputError):
        read_sheets(json.dumps(value).encode(), KEY)


# ---- many files


def write(folder: Path, **files: bytes) -> list[Path]:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return list(folder.iterdir())


def half(key: PacketKey = KEY, name: str = FIRST) -> list[Row]:
    """Answers to all tasks but the last, of which one question is answered."""
    answers = [coarse(key, task) for task in key.raters[name].tasks]
    answers[-1] |= {"overall": None, "omissions": None}
    return answers


def test_the_rest_is_kept_and_what_is_missing_is_named(tmp_path: Path) -> None:
    files = write(tmp_path, good=saved(KEY, FIRST), torn=TORN, half=saved(KEY, SECOND, half()[:0]))
    found = collect_answers([*files, tmp_path / "gone"], KEY)
    assert [sheet.rater for sheet in found.sheets] == [FIRST]
    assert found.missing == (SECOND, MARKER)
    reasons = {Path(each.partition(": ")[0]).name: each for each in found.refusals}
    assert set(reasons) == {"torn", "half", "gone"}
    assert "cannot be read: No such file" in reasons["gone"]
    assert "has not finished 3 of 3 tasks" in reasons["half"]
    assert "task 1 (Significant mistakes, Missing details, Overall quality)" in reasons["half"]


def test_of_a_rater_who_saves_twice_the_newer_file_counts(tmp_path: Path) -> None:
    first, second = content(KEY, FIRST), content(KEY, FIRST)
    second["saved"] = "2026-11-22T11:00:00.000Z"
    second["answers"][0]["overall"] = -first["answers"][0]["overall"]
    token = KEY.raters[FIRST].token
    files = write(tmp_path, a=sign_answers(second, token), b=sign_answers(first, token))
    collection = collect_answers(files, KEY)
    assert collection.refusals == ()
    [sheet] = collection.sheets
    assert preferences(sheet)[0].overall == second["answers"][0]["overall"]
    [note] = collection.superseded
    assert "b: superseded by" in note
    assert "2026-11-22T11:00" in note


def test_an_unfinished_file_is_refused_unless_the_rater_sent_a_newer_one(tmp_path: Path) -> None:
    early, late = content(KEY, FIRST, half()), content(KEY, FIRST)
    late["saved"] = "2026-11-22T11:00:00.000Z"
    token = KEY.raters[FIRST].token
    files = write(tmp_path, a=sign_answers(early, token), b=sign_answers(late, token))
    found = collect_answers(files, KEY)
    assert (len(found.answers), found.refusals) == (3, ())
    assert "a: superseded by" in found.superseded[0]
    early["saved"] = "2026-11-22T12:00:00.000Z"
    files = write(tmp_path, a=sign_answers(early, token))
    found = collect_answers(files, KEY)
    assert (len(found.answers), found.superseded) == (3, ())
    assert "a: rater-01 has not finished" in found.refusals[0]


def test_a_reading_of_new_answers_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "study.readings.jsonl"
    whole = collect_answers(write(tmp_path, a=saved(KEY, FIRST), b=saved(KEY, SECOND)), KEY)
    half_way = replace(whole, sheets=whole.sheets[:1])
    assert count_reading(path, half_way.answers) == 1
    assert count_reading(path, half_way.answers) == 1
    assert count_reading(path, whole.answers) == 2
    assert count_reading(path, half_way.answers) == 2
    assert len(path.read_text().splitlines()) == 2
    # A digest that changes would count the answers of studies under way twice.
    digests = [json.loads(line)["digest"][:8] for line in path.read_text().splitlines()]
    assert digests == DIGESTS
    marks = read_sheets(marked(), KEY)[0].answers
    assert count_reading(tmp_path / "marks.jsonl", marks) == 1
    assert MARKS_DIGEST in (tmp_path / "marks.jsonl").read_text()
    path.write_text('{"share": 7}\n')
    with pytest.raises(InputError, match=r"line 1: not a reading"):
        count_reading(path, whole.answers)


def test_files_that_differ_are_for_people_to_decide(tmp_path: Path) -> None:
    other = [coarse(KEY, task, later=-2) for task in KEY.raters[FIRST].tasks]
    files = write(tmp_path, a=saved(KEY, FIRST), b=saved(KEY, FIRST, other), c=saved(KEY, SECOND))
    found = collect_answers(files, KEY)
    assert [sheet.rater for sheet in found.sheets] == [SECOND]
    assert all("rater-01 has files that differ" in each for each in found.refusals)


# ---- Label Studio


def tasks(made: Packet, name: str) -> list[Row]:
    found: list[Row] = json.loads(made.files[f"label-studio/{name}.json"])
    return found


def choice(axis: str, *chosen: str) -> Row:
    value = {"choices": list(chosen)}
    return {"from_name": axis, "to_name": "first", "type": "choices", "value": value}


def span(start: Any, end: Any, side: str = "mistakes") -> Row:
    value = {"start": start, "end": end, "text": "not the slice", "labels": ["Mistake"]}
    return {"from_name": side, "to_name": "generation", "type": "labels", "value": value}


CHOSEN = [choice("mistakes", "2"), choice("omissions", "Equal"), choice("overall", "-1")]
DENIED = {"from_name": "no_omissions", "type": "choices", "value": {"choices": ["nothing"]}}


def test_an_export_is_read() -> None:
    [sheet] = read_sheets(exported(KEY, tasks(PACKET, FIRST), CHOSEN), KEY)
    assert (sheet.rater, len(sheet.answers), sheet.unfinished) == (FIRST, 3, ())
    assert preferences(sheet)[0].by_axis == {"mistakes": 2, "omissions": 0, "overall": -1}
    assert sheet.answers[0].seconds == 30.5


def test_spans_of_an_export_are_read() -> None:
    result = [span(8, 11), span(0, 1), DENIED]
    [sheet] = read_sheets(exported(KEY, tasks(PACKET, MARKER), result), KEY)
    assert markings(sheet)[0].by_side == {"mistakes": ((0, 1), (8, 11)), "omissions": ()}
    [sheet] = read_sheets(exported(KEY, tasks(PACKET, MARKER), [span(0, 1)]), KEY)
    assert sheet.unfinished[0] == "task 1 (Missing details)"


def changed_text(row: Row) -> Row:
    return {**row, "data": {**row["data"], "first": "other"}}


@pytest.mark.parametrize(
    ("shown", "result", "why"),
    [
        (lambda rows: [], CHOSEN, "it has no answers"),
        (lambda rows: [*rows, rows[0]], CHOSEN, "exported task 4: it occurs twice"),
        (lambda rows: [changed_text(rows[0])], CHOSEN, "texts differ from the packet's"),
        (lambda rows: [{"data": {"task": "x"}}], CHOSEN, "no task 'x'"),
        (lambda rows: [{"data": {"task": ["x"]}}], CHOSEN, "not as Label Studio exports tasks"),
        (lambda rows: rows, [choice("overall", "7")], "the choice"),
        (lambda rows: rows, [choice("overall", "1", "2")], "the choice"),
        (lambda rows: rows, [{"from_name": "overall", "type": "choices"}], "is malformed"),
    ],
)
def test_an_export_that_does_not_count_says_why(
    shown: Callable[[list[Row]], list[Row]], result: list[Row], why: str
) -> None:
    with pytest.raises(InputError, match=why):
        read_sheets(exported(KEY, shown(tasks(PACKET, FIRST)), result), KEY)


def test_one_person_must_not_answer_for_two_raters() -> None:
    both = tasks(PACKET, FIRST) + tasks(PACKET, SECOND)
    with pytest.raises(InputError, match="one person answered tasks of rater-01 and of rater-02"):
        read_sheets(exported(KEY, both, CHOSEN), KEY)


def leaves(content: Any, where: str = "") -> dict[str, str]:
    if isinstance(content, dict):
        return {k: v for n, c in content.items() for k, v in leaves(c, f"{where}.{n}").items()}
    if isinstance(content, list):
        return {k: v for n, c in enumerate(content) for k, v in leaves(c, f"{where}.{n}").items()}
    return {where: str(content)}


EMPTY = (".contact", ".consent")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_every_text_with_its_words_in_braces(language: str) -> None:
    english, other = (leaves(yaml.safe_load(texts_source(name))) for name in ("en", language))
    assert english.keys() == other.keys()
    for name, text in english.items():
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", other[name])), name
        assert other[name] or name in EMPTY
    if language != "en":
        same = {name for name in english if english[name] == other[name]}
        assert same <= {*EMPTY, ".page.image_button"}
    texts = shipped_texts(language)
    assert texts.page["go_on"] in texts.page["loaded"]  # the button's name once a file is loaded
    assert tuple(texts.questions) == PREFERENCE_AXES
    assert tuple(texts.marking) == MARKED_SIDES


def test_an_edited_file_changes_what_it_names_and_nothing_else() -> None:
    texts = read_texts("language: nl\nheading: {coarse: Onze studie}\nquestions:\n  overall:\n"
                       "    text: Welke leest u liever voor?\n")  # fmt: skip
    dutch = shipped_texts("nl")
    assert texts.heading["coarse"] == "Onze studie"
    assert texts.questions["overall"].text == "Welke leest u liever voor?"
    assert texts.heading["granular"] == dutch.heading["granular"]
    assert texts.questions["mistakes"] == dutch.questions["mistakes"]


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ("headings: x", "no 'headings', only language, heading"),
        ("questions: {overall: {txt: x}}", "no 'questions.overall.txt'"),
        ("heading: x", "'heading' of the texts must be a table"),
        ("page: {done: all done}", r"'page.done' .* \{done\}, \{total\}"),
        ("choices: [a, b]", "'choices"),
        ("choices: [a, a, b, c, d]", "the same"),
        ("steps: {coarse: x}", "steps.coarse"),
        ("- x", "not a table"),
        ("a: [", "not YAML"),
        ("contact: Anna\nconsent: Ask: Anna", "the texts, line 2: not YAML .* into quotes"),
        ("background: [{question: {Your age: 1}}]", "background.0.question' .* into quotes"),
    ],
)
def test_a_fault_in_an_edited_file_is_named(own: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_texts(own)


def test_texts_and_flag_in_two_languages_are_refused() -> None:
    with pytest.raises(InputError, match="--language is 'de', but the texts are in 'en'"):
        read_texts(texts_source("en"), "de")
    assert read_texts(texts_source("de"), "de") == shipped_texts("de")


def test_a_study_in_another_language_reads_its_answers() -> None:
    texts = replace(shipped_texts("fr"), contact="Anne <anne@musee.example>")
    made = make_packet(items(4), Design(7, 1, 0, 0), None, {}, texts=texts)
    page = made.files["rater-01.html"].decode()
    assert '<html lang="fr">' in page
    assert "Anne &lt;anne@musee.example&gt;" in page
    assert "Erreurs importantes" in page
    assert "Begin" not in page.split("<script")[0]
    assert "N° 1 bien meilleure" in made.files["label-studio/coarse.xml"].decode()
    assert "Regardez" not in made.files["READ-ME-FIRST.txt"].decode()  # there are no images
    one = coarse(made.key, made.key.raters["rater-01"].tasks[0])
    [sheet] = read_sheets(saved(made.key, "rater-01", [{**one, "overall": None}]), made.key)
    assert sheet.unfinished[0] == "task 1 (Qualité d'ensemble)"


def test_a_study_without_references_shows_none_and_asks_for_none() -> None:
    bare = replace(items(4), items=tuple(replace(item, reference="") for item in items(4).items))
    with pytest.raises(InputError, match="an image or a correct description"):
        packet(found=bare)
