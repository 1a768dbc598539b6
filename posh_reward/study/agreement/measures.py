"""What gives scores: POSH on the fly, and files of scores made earlier."""

from __future__ import annotations

from collections.abc import Sequence

from posh_reward.errors import InputError
from posh_reward.metrics.posh.posh import PoSh
from posh_reward.metrics.posh.questions import PRESENT
from posh_reward.study.agreement.items import Given, Pair, number
from posh_reward.study.agreement.localise import Alerts
from posh_reward.study.agreement.sources import check_columns
from posh_reward.study.rows.posh_rows import NAMES
from posh_reward.study.rows.tables import Row
from posh_reward.types import Direction, Failure, Scores, Span

NOT_THERE = Failure("text", "the file of scores does not have this pair")
POSH = "POSH"


class PoshMeasure:
    """POSH, with every text's graph kept in its store, so that a run that broke off goes on.

    Args:
        posh: the metric.
        threshold: the fixed one for spans, a grade; None: the one below which POSH itself takes an
            element as absent when it looks for identifiers.
    """

    name = POSH

    def __init__(self, posh: PoSh, threshold: float | None = None) -> None:
        self.posh = posh
        self.threshold: float = PRESENT if threshold is None else threshold

    @property
    def signature(self) -> str:
        """POSH's own."""
        return self.posh.signature

    def score(self, pairs: Sequence[Pair]) -> list[Given]:
        """Precision, recall and f1 of each pair."""
        return [
            Given(scores.precision, scores.recall, scores.f1, scores.failure)
            for scores in self.elements(pairs)
        ]

    def alerts(self, pairs: Sequence[Pair]) -> list[Alerts | Failure]:
        """Every element's spans with its grade, 1 to 5."""
        return [
            scores.failure
            if scores.failure is not None
            else {
                "mistakes": _graded(scores, "precision", pair.generation),
                "omissions": _graded(scores, "recall", pair.reference),
            }
            for pair, scores in zip(pairs, self.elements(pairs), strict=True)
        ]

    def elements(self, pairs: Sequence[Pair]) -> list[Scores]:
        """The whole record of each pair, with its elements."""
        if self.posh.store is not None:
            self.posh.reader.read([pair.generation for pair in pairs], keep=True)
        return self.posh.score([p.generation for p in pairs], [p.reference for p in pairs])


def _graded(scores: Scores, direction: Direction, text: str) -> list[tuple[Span, float]]:
    """Spans into the text as it was given, which POSH strips."""
    shift = len(text) - len(text.lstrip())
    return [
        ((start + shift, end + shift), element.grade)
        for element in scores.elements
        if element.direction == direction and element.grade is not None
        for start, end in element.spans
    ]


class ScoresFile:
    """Scores that were made earlier, found by generation and reference.

    Args:
        name: what tables call them.
        rows: ``generation``, ``reference`` and ``mistakes``, ``omissions``, ``overall``, as
            ``posh-reward score`` writes them; or ``score`` for all three.
        source: what messages call the file.

    Raises:
        InputError: a column is missing, a cell is not a number, or a pair has two scores.
    """

    def __init__(self, name: str, rows: Sequence[Row], source: str) -> None:
        self.name = name
        self.signature = ", ".join(dict.fromkeys(str(row.get("signature", source)) for row in rows))
        check_columns(rows, {"a column 'generation'": "generation",
                             "a column 'reference'": "reference"}, source)  # fmt: skip
        if not any(axis in row for row in rows for axis in (*NAMES, "score")):
            raise InputError(f"{source} has none of the columns {', '.join(NAMES)} and score")
        self._known: dict[tuple[object, object], Given] = {}
        for place, row in enumerate(rows, start=1):
            self._add(row, f"{source}, row {place}")

    def _add(self, row: Row, where: str) -> None:
        try:
            shared = number(row, "score")
            found = [number(row, axis) for axis in NAMES]
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        mistakes, omissions, overall = (shared if each is None else each for each in found)
        why = row.get("failure")
        failure = Failure("error", str(why)) if why else None
        given = Given(mistakes, omissions, overall, failure)
        key = row.get("generation"), row.get("reference")
        if self._known.setdefault(key, given) != given:
            raise InputError(f"{where}: this pair has other scores in an earlier row")

    def score(self, pairs: Sequence[Pair]) -> list[Given]:
        """Each pair's scores, if the file has them."""
        missing = Given(failure=NOT_THERE)
        return [self._known.get((pair.generation, pair.reference), missing) for pair in pairs]
