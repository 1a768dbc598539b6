"""What people rated or compared, as calibration needs it: texts, and rows with their images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

import numpy as np

from posh_reward.metrics.inputs import joined_references
from posh_reward.study.agreement.compare import Figure, Sheet
from posh_reward.study.agreement.items import Item, Pair
from posh_reward.study.agreement.pairs import Compared, pair_figures
from posh_reward.study.agreement.ratings import Rated, rating_figures
from posh_reward.study.packets.results import AXES, judgments
from posh_reward.study.packets.study_records import PacketKey, RaterAnswer
from posh_reward.study.statistics import Floats, Ints


@dataclass(frozen=True)
class Judged:
    """Texts with people's numbers."""

    title: str
    items: Sequence[Item]
    sheet: Sheet
    """People's numbers; its groups keep rows of one image together."""
    figures: Sequence[Figure]
    of: Ints | None
    """(rows,) the item that each row rates; None if row i compares items 2 i and 2 i + 1."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Axis -> column of its ratings, where they have one."""

    @property
    def single_column(self) -> str | None:
        """The column that several axes share, if they have no other."""
        names = set(self.columns.values())
        return names.pop() if len(names) == 1 and len(self.columns) > 1 else None

    @property
    def held_against(self) -> str:
        """Which column each axis is held against, and which ones of their names are not used."""
        if not self.columns:
            return ""
        axes_of: dict[str, list[str]] = {}
        for axis, column in self.columns.items():
            axes_of.setdefault(column, []).append(axis)
        found = "; ".join(f"{', '.join(axes)}: column {name!r}" for name, axes in axes_of.items())
        row = self.items[0].row if self.items else {}
        unused = [axis for axis in AXES if axis in row and axis not in axes_of]
        if not unused:
            return found
        words = " ".join(f"--rating {axis}={axis}" for axis in unused)
        return f"{found} (not used: {', '.join(unused)}; to use them: {words})"

    @property
    def pairs(self) -> list[Pair]:
        """(items,) what the metric scores: several references are one text of sentences."""
        return [
            Pair(
                item.generation,
                item.references[0]
                if len(item.references) == 1
                else joined_references(item.references),
                item.image,
            )
            for item in self.items
        ]

    def rows(self, scores: Floats) -> Floats:
        """(items, ...) scores -> (rows, ...) scores of rated texts, or differences of two texts."""
        chosen: Floats = scores[::2] - scores[1::2] if self.of is None else scores[self.of]
        return chosen


def judged_ratings(rated: Rated, columns: Mapping[str, str] | None = None) -> Judged:
    """Texts that people rated one by one.

    Args:
        rated: the texts with their ratings.
        columns: axis -> column that its ratings are from.
    """
    groups = [_image(rated.items[item]) for item in rated.of]
    title = f"{rated.name}: {len(rated.of):,} ratings of {len(rated.items):,} texts"
    sheet = replace(rated.sheet, groups=groups)
    figures = rating_figures(rated)
    title = _with_images(title, groups)
    return Judged(title, rated.items, sheet, figures, rated.of, dict(columns or {}))


def judged_pairs(compared: Compared) -> Judged:
    """Pairs that people compared."""
    groups = [_image(item) for item in compared.items[::2]]
    title = f"{compared.name}: {len(groups):,} pairs"
    sheet = replace(compared.sheet, groups=groups)
    figures = pair_figures(list(compared.people))
    return Judged(_with_images(title, groups), compared.items, sheet, figures, None)


def answered_pairs(answers: Sequence[RaterAnswer], key: PacketKey) -> Compared:
    """Raters' answers to a packet; a pair counts once, as the mean of its raters."""
    said: dict[tuple[str, str, str], list[dict[str, float]]] = defaultdict(list)
    for row in judgments(answers, key):
        said[row["id"], row["later"], row["earlier"]].append(row)
    items = []
    for (name, *models), _ in said.items():
        shown = key.items[name]
        items += [Item(shown.texts[model], (shown.reference,), name) for model in models]
    people = {
        axis: np.array([fmean(row[axis] for row in rows) for rows in said.values()])
        for axis in AXES
    }
    return Compared(f"packet {key.packet}", items, people, [name for name, *_ in said])


def _image(item: Item) -> Hashable:
    """What keeps rows in one fold: the image or, where none is named, the references."""
    return item.references if item.image is None else item.image


def _with_images(title: str, groups: Sequence[Hashable]) -> str:
    return f"{title}, {len(set(groups)):,} images"
