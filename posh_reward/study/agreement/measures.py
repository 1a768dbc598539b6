"""Metrics to measure: POSH and HarmonicEval on the fly, and files of scores made earlier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import nan

import numpy as np

from posh_reward.errors import InputError
from posh_reward.metrics.harmonic.harmonic_eval import HarmonicEval, HarmonicScores
from posh_reward.metrics.posh.posh import PoSh
from posh_reward.metrics.posh.questions import PRESENT
from posh_reward.study.agreement.judgment_files import check_columns
from posh_reward.study.agreement.localisation import Alerts
from posh_reward.study.agreement.metric_scores import AxisScores, ScoreColumn, TextPair, axes_in
from posh_reward.study.rows.score_axes import NAMES
from posh_reward.study.rows.tables import Row
from posh_reward.types import Direction, Failure, Scores, Span

NO_PAIR = Failure("text", "the file of scores does not have this pair")
POSH, HARMONIC = "POSH", "HarmonicEval"


class PoshMeasure:
    """POSH, with every text's graph kept in its store, so that a run that broke off goes on.

    ``threshold`` is the fixed one for spans, a grade; None: that below which POSH's search takes an
    element as absent.
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
        """Precision, recall and f1 of each pair; several references are one text."""
        return [
            AxisScores(scores.precision, scores.recall, scores.f1, scores.failure)
            for scores in self._scores(pairs)
        ]

    def alerts(self, pairs: Sequence[TextPair]) -> list[Alerts | Failure]:
        """Every element's spans with its grade, 1 to 5."""
        return [
            scores.failure
            if scores.failure is not None
            else {
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
    shift = len(text) - len(text.lstrip())  # POSH strips texts; spans point into the original
    return [
        ((start + shift, end + shift), element.grade)
        for element in scores.elements
        if element.direction == direction and element.grade is not None
        for start, end in element.spans
    ]


class HarmonicMeasure:
    """HarmonicEval of captions; it looks at the pair's image and not at its references.

    Correctness stands for mistakes and completeness for omissions, or the overall score for one of
    them that is not among the criteria.
    """

    name = HARMONIC
    sees = True

    def __init__(self, harmonic: HarmonicEval) -> None:
        self.harmonic = harmonic
        self.signature = harmonic.signature

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """One record for each pair, in order."""
        texts, images = [p.generation for p in pairs], [p.image for p in pairs]
        return [_harmonic_axes(scores) for scores in self.harmonic.score(texts, images)]


def _harmonic_axes(scores: HarmonicScores) -> AxisScores:
    if scores.overall is None:
        return AxisScores(failure=scores.failure)
    means = {name: scores.overall if mean is None else mean for name, mean in scores.means.items()}
    mistakes, omissions = (means.get(c, scores.overall) for c in ("correctness", "completeness"))
    return AxisScores(mistakes, omissions, scores.overall)


def criteria_column(scores: Sequence[HarmonicScores], signature: str) -> ScoreColumn:
    """The scores of texts as a column with an axis for each criterion besides ``overall``."""
    names = dict.fromkeys(name for each in scores for name in each.means)
    axes = {"overall": [each.overall for each in scores]}
    axes |= {name: [each.means.get(name) for each in scores] for name in names}
    failures = Counter(str(each.failure) for each in scores if each.failure is not None)
    arrays = {
        axis: np.array([nan if value is None else value for value in values], dtype=np.float64)
        for axis, values in axes.items()
    }
    return ScoreColumn(HARMONIC, arrays, dict(failures), signature)


class ScoresFile:
    """Scores that were made earlier, by generation and reference.

    Args:
        name: its name in tables.
        rows: as ``posh-reward score`` writes them; or with ``score`` for all three axes.
        source: the file's name in messages.

    Raises:
        InputError: a column is missing, a cell is not a number, or a pair has two scores.
    """

    def __init__(self, name: str, rows: Sequence[Row], source: str) -> None:
        self.name = name
        self.signature = ", ".join(dict.fromkeys(str(row.get("signature", source)) for row in rows))
        columns = ("generation", "reference")
        check_columns(rows, {f"a column {column!r}": column for column in columns}, source)
        if not any(axis in row for row in rows for axis in (*NAMES, "score")):
            raise InputError(f"{source} has none of the columns {', '.join(NAMES)} and score")
        self._scores: dict[tuple[object, object], AxisScores] = {}
        for place, row in enumerate(rows, start=1):
            self._add(row, f"{source}, row {place}")

    def _add(self, row: Row, where: str) -> None:
        try:
            axes = axes_in(row, NAMES, "score")
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        why = row.get("failure")
        scores = AxisScores(*axes, failure=Failure("error", str(why)) if why else None)
        key = row.get("generation"), row.get("reference")
        if self._scores.setdefault(key, scores) != scores:
            raise InputError(f"{where}: this pair has other scores in an earlier row")

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """Each pair's scores, if the file has them; several references are one text."""
        missing = AxisScores(failure=NO_PAIR)
        return [self._scores.get((pair.generation, pair.reference), missing) for pair in pairs]
