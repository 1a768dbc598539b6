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
from posh_reward.study.packets.rater_answers import AnswerSheet, sheets
from posh_reward.study.packets.study_records import PacketKey, RaterAnswer

LARGEST = 1_000_000_000  # bytes of a file that is read: a Label Studio export repeats the images
LONGEST_REASON = 300  # characters of the reason why a file does not count
LISTED = 5  # unfinished tasks that a reason names


@dataclass(frozen=True, slots=True)
class FileNote:
    """A file that does not count, and the reason."""

    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


@dataclass(frozen=True, slots=True)
class AnswerCollection:
    """All that came back."""

    sheets: tuple[AnswerSheet, ...]
    refusals: tuple[FileNote, ...]
    # Raters without a file that counts; of several packets, with the packet.
    missing: tuple[str, ...]
    superseded: tuple[FileNote, ...] = ()  # files of which the same rater's newer one counts

    @property
    def answers(self) -> tuple[RaterAnswer, ...]:
        """Of all raters."""
        return tuple(answer for sheet in self.sheets for answer in sheet.answers)


def collect(files: Iterable[Path], *keys: PacketKey, partial: bool = False) -> AnswerCollection:
    """Read files of answers; a file that cannot be used never spoils the others.

    Args:
        files: of our page, or exports of Label Studio or Potato, in any order.
        keys: of the packet, and of others of the same study.
        partial: take the finished tasks of unfinished files.
    """
    refusals: list[FileNote] = []
    sheets_of: dict[tuple[str, str], list[tuple[str, AnswerSheet]]] = {
        (key.packet, name): [] for key in keys for name in key.raters
    }
    for file in sorted(set(files)):
        try:
            packet, in_file = _sheets(_bytes(file), keys)
            for each in in_file:
                _check_finished(each, partial)
        except InputError as error:
            # A file is anybody's: a value in it may be megabytes long.
            refusals.append(
                FileNote(str(file), shorten(str(error), LONGEST_REASON, placeholder=" ..."))
            )
            continue
        for each in in_file:
            sheets_of[packet, each.rater].append((str(file), each))
    valid: list[AnswerSheet] = []
    older: list[FileNote] = []
    missing = []
    for (packet, rater), candidates in sheets_of.items():
        sheet, old_files, others = _one_of(candidates)
        if sheet:
            valid.append(sheet)
        else:
            missing.append(f"{rater} of {packet}" if len(keys) > 1 else rater)
        older += old_files
        refusals += others
    return AnswerCollection(tuple(valid), tuple(refusals), tuple(missing), tuple(older))


def _sheets(data: bytes, keys: Sequence[PacketKey]) -> tuple[str, list[AnswerSheet]]:
    """The packet that a file answers, and the answers."""
    errors = []
    for key in keys:
        try:
            return key.packet, sheets(data, key)
        except InputError as error:
            errors.append(error)
    # Of several packets all but one call a file foreign: the reason is that of the other one.
    raise next((error for error in errors if "foreign" not in str(error)), errors[0])


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
    first = ", ".join(sheet.unfinished[:LISTED])
    more = f" and {count - LISTED} more" if count > LISTED else ""
    total = count + len(sheet.answers)
    raise InputError(
        f"{sheet.rater} has not finished {count} of {total} tasks: {first}{more}"
        + ("" if partial or not sheet.answers else "; --partial takes the others")
    )


def _one_of(
    candidates: Sequence[tuple[str, AnswerSheet]],
) -> tuple[AnswerSheet | None, list[FileNote], list[FileNote]]:
    """The sheet of one rater that counts, with notes on older files and on refused ones."""
    if not candidates:
        return None, [], []
    # Raters save several times, and send them all: the newest is meant, if all files tell.
    times = sorted(sheet.saved for _, sheet in candidates)
    if len(times) > 1 and all(times) and times[-1] > times[-2]:
        file, newest = max(candidates, key=lambda each: each[1].saved)
        reason = f"superseded by {file}, which {newest.rater} saved at {newest.saved}"
        older = [FileNote(name, reason) for name, sheet in candidates if sheet is not newest]
        return newest, older, []
    # Exports tell no time. The fullest counts if the others say nothing else; where they differ
    # none does, since a guess could turn a rater's answers round unnoticed.
    file, fullest = max(candidates, key=lambda each: len(each[1].answers))
    content = {each.task.id: replace(each, seconds=None, comment="") for each in fullest.answers}
    others = [(name, sheet) for name, sheet in candidates if sheet is not fullest]
    if all(
        content.get(answer.task.id) == replace(answer, seconds=None, comment="")
        for _, sheet in others
        for answer in sheet.answers
    ):
        reason = f"duplicate: says nothing that {file} does not"
        return fullest, [], [FileNote(name, reason) for name, _ in others]
    names = ", ".join(name for name, _ in candidates)
    reason = f"{fullest.rater} has files that differ ({names}): name only the one that counts"
    return None, [], [FileNote(name, reason) for name, _ in candidates]


# ---- looks


def record_look(
    path: Path, answers: Sequence[RaterAnswer], key: PacketKey, *, final: bool = False
) -> tuple[float, ...]:
    """Note that the answers were looked at, and return the shares of all looks so far.

    Args:
        path: JSON lines, one a look; made.
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
    # The same answers looked at again are no new chance of a false find, so looks have a digest.
    digest = sha256(repr(coarse).encode()).hexdigest()
    looks = _looks(path)
    # What was once read as a whole has spent its 5 %: it stays the measure when the study grows.
    whole = min((count for _, count, share in looks if share == 1), default=total)
    earlier = [count / whole for print_, count, _ in looks if print_ != digest]
    share = 1.0 if final else round(len(coarse) / total, 6)
    if (digest, len(coarse), share) not in looks:
        line = {"time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "answers": len(coarse), "share": share, "digest": digest}  # fmt: skip
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    share = max(len(coarse) / whole, float(final))
    # Only a rising share spends alpha: a look at fewer answers than now is part of this one.
    return (*(each for each in sorted({*earlier}) if each < share), share)


def _looks(path: Path) -> list[tuple[str, int, float]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    looks = []
    for number, line in enumerate(lines, start=1):
        try:
            look = json.loads(line)
            share = float(look["share"])
            if not 0 < share <= 1:
                raise ValueError(share)
            looks.append((str(look["digest"]), int(look["answers"]), share))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{str(path)!r}, line {number}: not a look at a study ({error!r}); it was written "
                "by `packets read`, beside the key"
            ) from None
    return looks
