"""Files of answers -> those that count, those that do not and why, and what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from textwrap import shorten

from posh_reward.errors import InputError
from posh_reward.study.packets.rater_answers import AnswerSheet, sheets_in
from posh_reward.study.packets.study_records import PacketKey, RaterAnswer

LARGEST = 1_000_000_000  # bytes of a file to read; a Label Studio export repeats the images
LONGEST_REASON = 300  # characters of the reason why a file does not count
LISTED = 5  # unfinished tasks listed in a reason


@dataclass(frozen=True, slots=True)
class FileNote:
    """A file that does not count, and the reason."""

    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


@dataclass(frozen=True, slots=True)
class AnswerCollection:
    """Everything that came back."""

    sheets: tuple[AnswerSheet, ...]
    refusals: tuple[FileNote, ...]
    missing: tuple[str, ...]  # raters without a file that counts
    superseded: tuple[FileNote, ...] = ()  # older files of raters whose newer one counts

    @property
    def answers(self) -> tuple[RaterAnswer, ...]:
        """Of all raters."""
        return tuple(answer for sheet in self.sheets for answer in sheet.answers)


def collect(files: Iterable[Path], key: PacketKey, partial: bool = False) -> AnswerCollection:
    """Read files of answers; one that cannot be used does not affect the others.

    Args:
        files: from our page, or exports of Label Studio, in any order.
        key: of the packet.
        partial: accept the finished tasks of unfinished files.
    """
    refusals: list[FileNote] = []
    unfinished: list[tuple[FileNote, AnswerSheet]] = []
    sheets_of: dict[str, list[tuple[str, AnswerSheet]]] = {name: [] for name in key.raters}
    for file in sorted(set(files)):
        try:
            sheets = _read_sheets(file, key)
        except InputError as error:
            refusals.append(_note(file, str(error)))
            continue
        for sheet in sheets:
            if why := _unfinished(sheet, partial):
                unfinished.append((_note(file, why), sheet))
            else:
                sheets_of[sheet.rater].append((str(file), sheet))
    valid: dict[str, AnswerSheet] = {}
    superseded: list[FileNote] = []
    missing = []
    for rater, candidates in sheets_of.items():
        chosen, older, refused = _choose(candidates)
        if chosen:
            valid[rater] = chosen
        else:
            missing.append(rater)
        superseded += older
        refusals += refused
    for note, sheet in unfinished:
        newer = valid.get(sheet.rater)
        if newer and "" < sheet.saved < newer.saved:
            superseded.append(replace(note, reason=f"superseded by a newer file: {note.reason}"))
        else:
            refusals.append(note)
    return AnswerCollection(
        tuple(valid.values()), tuple(refusals), tuple(missing), tuple(superseded)
    )


def _read_sheets(file: Path, key: PacketKey) -> list[AnswerSheet]:
    try:
        if file.stat().st_size > LARGEST:
            raise InputError(f"larger than {LARGEST:,} bytes")
        data = file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from None
    return sheets_in(data, key)


def _note(file: Path, reason: str) -> FileNote:
    # Files are untrusted: a value in one may be megabytes long.
    return FileNote(str(file), shorten(reason, LONGEST_REASON, placeholder=" ..."))


def _unfinished(sheet: AnswerSheet, partial: bool) -> str:
    """The reason why a sheet is not finished; "" if it counts."""
    count = len(sheet.unfinished)
    if not count or (partial and sheet.answers):
        return ""
    first = ", ".join(sheet.unfinished[:LISTED])
    more = f" and {count - LISTED} more" if count > LISTED else ""
    total = count + len(sheet.answers)
    remedy = "" if partial or not sheet.answers else "; --partial takes the others"
    return f"{sheet.rater} has not finished {count} of {total} tasks: {first}{more}{remedy}"


def _choose(
    candidates: Sequence[tuple[str, AnswerSheet]],
) -> tuple[AnswerSheet | None, list[FileNote], list[FileNote]]:
    """One rater's sheet that counts, with notes on older files and on refused ones."""
    if not candidates:
        return None, [], []
    # Raters save several times and send every file: the newest counts, if all have a time.
    times = sorted(sheet.saved for _, sheet in candidates)
    if len(times) > 1 and all(times) and times[-1] > times[-2]:
        file, newest = max(candidates, key=lambda each: each[1].saved)
        reason = f"superseded by {file}, which {newest.rater} saved at {newest.saved}"
        older = [FileNote(name, reason) for name, sheet in candidates if sheet is not newest]
        return newest, older, []
    # Exports have no time. The fullest counts if it includes all the others; if they differ none
    # does, since a guess could silently reverse a rater's answers.
    file, fullest = max(candidates, key=lambda each: len(each[1].answers))
    content = _content(fullest)
    others = [(name, sheet) for name, sheet in candidates if sheet is not fullest]
    if all(_content(sheet).items() <= content.items() for _, sheet in others):
        reason = f"duplicate: has nothing that {file} lacks"
        return fullest, [], [FileNote(name, reason) for name, _ in others]
    names = ", ".join(name for name, _ in candidates)
    reason = f"{fullest.rater} has files that differ ({names}): name only the one that counts"
    return None, [], [FileNote(name, reason) for name, _ in candidates]


def _content(sheet: AnswerSheet) -> dict[str, RaterAnswer]:
    """Task -> answer, without the time it took and the comment."""
    return {each.task.id: replace(each, seconds=None, comment="") for each in sheet.answers}


def count_reading(path: Path, answers: Sequence[RaterAnswer]) -> int:
    """Record a reading in a file of JSON lines; return how often new answers were read.

    Reading the same answers again adds no chance of a false finding, so it is not counted.
    """
    content = sorted((each.rater, each.task.id, str(each.preferences)) for each in answers)
    digest = sha256(repr(content).encode()).hexdigest()
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
