"""Files of answers -> those that count, those that do not and why, and what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from textwrap import shorten

from pydantic import BaseModel, Field, ValidationError

from posh_reward.errors import InputError
from posh_reward.study.packets.rater_answers import AnswerSheet, sheets_in
from posh_reward.study.packets.rater_texts import first_problem
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
    missing: tuple[str, ...]  # raters without a file that counts, and their packet if several
    superseded: tuple[FileNote, ...] = ()  # older files of raters whose newer one counts

    @property
    def answers(self) -> tuple[RaterAnswer, ...]:
        """Of all raters."""
        return tuple(answer for sheet in self.sheets for answer in sheet.answers)


def collect(files: Iterable[Path], *keys: PacketKey, partial: bool = False) -> AnswerCollection:
    """Read files of answers; one that cannot be used does not affect the others.

    Args:
        files: from our page, or exports of Label Studio, in any order.
        keys: of the packet, and of others of the same study.
        partial: accept the finished tasks of unfinished files.
    """
    refusals: list[FileNote] = []
    unfinished: list[tuple[FileNote, str, AnswerSheet]] = []  # with the packet
    sheets_of: dict[tuple[str, str], list[tuple[str, AnswerSheet]]] = {
        (key.packet, name): [] for key in keys for name in key.raters
    }
    for file in sorted(set(files)):
        try:
            packet, sheets = _read_sheets(file, keys)
        except InputError as error:
            refusals.append(_note(file, str(error)))
            continue
        for sheet in sheets:
            if why := _unfinished(sheet, partial):
                unfinished.append((_note(file, why), packet, sheet))
            else:
                sheets_of[packet, sheet.rater].append((str(file), sheet))
    valid: dict[tuple[str, str], AnswerSheet] = {}
    superseded: list[FileNote] = []
    missing = []
    for (packet, rater), candidates in sheets_of.items():
        chosen, older, refused = _choose(candidates)
        if chosen:
            valid[packet, rater] = chosen
        else:
            missing.append(f"{rater} of {packet}" if len(keys) > 1 else rater)
        superseded += older
        refusals += refused
    for note, packet, sheet in unfinished:
        newer = valid.get((packet, sheet.rater))
        if newer and "" < sheet.saved < newer.saved:
            superseded.append(replace(note, reason=f"superseded by a newer file: {note.reason}"))
        else:
            refusals.append(note)
    return AnswerCollection(
        tuple(valid.values()), tuple(refusals), tuple(missing), tuple(superseded)
    )


def _read_sheets(file: Path, keys: Sequence[PacketKey]) -> tuple[str, list[AnswerSheet]]:
    """The packet that a file answers, and its sheets."""
    try:
        if file.stat().st_size > LARGEST:
            raise InputError(f"larger than {LARGEST:,} bytes")
        data = file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from None
    errors = []
    for key in keys:
        try:
            return key.packet, sheets_in(data, key)
        except InputError as error:
            errors.append(error)
    # All other packets call the file foreign, so the reason is that of its own packet.
    raise next((error for error in errors if "foreign" not in str(error)), errors[0])


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


# ---- looks


def record_look(
    path: Path, answers: Sequence[RaterAnswer], key: PacketKey, *, final: bool = False
) -> tuple[float, ...]:
    """Record a look at the answers, and return the shares of all looks so far.

    Args:
        path: JSON lines, one per look; created if missing.
        answers: those that count.
        key: of the packet.
        final: no more answers will come.

    Returns:
        Share of the study's comparisons at each look, rising; only looks at more than before. Above
        1 for what was added after the study was first read as a whole.
    """
    total = sum(len(rater.tasks) for rater in key.raters.values() if rater.form != "granular")
    coarse = sorted(
        (answer.rater, answer.task.id, sorted((answer.places or answer.preferences).items()))
        for answer in answers
        if answer.marks is None
    )
    if not coarse:
        return (1.0,)
    # Looking at the same answers again adds no chance of a false finding, so it is no new look.
    digest = sha256(repr(coarse).encode()).hexdigest()
    looks = _looks(path)
    # A study once read as a whole has spent its 5 %, so its size stays the unit when it grows.
    whole = min((look.answers for look in looks if look.share == 1), default=total)
    earlier = {look.answers / whole for look in looks if look.digest != digest}
    share = 1.0 if final else round(len(coarse) / total, 6)
    if (digest, share) not in [(look.digest, look.share) for look in looks]:
        time = datetime.now(timezone.utc).isoformat(timespec="seconds")
        look = Look(time=time, answers=len(coarse), share=share, digest=digest)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(look.model_dump()) + "\n")
    share = max(len(coarse) / whole, float(final))
    # Only a rising share spends alpha: looks at more answers than now count as this one.
    return (*sorted(each for each in earlier if each < share), share)


class Look(BaseModel):
    """A look at a study's answers, as one line of a file."""

    time: str = ""
    answers: int
    share: float = Field(gt=0, le=1)  # of the study's comparisons
    digest: str  # of the answers


def _looks(path: Path) -> list[Look]:
    looks = []
    lines = path.read_bytes().splitlines() if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            looks.append(Look.model_validate_json(line))
        except ValidationError as error:
            raise InputError(
                f"{str(path)!r}, line {number}: not a look at a study ({first_problem(error)}); "
                "`packets read` writes this file next to the key: restore it"
            ) from None
    return looks
