"""Counts of the details that are said, invented, contradicted and left out.

A detail is the text of elements of one kind: the attribute "red", whatever is red. It is counted in
groups of texts: those of a model, or those of a period of a run's steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any, NamedTuple

from posh_reward.posh.examine import MIN_SUPPORTED_GRADE
from posh_reward.types import DIRECTIONS, KINDS, Direction, Element, Kind

MAX_LISTED_DETAILS = 30  # of a kind, in each text, for each reason to list them
COMPARED_SHARE = 0.25  # of the periods, at the beginning and at the end
STATED, UNSUPPORTED, CONTRADICTED = range(3)
"""Places of the counts of a detail in a group."""
GroupCounts = Mapping[int, Sequence[int]]
"""Counts of a detail by group; groups without it are missing."""


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
    """Of these, how many the other text does not support (grade below 3): invented or left out."""
    contradicted: Sequence[int]
    """Of the unsupported ones, those in a sentence that the reference contradicts."""


@dataclass(frozen=True, slots=True)
class Trend:
    """Rate of a detail per 100 texts, and its unsupported share, at both ends of a run."""

    detail: Detail
    first_stated: float
    last_stated: float
    first_share: float | None  # None where it is not stated
    last_share: float | None

    @property
    def change(self) -> float:
        """Of the times that it is stated per 100 texts."""
        return self.last_stated - self.first_stated

    @property
    def last_unsupported(self) -> float:
        """Times per 100 texts at the end."""
        return self.last_stated * (self.last_share or 0.0)


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
            groups = self._counts.setdefault((direction, kind, text.lower()), {})
            counts = groups.setdefault(group, [0, 0, 0])
            counts[STATED] += 1
            if grade < MIN_SUPPORTED_GRADE:
                counts[UNSUPPORTED] += 1
                counts[CONTRADICTED] += contradicted

    @property
    def groups(self) -> int:
        return max(self.texts, default=-1) + 1

    @property
    def compared_groups(self) -> int:
        """Number of groups at each end of a run that are compared: a quarter, at least one."""
        return max(1, round(self.groups * COMPARED_SHARE))

    def list_details(self, most: int = MAX_LISTED_DETAILS, *, moving: bool = False) -> list[Detail]:
        """List up to ``most`` details of each text and kind, the most often unsupported first.

        With ``moving``, those follow that are said ever more often, and ever less often.
        """
        known: dict[tuple[Direction, Kind], dict[str, GroupCounts]] = {
            place: {} for place in product(DIRECTIONS, KINDS)
        }
        for (direction, kind, text), groups in self._counts.items():
            known[direction, kind][text] = groups
        every = range(self.groups)
        chosen: list[Detail] = []
        for (direction, kind), found in known.items():
            totals = {text: _total(groups, UNSUPPORTED, every) for text, groups in found.items()}
            texts = _take_largest({text: count for text, count in totals.items() if count}, most)
            if moving and direction == "precision":
                change = {text: self._measure_change(groups) for text, groups in found.items()}
                texts |= _take_largest(change, most) | _take_smallest(change, most)
            chosen += [self._make_detail(direction, kind, text) for text in texts]
        return chosen

    def _make_detail(self, direction: Direction, kind: Kind, text: str) -> Detail:
        groups = self._counts[direction, kind, text]
        counts = [groups.get(group, [0, 0, 0]) for group in range(self.groups)]
        stated, unsupported, contradicted = zip(*counts, strict=True)
        return Detail(direction, kind, text, stated, unsupported, contradicted)

    def _measure_change(self, groups: GroupCounts) -> float:
        """Change of the times per 100 texts that a detail is stated."""
        first, last = self._find_ends()
        return self._rate(groups, last) - self._rate(groups, first)

    def _rate(self, groups: GroupCounts, part: range) -> float:
        texts = sum(self.texts[group] for group in part)
        return 100 * _total(groups, STATED, part) / max(texts, 1)

    def _find_ends(self) -> tuple[range, range]:
        width = self.compared_groups
        return range(min(width, self.groups)), range(max(self.groups - width, 0), self.groups)

    def compare_ends(self, detail: Detail) -> Trend:
        """Compare the first quarter of the groups with the last.

        Of 8 periods with 100 texts each, two are compared: 50 times in the first two are 25 per 100
        texts, and if 10 of these are unsupported, the share is 0.2.
        """
        groups = self._counts[detail.direction, detail.kind, detail.text]
        rates: list[float] = []
        shares: list[float | None] = []
        for part in self._find_ends():
            rates.append(self._rate(groups, part))
            stated = _total(groups, STATED, part)
            shares.append(_total(groups, UNSUPPORTED, part) / stated if stated else None)
        return Trend(detail, *rates, *shares)


def _total(groups: GroupCounts, place: int, part: range) -> int:
    return sum(counts[place] for group, counts in groups.items() if group in part)


def _take_largest(values: Mapping[str, float], most: int) -> dict[str, None]:
    return dict.fromkeys(sorted(values, key=lambda text: (-values[text], text))[:most])


def _take_smallest(values: Mapping[str, float], most: int) -> dict[str, None]:
    return dict.fromkeys(sorted(values, key=lambda text: (values[text], text))[:most])


def list_detail_figures(counts: DetailCounts) -> list[dict[str, Any]]:
    """List the most frequent details as plain data, with counts by group."""
    return [asdict(detail) for detail in counts.list_details()]


def list_trend_figures(counts: DetailCounts) -> Iterator[dict[str, Any]]:
    """List details of a run as plain data, with their trends."""
    for detail in counts.list_details(moving=True):
        trend = asdict(counts.compare_ends(detail))
        yield {**trend.pop("detail"), **trend}


def pack_details(details: Iterable[Detail]) -> list[list[Any]]:
    """Pack details for a page: side, kind, text, and counts by group."""
    return [
        [
            DIRECTIONS.index(each.direction), KINDS.index(each.kind), each.text,
            list(each.stated), list(each.unsupported), list(each.contradicted),
        ]
        for each in details
    ]  # fmt: skip
