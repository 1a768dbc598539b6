"""Records of a human comparison. All are frozen; the key file is exactly these as JSON.

A *generation* is what one model wrote about one item. A *coarse* task shows two generations of one
item as #1 and #2, a *granular* task one. A *preference* runs from 2 (#1 is much better) to -2 (#2
is much better). Spans are character offsets, end exclusive, into a text as shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Annotated, Literal

from pydantic import Field

from posh_reward.study.agreement.rater_agreement import tokens_in
from posh_reward.study.packets.rater_texts import AXES, SIDES, Form, RaterTexts, shipped_texts
from posh_reward.types import Span

ANSWERS_FORMAT = "posh-reward answers 1"
MANIFEST_FORMAT = "posh-reward packet 1"


AHEAD = timedelta(days=2)  # of a rater's clock; the year 9999 would supersede all other files
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")


@dataclass(frozen=True, slots=True)
class StudyItem:
    """One image with its reference and what each model wrote about it."""

    id: str
    reference: str  # empty in a study without correct descriptions
    texts: dict[str, str]  # by model, in the order of the models
    image: str | int | None = None  # path of an image, or row of a dataset


@dataclass(frozen=True, slots=True)
class RaterTask:
    """One task of one rater: all questions about the texts shown."""

    id: str  # opaque: reveals nothing about the item, the models or the sides
    item: str
    models: tuple[str, ...]  # in the order shown


@dataclass(frozen=True, slots=True)
class Rater:
    """The tasks of one rater."""

    form: Form
    token: str  # part of the answers' checksum, so that no other file passes for them
    tasks: tuple[RaterTask, ...]  # in the order shown


@dataclass(frozen=True, slots=True)
class ItemTexts:
    """An item's texts, as raters see them."""

    reference: str
    texts: dict[str, str]

    def by_side(self, model: str) -> dict[str, str]:
        """Side -> the text that raters mark, in a task about one model."""
        return {"mistakes": self.texts[model], "omissions": self.reference}

    def words(self, models: Iterable[str]) -> int:
        texts = (self.reference, *(self.texts[model] for model in models))
        return sum(len(word_spans(text)) for text in texts)


FileName = Annotated[str, Field(pattern=r"^[\w-]{1,64}$")]
"""Text that is part of file names, so it has no dots or slashes."""


@dataclass(frozen=True, slots=True)
class PacketKey:
    """Everything needed to read answers, and hidden from raters."""

    packet: FileName
    seed: int
    # In the order of the input; results count a preference towards the later of two models.
    models: tuple[str, ...]
    images: bool
    items: dict[str, ItemTexts]
    raters: dict[FileName, Rater]
    identical: tuple[RaterTask, ...]  # pairs of equal texts: not asked, counted as ties
    incomplete: tuple[str, ...] = ()  # items left out, since not all models wrote about them
    inputs: dict[str, str] = field(default_factory=dict)  # SHA-256 of each input file
    reference: bool = True  # raters see a correct description
    texts: RaterTexts = field(default_factory=shipped_texts)  # all that raters read
    format: Literal["posh-reward packet key 1"] = "posh-reward packet key 1"

    @property
    def sides(self) -> tuple[str, ...]:
        """Sides to mark; without a correct description nothing can be missing."""
        return SIDES if self.reference else SIDES[:1]

    def by_task(self) -> dict[str, tuple[str, int, RaterTask]]:
        """Task id -> rater, place on the rater's page (from 1), task."""
        return {
            task.id: (name, place, task)
            for name, rater in self.raters.items()
            for place, task in enumerate(rater.tasks, start=1)
        }

    def in_order(self, models: Iterable[str]) -> list[str]:
        """Models of a task in the order of the study, whichever was shown first."""
        return sorted(models, key=self.models.index)


@dataclass(frozen=True, slots=True)
class Answer:
    """One rater's answer to one task: as in files of the page, and with what the key adds.

    In a coarse task the axes have preferences, in a granular one the sides have marked spans.
    """

    task: str  # id
    seconds: float | None = None
    comment: str = ""
    mistakes: int | tuple[Span, ...] | None = None  # None: not answered
    omissions: int | tuple[Span, ...] | None = None
    overall: int | None = None
    # From the key:
    rater: str = ""
    item: str = ""
    models: tuple[str, ...] = ()  # in the order shown

    @property
    def granular(self) -> bool:
        return len(self.models) == 1

    @property
    def preferences(self) -> dict[str, int]:
        """Coarse: by axis, -2 to 2; above 0 the first shown is better."""
        values = {axis: getattr(self, axis) for axis in AXES}
        return {axis: value for axis, value in values.items() if isinstance(value, int)}

    def marks(self, side: str) -> tuple[Span, ...]:
        """Granular: the spans marked on one side."""
        spans: object = getattr(self, side)
        return spans if isinstance(spans, tuple) else ()

    def towards(self, model: str) -> dict[str, int]:
        """Coarse: by axis, how much better a model is than the other."""
        sign = 1 if self.models[0] == model else -1
        return {axis: sign * value for axis, value in self.preferences.items()}


WORD = re.compile(r"\w+(?:['\N{RIGHT SINGLE QUOTATION MARK}]\w+)*")


def word_spans(text: str) -> tuple[Span, ...]:
    """Spans of a text's words; the parts of a hyphenated word count separately."""
    return tuple(match.span() for match in WORD.finditer(text))


def unmarked_share(text: str, spans: Iterable[Span]) -> float:
    """Share of a text's words that no span touches, 0 to 1; 1 without words."""
    words = word_spans(text)
    return 1 - len(tokens_in(spans, words)) / max(len(words), 1)


def check_time(saved: str) -> str:
    """Check a time in UTC as JavaScript writes it; such texts sort by time."""
    if not TIME.fullmatch(saved):
        raise ValueError(f"{saved[:40]!r} is not a time such as 2026-11-22T10:00:00.000Z")
    time = datetime.strptime(saved, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    if time > datetime.now(timezone.utc) + AHEAD:
        raise ValueError(f"it was saved at {saved}: set the rater's clock and save again")
    return saved
