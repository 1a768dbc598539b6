"""Metrics over the rows of a table: POSH, HarmonicEval and rubrics, each with its result rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from posh_reward.errors import InputError
from posh_reward.metrics.harmonic_eval import ANSWERS, IMAGE_CRITERIA, check_task
from posh_reward.metrics.records import fields_of_record
from posh_reward.models.labels import DOUBTFUL
from posh_reward.study.rows.engine import RowScorer, TableSettings, go_through
from posh_reward.study.rows.standings import POSH, Board, Tally
from posh_reward.study.rows.table_items import TableItem
from posh_reward.study.rows.tables import TEXTS, Row
from posh_reward.types import Scores

if TYPE_CHECKING:
    from posh_reward.metrics.harmonic_eval import HarmonicEval
    from posh_reward.metrics.rubric_judge import RubricJudge


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

    record = "posh"
    unit = "pair"
    board = POSH

    def __init__(
        self, metric: Metric, *, elements: bool = False, check: Callable[[], None] | None = None
    ) -> None:
        super().__init__(lambda: metric.signature, wants_images(metric))
        self.metric = metric
        self.check_metric = check
        self.optional = {"elements": elements}

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        if self.check_metric is not None:
            self.check_metric()
            self.check_metric = None
        columns = [column(items, name) for name in ("generation", "reference")]
        if self.wants_images:
            columns.append([item.content for item in items])
        rows = list(map(self.row, items, self.metric.score(*columns)))
        for row in rows if not self.optional["elements"] else ():
            del row["elements"]
        return rows

    def has_question(self, row: Row) -> bool:
        """Return True if the pair has elements: without any, the judge is asked nothing."""
        return bool(row["generation_elements"] + row["reference_elements"])


def score_table(
    metric: Metric,
    source: str,
    output: str,
    how: TableSettings,
    *,
    elements: bool = False,
    check: Callable[[], None] | None = None,
) -> Tally:
    """Score every pair of a table into a file, as ``go_through``; return totals over its rows.

    ``check`` is called once the table is known to be readable; it raises if the metric is unfit.
    """
    return score_work(PoshRows(metric, elements=elements, check=check), source, output, how)


HARMONIC_SCALE = "Scores are 1 to 5, higher is better; overall is the weighted mean of the criteria"


class HarmonicRows(RowScorer):
    """Score texts with HarmonicEval; some tasks also need a column ``question``."""

    record = "harmonic"

    def __init__(self, metric: HarmonicEval, task: str = "captioning") -> None:
        names = ("overall", *metric.criteria)
        looks = any(each in IMAGE_CRITERIA for each in metric.criteria)
        signature = partial(metric.signature_for, task)
        super().__init__(signature, looks, *metric.criteria)
        self.board = Board(names, "overall", HARMONIC_SCALE, self.unit, doubtful_criteria)
        self.metric = metric
        self.task = task
        needs_question = check_task(task) in ANSWERS
        self.texts = ("generation", "question") if needs_question else ("generation",)

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        texts, images = column(items, "generation"), [item.content for item in items]
        questions = column(items, "question") if "question" in self.texts else None
        scores = self.metric.score(texts, images, self.task, questions=questions)
        none = dict.fromkeys(self.metric.criteria)
        return [
            self.row(item, each, **none | each.means)
            for item, each in zip(items, scores, strict=True)
        ]


def doubtful_criteria(row: Mapping[str, Any]) -> str | None:
    """Name the criteria whose reply was more likely no score than one; None if there are none."""
    masses = {each["criterion"]: each.get("mass") for each in row["criteria"]}
    names = [name for name, mass in masses.items() if mass is not None and mass < DOUBTFUL]
    return f"the reply is more likely no score than one, for {', '.join(names)}" if names else None


class RubricRows(RowScorer):
    """Score texts against references with a rubric; ``questions``: the table has their column."""

    record = "rubric"

    def __init__(self, judge: RubricJudge, *, questions: bool = False) -> None:
        metrics = judge.rubric.metrics
        reserved = TEXTS | fields_of_record(self.record).keys()
        clashes = [metric.name for metric in metrics if metric.name in reserved]
        if clashes:
            raise InputError(
                f"rows already have a column {clashes[0]!r}: rename the rubric's metric"
            )
        ranges = ", ".join(f"{each.name} {each.lowest} to {each.highest}" for each in metrics)
        whole = f"total {judge.rubric.lowest} to {judge.rubric.highest}"
        names = ("total", *(metric.name for metric in metrics))
        # No images: the reference says what is in them.
        super().__init__(lambda: judge.signature, False, *names)
        explanation = f"Scores are points, higher is better: {whole}, {ranges}"
        self.board = Board(names, "total", explanation, self.unit)
        self.judge = judge
        self.questions = questions

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        questions = column(items, "question") if self.questions else None
        texts, references = column(items, "generation"), column(items, "reference")
        scores = self.judge.score(texts, references, questions)
        none = dict.fromkeys(metric.name for metric in self.judge.rubric.metrics)
        return [
            self.row(item, each, **none | each.points)
            for item, each in zip(items, scores, strict=True)
        ]


def score_work(
    work: PoshRows | HarmonicRows | RubricRows, source: str, output: str, how: TableSettings
) -> Tally:
    """Score a table into a file, as ``go_through``; return totals over the output's rows."""
    tally = Tally(work.board)
    go_through(work, source, output, how, tally.add)
    return tally


def column(items: Sequence[TableItem], name: str) -> list[Any]:
    return [item.texts[name] for item in items]
