"""Texts -> graded elements, cached in a file of scored rows -> scores under any weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from math import nan
from pathlib import Path

import numpy as np

from posh_reward.errors import InputError
from posh_reward.process.progress import progress_bar
from posh_reward.study.agreement.metric_scores import TextPair
from posh_reward.study.rows.journal import Journal
from posh_reward.study.rows.posh_rows import elements_in, parse_cells, scores_of
from posh_reward.study.rows.scorers import Metric, score_pairs, wants_images
from posh_reward.study.rows.table_items import pair_item
from posh_reward.study.rows.tables import Row, format_of, open_table
from posh_reward.study.statistics import Floats
from posh_reward.types import DIRECTIONS, HIGHEST_GRADE, KINDS, Scores

BATCH = 32  # pairs that are scored and stored at a time


@dataclass(frozen=True)
class GradeSums:
    """Sums of grades: all that scores depend on, apart from the weights."""

    grades: Floats  # (texts, directions, kinds) sum of grades; nan in a direction that has no score
    counts: Floats  # (texts, directions, kinds) elements

    @classmethod
    def of(cls, scores: Iterable[Scores]) -> GradeSums:
        """Add up the elements of each text."""
        sums = [_sums(each) for each in scores]
        both = np.array(sums, dtype=np.float64).reshape(-1, 2, len(DIRECTIONS), len(KINDS))
        return cls(both[:, 0], both[:, 1])

    def means(self, weights: Floats) -> Floats:
        """(texts, directions) precision and recall, as ``aggregate.mean_score`` has them."""
        total = self.counts @ weights
        mean = self.grades @ weights / np.where(total, total, 1) / HIGHEST_GRADE
        # Without elements there is nothing wrong: a text that has a score at all has 1.
        means: Floats = np.where((total == 0) & ~np.isnan(mean), 1.0, mean)
        return means


def overall(means: Floats, balance: Floats) -> Floats:
    """(texts, balances) weighted harmonic means of precision and recall, as ``Shaping`` has them.

    ``balance`` (balances,) is the weight of precision, where recall counts 1.
    """
    precision, recall = means[:, :1], means[:, 1:]
    scores: Floats = (balance + 1) / (balance / precision + 1 / recall)
    return scores


def _sums(scores: Scores) -> list[list[list[float]]]:
    grades = [[0.0] * len(KINDS) for _ in DIRECTIONS]
    counts = [[0.0] * len(KINDS) for _ in DIRECTIONS]
    for element in scores.elements:
        direction, kind = DIRECTIONS.index(element.direction), KINDS.index(element.kind)
        grades[direction][kind] += nan if element.grade is None else element.grade
        counts[direction][kind] += 1
    for place, score in enumerate((scores.precision, scores.recall)):
        if score is None:
            grades[place] = [nan] * len(KINDS)
    return [grades, counts]


def unweighted(signature: str) -> str:
    """A signature without its weights: grades do not depend on them."""
    return re.sub(r"\|weights:[^|]*", "", signature)


@dataclass
class GradeCache:
    """Scored rows with elements, by generation and reference."""

    source: str | None = None  # the file's name
    signature: str | None = None  # signature of all rows, without weights; None if there are none
    scores: dict[tuple[object, object], Scores] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> GradeCache:
        """The rows that ``posh-reward score --elements`` wrote; none if there is no file yet.

        Raises:
            InputError: it cannot be read, or a row cannot be used; the message has the row.
        """
        cache = cls(str(path))
        if not path.exists():
            return cache
        with open_table(str(path), format_of(str(path))) as rows:
            for place, row in enumerate(rows, start=1):
                try:
                    cache.add(parse_cells(row))
                except InputError as error:
                    raise InputError(f"{str(path)!r}, row {place}: {error}") from None
        return cache

    def add(self, row: Row) -> None:
        """Take one more row; ``InputError`` if it lacks elements, or another metric scored it."""
        scores = scores_of(row)
        if scores.failure is None and elements_in(row) and not scores.elements:
            raise InputError("it has no elements: score with --elements")
        signature = unweighted(scores.signature)
        if self.signature not in (None, signature):
            raise InputError(f"it was scored as {signature}, earlier rows as {self.signature}")
        self.signature = signature
        self.scores[row["generation"], row["reference"]] = scores

    def check_signature(self, signature: str) -> None:
        """Raise ``InputError`` if a metric would not grade as the one that scored the rows did."""
        if self.signature not in (None, unweighted(signature)):
            raise InputError(
                f"{self.source!r} was scored as {self.signature}, but the flags describe "
                f"{unweighted(signature)}: give the --config (or --judge, --parser, ...) that it "
                "was scored with, or another file"
            )


def score_missing(
    pairs: Sequence[TextPair], cache: GradeCache, metric: Callable[[], Metric], quiet: bool = False
) -> list[Scores]:
    """Scores of all pairs, in order; those that the cache lacks are judged, and added to it.

    ``metric`` makes the metric, and is called only if something is missing.

    Raises:
        InputError: the metric is not the one that scored the cached rows, or needs images, or more
            rows cannot be added to their file.
        JudgeError: the judge cannot work.
    """
    distinct = dict.fromkeys((pair.generation, pair.reference) for pair in pairs)
    # Sorted by reference: its graph is parsed once and is still there for the next pair.
    missing = sorted((each for each in distinct if each not in cache.scores), key=lambda p: p[::-1])
    if missing:
        judge = metric()
        if wants_images(judge):
            raise InputError(
                "calibration grades texts without their images, which a witness needs: leave the "
                "witness out"
            )
        cache.check_signature(judge.signature)
        with progress_bar("score", len(missing), "pair", quiet) as bar:
            for rows in _score_rows(missing, judge, cache):
                for row in rows:
                    cache.add(row)
                bar.update(len(rows))
    return [cache.scores[pair.generation, pair.reference] for pair in pairs]


def _score_rows(
    missing: Iterable[tuple[str, str]], metric: Metric, cache: GradeCache
) -> Iterator[Sequence[Row]]:
    start = len(cache.scores) + 1
    items = (pair_item(number, *each) for number, each in enumerate(missing, start=start))
    batches = score_pairs(metric, items, batch=BATCH, elements=True)
    if cache.source is None:
        yield from batches
        return
    if not format_of(cache.source).appendable:
        raise InputError(
            f"{cache.source!r} does not have all texts, and rows are added to .jsonl only: name one"
        )
    with closing(Journal(Path(cache.source))) as journal:
        for rows in batches:
            journal.append(rows)
            yield rows
