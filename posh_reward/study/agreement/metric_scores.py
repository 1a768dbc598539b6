"""Texts that people judged, and metrics that score them: POSH, HarmonicEval, files of scores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from math import isinf, isnan
from typing import Protocol, TypeVar

import numpy as np

from posh_reward.errors import InputError
from posh_reward.graph.reader import original_places
from posh_reward.metrics.metric import join_references
from posh_reward.other_metrics.harmonic_eval import HarmonicEval, HarmonicScores
from posh_reward.posh.means import harmonic_mean, read_counted_score, score_kind
from posh_reward.posh.names import MIN_PRESENT_GRADE
from posh_reward.posh.posh import PoSh
from posh_reward.process.progress import progress_bar
from posh_reward.provenance import Origins
from posh_reward.study.agreement.judgment_files import check_columns
from posh_reward.tables.statistics import Floats
from posh_reward.tables.tables import AXIS_SCORES, Row, parse_number
from posh_reward.types import Direction, Failure, Kind, Scores, Span

PAIRS_PER_CALL = 128  # of a metric
KIND_PLURALS: Mapping[Kind, str] = {
    "entity": "entities", "attribute": "attributes", "relation": "relations",
}  # fmt: skip
NO_SCORE = Failure("text", "the table has no score here")
NO_PAIR = Failure("text", "the file of scores does not have this pair")

Alerts = Mapping[str, Sequence[tuple[Span, float]]]
"""Axis -> scored spans, lower is likelier an error: mistakes in the generation, omissions in the
reference."""


@dataclass(frozen=True, slots=True)
class TextPair:
    """A text that people judged, and its references; equal pairs are scored once."""

    generation: str
    references: tuple[str, ...]
    image_id: str | None = None
    # Any form that ``models.prompt_images.load_prompt_image`` accepts.
    image: object = field(default=None, compare=False, repr=False)
    # Its row in the file, which may have columns of scores; of two texts, those end in 1 or 2.
    row: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)
    side: str = field(default="", compare=False)

    @property
    def reference(self) -> str:
        """The references as one text, for metrics that take only one."""
        return join_references(self.references)


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
    """Any metric: POSH, a baseline, a file of scores.

    ``sees = True`` if it needs images; ``weighs_corpus = True`` if all pairs count for each score.
    """

    @property
    def name(self) -> str: ...

    @property
    def signature(self) -> str: ...

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


def score_texts(measure: Measure, pairs: Sequence[TextPair], quiet: bool = False) -> ScoreColumn:
    size = len(pairs) if getattr(measure, "weighs_corpus", False) else PAIRS_PER_CALL
    scores = score_in_batches(measure.name, measure.score, pairs, quiet, size)
    return build_score_column(measure.name, scores, measure.signature)


Result = TypeVar("Result")


def score_in_batches(
    name: str,
    function: Callable[[Sequence[TextPair]], Sequence[Result]],
    pairs: Sequence[TextPair],
    quiet: bool,
    size: int = PAIRS_PER_CALL,
) -> list[Result]:
    # Sorted by reference, so that a reference's graph is still cached for its next text.
    queue = sorted(dict.fromkeys(pairs), key=lambda pair: pair.reference)
    results: dict[TextPair, Result] = {}
    with progress_bar(name, len(queue), "pair", quiet) as bar:
        for start in range(0, len(queue), max(size, 1)):
            batch = queue[start : start + size]
            results.update(zip(batch, function(batch), strict=True))
            bar.update(len(batch))
    return [results[pair] for pair in pairs]


def build_score_column(name: str, scores: Sequence[AxisScores], signature: str) -> ScoreColumn:
    axes = {}
    for axis in AXIS_SCORES:
        values = [getattr(each, axis) for each in scores]
        axes[axis] = np.array(values, dtype=np.float64)  # which makes nan of None
    failures = Counter(str(each.failure) for each in scores if each.failure is not None)
    return ScoreColumn(name, axes, dict(failures), signature)


def read_score_column(name: str, texts: Sequence[TextPair]) -> ScoreColumn:
    """Read scores from the rows: columns ``NAME_mistakes``, ..., or ``NAME`` for all axes.

    In rows of two texts each column name ends in 1 or 2.
    """
    missing = AxisScores(failure=NO_SCORE)
    scores = []
    for text in texts:
        columns = [f"{name}_{axis}{text.side}" for axis in AXIS_SCORES]
        where = f"score of {text.generation[:60]!r}: "
        found = AxisScores(*axes_in(text.row, columns, name + text.side, where))
        if found == AxisScores():
            found = missing
        scores.append(found)
    if scores.count(missing) == len(scores):
        side = texts[0].side if texts else ""
        columns = [f"{name}_{axis}{side}" for axis in AXIS_SCORES]
        raise InputError(
            f"there are no scores {name!r}: the rows need a column {name + side!r}, or "
            f"{', '.join(map(repr, columns))}"
        )
    return build_score_column(name, scores, f"column {name}")


def axes_in(
    row: Mapping[str, object], columns: Sequence[str], for_all: str, where: str = ""
) -> tuple[float | None, float | None, float | None]:
    """Read the numbers of a row's columns; the column ``for_all`` replaces missing ones."""
    common = number_in(row, for_all, where)
    numbers: list[float | None] = []
    for column in columns:
        number = number_in(row, column, where)
        numbers.append(common if number is None else number)
    mistakes, omissions, overall = numbers
    return mistakes, omissions, overall


def number_in(row: Mapping[str, object], column: str, where: str = "") -> float | None:
    """Read a cell as a number; None if it is missing, empty or NaN."""
    value = row.get(column)
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool | list | dict):
            raise ValueError
        number = parse_number(str(value))
    except ValueError:
        raise InputError(f"{where}{column} is {str(value)[:40]!r}, not a number") from None
    if isinf(number):  # means, differences and correlations would be undefined
        raise InputError(f"{where}{column} is {str(value)[:40]!r}, not a finite number")
    if isnan(number):
        return None
    return number


class PoshMeasure:
    """POSH; its store keeps every text's graph, so an interrupted run can resume.

    ``threshold`` is the fixed grade threshold for spans, by default the grade below which POSH's
    search treats an element as absent.
    """

    name = "POSH"

    def __init__(self, posh: PoSh, threshold: float | None = None) -> None:
        self.posh = posh
        self.scored: dict[TextPair, Scores] = {}  # of the pairs that were scored
        self.threshold: float = MIN_PRESENT_GRADE
        if threshold is not None:
            self.threshold = threshold

    @property
    def signature(self) -> str:
        return self.posh.signature

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """Precision, recall and f1 of each pair; several references are joined into one text.

        A text without elements has no precision: its 1 says that it is silent, not that it is true.
        """
        results = []
        for scores in self.find_scores(pairs):
            precision = read_counted_score(scores, "precision")
            recall = read_counted_score(scores, "recall")
            results.append(AxisScores(precision, recall, scores.f1, scores.failure))
        return results

    def alerts(self, pairs: Sequence[TextPair]) -> list[Alerts | Failure]:
        """Each element's spans with its grade, 1 to 5."""
        alerts: list[Alerts | Failure] = []
        for pair, scores in zip(pairs, self.find_scores(pairs), strict=True):
            if scores.failure:
                alerts.append(scores.failure)
                continue
            mistakes = _spans_with_grades(scores, "precision", pair.generation)
            omissions = _spans_with_grades(scores, "recall", pair.reference)
            alerts.append({"mistakes": mistakes, "omissions": omissions})
        return alerts

    def find_scores(self, pairs: Sequence[TextPair]) -> list[Scores]:
        """Return the pairs' scores with their elements; POSH is asked about each pair once."""
        missing = [pair for pair in pairs if pair not in self.scored]
        if missing:
            generations = [pair.generation for pair in missing]
            if self.posh.store is not None:
                self.posh.graph_reader.read(generations, keep=True)
            found = self.posh.score(generations, [pair.reference for pair in missing])
            self.scored.update(zip(missing, found, strict=True))
        return [self.scored[pair] for pair in pairs]


class ContradictedShare:
    """Minus the share of sentences that the reference contradicts, for mistakes alone."""

    name = "POSH contradicted"

    def __init__(self, posh: PoshMeasure) -> None:
        self._posh = posh

    @property
    def signature(self) -> str:
        return self._posh.signature

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        results = []
        for scores in self._posh.find_scores(pairs):
            share = scores.contradicted_share
            mistakes = None if share is None else -share
            results.append(AxisScores(mistakes, failure=scores.failure))
        return results


class KindScores:
    """POSH's precision, recall and f1 over elements of one kind alone.

    A text without such elements has no score. Failures are POSH's own, which its line counts.
    """

    def __init__(self, posh: PoshMeasure, kind: Kind) -> None:
        self._posh, self._kind = posh, kind
        self.name = f"POSH {KIND_PLURALS[kind]}"

    @property
    def signature(self) -> str:
        return self._posh.signature

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        results = []
        for scores in self._posh.find_scores(pairs):
            if scores.failure:
                results.append(AxisScores())
                continue
            precision = score_kind(scores, "precision", self._kind)
            recall = score_kind(scores, "recall", self._kind)
            results.append(AxisScores(precision, recall, harmonic_mean(precision, recall)))
        return results


def _spans_with_grades(scores: Scores, direction: Direction, text: str) -> list[tuple[Span, float]]:
    places = original_places(text)
    found = []
    for element in scores.elements:
        if element.direction == direction and element.grade is not None:
            for start, end in element.spans:
                found.append(((places[start], places[end]), element.grade))
    return found


class HarmonicMeasure:
    """HarmonicEval for captions; uses the pair's image, not its references.

    Mistakes are its correctness and omissions its completeness; the overall score replaces either
    if it is not among the criteria.
    """

    name = "HarmonicEval"
    sees = True

    def __init__(self, harmonic: HarmonicEval) -> None:
        self.harmonic = harmonic
        self.signature = harmonic.signature

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        texts = [pair.generation for pair in pairs]
        images = [pair.image for pair in pairs]
        return list(map(_harmonic_axes, self.harmonic.score(texts, images)))


def _harmonic_axes(scores: HarmonicScores) -> AxisScores:
    if scores.overall is None:
        return AxisScores(failure=scores.failure)
    means = {name: mean for name, mean in scores.means.items() if mean is not None}
    mistakes = means.get("correctness", scores.overall)
    omissions = means.get("completeness", scores.overall)
    return AxisScores(mistakes, omissions, scores.overall)


class ScoresFile:
    """Existing scores, looked up by generation and reference."""

    def __init__(self, name: str, rows: Sequence[Row], source: str) -> None:
        self.name = name
        self.signature = ", ".join(dict.fromkeys(str(row.get("signature", source)) for row in rows))
        origins = Origins()
        for row in rows:
            origins.add(row)
        if len(metrics := set(origins.signatures.values())) > 1:
            raise InputError(
                f"{source} has scores of different metrics ({', '.join(sorted(metrics))}): give "
                "each of them a --scores of its own"
            )
        columns = ("generation", "reference")
        check_columns(rows, {f"a column {column!r}": column for column in columns}, source)
        present = set(chain.from_iterable(rows))
        if present.isdisjoint((*AXIS_SCORES, *AXIS_SCORES.values(), "score")):
            names = ", ".join((*AXIS_SCORES.values(), *AXIS_SCORES))
            raise InputError(f"{source} has none of the columns {names} and score")
        axes = []
        for axis, new in AXIS_SCORES.items():
            axes.append(new if new in present else axis)
        self._scores: dict[tuple[object, object], AxisScores] = {}
        for place, row in enumerate(rows, start=1):
            where = f"{source}, row {place}: "
            failure = None
            if row.get("failure"):
                failure = Failure("error", _failure_reason(row["failure"]))
            scores = AxisScores(*axes_in(row, axes, "score", where), failure=failure)
            key = row.get("generation"), row.get("reference")
            if self._scores.setdefault(key, scores) != scores:
                raise InputError(f"{where}this pair has different scores in an earlier row")

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """Each pair's scores from the file; several references are joined into one text."""
        missing = AxisScores(failure=NO_PAIR)
        return [self._scores.get((pair.generation, pair.reference), missing) for pair in pairs]


def _failure_reason(failure: object) -> str:
    """The reason in a cell: a text, or ``{"kind": ..., "detail": ...}``, which is JSON in CSV."""
    content = failure
    if isinstance(failure, str):
        with suppress(ValueError, RecursionError):
            content = json.loads(failure)
    if isinstance(content, dict) and "detail" in content:
        return str(content["detail"])
    return str(failure)
