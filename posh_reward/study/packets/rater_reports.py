"""Answers -> each rater's progress and pace, and flags that call for a closer look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from posh_reward.study.packets.answer_files import AnswerCollection
from posh_reward.study.packets.rater_texts import Form, RaterTexts
from posh_reward.study.packets.study_records import PacketKey, RaterAnswer

FASTEST = 10  # words per second that nobody reads; people read about 4 and skim 8
RUSHED = 0.25  # share of tasks answered faster than that, from which a rater is flagged
ENOUGH = 6  # tasks; equal answers to so many are unlikely to be chance


@dataclass(frozen=True, slots=True)
class RaterReport:
    """One rater's work; flags are for people, and remove no answer."""

    rater: str
    form: Form
    tasks: int
    answered: int
    seconds: float | None  # median per task
    flags: tuple[str, ...]


def rater_reports(collection: AnswerCollection, key: PacketKey) -> tuple[RaterReport, ...]:
    """One report per rater, in the order of the key."""
    by_name: dict[str, list[RaterAnswer]] = {name: [] for name in key.raters}
    for sheet in collection.sheets:  # one for each packet
        by_name[sheet.rater] += sheet.answers
    return tuple(_report(name, answers, key) for name, answers in by_name.items())


def _report(name: str, answers: Sequence[RaterAnswer], key: PacketKey) -> RaterReport:
    rater = key.raters[name]
    seconds = [answer.seconds for answer in answers if answer.seconds is not None]
    flags = _pace(answers, key)
    flags += _monotony(answers, key.texts) if len(answers) >= ENOUGH else []
    middle = median(seconds) if seconds else None
    return RaterReport(name, rater.form, len(rater.tasks), len(answers), middle, tuple(flags))


def _pace(answers: Sequence[RaterAnswer], key: PacketKey) -> list[str]:
    fast = sum(
        answer.seconds is not None
        and answer.seconds < key.items[answer.task.item].words(answer.task.models) / FASTEST
        for answer in answers
    )
    if not answers or fast / len(answers) < RUSHED:
        return []
    return [f"{fast} of {len(answers)} tasks answered faster than {FASTEST} words per second"]


def _monotony(answers: Sequence[RaterAnswer], texts: RaterTexts) -> list[str]:
    # Sides are balanced, so honest answers vary between tasks, whatever the rater's taste.
    if answers[0].marks is not None:
        empty = all(not a.marks.mistakes and not a.marks.omissions for a in answers if a.marks)
        return ["marked nothing in any task"] if empty else []
    flags, labels = [], {value: label for label, value in texts.values.items()}
    for axis, question in texts.questions.items():
        values = {answer.preferences[axis] for answer in answers}
        if len(values) == 1:
            flags.append(f"always answered {labels[values.pop()]!r} to {question.title}")
    signs = {value > 0 for a in answers for value in a.preferences.values() if value}
    if not flags and len(signs) == 1:
        flags.append(f"never preferred #{2 if signs.pop() else 1}")
    if not flags and all(len({*a.preferences.values()}) == 1 for a in answers):
        flags.append("gave the same answer to all three questions in every task")
    return flags
