"""Files of answers -> those that count, those that do not and why, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from posh_reward.errors import InputError
from posh_reward.study.packets.rater_answers import AnswerSheet, sheets
from posh_reward.study.packets.study_records import PacketKey, RaterAnswer

LARGEST = 1_000_000_000
"""Bytes of a file that is read: a Label Studio export repeats the images."""
NAMED = 5
"""Unfinished tasks that a reason names."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file that does not count."""

    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


@dataclass(frozen=True, slots=True)
class AnswerCollection:
    """All that came back."""

    sheets: tuple[AnswerSheet, ...]
    refusals: tuple[Refusal, ...]
    missing: tuple[str, ...]
    """Raters without a file that counts."""

    @property
    def answers(self) -> tuple[RaterAnswer, ...]:
        """Of all raters."""
        return tuple(answer for sheet in self.sheets for answer in sheet.answers)


def collect(files: Iterable[Path], key: PacketKey, *, partial: bool = False) -> AnswerCollection:
    """Reads files of answers; a file that cannot be used never spoils the others.

    Args:
        files: of our page, or exports of Label Studio, in any order.
        key: of the packet.
        partial: take what is finished in files that are not.
    """
    refusals: list[Refusal] = []
    found: list[tuple[str, AnswerSheet]] = []
    for file in sorted(set(files)):
        try:
            read = sheets(_bytes(file), key)
            for sheet in read:
                _check_finished(sheet, partial)
        except InputError as error:
            refusals.append(Refusal(str(file), str(error)))
            continue
        found += [(str(file), sheet) for sheet in read]
    kept: list[AnswerSheet] = []
    for name in key.raters:
        ours = [(file, sheet) for file, sheet in found if sheet.rater == name]
        counting, refused = _one_of(ours)
        kept += [counting] if counting else []
        refusals += refused
    there = {sheet.rater for sheet in kept}
    return AnswerCollection(
        tuple(kept), tuple(refusals), tuple(name for name in key.raters if name not in there)
    )


def _bytes(file: Path) -> bytes:
    try:
        if file.stat().st_size > LARGEST:
            raise InputError(f"larger than {LARGEST:,} bytes")
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from None


def _check_finished(sheet: AnswerSheet, partial: bool) -> None:
    count = len(sheet.unfinished)
    if not count or (partial and sheet.answers):
        return
    named = ", ".join(sheet.unfinished[:NAMED])
    more = f" and {count - NAMED} more" if count > NAMED else ""
    total = count + len(sheet.answers)
    raise InputError(
        f"{sheet.rater} has not finished {count} of {total} tasks: {named}{more}"
        + ("" if partial or not sheet.answers else "; --partial takes the others")
    )


def _one_of(found: Sequence[tuple[str, AnswerSheet]]) -> tuple[AnswerSheet | None, list[Refusal]]:
    """One rater's sheet of several, if all others are earlier states of it; else none of them."""
    if not found:
        return None, []
    file, fullest = max(found, key=lambda each: len(each[1].answers))
    said = {answer.task.id: (answer.preferences, answer.marks) for answer in fullest.answers}
    others = [(name, sheet) for name, sheet in found if sheet is not fullest]
    agree = all(
        said.get(answer.task.id) == (answer.preferences, answer.marks)
        for _, sheet in others
        for answer in sheet.answers
    )
    if agree:
        return fullest, [
            Refusal(name, f"duplicate: says nothing that {file} does not") for name, _ in others
        ]
    names = ", ".join(name for name, _ in found)
    reason = f"{fullest.rater} has files that differ ({names}): name only the one that counts"
    return None, [Refusal(name, reason) for name, _ in found]
