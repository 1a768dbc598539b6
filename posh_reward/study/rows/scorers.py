"""Metrics over the rows of a table: POSH, HarmonicEval and rubrics, each with its result rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from posh_reward.errors import InputError
from posh_reward.metrics.harmonic.criteria import ANSWERS, IMAGE_CRITERIA, check_task
from posh_reward.models.asker import DOUBTFUL
from posh_reward.study.rows.engine import RowScorer, TableSettings, go_through
from posh_reward.study.rows.posh_rows import elements_in, failure_columns, scored_row, scores_of
from posh_reward.study.rows.standings import POSH, Board, Tally
from posh_reward.study.rows.table_items import TableItem
from posh_reward.study.rows.tables import Row
from posh_reward.types import Scores

if TYPE_CHECKING:
    from posh_reward.metrics.harmonic.harmonic_eval import HarmonicEval, HarmonicScores
    from posh_reward.metrics.rubric.rubric_judge import RubricJudge, RubricScores


class Metric(Protocol):
    """A metric of pairs, such as ``PoSh``."""

    @property
    def signature(self) -> str:
        """Everything another run needs to reproduce the scores; the metric's name comes first."""

    def score(
        self, generations: Sequence[str | None], references: Sequence[str | None], /
    ) -> list[Scores]:
        """One record per pair, in order; with ``wants_images``, images are passed third."""


def wants_images(metric: object) -> bool:
    return bool(getattr(metric, "wants_images", False))


class PoshRows(RowScorer):
    """Score pairs with POSH; ``elements`` adds each element's grade and spans to the rows."""

    unit = "pair"
    board = POSH

    def __init__(self, metric: Metric, *, elements: bool = False) -> None:
        super().__init__(lambda: metric.signature, wants_images(metric))
        self.metric = metric
        self.optional = {"elements": elements}

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        """One scored row per pair."""
        columns = [column(items, name) for name in ("generation", "reference")]
        if self.wants_images:
            columns.append([item.content for item in items])
        scores = self.metric.score(*columns)
        return [
            scored_row(item, each, **self.optional)
            for item, each in zip(items, scores, strict=True)
        ]

    def has_question(self, row: Row) -> bool:
        """Return True if the pair has elements: without any, the judge is asked nothing."""
        return elements_in(row) > 0

    def check(self, row: Row) -> None:
        """Raise ``InputError`` if this is not a row of POSH's scores."""
        scores_of(row)


def score_table(
    metric: Metric, source: str, output: str, how: TableSettings, *, elements: bool = False
) -> Tally:
    """Score every pair of a table into a file, as ``go_through``; return totals over its rows."""
    return score_work(PoshRows(metric, elements=elements), source, output, how)


FAILURE = ("failure_kind", "failure")
RESERVED = frozenset(
    "id model image generation reference question total share failure_kind failure repaired given "
    "signature".split()
)
"""Columns of a rubric's rows, which none of its metrics may be named after."""


HARMONIC_SCALE = "Scores are 1 to 5, higher is better; overall is the weighted mean of the criteria"


class HarmonicRows(RowScorer):
    """Score texts with HarmonicEval; some tasks also need a column ``question``."""

    def __init__(self, metric: HarmonicEval, task: str = "captioning") -> None:
        names = ("overall", *metric.criteria)
        looks = any(each in IMAGE_CRITERIA for each in metric.criteria)
        signature = partial(metric.signature_for, task)
        super().__init__(signature, looks, *names, *FAILURE, "criteria")
        self.board = Board(names, "overall", HARMONIC_SCALE, self.unit, doubtful_criteria)
        self.metric = metric
        self.task = task
        needs_question = check_task(task) in ANSWERS
        self.texts = ("generation", "question") if needs_question else ("generation",)

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        """One scored row per text."""
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
    """Name the criteria whose reply was more likely no score than one; None if there are none."""
    masses = {each["criterion"]: each.get("mass") for each in row["criteria"]}
    names = [name for name, mass in masses.items() if mass is not None and mass < DOUBTFUL]
    return f"the reply is more likely no score than one, for {', '.join(names)}" if names else None


class RubricRows(RowScorer):
    """Score texts against references with a rubric; ``questions``: the table has their column.

    Raises:
        InputError: a metric of the rubric has the name of a column that rows have anyway.
    """

    def __init__(self, judge: RubricJudge, *, questions: bool = False) -> None:
        metrics = judge.rubric.metrics
        clashes = [metric.name for metric in metrics if metric.name in RESERVED]
        if clashes:
            raise InputError(
                f"rows already have a column {clashes[0]!r}: rename the rubric's metric"
            )
        ranges = ", ".join(f"{each.name} {each.lowest} to {each.highest}" for each in metrics)
        whole = f"total {judge.rubric.lowest} to {judge.rubric.highest}"
        names = ("total", *(metric.name for metric in metrics))
        # No images: the reference says what is in them.
        super().__init__(lambda: judge.signature, False, *names, *FAILURE, "given")
        explanation = f"Scores are points, higher is better: {whole}, {ranges}"
        self.board = Board(names, "total", explanation, self.unit)
        self.judge = judge
        self.questions = questions

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        """One scored row per text."""
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
            "given": [  # with what a page needs to show the points
                {"metric": metric.name, "title": metric.title, "points": each.points,
                 "lowest": metric.lowest, "highest": metric.highest, "feedback": each.feedback}
                for metric, each in zip(metrics, scores.metric_points, strict=False)
            ],
            "signature": scores.signature,
        }  # fmt: skip


def score_work(
    work: PoshRows | HarmonicRows | RubricRows, source: str, output: str, how: TableSettings
) -> Tally:
    """Score a table into a file, as ``go_through``; return totals over the output's rows."""
    tally = Tally(work.board)
    go_through(work, source, output, how, tally.add)
    return tally


def column(items: Sequence[TableItem], name: str) -> list[Any]:
    return [item.texts[name] for item in items]
