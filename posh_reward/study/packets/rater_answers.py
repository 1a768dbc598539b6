"""Files from our page or Label Studio -> answers that count, and why the others do not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from hashlib import sha256
from itertools import chain
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any, Literal
from xml.sax.saxutils import quoteattr

from markupsafe import Markup
from pydantic import AfterValidator, TypeAdapter

from posh_reward.errors import InputError
from posh_reward.pages.html import render
from posh_reward.study.packets.study_records import (
    LABEL_STUDIO_FIELDS,
    MARKED_SIDES,
    PREFERENCE_AXES,
    PREFERENCE_VALUES,
    Answer,
    Form,
    Marking,
    PacketKey,
    Preference,
    Rater,
    RaterTask,
    RaterTexts,
    StudyItem,
    check_time,
    describe_first_problem,
)
from posh_reward.tables.tables import Row
from posh_reward.types import Span

MARK_LABELS = {"mistakes": "Mistake", "omissions": "Missing"}


def label_studio_config(form: Form, key: PacketKey) -> str:
    names, package = LABEL_STUDIO_FIELDS[form], "posh_reward.study.packets"
    xml = render("label_studio.xml", package, form=form, key=key, texts=key.texts, names=names,
                 labels=MARK_LABELS, quote=_quote_attribute)  # fmt: skip
    return f"{xml}\n"


def _quote_attribute(text: str) -> Markup:
    return Markup(quoteattr(text))  # noqa: S704 - quoteattr escapes


def tasks_json(
    rater: Rater, items: Mapping[str, StudyItem], images: Mapping[str, str]
) -> list[Row]:
    """The tasks of one rater's project, to import. Raters can see ``data``."""
    names = LABEL_STUDIO_FIELDS[rater.form]
    return [
        _task_to_import(task, items[task.item], images.get(task.item), names)
        for task in rater.numbered
    ]


def _task_to_import(
    task: RaterTask, item: StudyItem, image: str | None, names: Sequence[str]
) -> Row:
    texts = [item.texts[model] for model in task.models]
    data: Row = {"task": task.id, **dict(zip(names, texts, strict=True))}
    if item.reference:
        data["reference"] = item.reference
    if image is not None:
        data["image"] = image
    return {"data": data}


def read_exported_spans(result: Sequence[Mapping[str, Any]]) -> dict[str, list[Span] | None]:
    """Side -> marked spans of an annotation; None where nothing was marked or declared absent."""
    spans_of: dict[str, list[Span] | None] = dict.fromkeys(MARKED_SIDES)
    for side in MARKED_SIDES:
        spans: list[Span] = []
        nothing = False
        for each in result:
            nothing |= each.get("from_name") == f"no_{side}"
            if each.get("from_name") == side and each.get("type") == "labels":
                spans.append((each["value"]["start"], each["value"]["end"]))
        if spans or nothing:
            spans_of[side] = spans
    return spans_of


PAGE_FILE_START = re.compile(r'\{\s*"format"')
MAX_FILE_BYTES = 1_000_000_000  # a Label Studio export repeats the images
MAX_REASON_CHARACTERS = 300  # of why a file does not count
MAX_LISTED_TASKS = 5  # unfinished ones, in a reason


@dataclass(frozen=True, slots=True)
class RaterAbout:
    """A rater's consent and answers before the first task."""

    agreed: bool = False  # to the study's text
    background: tuple[str, ...] = ()  # an answer to each question, empty without one


@dataclass(frozen=True, slots=True)
class AnswerSheet:
    """The answers of one rater so far."""

    rater: str
    answers: tuple[Answer, ...]  # of the tasks that are finished
    unfinished: tuple[str, ...]  # the other tasks, such as ``"task 3 (Overall quality)"``
    saved: str = ""  # time by the rater's clock, in UTC; empty if the tool stores none
    attention: tuple[Preference, ...] = ()  # answers to attention tasks, which do not count
    about: RaterAbout | None = None  # None if the page did not ask


@dataclass(frozen=True, slots=True)
class AnswerCollection:
    """Everything that came back; files that do not count as ``"file: reason"``."""

    sheets: tuple[AnswerSheet, ...]
    refusals: tuple[str, ...]
    missing: tuple[str, ...]  # raters without a file that counts
    superseded: tuple[str, ...] = ()  # older files of raters whose newer one counts

    @property
    def answers(self) -> tuple[Answer, ...]:
        return tuple(chain.from_iterable(sheet.answers for sheet in self.sheets))


def collect_answers(
    files: Iterable[Path], key: PacketKey, partial: bool = False
) -> AnswerCollection:
    """Read files of our page or of Label Studio; an unusable one does not affect the others.

    With ``partial`` the finished tasks of unfinished files count.
    """
    refusals: list[str] = []
    sheets_of: dict[str, list[tuple[Path, AnswerSheet]]] = {name: [] for name in key.raters}
    for file in sorted(set(files)):
        try:
            for sheet in _read_sheets(file, key):
                sheets_of[sheet.rater].append((file, sheet))
        except InputError as error:
            refusals.append(_explain_file(file, str(error)))
    counted: list[AnswerSheet] = []
    superseded: list[str] = []
    for rater, given in sheets_of.items():
        # Raters save several times and send every file: the newest counts. Exports have no time:
        # the fullest counts if it includes all the others; if they differ none does, since a guess
        # could silently reverse a rater's answers.
        finished = [each for each in given if not _why_unfinished(each[1], partial)]
        place, chosen = max(
            finished,
            key=lambda each: (each[1].saved, len(each[1].answers)),
            default=(Path(), AnswerSheet(rater, (), ())),
        )
        differing = [place]
        for file, sheet in given:
            if sheet is chosen:
                continue
            if "" < sheet.saved < chosen.saved:
                why = f"superseded by {place}, which {rater} saved at {chosen.saved}"
                superseded.append(_explain_file(file, why))
            elif why := _why_unfinished(sheet, partial):
                refusals.append(_explain_file(file, why))
            elif _answers_by_task(sheet).items() <= _answers_by_task(chosen).items():
                refusals.append(_explain_file(file, f"duplicate: has nothing that {place} lacks"))
            else:
                differing.append(file)
        if len(differing) > 1:
            names = ", ".join(map(str, differing))
            why = f"{rater} has files that differ ({names}): name only the one that counts"
            refusals += [_explain_file(file, why) for file in differing]
        elif finished:
            counted.append(chosen)
    present = {sheet.rater for sheet in counted}
    missing = tuple(name for name in key.raters if name not in present)
    return AnswerCollection(tuple(counted), tuple(refusals), missing, tuple(superseded))


def _read_sheets(file: Path, key: PacketKey) -> list[AnswerSheet]:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"larger than {MAX_FILE_BYTES:,} bytes")
        if not file.is_file():  # a pipe would be waited for
            raise InputError("not a file")
        data = file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from None
    return read_sheets(data, key)


def _explain_file(file: Path, reason: str) -> str:
    # Files are untrusted: a value in one may be megabytes long.
    return f"{file}: {shorten(reason, MAX_REASON_CHARACTERS, placeholder=' ...')}"


def _why_unfinished(sheet: AnswerSheet, partial: bool) -> str:
    count = len(sheet.unfinished)
    if not count or (partial and sheet.answers):
        return ""
    total = count + len(sheet.answers) + len(sheet.attention)
    why = f"{sheet.rater} has not finished {count} of {total} tasks: "
    why += ", ".join(sheet.unfinished[:MAX_LISTED_TASKS])
    if count > MAX_LISTED_TASKS:
        why += f" and {count - MAX_LISTED_TASKS} more"
    if sheet.answers and not partial:
        why += "; --partial takes the others"
    return why


def _answers_by_task(sheet: AnswerSheet) -> dict[str, Answer]:
    """Task -> answer, without the time it took and the comment."""
    answers = (*sheet.answers, *sheet.attention)
    return {each.task: replace(each, seconds=None, comment="") for each in answers}


def count_reading(path: Path, answers: Sequence[Answer]) -> int:
    """Record a reading in a file of JSON lines; return how often new answers were read.

    Reading the same answers again adds no chance of a false finding, so it is not counted.
    """
    content: list[tuple[str, str, str]] = []
    for each in answers:
        # Marked spans are not tested, so it does not matter which they are.
        choices = each.by_axis if isinstance(each, Preference) else {}
        content.append((each.rater, each.task, str(choices)))
    digest = sha256(repr(sorted(content)).encode()).hexdigest()
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    readings = {digest}
    for number, line in enumerate(lines, start=1):
        try:
            readings.add(json.loads(line)["digest"])
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{str(path)!r}, line {number}: not a reading of a study; `packets read` writes "
                "this file next to the key: restore it"
            ) from None
    if len(readings) > len(lines):
        time = datetime.now(timezone.utc).isoformat(timespec="seconds")
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"time": time, "digest": digest}) + "\n")
    return len(readings)


MAX_ANSWER_SECONDS = 1e7  # four months


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswer(Answer):
    """An answer as it came back, of either form, checked or not; None where nothing is said.

    In a coarse task the axes have choices, in a granular one the sides have marked spans.
    """

    mistakes: int | tuple[Span, ...] | None = None
    omissions: int | tuple[Span, ...] | None = None
    overall: int | None = None


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of our page."""

    format: Literal["posh-reward answers 1"]
    packet: str
    rater: str
    saved: Annotated[str, AfterValidator(check_time)]  # by the rater's clock
    answers: tuple[GivenAnswer, ...]
    check: str
    about: RaterAbout | None = None


def read_sheets(data: bytes, key: PacketKey) -> list[AnswerSheet]:
    """The answers in a file: of one rater from our page, or of several in Label Studio's export."""
    try:
        content = _read_json(data.decode("utf-8-sig"))
        if isinstance(content, list):
            return _exported_sheets(content, key)
        if isinstance(content, dict) and "packet" in content:
            return [_page_sheet(content, key)]
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"not a file of answers: not JSON ({error}). If it was pasted, paste it again, from "
            "the first { to the last }, without line breaks inside"
        ) from None
    raise InputError("not a file of answers from our page or Label Studio")


def read_page_sheet(data: bytes, key: PacketKey) -> AnswerSheet:
    """The answers in a file of our page alone, which has what an export lacks, such as consent."""
    if not data.lstrip().startswith(b"{"):
        raise InputError("not a file of answers from our page")
    [sheet] = read_sheets(data, key)
    return sheet


def _read_json(text: str) -> Any:
    """The JSON of a text, or the answers of our page with a greeting or a signature around them."""
    try:
        return json.loads(text)
    except ValueError:
        if (found := PAGE_FILE_START.search(text)) is None:
            raise
        return json.JSONDecoder().raw_decode(text, found.start())[0]


# ---- our page


def sign_answers(content: Row, token: str) -> bytes:
    """The file of a page, byte for byte as the page writes it."""
    signed = {**content, "check": compute_checksum(content, token)}
    return _compact_json(signed).encode("utf-8", "replace")


def compute_checksum(content: Row, token: str) -> str:
    """Checksum that shows whether a file is as its page saved it."""
    # Only against accidents and idle hands: whoever reads the page's script can compute it.
    return sha256((token + _compact_json(content)).encode("utf-8", "replace")).hexdigest()


def _compact_json(content: Row) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _page_sheet(content: Row, key: PacketKey) -> AnswerSheet:
    if content.get("packet") != key.packet:
        raise InputError(
            f"foreign: it answers the packet {content['packet']!r}, not {key.packet!r}"
        )
    try:
        file = TypeAdapter(PageFile).validate_json(json.dumps(content), strict=True)
    except ValueError as error:
        raise InputError(f"not a file of answers: {describe_first_problem(error)}") from None
    rater = key.raters.get(file.rater)
    if rater is None:
        raise InputError(f"foreign: this packet has no rater {file.rater!r}")
    signed = {name: value for name, value in content.items() if name != "check"}
    if file.check != compute_checksum(signed, rater.token):
        raise InputError("changed since the page saved it, or damaged: ask the rater to save again")
    if key.texts.consent and not (file.about is not None and file.about.agreed):
        raise InputError("the rater has not agreed to what the page asks raters to agree to")
    answers = {answer.task: answer for answer in file.answers}
    if len(answers) < len(file.answers):
        raise InputError("it answers a task twice")
    unknown = answers.keys() - {task.id for task in rater.tasks}
    if unknown:
        raise InputError(f"foreign: the rater has no task {min(unknown)!r}")
    return _build_sheet(answers, file.rater, key, file.saved, file.about)


# ---- Label Studio


def _exported_sheets(tasks: list[Any], key: PacketKey) -> list[AnswerSheet]:
    owners = key.by_task()
    answers_of: dict[str, dict[str, GivenAnswer]] = {}
    people: dict[object, str] = {}
    for number, content in enumerate(tasks, start=1):
        try:
            name, task = _find_owner(content, owners, key)
            annotation = _find_annotation(content)
            answers = answers_of.setdefault(name, {})
            if task.id in answers:
                raise InputError("it occurs twice")
            if annotation is None:
                continue
            result, seconds = annotation["result"], annotation.get("lead_time")
            seconds = float(seconds) if isinstance(seconds, int | float) else None
            values: Mapping[str, Any]
            if key.raters[name].form == "granular":
                values = read_exported_spans(result)
            else:
                values = _read_choices(result, key.texts)
            answers[task.id] = GivenAnswer(task=task.id, seconds=seconds, **values)
            person = annotation.get("completed_by")
            if isinstance(person, dict):
                person = person.get("id")
            if person is not None and people.setdefault(person, name) != name:
                raise InputError(
                    f"one person answered tasks of {people[person]} and of {name}, seeing "
                    "generations twice"
                )
        except InputError as error:
            raise InputError(f"exported task {number}: {error}") from None
        except ValueError as error:
            raise InputError(f"exported task {number} is malformed: {error}") from None
        except (KeyError, TypeError, AttributeError, OverflowError):
            raise InputError(
                f"exported task {number} is malformed: it is not as Label Studio exports tasks"
            ) from None
    if not answers_of:
        raise InputError("it has no answers: Label Studio exports only tasks with answers")
    return [_build_sheet(answers, name, key) for name, answers in answers_of.items()]


def _find_owner(
    content: Mapping[str, Any], owners: Mapping[str, tuple[str, int, RaterTask]], key: PacketKey
) -> tuple[str, RaterTask]:
    # By the task's opaque id, not the file's name or the annotator, which raters can choose.
    data = content["data"]
    if data.get("task") not in owners:
        raise InputError(f"foreign: this packet has no task {data.get('task')!r}")
    name, _, task = owners[data["task"]]
    item = key.find_item(task)
    # Spans are offsets and sides an order, so both would mean something else in other texts.
    texts = {"reference": item.reference}
    for field, model in zip(LABEL_STUDIO_FIELDS[key.raters[name].form], task.models, strict=True):
        texts[field] = item.texts[model]
    for field, text in texts.items():
        if data.get(field, "") != text:
            raise InputError("its texts differ from the packet's: they were changed")
    return name, task


def _find_annotation(content: Mapping[str, Any]) -> Mapping[str, Any] | None:
    # Several people may have opened one rater's project; we cannot decide which of them counts.
    annotations = [each for each in content["annotations"] if not each.get("was_cancelled")]
    if len(annotations) > 1:
        raise InputError(f"it has {len(annotations)} annotations: delete those that do not count")
    return annotations[0] if annotations else None


# ---- all


def _read_choices(result: Sequence[Mapping[str, Any]], texts: RaterTexts) -> dict[str, Any]:
    # A choice comes as its alias, the value, or as its label.
    values = {str(value): value for value in texts.values.values()} | texts.values
    given: list[tuple[str, str]] = []
    for each in result:
        if each.get("type") == "choices":
            for choice in each["value"]["choices"]:
                given.append((str(each["from_name"]), str(choice)))
    preferences: dict[str, Any] = {}
    for axis, label in given:
        if axis not in PREFERENCE_AXES:  # "nothing to mark", or a control that someone added
            continue
        if label not in values or axis in preferences:
            raise ValueError(f"the choice {label!r} is not one of {', '.join(texts.values)}")
        preferences[axis] = values[label]
    return preferences


def _build_sheet(
    given: Mapping[str, GivenAnswer],
    name: str,
    key: PacketKey,
    saved: str = "",
    about: RaterAbout | None = None,
) -> AnswerSheet:
    form = key.raters[name].form
    answers: list[Answer] = []
    attention: list[Preference] = []
    unfinished: list[str] = []
    for number, task in enumerate(key.raters[name].numbered, start=1):
        answer = given.get(task.id, GivenAnswer(task=task.id))
        try:
            if open_parts := _list_open_parts(answer, key, form):
                unfinished.append(f"task {number} ({', '.join(open_parts)})")
                continue
            checked = _check_answer(answer, task, name, key)
        except InputError as error:
            raise InputError(f"task {number}: {error}") from None
        if task.purpose == "attention" and isinstance(checked, Preference):
            attention.append(checked)
        else:
            answers.append(checked)
    return AnswerSheet(name, tuple(answers), tuple(unfinished), saved, tuple(attention), about)


def _list_open_parts(answer: GivenAnswer, key: PacketKey, form: Form) -> list[str]:
    """Names, as the page shows them, of the parts that a rater left open in a task."""
    open_parts = []
    if form == "granular":
        for side in key.sides:
            if not isinstance(getattr(answer, side), list | tuple):
                open_parts.append(key.texts.marking[side].name)
        return open_parts
    for axis in PREFERENCE_AXES:
        if getattr(answer, axis) is None:
            open_parts.append(key.texts.questions[axis].title)
    return open_parts


def _check_answer(
    answer: GivenAnswer, task: RaterTask, rater: str, key: PacketKey
) -> Preference | Marking:
    """Make the record of a finished answer's form; ``InputError`` for a value that is none."""
    seconds = answer.seconds
    if seconds is not None and not 0 <= seconds <= MAX_ANSWER_SECONDS:
        raise InputError(f"its time is {seconds} seconds")
    values: dict[str, Any] = {
        "task": task.id,
        "seconds": seconds,
        "comment": answer.comment,
        "rater": rater,
        "item": task.item,
        "models": task.models,
    }
    if key.raters[rater].form == "coarse":
        return Preference(
            **values,
            mistakes=_check_choice(answer.mistakes),
            omissions=_check_choice(answer.omissions),
            overall=_check_choice(answer.overall),
        )
    texts = key.items[task.item].by_side(task.models[0])
    for side in key.sides:
        values[side] = _check_spans(getattr(answer, side), texts[side])
    return Marking(**values)


def _check_choice(value: object) -> int:
    if not isinstance(value, int) or value not in PREFERENCE_VALUES:
        raise InputError(
            f"the choice {value!r} is not one of {', '.join(map(str, PREFERENCE_VALUES))}"
        )
    return value


def _check_spans(spans: Iterable[Span], text: str) -> tuple[Span, ...]:
    """The spans in order; ``InputError`` if one is outside the text."""
    distinct = set()
    for start, end in spans:
        whole = isinstance(start, int) and isinstance(end, int)  # an export may hold anything
        if not whole or not 0 <= start < end <= len(text):
            raise InputError(f"the mark {start}-{end} is not in a text of {len(text)} characters")
        distinct.add((start, end))
    return tuple(sorted(distinct))
