"""Texts rated one by one: any table of generations, references and ratings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isnan, nan
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, pearsonr, spearmanr

from posh_reward.errors import InputError
from posh_reward.study.agreement import judgment_files
from posh_reward.study.agreement.agreement_report import (
    AgreementReport,
    AgreementSettings,
    Figure,
    Judgments,
    RowMeasure,
    Sample,
    make_report,
    on_rows,
    score_columns,
    unrated_note,
)
from posh_reward.study.agreement.metric_scores import ScoreColumn, TextPair, number_in
from posh_reward.tables.statistics import (
    Floats,
    Ints,
    compute_p_value,
    group_rows,
    kendall,
    pearson,
    spearman,
)
from posh_reward.tables.tables import AXIS_SCORES, Row

Raters = Literal["each", "mean"]
"""Several ratings of a text: one row each, or one row with their mean."""


@dataclass(frozen=True)
class RatingColumns:
    """Column names of a table of ratings."""

    generation: str = "generation"
    references: str = "references"  # a text, or a list of texts
    image: str = "image"  # groups texts for resampling and pairs; without it each is a group
    # Axis -> column of ratings to compare with: a number, or a list of them.
    ratings: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(AXIS_SCORES, "rating"))
    raters: Raters = "each"
    group: str | None = None  # column such as ``task``, for figures of each of its values


@dataclass(frozen=True)
class TextRatings:
    """People's ratings of texts, higher is better."""

    name: str
    texts: Sequence[TextPair]
    text_of: Ints  # (rows,) the text that each row rates
    people: Mapping[str, Floats]  # axis -> (rows,) ratings; nan where there is none
    groups: Sequence[Hashable]  # (rows,) images
    parts: Sequence[str] = ()  # (rows,) value of the column ``group``, if there is one

    @property
    def judgments(self) -> Judgments:
        def repeat_scores(column: ScoreColumn, axis: str) -> Floats:
            return column.scores[axis][self.text_of]

        return Judgments(self.name, self.people, self.groups, repeat_scores)


def read_ratings(
    rows: Sequence[Row], columns: RatingColumns, name: str, images: Path | None = None
) -> TextRatings:
    """Read a table of ratings; image paths are relative to the folder ``images``."""
    flags = {"--generation": columns.generation, "--reference": columns.references}
    flags |= {f"--rating {axis}=": column for axis, column in columns.ratings.items()}
    if columns.group is not None:
        flags["--group"] = columns.group
    judgment_files.check_columns(rows, flags, name)
    texts: list[TextPair] = []
    text_of: list[int] = []
    groups: list[Hashable] = []
    people: dict[str, list[float]] = {axis: [] for axis in columns.ratings}
    for place, row in enumerate(rows, start=1):
        where = f"{name}, row {place}"
        ratings: dict[str, list[float]] = {}
        for axis, column in columns.ratings.items():
            ratings[axis] = numbers_in(row, column, where, columns.raters)
        counts = set(map(len, ratings.values()))
        if len(counts) > 1:
            raise InputError(f"{where}: its axes have different numbers of ratings: {ratings}")
        image_id, image = judgment_files.image_in(row, columns.image, images)
        candidate = judgment_files.text_in(row, columns.generation, where)
        text_of += [len(texts)] * counts.pop()
        groups += [place if image_id is None else image_id] * (len(text_of) - len(groups))
        references = judgment_files.texts_in(row, columns.references, where)
        texts.append(TextPair(candidate, references, image_id, image, row))
        for axis, values in ratings.items():
            people[axis] += values
    arrays = {axis: np.array(values) for axis, values in people.items()}
    parts = []
    if columns.group is not None:
        parts = [str(texts[place].row.get(columns.group)) for place in text_of]
    return TextRatings(name, texts, np.array(text_of, dtype=np.int64), arrays, groups, parts)


def numbers_in(row: Row, column: str, where: str, raters: Raters) -> list[float]:
    """Read a cell's numbers, one per person, or their mean; true is 1, and a missing one nan."""
    cells = judgment_files.as_list(row.get(column)) or [row.get(column)]
    numbers = []
    for cell in cells:
        plain = int(cell) if isinstance(cell, bool) else cell
        number = number_in({column: plain}, column, f"{where}: ")
        numbers.append(nan if number is None else number)
    if raters == "each":
        return numbers
    present = [number for number in numbers if not isnan(number)]
    if not present:
        return [nan]
    return [fmean(present)]


def rating_figures(ratings: TextRatings) -> list[Figure]:
    """Tau_b, tau_c, Spearman's rho, Pearson's r and pairwise accuracy, on each axis.

    Of each part, tau_b and pairwise accuracy, as in HarmonicEval's tables of four tasks.
    """
    within = WithinImages(group_rows(ratings.groups), ratings.text_of)
    figures = []
    if not ratings.parts:
        tau_c = partial(kendalltau, variant="c")
        for axis in ratings.people:
            figures += [
                Figure(axis, "tau_b", on_rows(kendall), partial(compute_p_value, kendalltau)),
                Figure(axis, "tau_c", on_rows(partial(kendall, variant="c")),
                       partial(compute_p_value, tau_c)),
                Figure(axis, "rho", on_rows(spearman), partial(compute_p_value, spearmanr)),
                Figure(axis, "r", on_rows(pearson), partial(compute_p_value, pearsonr)),
                Figure(axis, "pairs", within.measure_accuracy, percent=True),
            ]  # fmt: skip
        return figures
    rows_by_part: dict[str, NDArray[np.bool_]] = {}
    for part in dict.fromkeys(ratings.parts):
        rows_by_part[part] = np.array([each == part for each in ratings.parts])
    for axis in ratings.people:
        for part, inside in rows_by_part.items():
            tau_b = _in_part(inside, on_rows(kendall))
            pairs = _in_part(inside, within.measure_accuracy)
            figures.append(Figure(axis, f"{part} tau_b", tau_b))
            figures.append(Figure(axis, f"{part} pairs", pairs, percent=True))
    return figures


def _in_part(inside: NDArray[np.bool_], measure: RowMeasure) -> RowMeasure:
    return lambda all, draws: measure(all, [rows[inside[rows]] for rows in draws])


@dataclass(frozen=True)
class WithinImages:
    """Pairwise accuracy within images, which may have thousands of rows each.

    The share, of all pairs of texts of one image that people rate differently, that the metric
    orders alike. A metric's tie is wrong. A pair counts as often as its image was drawn.
    """

    images: Sequence[Ints]  # the rows of each image
    texts: Ints  # (rows,) the text that each row rates; two ratings of one text make no pair

    def measure_accuracy(self, all: Sample, draws: Sequence[Ints]) -> list[float]:
        _, scores, people = all
        # Images are drawn whole, so each image's pairs are counted once and weighted in each draw.
        usable = np.zeros(len(people), dtype=bool)
        for rows in draws:
            usable[rows] = True
        counts: list[tuple[int, int]] = []
        first_rows: list[np.int64] = []
        for rows in self.images:
            some = rows[usable[rows]]
            if len(some):
                counts.append(self._count_pairs(scores[some], people[some], self.texts[some]))
                first_rows.append(some[0])
        right, pairs = np.array(counts, dtype=np.float64).reshape(-1, 2).T  # (images,) each
        first = np.array(first_rows, dtype=np.int64)
        shares = []
        for rows in draws:
            # An image's rows are drawn together, so the first one's count is the image's.
            times = np.bincount(rows, minlength=len(people))[first]
            total = times @ pairs
            shares.append(float(times @ right / total) if total else nan)
        return shares

    def _count_pairs(self, scores: Floats, people: Floats, texts: Ints) -> tuple[int, int]:
        """Pairs of one image that the metric orders as people do, and all that people order."""
        # Rows above columns, so that each pair is counted once.
        ordered = (people[:, None] > people) & (texts[:, None] != texts)
        return int((ordered & (scores[:, None] > scores)).sum()), int(ordered.sum())


def ratings_report(ratings: TextRatings, settings: AgreementSettings) -> AgreementReport:
    notes = [
        "pairs: how often the metric orders two texts of one image, which people rate differently, "
        "as people do; ties by the metric are wrong.",
        *unrated_note(ratings.people, "rating"),
    ]
    if any(len(text.references) > 1 for text in ratings.texts):
        notes.append(
            "Several references: each metric handles them as its library does, or joined into one "
            "text if it takes only one."
        )
    images = len(set(ratings.groups))
    size = f"{len(ratings.text_of):,} ratings of {len(ratings.texts):,} texts, {images:,} images"
    return make_report(
        f"{ratings.name}: {size}",
        ratings.judgments,
        score_columns(ratings.texts, settings),
        rating_figures(ratings),
        settings,
        notes,
    )
