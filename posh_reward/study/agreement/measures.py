"""Metrics to measure: POSH, HarmonicEval, and files of existing scores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import nan
from typing import Literal

import numpy as np
from scipy.stats import kendalltau, pearsonr, rankdata, spearmanr

from posh_reward.errors import InputError
from posh_reward.metrics.harmonic_eval import HarmonicEval, HarmonicScores
from posh_reward.metrics.posh.posh import PoSh
from posh_reward.metrics.posh.questions import PRESENT
from posh_reward.study.agreement.judgment_files import check_columns
from posh_reward.study.agreement.localisation import Alerts
from posh_reward.study.agreement.metric_scores import AxisScores, TextPair, axes_in
from posh_reward.study.rows.scored_rows import JUDGED
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats, Ints
from posh_reward.types import Direction, Failure, Scores, Span

TauVariant = Literal["b", "c"]
MOST_NUMBERS = 40
"""Distinct numbers by people up to which a contingency table is faster than SciPy's tau."""


def spearman(scores: Floats, people: Floats) -> float:
    """Spearman's rank correlation."""
    if not _vary(scores, people):
        return nan
    return pearson(rankdata(scores), rankdata(people))


def kendall(scores: Floats, people: Floats, variant: TauVariant = "b") -> float:
    """Kendall's tau: b corrects for ties, c also for scales of different size."""
    if not _vary(scores, people):
        return nan
    # SciPy's values, but several times faster where people use few numbers: resampling computes
    # tau ten thousand times.
    table = _contingency(scores, people)
    if table is None:
        return float(kendalltau(scores, people, variant=variant).statistic)
    surplus = _surplus(table)
    count = len(scores)
    if variant == "c":
        classes = min(table.shape)
        return float(2 * surplus * classes / (count**2 * (classes - 1)))
    # tau_b: surplus over the geometric mean of the numbers of pairs that each side orders strictly.
    ties = [(n * (n - 1) / 2).sum() for n in (table.sum(axis=0), table.sum(axis=1))]
    pairs = count * (count - 1) / 2
    return float(surplus / np.sqrt(pairs - ties[0]) / np.sqrt(pairs - ties[1]))


def concordant(scores: Floats, people: Floats) -> float:
    """Number of pairs that both sides order strictly and alike."""
    if not _vary(scores, people):
        return 0.0
    pairs = len(scores) * (len(scores) - 1) / 2
    strict = [pairs - tied_pairs(scores), pairs - tied_pairs(people)]
    table = _contingency(scores, people)
    if table is None:
        tau = float(kendalltau(scores, people).statistic)
        surplus = float(round(tau * float(np.sqrt(strict[0]) * np.sqrt(strict[1]))))
    else:
        surplus = _surplus(table)
    # concordant + discordant = pairs strict on both sides; concordant - discordant = surplus.
    strict_on_both = sum(strict) - pairs + tied_pairs(scores, people)
    return (strict_on_both + surplus) / 2


def tied_pairs(*columns: Floats | Ints) -> float:
    """Number of pairs that are tied in all columns."""
    _, counts = np.unique(np.stack(columns), axis=1, return_counts=True)
    return float((counts * (counts - 1) / 2).sum())


def _surplus(table: Floats) -> float:
    """Concordant minus discordant pairs."""
    # Compare each cell with the rows of lower scores: cells to its left agree, to its right do not.
    below = np.cumsum(table, axis=0) - table  # (scores, numbers)
    up_to = np.cumsum(below, axis=1)
    return float((table * ((up_to - below) - (up_to[:, -1:] - up_to))).sum())


def _contingency(scores: Floats, people: Floats) -> Floats | None:
    """(scores, people's numbers) counts of each combination, ascending; None if too large."""
    rows, row_of = np.unique(scores, return_inverse=True)
    columns, column_of = np.unique(people, return_inverse=True)
    if len(columns) > MOST_NUMBERS:
        return None
    flat = np.bincount(row_of * len(columns) + column_of, minlength=len(rows) * len(columns))
    table: Floats = flat.reshape(len(rows), len(columns)).astype(np.float64)
    return table


def pearson(scores: Floats, people: Floats) -> float:
    """Pearson's correlation."""
    if not _vary(scores, people):
        return nan
    return float(np.corrcoef(scores, people)[0, 1])


def spearman_p(scores: Floats, people: Floats) -> float:
    """Return SciPy's two-sided p-value of Spearman's correlation being 0."""
    return float(spearmanr(scores, people).pvalue) if _vary(scores, people) else nan


def kendall_p(scores: Floats, people: Floats, variant: TauVariant = "b") -> float:
    """Return SciPy's two-sided p-value of Kendall's tau being 0."""
    if not _vary(scores, people):
        return nan
    return float(kendalltau(scores, people, variant=variant).pvalue)


def pearson_p(scores: Floats, people: Floats) -> float:
    """Return SciPy's two-sided p-value of Pearson's correlation being 0."""
    return float(pearsonr(scores, people).pvalue) if _vary(scores, people) else nan


def _vary(scores: Floats, people: Floats) -> bool:
    return len(scores) > 1 and bool(np.ptp(scores)) and bool(np.ptp(people))


NO_PAIR = Failure("text", "the file of scores does not have this pair")
POSH, HARMONIC = "POSH", "HarmonicEval"


class PoshMeasure:
    """POSH; its store keeps every text's graph, so an interrupted run can resume.

    ``threshold`` is the fixed grade threshold for spans, by default the grade below which POSH's
    search treats an element as absent.
    """

    name = POSH

    def __init__(self, posh: PoSh, threshold: float | None = None) -> None:
        self.posh = posh
        self.threshold: float = PRESENT if threshold is None else threshold

    @property
    def signature(self) -> str:
        """POSH's own."""
        return self.posh.signature

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """Precision, recall and f1 of each pair; several references are joined into one text."""
        return [
            AxisScores(scores.precision, scores.recall, scores.f1, scores.failure)
            for scores in self._scores(pairs)
        ]

    def alerts(self, pairs: Sequence[TextPair]) -> list[Alerts | Failure]:
        """Each element's spans with its grade, 1 to 5."""
        return [
            scores.failure
            or {
                "mistakes": _spans_with_grades(scores, "precision", pair.generation),
                "omissions": _spans_with_grades(scores, "recall", pair.reference),
            }
            for pair, scores in zip(pairs, self._scores(pairs), strict=True)
        ]

    def _scores(self, pairs: Sequence[TextPair]) -> list[Scores]:
        if self.posh.store is not None:
            self.posh.reader.read([pair.generation for pair in pairs], keep=True)
        return self.posh.score([p.generation for p in pairs], [p.reference for p in pairs])


def _spans_with_grades(scores: Scores, direction: Direction, text: str) -> list[tuple[Span, float]]:
    shift = len(text) - len(text.lstrip())  # POSH strips texts: move spans to the original
    return [
        ((start + shift, end + shift), element.grade)
        for element in scores.elements
        if element.direction == direction and element.grade is not None
        for start, end in element.spans
    ]


class HarmonicMeasure:
    """HarmonicEval for captions; uses the pair's image, not its references.

    Mistakes are its correctness and omissions its completeness; the overall score replaces either
    if it is not among the criteria.
    """

    name = HARMONIC
    sees = True

    def __init__(self, harmonic: HarmonicEval) -> None:
        self.harmonic = harmonic
        self.signature = harmonic.signature

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        texts, images = [p.generation for p in pairs], [p.image for p in pairs]
        return [_harmonic_axes(scores) for scores in self.harmonic.score(texts, images)]


def _harmonic_axes(scores: HarmonicScores) -> AxisScores:
    if scores.overall is None:
        return AxisScores(failure=scores.failure)
    means = {name: scores.overall if mean is None else mean for name, mean in scores.means.items()}
    mistakes, omissions = (means.get(c, scores.overall) for c in ("correctness", "completeness"))
    return AxisScores(mistakes, omissions, scores.overall)


class ScoresFile:
    """Existing scores, looked up by generation and reference.

    Args:
        name: name in tables.
        rows: as ``posh-reward score`` writes them, or with columns named after the axes, or with a
            column ``score`` for all axes.
        source: the file's name in messages.

    Raises:
        InputError: a column is missing, a cell is not a number, or a pair has two scores.
    """

    def __init__(self, name: str, rows: Sequence[Row], source: str) -> None:
        self.name = name
        self.signature = ", ".join(dict.fromkeys(str(row.get("signature", source)) for row in rows))
        columns = ("generation", "reference")
        check_columns(rows, {f"a column {column!r}": column for column in columns}, source)
        present = {name for row in rows for name in row}
        if present.isdisjoint((*JUDGED, *JUDGED.values(), "score")):
            names = ", ".join((*JUDGED.values(), *JUDGED))
            raise InputError(f"{source} has none of the columns {names} and score")
        axes = [new if new in present else axis for axis, new in JUDGED.items()]
        self._scores: dict[tuple[object, object], AxisScores] = {}
        for place, row in enumerate(rows, start=1):
            where = f"{source}, row {place}: "
            failure = Failure("error", _reason(row["failure"])) if row.get("failure") else None
            scores = AxisScores(*axes_in(row, axes, "score", where), failure=failure)
            key = row.get("generation"), row.get("reference")
            if self._scores.setdefault(key, scores) != scores:
                raise InputError(f"{where}this pair has different scores in an earlier row")

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """Each pair's scores from the file; several references are joined into one text."""
        missing = AxisScores(failure=NO_PAIR)
        return [self._scores.get((pair.generation, pair.reference), missing) for pair in pairs]


def _reason(failure: object) -> str:
    """The reason in a cell: a text, or ``{"kind": ..., "detail": ...}``, which is JSON in CSV."""
    try:
        content = json.loads(failure) if isinstance(failure, str) else failure
    except (ValueError, RecursionError):
        content = failure
    return str(content["detail"] if isinstance(content, dict) and "detail" in content else failure)
