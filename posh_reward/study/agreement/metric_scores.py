"""Texts that people judged, and columns of the scores that metrics gave them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf, isnan, nan
from typing import Literal, Protocol

import numpy as np

from posh_reward.errors import InputError
from posh_reward.metrics.metric import joined_references
from posh_reward.study.rows.score_axes import NAMES
from posh_reward.study.rows.tables import Row, cell_number
from posh_reward.study.statistics import Floats
from posh_reward.types import Failure

AT_ONCE = 128  # pairs that a metric scores at a time
NO_SCORE = Failure("text", "the table has no score here")

Combine = Literal["native", "join", "best", "mean"]
COMBINE: dict[Combine, str] = {
    "native": "each metric takes them as its library does, and one text of sentences where it "
    "takes only one",
    "join": "joined into one text of sentences",
    "best": "each axis has its best score over them",
    "mean": "each axis has its mean score over them",
}
"""Treatment of several references -> how notes describe it."""

Progress = Callable[[int], object]  # receives the number of further pairs that are done


@dataclass(frozen=True, slots=True)
class TextPair:
    """A text to score and its references; equal pairs are scored once."""

    generation: str
    references: tuple[str, ...]
    image_id: str | None = None
    # For metrics that see, in any form that ``models.prompt_images.image_of`` takes.
    image: object = field(default=None, compare=False, repr=False)

    @property
    def reference(self) -> str:
        """The references as one text, for metrics that take only one."""
        return joined_references(self.references)


@dataclass(frozen=True, slots=True)
class CandidateText:
    """One text that people judged."""

    generation: str
    references: tuple[str, ...]
    image_id: str | None = None
    image: object = field(default=None, compare=False, repr=False)
    # The row of the file that it comes from, with the scores of its own columns.
    row: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    side: str = ""  # in a row of two texts "1" or "2": the ending of the names of its own columns

    def pairs(self, combine: Combine) -> tuple[TextPair, ...]:
        """The pairs to score: one for each reference, or one of them all."""
        groups = [self.references]
        if combine == "join" and len(self.references) > 1:
            groups = [(joined_references(self.references),)]
        elif combine in ("best", "mean"):
            groups = [(each,) for each in self.references]
        return tuple(TextPair(self.generation, g, self.image_id, self.image) for g in groups)


@dataclass(frozen=True, slots=True)
class AxisScores:
    """A metric's scores of one pair on each axis, higher is better; None where it has none."""

    mistakes: float | None = None
    omissions: float | None = None
    overall: float | None = None
    failure: Failure | None = None

    @classmethod
    def same(cls, value: float) -> AxisScores:
        """One number for all axes, from metrics that have only one."""
        return cls(value, value, value)


class Measure(Protocol):
    """Any metric: POSH, a baseline, a file of scores.

    One that needs images has an attribute ``sees`` that is true.
    """

    @property
    def name(self) -> str:
        """Its name in tables."""

    @property
    def signature(self) -> str:
        """All that another run needs to reproduce its scores."""

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """Return one record for each pair, in order."""


@dataclass(frozen=True)
class ScoreColumn:
    """One metric's scores of all texts."""

    name: str
    # Axis -> (texts,) scores, higher is better; nan where there is none.
    scores: Mapping[str, Floats]
    # Reason -> number of texts without a score.
    failures: Mapping[str, int] = field(default_factory=dict)
    signature: str = ""
    # Reason, with the remedy, why the metric could not work at all; then there are no scores.
    missing: str = ""
    verdicts: bool = False  # the scores are preferences themselves: 1 for the text that won, else 0


def score_texts(
    measure: Measure,
    texts: Sequence[CandidateText],
    combine: Combine = "native",
    progress: Progress | None = None,
) -> ScoreColumn:
    """Score all texts by a metric, each distinct pair once."""
    pairs_of = [text.pairs(combine) for text in texts]
    scores: dict[TextPair, AxisScores] = {}
    for batch in batches(list(dict.fromkeys(pair for pairs in pairs_of for pair in pairs))):
        scores.update(zip(batch, measure.score(batch), strict=True))
        if progress is not None:
            progress(len(batch))
    rows = [_combine([scores[pair] for pair in pairs], combine) for pairs in pairs_of]
    return score_column(measure.name, rows, measure.signature)


def count_pairs(texts: Sequence[CandidateText], combine: Combine) -> int:
    """Number of pairs that ``score_texts`` will score."""
    return len({pair for text in texts for pair in text.pairs(combine)})


def batches(pairs: Sequence[TextPair]) -> Iterator[Sequence[TextPair]]:
    """Yield the pairs, ``AT_ONCE`` at a time."""
    # Texts of one reference stand next to each other: its graph is parsed once and is still there.
    queue = sorted(pairs, key=lambda pair: pair.reference)
    for start in range(0, len(queue), AT_ONCE):
        yield queue[start : start + AT_ONCE]


def _combine(scores: Sequence[AxisScores], combine: Combine) -> AxisScores:
    """One record of those for several references; one that failed fails the text."""
    if len(scores) == 1:
        return scores[0]
    # The best of those that did not fail would be another metric on texts with a failure.
    failure = next((each for each in scores if each.failure is not None), None)
    if failure is not None:
        return failure
    reduce = max if combine == "best" else lambda values: sum(values) / len(values)
    by_axis = [[getattr(each, axis) for each in scores] for axis in NAMES]
    mistakes, omissions, overall = (None if None in v else reduce(v) for v in by_axis)
    return AxisScores(mistakes, omissions, overall)


def score_column(name: str, scores: Sequence[AxisScores], signature: str) -> ScoreColumn:
    """Turn one record for each text into a column."""
    axes = {
        axis: np.array([nan if (v := getattr(s, axis)) is None else v for s in scores], dtype=float)
        for axis in NAMES
    }
    failures = Counter(str(each.failure) for each in scores if each.failure is not None)
    return ScoreColumn(name, axes, dict(failures), signature)


def column_scores(name: str, texts: Sequence[CandidateText]) -> ScoreColumn:
    """Scores that the rows have already: columns ``NAME_mistakes``, ..., or ``NAME`` for all axes.

    In rows of two texts each name ends in 1 or 2.

    Raises:
        InputError: no row has such a column, or a cell is not a number.
    """
    scores = [_scores_in_row(name, text) for text in texts]
    if all(each == AxisScores(failure=NO_SCORE) for each in scores):
        side = texts[0].side if texts else ""
        raise InputError(
            f"there are no scores {name!r}: the rows need a column {name + side!r}, or "
            f"{', '.join(repr(f'{name}_{axis}{side}') for axis in NAMES)}"
        )
    return score_column(name, scores, f"column {name}")


def _scores_in_row(name: str, text: CandidateText) -> AxisScores:
    columns = [f"{name}_{axis}{text.side}" for axis in NAMES]
    try:
        scores = AxisScores(*axes_in(text.row, columns, name + text.side))
    except InputError as error:
        raise InputError(f"{error}; it is the score of {text.generation[:60]!r}") from None
    return AxisScores(failure=NO_SCORE) if scores == AxisScores() else scores


def axes_in(
    row: Row | Mapping[str, object], columns: Sequence[str], for_all: str
) -> tuple[float | None, float | None, float | None]:
    """The numbers of a row's columns; the column ``for_all`` stands for those that are missing."""
    common = number_in(row, for_all)
    numbers = (number_in(row, column) for column in columns)
    mistakes, omissions, overall = (common if each is None else each for each in numbers)
    return mistakes, omissions, overall


def number_in(row: Row | Mapping[str, object], column: str) -> float | None:
    """A cell as a number; None if it is missing, empty or NaN; ``InputError`` if it is not one."""
    value = row.get(column)
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool | list | dict):
            raise ValueError
        number = cell_number(str(value))
    except ValueError:
        raise InputError(f"{column} is {str(value)[:40]!r}, not a number") from None
    if isinf(number):  # no mean, difference or correlation can be had with it
        raise InputError(f"{column} is {str(value)[:40]!r}, not a finite number")
    return None if isnan(number) else number
