"""Which details are invented, contradicted and left out most often.

A detail is the text of elements of one kind: the attribute "red", whatever is red. It is counted in
groups of texts: those of a model, or those of some steps of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any, NamedTuple

from posh_reward.posh.examine import MIN_SUPPORTED_GRADE
from posh_reward.types import DIRECTIONS, KINDS, Direction, Element, Kind

MAX_LISTED_DETAILS = 30  # of a kind, in each text


class GradedDetail(NamedTuple):
    """An element, as far as it is counted."""

    direction: Direction
    kind: Kind
    text: str
    grade: float | None
    contradicted: bool


def read_detail(element: Element) -> GradedDetail:
    contradicted = element.decided_by == "contradicted"
    return GradedDetail(element.direction, element.kind, element.text, element.grade, contradicted)


@dataclass(frozen=True, slots=True)
class Detail:
    """Counts of a detail in each group of texts."""

    direction: Direction
    kind: Kind
    text: str
    stated: Sequence[int]
    unsupported: Sequence[int]
    """Of these, how many the other text does not support: invented, or left out."""
    contradicted: Sequence[int]
    """Of the unsupported ones, those in a sentence that the reference contradicts."""


STATED, UNSUPPORTED, CONTRADICTED = range(3)
"""Places of the counts of a detail in a group."""


@dataclass(slots=True)
class DetailCounts:
    """Counts of all details, added text by text."""

    texts: Counter[int] = field(default_factory=Counter)  # by group, numbered from 0
    _counts: dict[tuple[Direction, Kind, str], dict[int, list[int]]] = field(default_factory=dict)

    def add(self, group: int, details: Iterable[GradedDetail]) -> None:
        """Count the details of one text; those that could not be judged are left out."""
        self.texts[group] += 1
        for direction, kind, text, grade, contradicted in details:
            if grade is None:
                continue
            groups = self._counts.setdefault((direction, kind, text.casefold()), {})
            counts = groups.setdefault(group, [0, 0, 0])
            counts[STATED] += 1
            if grade < MIN_SUPPORTED_GRADE:
                counts[UNSUPPORTED] += 1
                counts[CONTRADICTED] += contradicted

    @property
    def groups(self) -> int:
        return max(self.texts, default=-1) + 1

    def list_most_frequent(self, most: int = MAX_LISTED_DETAILS) -> Iterator[Detail]:
        """Yield up to ``most`` details of each text and kind, the most often unsupported first."""
        by_place: dict[tuple[Direction, Kind], list[tuple[int, str]]] = {}
        for (direction, kind, text), groups in self._counts.items():
            if total := sum(counts[UNSUPPORTED] for counts in groups.values()):
                by_place.setdefault((direction, kind), []).append((-total, text))
        for direction, kind in product(DIRECTIONS, KINDS):
            for _, text in sorted(by_place.get((direction, kind), []))[:most]:
                groups = self._counts[direction, kind, text]
                counts = [groups.get(group, [0, 0, 0]) for group in range(self.groups)]
                stated, unsupported, contradicted = zip(*counts, strict=True)
                yield Detail(direction, kind, text, stated, unsupported, contradicted)


def list_detail_figures(counts: DetailCounts) -> list[dict[str, Any]]:
    """List the most frequent details as plain data, with counts by group."""
    return [asdict(detail) for detail in counts.list_most_frequent()]


def pack_details(counts: DetailCounts) -> list[list[Any]]:
    """Pack the most frequent details for a page: side, kind, text, and counts by group."""
    return [
        [
            DIRECTIONS.index(each.direction), KINDS.index(each.kind), each.text,
            list(each.stated), list(each.unsupported), list(each.contradicted),
        ]
        for each in counts.list_most_frequent()
    ]  # fmt: skip
