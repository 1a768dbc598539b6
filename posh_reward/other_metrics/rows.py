"""The other metrics over files: HarmonicEval, rubrics, and PROVE with its question making."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from posh_reward.errors import InputError, on_one_line
from posh_reward.metrics.records import find_failure_reason, list_record_fields
from posh_reward.models.model import DOUBTFUL_MASS
from posh_reward.other_metrics.harmonic_eval import ANSWER_TASKS, IMAGE_CRITERIA, check_task
from posh_reward.other_metrics.prove.pair_maker import join_texts
from posh_reward.tables.engine import (
    RESTART_REMEDY,
    RowScorer,
    TableItem,
    TableSettings,
    add_missing_rows,
    list_texts,
    open_items,
    score_rows,
)
from posh_reward.tables.standings import MetricColumns, ReasonCount, reason_lines
from posh_reward.tables.tables import (
    STANDARD_STREAM,
    TEXT_COLUMNS,
    Row,
    check_apart,
    find_format,
    open_sink,
    write_table,
)
from posh_reward.types import Failure

if TYPE_CHECKING:
    from posh_reward.other_metrics.harmonic_eval import HarmonicEval
    from posh_reward.other_metrics.prove.pair_maker import PairMaker, PairVerifier, QuestionPair
    from posh_reward.other_metrics.prove.prove import Prove
    from posh_reward.other_metrics.rubric_judge import RubricJudge
    from posh_reward.tables.statistics import Floats


HARMONIC_SCALE = "Scores are 1 to 5, higher is better; overall is the weighted mean of the criteria"


class HarmonicRows(RowScorer):
    """Score texts with HarmonicEval; some tasks also need a column ``question``."""

    record = "harmonic"

    def __init__(self, metric: HarmonicEval, task: str = "captioning") -> None:
        names = ("overall", *metric.criteria)
        looks = not set(IMAGE_CRITERIA).isdisjoint(metric.criteria)
        signature = partial(metric.signature_for, task)
        super().__init__(signature, looks, *metric.criteria)
        self.metric_columns = MetricColumns(
            names, "overall", HARMONIC_SCALE, self.unit, warn_of_doubt
        )
        self.metric = metric
        self.task = task
        needs_question = check_task(task) in ANSWER_TASKS
        self.texts = ("generation", "question") if needs_question else ("generation",)

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        texts, images = list_texts(items, "generation"), [item.content for item in items]
        questions = list_texts(items, "question") if "question" in self.texts else None
        scores = self.metric.score(texts, images, self.task, questions=questions)
        none = dict.fromkeys(self.metric.criteria)
        return [
            self.row(item, each, **none | each.means)
            for item, each in zip(items, scores, strict=True)
        ]


def warn_of_doubt(row: Mapping[str, Any]) -> Iterator[str]:
    """Name the criteria whose reply was more likely no score than one."""
    names: list[str] = []
    for each in row["criteria"]:
        mass = each.get("mass")
        if mass is not None and mass < DOUBTFUL_MASS:
            names.append(each["criterion"])
    if names:
        yield f"the reply is more likely no score than one, for {', '.join(names)}"


class RubricRows(RowScorer):
    """Score texts against references with a rubric; ``questions``: the table has their column."""

    record = "rubric"

    def __init__(self, judge: RubricJudge, *, questions: bool = False) -> None:
        metrics = judge.rubric.metrics
        reserved = TEXT_COLUMNS | list_record_fields(self.record).keys()
        for metric in metrics:
            if metric.name in reserved:
                raise InputError(
                    f"rows already have a column {metric.name!r}: rename the rubric's metric"
                )
        ranges = ", ".join(f"{each.name} {each.lowest} to {each.highest}" for each in metrics)
        whole = f"total {judge.rubric.lowest} to {judge.rubric.highest}"
        names = ("total", *(metric.name for metric in metrics))
        # No images: the reference says what is in them.
        super().__init__(lambda: judge.signature, False, *names)
        explanation = f"Scores are points, higher is better: {whole}, {ranges}"
        self.metric_columns = MetricColumns(names, "total", explanation, self.unit)
        self.judge = judge
        self.questions = questions

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        questions = list_texts(items, "question") if self.questions else None
        texts, references = list_texts(items, "generation"), list_texts(items, "reference")
        scores = self.judge.score(texts, references, questions)
        none = dict.fromkeys(metric.name for metric in self.judge.rubric.metrics)
        return [
            self.row(item, each, **none | each.points)
            for item, each in zip(items, scores, strict=True)
        ]


def average_values(
    helpfulness: Sequence[float | None], truthfulness: Sequence[float | None]
) -> list[float]:
    """(rows,) values with the mean and interval of the mean of two means (PROVE, Table 1).

    Empty if no row has one of the scores.
    """
    # Taking only rows with both scores would leave out silence (helpfulness 0, no truthfulness).
    # Each value is the average plus the row's influence on both means, so resampling the values
    # resamples, to first order, both means together. A row's influence on the mean of those
    # that have the score is its distance from it, over their share of all rows; else 0.
    means: list[float] = []
    influences: list[Floats] = []
    for column_scores in (helpfulness, truthfulness):
        scores = np.array(column_scores, dtype=float)  # (rows,), None as NaN
        known = int(np.isfinite(scores).sum())
        if not known:
            return []
        mean = float(np.nanmean(scores))
        means.append(mean)
        influences.append(np.nan_to_num(scores - mean) * len(scores) / known)
    values: list[float] = ((sum(means) + influences[0] + influences[1]) / 2).tolist()
    return values


class ProveMeans:
    """Means over the rows that have the score, by model if there are several (paper, Table 1)."""

    def __init__(self) -> None:
        self.failures: dict[str, ReasonCount] = {}  # by reason
        self.models: dict[str | None, dict[str, list[float]]] = {}  # model -> score -> values

    def add(self, row: Row) -> None:
        add_failure(self.failures, row)
        scores = self.models.setdefault(row.get("model"), {"helpfulness": [], "truthfulness": []})
        for name, values in scores.items():
            if row[name] is not None:  # responses without claims have no truthfulness
                values.append(row[name])

    def __str__(self) -> str:
        lines = []
        for model, scores in self.models.items():
            means: list[float] = []
            texts: list[str] = []
            for name, values in scores.items():
                if values:
                    means.append(fmean(values))
                shown = format_number(fmean(values) if values else None)
                texts.append(f"{name} {shown} (of {len(values):,})")
            # The mean of the two means, as in the paper: over rows with both scores, an empty
            # response, which has no truthfulness, would be left out, though its helpfulness is 0.
            average = format_number(fmean(means) if len(means) == len(scores) else None)
            start = "" if model is None else f"{on_one_line(model)}: "
            texts.append(f"average of the two {average}; higher is better")
            lines.append(start + ", ".join(texts))
        return "\n".join([*lines, *reason_lines(self.failures)])


def format_number(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:.3f}"


def add_failure(failures: dict[str, ReasonCount], row: Row) -> None:
    if reason := find_failure_reason(row):
        failures.setdefault(on_one_line(reason), ReasonCount()).add(row["id"])


RESPONSE_TEXTS = ("response", "answer", "question", "caption")  # columns of a table to score
PAIR_TEXTS = ("question", "answer", "program", "caption")  # columns of pairs to verify
GRAPH_SUFFIX = "_graph"
"""Suffix of columns whose graphs replace a text's own, such as the authors' graphs."""


class GraphRows(RowScorer):
    """Rows of a table that may have graphs, which its rows repeat only where they are texts."""

    def head(self, item: TableItem) -> Row:
        head: Row = {}
        for name, value in item.head.items():
            if value or not name.endswith(GRAPH_SUFFIX):
                head[name] = value
        return head

    def _list_images(self, items: Sequence[TableItem]) -> list[Any] | None:
        if not self.wants_images:
            return None
        return [item.content for item in items]


class CandidateRows(GraphRows):
    """Write candidate questions for captions; each row has all of its candidates."""

    unit = "caption"

    def __init__(self, maker: PairMaker) -> None:
        looks = maker.entailment is not None
        super().__init__(lambda: maker.signature, looks, "pairs")
        self.maker = maker

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        images = self._list_images(items)
        graphs = collect_graphs(items).get("caption")
        candidates = self.maker.make(list_texts(items, "caption"), images, graphs)
        rows: list[Row] = []
        for item, each in zip(items, candidates, strict=True):
            own: Row = {
                "failure": each.failure and asdict(each.failure),
                "pairs": list(map(asdict, each.pairs)),
                "signature": self.signature,
            }
            rows.append({**self.head(item), **own})
        return rows


class ProgramRows(GraphRows):
    """Run the programs of pairs: their values, and the reason to drop a pair if there is one."""

    unit = "pair"

    def __init__(self, verifier: PairVerifier) -> None:
        super().__init__(lambda: verifier.signature, False, "dropped")
        self.verifier = verifier

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        question, answer, program, caption = (list_texts(items, name) for name in PAIR_TEXTS)
        graphs = collect_graphs(items).get("caption")
        pairs = self.verifier.verify(question, answer, program, caption, graphs)
        return [self._build_row(item, pair) for item, pair in zip(items, pairs, strict=True)]

    def _build_row(self, item: TableItem, pair: QuestionPair | Failure) -> Row:
        if isinstance(pair, Failure):
            result: Row = {"failure": asdict(pair), "value": None, "dropped": None, "why": None}
        else:
            text = join_texts(pair.value)
            result = {"failure": None, "value": text, "dropped": pair.dropped, "why": pair.why}
        return {**self.head(item), **result, "signature": self.signature}


def collect_graphs(items: Sequence[TableItem]) -> dict[str, list[object]]:
    """Text column -> graphs that replace its texts' own, for each such column of the table."""
    graphs: dict[str, list[object]] = {}
    for item in items[:1]:  # all have the same columns
        for name in item.texts:
            if name.endswith(GRAPH_SUFFIX):
                graphs[name.removesuffix(GRAPH_SUFFIX)] = list_texts(items, name)
    return graphs


class ResponseRows(GraphRows):
    """Score responses with PROVE; ``graphs`` are the text columns that the table has graphs of."""

    record = "prove"
    unit = "response"

    def __init__(self, prove: Prove, graphs: Sequence[str] = ()) -> None:
        signature = partial(prove.signature_for, graphs)
        super().__init__(signature, prove.entailment is not None, "average")
        self.prove = prove

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        images = self._list_images(items)
        response, answer, question, caption = (list_texts(items, name) for name in RESPONSE_TEXTS)
        graphs = collect_graphs(items)
        scores = self.prove.score(response, answer, question, caption, images, graphs=graphs)
        return [
            self.row(item, each, average=each.average)
            for item, each in zip(items, scores, strict=True)
        ]


def make_pairs(maker: PairMaker, source: str, output: str, settings: TableSettings) -> list[Row]:
    """Make verified questions for a table of captions; return the rows of ``OUTPUT.made.jsonl``."""
    format = find_format(output)
    if output == STANDARD_STREAM:
        raise InputError(
            "pairs cannot go to standard output: name a file; all candidates are kept beside it"
        )
    check_apart(source, output)
    candidates = f"{output}.made.jsonl"
    if Path(output).exists() and not Path(candidates).exists() and not settings.overwrite:
        raise InputError(f"{output!r} already exists: {RESTART_REMEDY}")
    work = CandidateRows(maker)
    rows: list[Row] = []
    with (
        open_items(source, settings, images=work.wants_images) as (items, total),
        open_sink(candidates, find_format(candidates), settings.overwrite, work.reread) as out,
    ):
        add_missing_rows(out, work, items, candidates, settings, rows.append, total)
    write_table(list(chain.from_iterable(map(iterate_pair_rows, rows))), Path(output), format)
    return rows


def iterate_pair_rows(row: Row) -> Iterator[Row]:
    """The kept pairs of one caption, as rows to ask a model under test."""
    head: Row = {key: row[key] for key in ("caption", "image") if key in row}
    pairs = [pair for pair in row["pairs"] if pair["dropped"] is None]
    for number, pair in enumerate(pairs, start=1):
        task: Row = {key: pair[key] for key in ("question", "answer", "program")}
        yield {"id": f"{row['id']}/{number}", **head, **task}


def summarise_candidates(rows: Sequence[Row]) -> str:
    """Counts of one run: captions, candidates, kept, and dropped by reason."""
    pairs = list(chain.from_iterable(row["pairs"] for row in rows))
    drops = Counter(pair["dropped"] for pair in pairs)
    failures: dict[str, ReasonCount] = {}
    for row in rows:
        add_failure(failures, row)
    count = sum(each.count for each in failures.values())
    first = f"{len(rows):,} captions ({count:,} failed), {len(pairs):,} candidates, "
    lines = [f"{first}{drops[None]:,} kept", *format_drops(drops)]
    doubts = Counter(pair["why"] for pair in pairs if pair["dropped"] == "unjudged")
    for why, number in doubts.most_common(3):
        lines.append(f"  unjudged, {number:,} of them: {on_one_line(why)}")
    return "\n".join([*lines, *reason_lines(failures, "no pairs")])


def format_drops(drops: Counter[str | None]) -> list[str]:
    lines = []
    for reason, number in drops.most_common():
        if reason is not None:
            lines.append(f"  {on_one_line(reason)}: {number:,}")
    return lines


class PairCounts:
    """Counts of verified and dropped pairs."""

    def __init__(self) -> None:
        self.failures: dict[str, ReasonCount] = {}
        self.drops: Counter[str | None] = Counter()
        """Reason -> pairs; None: verified."""

    def add(self, row: Row) -> None:
        add_failure(self.failures, row)
        if row["failure"] is None:
            self.drops[row["dropped"]] += 1

    def __str__(self) -> str:
        count = self.drops.total() + sum(each.count for each in self.failures.values())
        lines = [f"{count:,} pairs, {self.drops[None]:,} verified", *format_drops(self.drops)]
        return "\n".join([*lines, *reason_lines(self.failures, "not verified")])


def verify_pairs(
    verifier: PairVerifier, source: str, output: str, settings: TableSettings
) -> PairCounts:
    """Verify a table of pairs by running their programs again; texts are ``PAIR_TEXTS``."""
    counts = PairCounts()
    score_rows(ProgramRows(verifier), source, output, settings, counts.add)
    return counts


def score_responses(prove: Prove, source: str, output: str, settings: TableSettings) -> ProveMeans:
    """Score a table of responses, as ``score_rows``.

    Texts are ``RESPONSE_TEXTS``, and optionally columns of their graphs (``GRAPH_SUFFIX``).
    """
    means = ProveMeans()
    graphs = [
        name.removesuffix(GRAPH_SUFFIX)
        for name in settings.columns.texts
        if name.endswith(GRAPH_SUFFIX)
    ]
    score_rows(ResponseRows(prove, graphs), source, output, settings, means.add)
    return means
