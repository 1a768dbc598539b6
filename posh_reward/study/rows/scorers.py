"""Metrics over the rows of a table: POSH, HarmonicEval and rubrics, each with its result rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from posh_reward.errors import InputError
from posh_reward.metrics.harmonic.criteria import ANSWERS, IMAGE_CRITERIA, check_task
from posh_reward.models.asker import DOUBTFUL
from posh_reward.study.rows.engine import TableSettings, batches, go_through
from posh_reward.study.rows.posh_rows import elements_in, failure_columns, scored_row, scores_of
from posh_reward.study.rows.standings import POSH, Board, Tally
from posh_reward.study.rows.table_items import TableItem
from posh_reward.study.rows.tables import Row
from posh_reward.types import Scores

if TYPE_CHECKING:
    from posh_reward.metrics.harmonic.harmonic_eval import HarmonicEval, HarmonicScores
    from posh_reward.metrics.rubric.points import MetricPoints, RubricScores
    from posh_reward.metrics.rubric.rubric import RubricMetric
    from posh_reward.metrics.rubric.rubric_judge import RubricJudge


class Metric(Protocol):
    """A metric of pairs, such as ``PoSh``."""

    @property
    def signature(self) -> str:
        """Everything that another run needs to reproduce the scores; its name comes first."""

    def score(
        self, generations: Sequence[str | None], references: Sequence[str | None], /
    ) -> list[Scores]:
        """One record for each pair, in order.

        A metric that ``wants_images`` is given them too, as ``PoSh`` with a witness is.
        """


def wants_images(metric: object) -> bool:
    """True if a metric needs the images, too."""
    return bool(getattr(metric, "wants_images", False))


class PoshRows:
    """Pairs -> rows with POSH's scores, and with ``elements`` each one's grade and place."""

    unit = "pair"
    board = POSH

    def __init__(self, metric: Metric, *, elements: bool = False) -> None:
        self.metric = metric
        self.elements = elements

    @property
    def signature(self) -> str:
        """The metric's."""
        return self.metric.signature

    @property
    def wants_images(self) -> bool:
        """True with a witness, who looks at images."""
        return wants_images(self.metric)

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        """One scored row for each pair."""
        lists: list[list[Any]] = [
            [item.texts[name] for item in items] for name in ("generation", "reference")
        ]
        if self.wants_images:
            lists.append([item.content for item in items])
        scores = self.metric.score(*lists)
        return [
            scored_row(item, each, elements=self.elements)
            for item, each in zip(items, scores, strict=True)
        ]

    def has_question(self, row: Row) -> bool:
        """True if the pair has elements: one without says nothing of the judge."""
        return elements_in(row) > 0

    @property
    def optional(self) -> Mapping[str, bool]:
        """``elements``: True with ``--elements``."""
        return {"elements": self.elements}

    def check(self, row: Row) -> None:
        """Raise ``InputError`` if it is not a row of POSH's scores."""
        scores_of(row)


def score_table(
    metric: Metric, source: str, output: str, how: TableSettings, *, elements: bool = False
) -> Tally:
    """Score every pair of a table into a file, as ``go_through``.

    Returns totals over all rows of the output, including those of earlier runs.
    """
    return score_work(PoshRows(metric, elements=elements), source, output, how)


def score_pairs(
    metric: Metric, items: Iterator[TableItem], *, batch: int, elements: bool
) -> Iterator[list[Row]]:
    """Scored rows, a batch at a time; ``JudgeError`` if the judge cannot work."""
    return batches(PoshRows(metric, elements=elements), items, batch)


RESERVED = frozenset(
    "id model image generation reference question total share failure_kind failure repaired given "
    "signature".split()
)
"""Columns of a rubric's rows, which none of its metrics can be called."""


class SiblingRows(ABC):
    """Rows of any of the siblings.

    Args:
        signature: the metric's.
        wants_images: True if its judge looks at images.
        details: the column with what the result rests on.
        names: columns with scores.
    """

    unit = "text"
    optional: Mapping[str, bool] = {}

    def __init__(self, signature: str, wants_images: bool, details: str, *names: str) -> None:
        self.signature = signature
        self.wants_images = wants_images
        self._columns = ("signature", *names, "failure_kind", "failure", details)

    @abstractmethod
    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        """One result row for each item, in order."""

    def has_question(self, row: Row) -> bool:
        """True unless a text or an image cannot be used."""
        return bool(row["failure_kind"] != "text")

    def check(self, row: Row) -> None:
        """Raise ``InputError`` if it is not a row of this metric."""
        missing = [name for name in self._columns if name not in row]
        if missing:
            raise InputError(f"it lacks {', '.join(missing)}")


HARMONIC_SCALE = "Scores are 1 to 5, higher is better; overall is the weighted mean of the criteria"


class HarmonicRows(SiblingRows):
    """Texts about images -> rows with HarmonicEval's scores; some tasks have a ``question``."""

    def __init__(self, metric: HarmonicEval, task: str = "captioning") -> None:
        names = ("overall", *metric.criteria)
        looks = any(each in IMAGE_CRITERIA for each in metric.criteria)
        super().__init__(metric.signature_for(task), looks, "criteria", *names)
        self.board = Board(names, "overall", HARMONIC_SCALE, self.unit, doubtful_criteria)
        self.metric = metric
        self.task = task
        self.texts = harmonic_texts(task)

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        """One scored row for each text."""
        texts, images = column(items, "generation"), [item.content for item in items]
        questions = column(items, "question") if "question" in self.texts else None
        scores = self.metric.score(texts, images, self.task, questions=questions)
        return [self._row(item, each) for item, each in zip(items, scores, strict=True)]

    def _row(self, item: TableItem, scores: HarmonicScores) -> Row:
        return {
            **item.head,
            "overall": scores.overall,
            **{name: scores.means.get(name) for name in self.metric.criteria},
            **failure_columns(scores.failure),
            "criteria": [
                {**asdict(each), **failure_columns(each.failure)} for each in scores.criteria
            ],
            "signature": scores.signature,
        }


def doubtful_criteria(row: Mapping[str, Any]) -> str | None:
    """Name the criteria of which the reply was more likely no score than one."""
    masses = {each["criterion"]: each.get("mass") for each in row["criteria"]}
    names = [name for name, mass in masses.items() if mass is not None and mass < DOUBTFUL]
    return f"the reply is more likely no score than one, for {', '.join(names)}" if names else None


def harmonic_texts(task: str) -> tuple[str, ...]:
    """The texts that HarmonicEval needs in a task; ``InputError`` if there is no such task."""
    return ("generation", "question") if check_task(task) in ANSWERS else ("generation",)


class RubricRows(SiblingRows):
    """Texts and references -> rows with a rubric's points.

    ``questions`` says whether the table has a column with what each text answers.

    Raises:
        InputError: a metric of the rubric is called like a column that rows have anyway.
    """

    def __init__(self, judge: RubricJudge, *, questions: bool = False) -> None:
        metrics = judge.rubric.metrics
        clashes = [metric.name for metric in metrics if metric.name in RESERVED]
        if clashes:
            raise InputError(
                f"rows have a column {clashes[0]!r} anyway: rename the rubric's metric"
            )
        ranges = ", ".join(f"{each.name} {each.lowest} to {each.highest}" for each in metrics)
        whole = f"total {judge.rubric.lowest} to {judge.rubric.highest}"
        names = ("total", *(metric.name for metric in metrics))
        # No images: the reference says what is in them.
        super().__init__(judge.signature, False, "given", *names)
        explanation = f"Scores are points, higher is better: {whole}, {ranges}"
        self.board = Board(names, "total", explanation, self.unit)
        self.judge = judge
        self.questions = questions

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        """One scored row for each text."""
        questions = column(items, "question") if self.questions else None
        texts, references = column(items, "generation"), column(items, "reference")
        scores = self.judge.score(texts, references, questions)
        return [self._row(item, each) for item, each in zip(items, scores, strict=True)]

    def _row(self, item: TableItem, scores: RubricScores) -> Row:
        metrics = self.judge.rubric.metrics
        return {
            **item.head,
            "total": scores.total,
            "share": scores.share,
            **{metric.name: scores.points.get(metric.name) for metric in metrics},
            **failure_columns(scores.failure),
            "repaired": scores.repaired,
            "given": [
                _points_row(*each) for each in zip(metrics, scores.metric_points, strict=False)
            ],
            "signature": scores.signature,
        }


def score_work(
    work: PoshRows | HarmonicRows | RubricRows, source: str, output: str, how: TableSettings
) -> Tally:
    """Score a table into a file, as ``go_through``; returns totals over all rows of the output."""
    tally = Tally(work.board)
    go_through(work, source, output, how, tally)
    return tally


def column(items: Sequence[TableItem], name: str) -> list[Any]:
    """One text of each item."""
    return [item.texts[name] for item in items]


def _points_row(metric: RubricMetric, points: MetricPoints) -> Row:
    """The points of one metric, with what a page needs to show them."""
    return {
        "metric": metric.name,
        "title": metric.title,
        "points": points.points,
        "lowest": metric.lowest,
        "highest": metric.highest,
        "feedback": points.feedback,
    }
