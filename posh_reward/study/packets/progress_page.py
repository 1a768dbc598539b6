"""Raters' progress, for the organiser of a study: no answer is shown, and no model is named."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from posh_reward.pages.html import render
from posh_reward.study.packets.rater_answers import AnswerCollection
from posh_reward.study.packets.results import report_raters
from posh_reward.study.packets.study_records import PacketKey


@dataclass(frozen=True, slots=True)
class RaterProgress:
    """One rater's progress."""

    rater: str
    answered: int
    tasks: int
    last: str  # time of the last answer; empty without one
    flags: tuple[str, ...]


def list_progress(collection: AnswerCollection, key: PacketKey) -> list[RaterProgress]:
    saved = {sheet.rater: sheet.saved for sheet in collection.sheets}
    progress = []
    for each in report_raters(collection, key, shows_answers=False):
        last = format_time(saved.get(each.rater, ""))
        progress.append(RaterProgress(each.rater, each.answered, each.tasks, last, each.flags))
    return progress


def format_time(saved: str) -> str:
    """Format a time in UTC, as in files of answers, by this machine's clock; "" for none."""
    if not saved:
        return ""
    return f"{datetime.fromisoformat(saved).astimezone():%Y-%m-%d %H:%M %Z}"


def progress_page(collection: AnswerCollection, key: PacketKey) -> str:
    """Render the table as one HTML document; reloading it brings it up to date."""
    raters = list_progress(collection, key)
    answered, tasks = sum(each.answered for each in raters), sum(each.tasks for each in raters)
    finished = sum(each.answered == each.tasks for each in raters)
    return render(
        "progress.html",
        "posh_reward.study.packets",
        title="How far the raters are",
        lead=f"{answered} of {tasks} tasks answered; {finished} of {len(raters)} raters have "
        "finished. Reload this page to bring it up to date.",
        raters=raters,
        footer=[
            "A flag is a reason to look; it removes no answer.",
            f"Packet {key.packet}, {format_time(datetime.now(timezone.utc).isoformat())}.",
        ],
    )
