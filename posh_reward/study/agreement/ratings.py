"""Texts that people rated one by one: any table of candidate, references and ratings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import nan
from typing import Literal

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.agreement.compare import Figure, Sheet, on_rows
from posh_reward.study.agreement.correlation import (
    concordant,
    kendall,
    kendall_p,
    pearson,
    pearson_p,
    spearman,
    spearman_p,
    tied,
)
from posh_reward.study.agreement.items import Column, Item, number
from posh_reward.study.agreement.sources import as_list, check_columns, image_of, text_of
from posh_reward.study.rows.posh_rows import NAMES
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats, Ints

Raters = Literal["each", "mean"]
LISTED = 100
"""Rows of an image up to which its pairs are listed, which is faster; others are sorted."""
RATERS: tuple[Raters, ...] = ("each", "mean")
"""What is done with several ratings of a text: each is a row of its own; their mean is one."""


@dataclass(frozen=True)
class RatingColumns:
    """What the columns of a table of ratings are called."""

    candidate: str = "candidate"
    references: str = "references"
    """A text, or a list of texts."""
    image: str = "image"
    """Texts of one image are resampled and compared together; without it each is its own."""
    ratings: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(NAMES, "rating"))
    """Axis -> column of the ratings that it should agree with: a number, or a list of them."""
    raters: Raters = "each"


@dataclass(frozen=True)
class Rated:
    """Texts with people's ratings, higher is better."""

    name: str
    items: Sequence[Item]
    of: Ints
    """(rows,) the item that each row rates."""
    people: Mapping[str, Floats]
    """Axis -> (rows,) ratings; nan where nobody rated."""
    groups: Sequence[Hashable]
    """(rows,) image of each row."""

    @property
    def sheet(self) -> Sheet:
        """The ratings as rows of figures."""
        return Sheet(self.name, self.people, self.groups, self._scores)

    def _scores(self, column: Column, axis: str) -> Floats:
        return column.scores[axis][self.of]


def rated(rows: Sequence[Row], columns: RatingColumns, name: str) -> Rated:
    """The rated texts of a table.

    Raises:
        InputError: a column is missing, a cell cannot be used, or a text has ratings of unequal
            number on two axes; the message has the row.
    """
    wanted = {"--candidate": columns.candidate, "--references": columns.references}
    wanted |= {f"--rating {axis}=": column for axis, column in columns.ratings.items()}
    check_columns(rows, wanted, name)
    items: list[Item] = []
    of: list[int] = []
    groups: list[Hashable] = []
    people: dict[str, list[float]] = {axis: [] for axis in columns.ratings}
    for place, row in enumerate(rows, start=1):
        where = f"{name}, row {place}"
        given = {
            axis: _ratings(row, c, columns.raters, where) for axis, c in columns.ratings.items()
        }
        counts = {len(ratings) for ratings in given.values()}
        if len(counts) > 1:
            raise InputError(f"{where}: its axes have different numbers of ratings: {given}")
        image = image_of(row, columns.image)
        candidate = text_of(row, columns.candidate, where)
        of += [len(items)] * counts.pop()
        groups += [place if image is None else image] * (len(of) - len(groups))
        items.append(Item(candidate, _references(row, columns.references, where), image, row))
        for axis, ratings in given.items():
            people[axis] += ratings
    arrays = {axis: np.array(values) for axis, values in people.items()}
    return Rated(name, items, np.array(of, dtype=np.int64), arrays, groups)


def _references(row: Row, column: str, where: str) -> tuple[str, ...]:
    texts = as_list(row.get(column))
    if texts is None:
        return (text_of(row, column, where),)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{where}: {column} is {str(texts)[:40]}, not a list of texts")
    return tuple(map(str, texts))


def _ratings(row: Row, column: str, raters: Raters, where: str) -> list[float]:
    listed = as_list(row.get(column))
    try:
        cells = [number({column: cell}, column) for cell in listed or [row.get(column)]]
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if raters == "each":
        return [nan if cell is None else cell for cell in cells]
    given = [cell for cell in cells if cell is not None]
    return [sum(given) / len(given) if given else nan]


def rating_figures(rated: Rated) -> list[Figure]:
    """For each axis tau_b, tau_c, Spearman's rho, Pearson's r and pairwise accuracy."""
    within = Within.of(rated.groups, rated.of)
    return [
        figure
        for axis in rated.people
        for figure in (
            Figure(axis, "tau_b", on_rows(kendall), kendall_p),
            Figure(axis, "tau_c", on_rows(partial(kendall, variant="c")),
                   partial(kendall_p, variant="c")),
            Figure(axis, "rho", on_rows(spearman), spearman_p),
            Figure(axis, "r", on_rows(pearson), pearson_p),
            Figure(axis, "pairs", within.accuracy, many=within.accuracies, percent=True),
        )
    ]  # fmt: skip


@dataclass(frozen=True)
class Within:
    """Pairwise accuracy within images, of which one may have thousands of rows.

    Of the pairs of texts of one image that people rate differently, how many the metric orders
    alike. A metric's tie is wrong. A pair counts as often as its image was drawn.
    """

    images: Sequence[Ints]
    """The rows of each image."""
    items: Ints
    """(rows,) the text that each row rates; two ratings of one text are not a pair."""

    @classmethod
    def of(cls, groups: Sequence[Hashable], items: Ints) -> Within:
        """The rows of each group."""
        rows_of: dict[Hashable, list[int]] = {}
        for row, group in enumerate(groups):
            rows_of.setdefault(group, []).append(row)
        return cls([np.array(rows) for rows in rows_of.values()], items)

    def accuracy(self, scores: Floats, people: Floats, rows: Ints) -> float:
        """The share on the given rows; nan without a pair."""
        return self.accuracies(scores, people, [rows])[0]

    def accuracies(self, scores: Floats, people: Floats, draws: Sequence[Ints]) -> list[float]:
        """The share in each draw of rows; each image is counted once."""
        usable = np.zeros(len(people), dtype=bool)
        for rows in draws:
            usable[rows] = True
        members = [some for rows in self.images if len(some := rows[usable[rows]])]
        counted = [self._pairs(scores[some], people[some], self.items[some]) for some in members]
        right, asked = np.array(counted, dtype=np.float64).reshape(-1, 2).T
        first = np.array([some[0] for some in members], dtype=np.int64)
        shares = []
        for rows in draws:
            drawn = np.bincount(rows, minlength=len(people))[first]
            every = drawn @ asked
            shares.append(float(drawn @ right / every) if every else nan)
        return shares

    def _pairs(self, scores: Floats, people: Floats, items: Ints) -> tuple[float, float]:
        """Pairs of one image that the metric orders as people do, and all that people order."""
        if len(scores) <= LISTED:
            wanted = np.sign(people[:, None] - people)
            ordered = (wanted != 0) & (items[:, None] != items)
            alike = ordered & (np.sign(scores[:, None] - scores) == wanted)
            return alike.sum() / 2, ordered.sum() / 2
        same_text = tied(items) - tied(items, people)  # ordered by people, and not a pair
        asked = tied(np.zeros(len(people))) - tied(people) - same_text
        return concordant(scores, people), asked
