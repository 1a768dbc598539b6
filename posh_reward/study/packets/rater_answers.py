"""A rater's file from our page, Label Studio or Potato -> answers, or why it has none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, TypeAdapter

from posh_reward.errors import InputError
from posh_reward.study.packets import label_studio, potato
from posh_reward.study.packets.rater_texts import (
    AXES,
    FIELDS,
    RANKED,
    VALUES,
    Form,
    RaterTexts,
    first_problem,
)
from posh_reward.study.packets.study_records import PacketKey, RaterAnswer, RaterTask, SpanMarks
from posh_reward.study.rows.tables import Row
from posh_reward.types import Span


@dataclass(frozen=True, slots=True)
class AnswerSheet:
    """The answers of one rater so far."""

    rater: str
    answers: tuple[RaterAnswer, ...]  # of the tasks that are finished
    unfinished: tuple[str, ...]  # the other tasks, such as ``"task 3 (Overall quality)"``
    saved: str = ""  # time by the rater's clock, in UTC; empty if the tool stores none


AHEAD = timedelta(days=2)
"""How far a rater's clock may be ahead: a file of the year 9999 would supersede all others."""
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
LONGEST = 1e7
"""Most seconds that an answer can have taken: four months."""


def _time(saved: str) -> str:
    """Check a time in UTC as JavaScript writes it; such texts sort by time."""
    if not TIME.fullmatch(saved):
        raise ValueError(f"{saved[:40]!r} is not a time such as 2026-11-22T10:00:00.000Z")
    time = datetime.strptime(saved, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    if time > datetime.now(timezone.utc) + AHEAD:
        raise ValueError(f"it was saved at {saved}: set the rater's clock and save again")
    return saved


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """One answer in a file of our page."""

    task: str
    seconds: float
    comment: str = ""
    mistakes: int | tuple[Span, ...] | tuple[int | None, ...] | None = None
    omissions: int | tuple[Span, ...] | tuple[int | None, ...] | None = None
    overall: int | tuple[int | None, ...] | None = None


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of our page."""

    format: Literal["posh-reward answers 1"]
    packet: str
    rater: str
    saved: Annotated[str, AfterValidator(_time)]  # by the rater's clock
    answers: tuple[PageAnswer, ...]
    check: str


@dataclass(slots=True)
class DraftAnswer:
    """One task in a file, not yet checked."""

    preferences: Mapping[str, object] = field(default_factory=dict)
    marks: Mapping[str, Iterable[Span] | None] = field(default_factory=dict)
    seconds: float | None = None
    comment: str = ""


def sheets(data: bytes, key: PacketKey) -> list[AnswerSheet]:
    """The answers in a file: from our page (several, if mails), Potato, or a Label Studio export.

    Raises:
        InputError: the file is of another packet, was changed, or has answers that no rater could
            have given; the message has the reason.
    """
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        contents = _json(text, key)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a file of answers: not JSON ({error})") from None
    content = contents[0]
    if isinstance(content, list):
        return _exported_sheets(content, key)
    if isinstance(content, dict) and "packet" in content:
        return [_page_sheet(each, key) for each in contents]
    if isinstance(content, dict) and potato.is_state(content):
        return [_potato_sheet(content, key)]
    raise InputError("not a file of answers from our page, Label Studio or Potato")


MAILED = re.compile(r'\{"format":"posh-reward answers')
"""Begin of our page's JSON in a mail."""


def _json(text: str, key: PacketKey) -> list[Any]:
    """The JSON of a file; or of our page, once or more, from text files of mails."""
    try:
        return [json.loads(text)]
    except ValueError:
        starts = [match.start() for match in MAILED.finditer(text)]
        if not starts:
            raise
    ends = [*starts[1:], len(text)]
    return [_mailed(text[start:end], key) for start, end in zip(starts, ends, strict=True)]


def _mailed(text: str, key: PacketKey) -> Any:
    """Our page's JSON at the begin of a text, with its lines joined again."""
    # Mail programs quote lines and break them, keeping or dropping the blank. The page's JSON has
    # no line break, so one way of joining has the right checksum; if none has, the last result is
    # reported as changed.
    content: Any = None
    for pattern, glue in ((r"\r?\n", ""), (r"\r?\n(?:> ?)*", ""), (r" ?\r?\n(?:> ?)*", " ")):
        try:
            content, _ = json.JSONDecoder().raw_decode(re.sub(pattern, glue, text))
        except ValueError:
            continue
        rater = key.raters.get(str(content.get("rater")))
        if rater and _is_unchanged(content, rater.token):
            break
    if content is None:
        raise ValueError("a mail with damaged answers")
    return content


# ---- our page


def with_checksum(content: Row, token: str) -> bytes:
    """The file of a page, byte for byte as the page writes it."""
    return _compact({**content, "check": checksum(content, token)}).encode("utf-8", "replace")


def checksum(content: Row, token: str) -> str:
    """Checksum that shows whether a file is as its page saved it."""
    # Only against accidents and idle hands: whoever reads the page's script can compute it.
    return sha256((token + _compact(content)).encode("utf-8", "replace")).hexdigest()


def _is_unchanged(content: Row, token: str) -> bool:
    signed = {name: value for name, value in content.items() if name != "check"}
    return bool(content.get("check") == checksum(signed, token))


def _compact(content: Row) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _page_sheet(content: Row, key: PacketKey) -> AnswerSheet:
    if content.get("packet") != key.packet:
        raise InputError(
            f"foreign: it answers the packet {content['packet']!r}, not {key.packet!r}"
        )
    try:
        file = TypeAdapter(PageFile).validate_json(json.dumps(content), strict=True)
    except ValueError as error:
        raise InputError(f"not a file of answers: {first_problem(error)}") from None
    rater = key.raters.get(file.rater)
    if rater is None:
        raise InputError(f"foreign: this packet has no rater {file.rater!r}")
    if not _is_unchanged(content, rater.token):
        raise InputError("changed since the page saved it, or damaged: ask the rater to save again")
    drafts = {
        answer.task: DraftAnswer(
            {axis: getattr(answer, axis) for axis in AXES},
            {side: _spans(getattr(answer, side)) for side in key.sides},
            answer.seconds,
            answer.comment,
        )
        for answer in file.answers
    }
    if len(drafts) < len(file.answers):
        raise InputError("it answers a task twice")
    unknown = drafts.keys() - {task.id for task in rater.tasks}
    if unknown:
        raise InputError(f"foreign: the rater has no task {min(unknown)!r}")
    # Suggested marks are no answer until the rater has opened the task.
    seen = {task: each for task, each in drafts.items() if each.seconds or not key.suggested}
    return _sheet(seen, file.rater, key, file.saved)


def _spans(value: object) -> Iterable[Span] | None:
    if not isinstance(value, tuple) or not all(isinstance(span, tuple) for span in value):
        return None
    return value


# ---- Label Studio


def _exported_sheets(tasks: list[Any], key: PacketKey) -> list[AnswerSheet]:
    owners = key.by_task()
    drafts_of: dict[str, dict[str, DraftAnswer]] = {}
    people: dict[object, str] = {}
    for number, content in enumerate(tasks, start=1):
        try:
            name, task = _owner(content, owners, key)
            annotation = _annotation(content)
            drafts = drafts_of.setdefault(name, {})
            if task.id in drafts:
                raise InputError("it occurs twice")
            if annotation is None:
                continue
            result, seconds = annotation["result"], annotation.get("lead_time")
            drafts[task.id] = DraftAnswer(
                _choices(label_studio.choices(result), task, key.raters[name].form, key.texts),
                label_studio.marks(result),
                float(seconds) if isinstance(seconds, int | float) else None,
            )
            person = annotation.get("completed_by")
            person = person.get("id") if isinstance(person, dict) else person
            if person is not None and people.setdefault(person, name) != name:
                raise InputError(
                    f"one person answered tasks of {people[person]} and of {name}, seeing "
                    "generations twice"
                )
        except InputError as error:
            raise InputError(f"exported task {number}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"exported task {number} is malformed: {error!r}") from None
    if not drafts_of:
        raise InputError("it has no answers: Label Studio exports only tasks with answers")
    return [_sheet(drafts, name, key) for name, drafts in drafts_of.items()]


def _owner(
    content: Mapping[str, Any], owners: Mapping[str, tuple[str, int, RaterTask]], key: PacketKey
) -> tuple[str, RaterTask]:
    # By the task's opaque id, not the file's name or the annotator, which raters can choose.
    data = content["data"]
    if data.get("task") not in owners:
        raise InputError(f"foreign: this packet has no task {data.get('task')!r}")
    name, _, task = owners[data["task"]]
    item = key.items[task.item]
    # Spans are offsets and sides an order, so both would mean something else in other texts.
    fields = (*FIELDS[key.raters[name].form][: len(task.models)], "reference")
    texts = (*(item.texts[model] for model in task.models), item.reference)
    if any(data.get(field, "") != text for field, text in zip(fields, texts, strict=True)):
        raise InputError("its texts differ from the packet's: they were changed")
    return name, task


def _annotation(content: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The one annotation of a task; None if it was skipped."""
    # Several people may have opened one rater's project; we cannot decide which of them counts.
    annotations = [each for each in content["annotations"] if not each.get("was_cancelled")]
    if len(annotations) > 1:
        raise InputError(f"it has {len(annotations)} annotations: delete those that do not count")
    return annotations[0] if annotations else None


# ---- Potato


def _potato_sheet(content: Mapping[str, Any], key: PacketKey) -> AnswerSheet:
    owners = key.by_task()
    drafts: dict[str, DraftAnswer] = {}
    try:
        tasks = potato.task_ids(content)
        foreign = [task for task in tasks if task not in owners]
        if foreign:
            raise InputError(f"foreign: this packet has no task {foreign[0]!r}")
        names = sorted({owners[task][0] for task in tasks})
        if not names:
            raise InputError("it has no answers")
        if len(names) > 1:
            raise InputError(
                f"one person answered tasks of {' and of '.join(names)}, seeing generations twice"
            )
        form = key.raters[names[0]].form
        for id in tasks:
            task = owners[id][2]
            drafts[id] = DraftAnswer(
                _choices(potato.choices(content, id), task, form, key.texts),
                potato.marks(content, id, _markable(task, key)),
                potato.seconds(content, id),
            )
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"not saved by one of our Potato projects: {error!r}") from None
    return _sheet(drafts, names[0], key)


# ---- all


def _choices(
    choices: Iterable[tuple[str, str]], task: RaterTask, form: Form, texts: RaterTexts
) -> dict[str, object]:
    """By axis, a preference or, in a ranking, the place of each text; None if missing.

    Raises:
        ValueError: a choice is unknown, or a control has several.
    """
    labels = texts.ranks if form == "ranking" else texts.values
    values = {str(value): value for value in labels.values()} | labels  # an alias, or the label
    numbers: dict[str, int] = {}
    for control, label in choices:
        if control.partition("_")[0] not in AXES:  # "nothing to mark", or a control they added
            continue
        if label not in values or control in numbers:
            raise ValueError(f"the choice {label!r} is not one of {', '.join(labels)}")
        numbers[control] = values[label]
    if form == "coarse":
        return {axis: numbers[axis] for axis in AXES if axis in numbers}
    seats = range(1, len(task.models) + 1)
    return {axis: tuple(numbers.get(f"{axis}_{seat}") for seat in seats) for axis in AXES}


def _markable(task: RaterTask, key: PacketKey) -> dict[str, str]:
    """By side, the text to mark in a granular task; empty for other tasks."""
    if len(task.models) > 1:
        return {}
    texts = key.items[task.item].by_side(task.models[0])
    return {side: texts[side] for side in key.sides}


def _sheet(
    drafts: Mapping[str, DraftAnswer], name: str, key: PacketKey, saved: str = ""
) -> AnswerSheet:
    answers, unfinished, form = [], [], key.raters[name].form
    for number, task in enumerate(key.raters[name].tasks, start=1):
        draft = drafts.get(task.id, DraftAnswer())
        try:
            open_parts = _open_parts(draft, task, key, form)
            if open_parts:
                unfinished.append(f"task {number} ({', '.join(open_parts)})")
            else:
                answers.append(_answer(draft, task, name, key, form))
        except InputError as error:
            raise InputError(f"task {number}: {error}") from None
    return AnswerSheet(name, tuple(answers), tuple(unfinished), saved)


def _open_parts(draft: DraftAnswer, task: RaterTask, key: PacketKey, form: Form) -> list[str]:
    if form != "granular":
        values = {axis: draft.preferences.get(axis) for axis in AXES}
        return [
            key.texts.questions[axis].title
            for axis, value in values.items()
            if value is None or (isinstance(value, tuple) and None in value)
        ]
    marking = key.texts.marking
    return [marking[side].name for side in key.sides if draft.marks.get(side) is None]


def _answer(
    draft: DraftAnswer, task: RaterTask, rater: str, key: PacketKey, form: Form
) -> RaterAnswer:
    seconds = draft.seconds
    if seconds is not None and not 0 <= seconds <= LONGEST:
        raise InputError(f"its time is {seconds} seconds")
    if form == "ranking":
        places = {axis: _places(draft.preferences[axis], len(task.models)) for axis in AXES}
        return RaterAnswer(task, rater, {}, None, seconds, draft.comment, places)
    if form == "coarse":
        preferences = {axis: _preference(draft.preferences[axis]) for axis in AXES}
        return RaterAnswer(task, rater, preferences, None, seconds, draft.comment)
    texts = _markable(task, key)
    spans = {side: _check(draft.marks[side] or (), text) for side, text in texts.items()}
    return RaterAnswer(task, rater, {}, SpanMarks(**spans), seconds, draft.comment)


def _preference(value: object) -> int:
    if not isinstance(value, int) or value not in VALUES:
        raise InputError(f"the choice {value!r} is not one of {', '.join(map(str, VALUES))}")
    return value


def _places(value: object, count: int) -> tuple[int, ...]:
    if (
        not isinstance(value, tuple)
        or len(value) != count
        or not {*value} <= {*range(1, RANKED + 1)}
    ):
        raise InputError(f"{value!r} are not places from 1 to {RANKED} for {count} texts")
    return value


def _check(spans: Iterable[Span], text: str) -> tuple[Span, ...]:
    """The spans in order; ``InputError`` if one is outside the text."""
    distinct = set()
    for start, end in spans:
        whole = isinstance(start, int) and isinstance(end, int)  # an export may hold anything
        if not whole or not 0 <= start < end <= len(text):
            raise InputError(f"the mark {start}-{end} is not in a text of {len(text)} characters")
        distinct.add((start, end))
    return tuple(sorted(distinct))
