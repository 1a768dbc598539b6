"""Texts that people judged, and columns of metric scores for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, isinf, isnan
from typing import Literal, Protocol

import numpy as np

from posh_reward.errors import InputError
from posh_reward.metrics.metric import joined_references
from posh_reward.process.progress import progress_bar
from posh_reward.study.rows.scored_rows import JUDGED
from posh_reward.study.rows.tables import cell_number
from posh_reward.study.statistics import Floats
from posh_reward.types import Failure

AT_ONCE = 128  # pairs per call of a metric
NO_SCORE = Failure("text", "the table has no score here")

Combine = Literal["native", "join", "best", "mean"]
COMBINE: dict[Combine, str] = {
    "native": "each metric handles them as its library does, or joined into one text if it takes "
    "only one",
    "join": "joined into one text of sentences",
    "best": "the best score over them, on each axis",
    "mean": "the mean score over them, on each axis",
}
"""Treatment of several references -> its description in notes."""


@dataclass(frozen=True, slots=True)
class TextPair:
    """A text to score and its references; equal pairs are scored once."""

    generation: str
    references: tuple[str, ...]
    image_id: str | None = None
    # Any form that ``models.prompt_images.image_of`` accepts.
    image: object = field(default=None, compare=False, repr=False)

    @property
    def reference(self) -> str:
        """The references as one text, for metrics that take only one."""
        return joined_references(self.references)


@dataclass(frozen=True, slots=True)
class CandidateText:
    """A text that people judged."""

    generation: str
    references: tuple[str, ...]
    image_id: str | None = None
    image: object = field(default=None, compare=False, repr=False)
    # Its row in the file, which may have columns of scores.
    row: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    side: str = ""  # "1" or "2" in a row of two texts: the suffix of this text's columns

    def pairs(self, combine: Combine) -> tuple[TextPair, ...]:
        """The pairs to score: one per reference, or one with all of them."""
        groups = [self.references]
        if combine == "join" and len(self.references) > 1:
            groups = [(joined_references(self.references),)]
        elif combine in ("best", "mean"):
            groups = [(each,) for each in self.references]
        return tuple(TextPair(self.generation, g, self.image_id, self.image) for g in groups)


@dataclass(frozen=True, slots=True)
class AxisScores:
    """A metric's scores for one pair, higher is better; None on an axis without a score."""

    mistakes: float | None = None
    omissions: float | None = None
    overall: float | None = None
    failure: Failure | None = None

    @classmethod
    def same(cls, value: float) -> AxisScores:
        """Use one number on all axes, for metrics that have only one."""
        return cls(value, value, value)


class Measure(Protocol):
    """Any metric: POSH, a baseline, a file of scores. ``sees = True`` if it needs images."""

    @property
    def name(self) -> str:
        """Name in tables."""

    @property
    def signature(self) -> str:
        """Everything needed to reproduce the scores."""

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """Score each pair, in order."""


@dataclass(frozen=True)
class ScoreColumn:
    """One metric's scores for all texts."""

    name: str
    scores: Mapping[str, Floats]  # axis -> (texts,), higher is better; nan for no score
    failures: Mapping[str, int] = field(default_factory=dict)  # reason -> number of texts
    signature: str = ""
    missing: str = ""  # why the metric cannot run here, and the remedy; it then has no scores
    verdicts: bool = False  # True if the difference of two texts' scores is a verdict: 1, 0, -1


def score_texts(
    measure: Measure,
    texts: Sequence[CandidateText],
    combine: Combine = "native",
    quiet: bool = False,
) -> ScoreColumn:
    """Score all texts with a metric, each distinct pair once."""
    pairs_of = [text.pairs(combine) for text in texts]
    distinct = list(dict.fromkeys(pair for pairs in pairs_of for pair in pairs))
    scores: dict[TextPair, AxisScores] = {}
    with progress_bar(measure.name, len(distinct), "pair", quiet) as bar:
        for batch in batches(distinct):
            scores.update(zip(batch, measure.score(batch), strict=True))
            bar.update(len(batch))
    rows = [_combine([scores[pair] for pair in pairs], combine) for pairs in pairs_of]
    return score_column(measure.name, rows, measure.signature)


def batches(pairs: Sequence[TextPair]) -> Iterator[Sequence[TextPair]]:
    """Yield the pairs, ``AT_ONCE`` at a time."""
    # Sorted by reference, so that a reference's graph is still cached for its next text.
    queue = sorted(pairs, key=lambda pair: pair.reference)
    for start in range(0, len(queue), AT_ONCE):
        yield queue[start : start + AT_ONCE]


def _combine(scores: Sequence[AxisScores], combine: Combine) -> AxisScores:
    """Combine the scores against several references; one failure fails the text."""
    if len(scores) == 1:
        return scores[0]
    # Combining only the rest would be a different metric on just these texts.
    failure = next((each for each in scores if each.failure is not None), None)
    if failure is not None:
        return failure
    reduce = max if combine == "best" else lambda values: fsum(values) / len(values)
    by_axis = [[getattr(each, axis) for each in scores] for axis in JUDGED]
    mistakes, omissions, overall = (None if None in v else reduce(v) for v in by_axis)
    return AxisScores(mistakes, omissions, overall)


def score_column(name: str, scores: Sequence[AxisScores], signature: str) -> ScoreColumn:
    # NumPy makes nan of None.
    axes = {axis: np.array([getattr(s, axis) for s in scores], dtype=np.float64) for axis in JUDGED}
    failures = Counter(str(each.failure) for each in scores if each.failure is not None)
    return ScoreColumn(name, axes, dict(failures), signature)


def column_scores(name: str, texts: Sequence[CandidateText]) -> ScoreColumn:
    """Read scores from the rows: columns ``NAME_mistakes``, ..., or ``NAME`` for all axes.

    In rows of two texts each column name ends in 1 or 2.

    Raises:
        InputError: no row has such a column, or a cell is not a number.
    """
    scores = []
    for text in texts:
        columns = [f"{name}_{axis}{text.side}" for axis in JUDGED]
        where = f"score of {text.generation[:60]!r}: "
        scores.append(AxisScores(*axes_in(text.row, columns, name + text.side, where)))
    if all(each == AxisScores() for each in scores):
        side = texts[0].side if texts else ""
        raise InputError(
            f"there are no scores {name!r}: the rows need a column {name + side!r}, or "
            f"{', '.join(repr(f'{name}_{axis}{side}') for axis in JUDGED)}"
        )
    scores = [AxisScores(failure=NO_SCORE) if s == AxisScores() else s for s in scores]
    return score_column(name, scores, f"column {name}")


def axes_in(
    row: Mapping[str, object], columns: Sequence[str], for_all: str, where: str = ""
) -> tuple[float | None, float | None, float | None]:
    """Read the numbers of a row's columns; the column ``for_all`` replaces missing ones."""
    common = number_in(row, for_all, where)
    numbers = (number_in(row, column, where) for column in columns)
    mistakes, omissions, overall = (common if each is None else each for each in numbers)
    return mistakes, omissions, overall


def number_in(row: Mapping[str, object], column: str, where: str = "") -> float | None:
    """Read a cell as a number; None if it is missing, empty or NaN.

    Raises:
        InputError: it is something else; the message begins with ``where``.
    """
    value = row.get(column)
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool | list | dict):
            raise ValueError
        number = cell_number(str(value))
    except ValueError:
        raise InputError(f"{where}{column} is {str(value)[:40]!r}, not a number") from None
    if isinf(number):  # means, differences and correlations would be undefined
        raise InputError(f"{where}{column} is {str(value)[:40]!r}, not a finite number")
    return None if isnan(number) else number
