"""A rater's file, of our page, Label Studio or Potato -> answers; what is wrong with it is said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from posh_reward.errors import InputError
from posh_reward.study.packets import label_studio, potato, rater_texts
from posh_reward.study.packets.study_records import (
    PacketKey,
    Rater,
    RaterAnswer,
    RaterTask,
    SpanMarks,
)
from posh_reward.study.rows.tables import Row
from posh_reward.types import Span

AXES = tuple(question.axis for question in rater_texts.QUESTIONS)
TITLES = {question.axis: question.title for question in rater_texts.QUESTIONS}


@dataclass(frozen=True, slots=True)
class AnswerSheet:
    """What one rater has answered so far."""

    rater: str
    answers: tuple[RaterAnswer, ...]
    """Of the tasks that are finished."""
    unfinished: tuple[str, ...]
    """The other tasks, in words, such as ``"task 3 (Overall quality)"``."""


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """One answer in a file of our page."""

    task: str
    seconds: float
    comment: str = ""
    mistakes: int | tuple[Span, ...] | None = None
    omissions: int | tuple[Span, ...] | None = None
    overall: int | None = None


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of our page."""

    format: Literal["posh-reward answers 1"]
    packet: str
    rater: str
    saved: str
    """When, by the rater's clock."""
    answers: tuple[PageAnswer, ...]
    check: str


@dataclass(slots=True)
class DraftAnswer:
    """What a file says about one task, before it is checked."""

    preferences: Mapping[str, object] = field(default_factory=dict)
    marks: Mapping[str, Iterable[Span] | None] = field(default_factory=dict)
    seconds: float | None = None
    comment: str = ""


def sheets(data: bytes, key: PacketKey) -> list[AnswerSheet]:
    """The answers in a file: one rater's of our page or of Potato, or a Label Studio export.

    Raises:
        InputError: the file is not of this packet, was changed, or holds what no rater could have
            answered; the message has the reason.
    """
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a file of answers: not JSON ({error})") from None
    if isinstance(content, list):
        return _exported(content, key)
    if isinstance(content, dict) and "packet" in content:
        return [_saved(content, key)]
    if isinstance(content, dict) and potato.is_state(content):
        return [_kept_by_potato(content, key)]
    raise InputError("not a file of answers: not of our page, nor of Label Studio or Potato")


# ---- our page


def signed(content: Row, token: str) -> bytes:
    """The file of a page: its content with a checksum, to the letter as the page writes it."""
    return _compact({**content, "check": checksum(content, token)}).encode("utf-8", "replace")


def checksum(content: Row, token: str) -> str:
    """What tells that a file is as its page saved it.

    It is against accidents and idle hands: whoever reads the page's script can make one.
    """
    return sha256((token + _compact(content)).encode("utf-8", "replace")).hexdigest()


def _compact(content: Row) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _saved(content: Row, key: PacketKey) -> AnswerSheet:
    if content.get("packet") != key.packet:
        raise InputError(
            f"foreign: it answers the packet {content['packet']!r}, not {key.packet!r}"
        )
    try:
        file = TypeAdapter(PageFile).validate_json(json.dumps(content), strict=True)
    except (ValidationError, ValueError) as error:
        raise InputError(f"not a file of answers: {_first(error)}") from None
    rater = key.raters.get(file.rater)
    if rater is None:
        raise InputError(f"foreign: this packet has no rater {file.rater!r}")
    bare = {name: value for name, value in content.items() if name != "check"}
    if file.check != checksum(bare, rater.token):
        raise InputError("changed since the page saved it, or damaged: ask the rater to save again")
    given = {
        answer.task: DraftAnswer(
            {axis: getattr(answer, axis) for axis in AXES},
            {side: _spans(getattr(answer, side)) for side in rater_texts.SIDES},
            answer.seconds,
            answer.comment,
        )
        for answer in file.answers
    }
    if len(given) < len(file.answers):
        raise InputError("it answers a task twice")
    seen = {task: each for task, each in given.items() if each.seconds or not key.suggested}
    _check_tasks(given, rater)
    return _sheet(seen, file.rater, key)


def _first(error: ValidationError | ValueError) -> str:
    if isinstance(error, ValidationError):
        found = error.errors()[0]
        return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
    return str(error)


def _spans(value: object) -> Iterable[Span] | None:
    return value if isinstance(value, tuple) else None


# ---- Label Studio


def _exported(tasks: list[Any], key: PacketKey) -> list[AnswerSheet]:
    """The answers of an export; most hold one rater's tasks."""
    owners = {task.id: name for name, rater in key.raters.items() for task in rater.tasks}
    found: dict[str, dict[str, DraftAnswer]] = {}
    people: dict[object, str] = {}
    for number, exported in enumerate(tasks, start=1):
        try:
            name, task = _owner(exported, owners, key)
            annotation = _annotation(exported)
            given = found.setdefault(name, {})
            if task.id in given:
                raise InputError("it is there twice")
            if annotation is None:
                continue
            given[task.id] = _given(annotation)
            _check_person(people, annotation.get("completed_by"), name)
        except InputError as error:
            raise InputError(f"exported task {number}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"exported task {number} is not of our form: {error!r}") from None
    if not found:
        raise InputError("no task in it is answered: Label Studio exports only those that are")
    return [_sheet(given, name, key) for name, given in found.items()]


def _owner(
    exported: Mapping[str, Any], owners: Mapping[str, str], key: PacketKey
) -> tuple[str, RaterTask]:
    data = exported["data"]
    name = owners.get(data.get("task"))
    if name is None:
        raise InputError(f"foreign: this packet has no task {data.get('task')!r}")
    task = next(task for task in key.raters[name].tasks if task.id == data["task"])
    shown = key.items[task.item]
    texts = tuple(shown.texts[model] for model in task.models)
    if label_studio.texts_of(data) != texts or data.get("reference") != shown.reference:
        raise InputError("its texts are not those of the packet: they were changed")
    return name, task


def _annotation(exported: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The one annotation of a task, None if it was skipped."""
    given = [each for each in exported["annotations"] if not each.get("was_cancelled")]
    if len(given) > 1:
        raise InputError(f"it has {len(given)} annotations: delete those that do not count")
    return given[0] if given else None


def _check_person(people: dict[object, str], person: object, name: str) -> None:
    who = person.get("id") if isinstance(person, dict) else person
    if who is not None and people.setdefault(who, name) != name:
        raise InputError(
            f"one person answered tasks of {people[who]} and of {name}, seeing generations twice"
        )


def _given(annotation: Mapping[str, Any]) -> DraftAnswer:
    result = annotation["result"]
    seconds = annotation.get("lead_time")
    return DraftAnswer(
        label_studio.preferences(result),
        label_studio.marks(result),
        float(seconds) if isinstance(seconds, int | float) else None,
    )


# ---- Potato


def _kept_by_potato(content: Mapping[str, Any], key: PacketKey) -> AnswerSheet:
    owners = {task.id: name for name, rater in key.raters.items() for task in rater.tasks}
    by_id = {task.id: task for rater in key.raters.values() for task in rater.tasks}
    try:
        tasks = potato.answered(content)
        foreign = [task for task in tasks if task not in owners]
        if foreign:
            raise InputError(f"foreign: this packet has no task {foreign[0]!r}")
        names = sorted({owners[task] for task in tasks})
        if not names:
            raise InputError("no task in it is answered")
        if len(names) > 1:
            raise InputError(
                f"one person answered tasks of {' and of '.join(names)}, seeing generations twice"
            )
        given = {
            task: DraftAnswer(
                potato.preferences(content, task),
                potato.marks(content, task, _markable(by_id[task], key)),
                potato.seconds(content, task),
            )
            for task in tasks
        }
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"not saved by one of our Potato projects: {error!r}") from None
    return _sheet(given, names[0], key)


# ---- all


def _markable(task: RaterTask, key: PacketKey) -> dict[str, str]:
    """By side, the text that a granular task has marked; none of a coarse one."""
    if len(task.models) == 2:
        return {}
    shown = key.items[task.item]
    return {"mistakes": shown.texts[task.models[0]], "omissions": shown.reference}


def _check_tasks(given: Mapping[str, DraftAnswer], rater: Rater) -> None:
    unknown = given.keys() - {task.id for task in rater.tasks}
    if unknown:
        raise InputError(f"foreign: the rater was not given the task {min(unknown)!r}")


def _sheet(given: Mapping[str, DraftAnswer], name: str, key: PacketKey) -> AnswerSheet:
    answers, unfinished = [], []
    for number, task in enumerate(key.raters[name].tasks, start=1):
        said = given.get(task.id, DraftAnswer())
        try:
            open_parts = _open_parts(said, task)
            if open_parts:
                unfinished.append(f"task {number} ({', '.join(open_parts)})")
            else:
                answers.append(_answer(said, task, name, key))
        except InputError as error:
            raise InputError(f"task {number}: {error}") from None
    return AnswerSheet(name, tuple(answers), tuple(unfinished))


def _open_parts(said: DraftAnswer, task: RaterTask) -> list[str]:
    if len(task.models) == 2:
        return [TITLES[axis] for axis in AXES if said.preferences.get(axis) is None]
    return [words[1] for side, words in rater_texts.SIDES.items() if said.marks.get(side) is None]


def _answer(said: DraftAnswer, task: RaterTask, rater: str, key: PacketKey) -> RaterAnswer:
    seconds = said.seconds
    if seconds is not None and not 0 <= seconds < float("inf"):
        raise InputError(f"it took {seconds} seconds")
    if len(task.models) == 2:
        chosen = {axis: _preference(said.preferences[axis]) for axis in AXES}
        return RaterAnswer(task, rater, chosen, None, seconds, said.comment)
    texts = _markable(task, key)
    spans = {side: _checked(said.marks[side] or (), text) for side, text in texts.items()}
    return RaterAnswer(task, rater, {}, SpanMarks(**spans), seconds, said.comment)


def _preference(value: object) -> int:
    if not isinstance(value, int) or value not in rater_texts.CHOICES:
        raise InputError(
            f"the choice {value!r} is not one of {', '.join(map(str, rater_texts.CHOICES))}"
        )
    return value


def _checked(spans: Iterable[Span], text: str) -> tuple[Span, ...]:
    """The spans in order; raises ``InputError`` if one is not in the text."""
    found = set()
    for start, end in spans:
        whole = isinstance(start, int) and isinstance(end, int)
        if not whole or not 0 <= start < end <= len(text):
            raise InputError(f"the mark {start}-{end} is not in a text of {len(text)} characters")
        found.add((start, end))
    return tuple(sorted(found))
