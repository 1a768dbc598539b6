"""PROVE over files: captions -> verified questions, pairs -> verified, responses -> scores."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from math import nan
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from posh_reward.errors import InputError, on_one_line
from posh_reward.metrics.prove.pair_maker import as_text
from posh_reward.metrics.records import reason_of
from posh_reward.study.rows.engine import (
    REMEDY,
    RowScorer,
    TableSettings,
    fill,
    go_through,
    open_items,
)
from posh_reward.study.rows.journal import check_apart, sink
from posh_reward.study.rows.scorers import column
from posh_reward.study.rows.standings import ReasonCount, reason_lines
from posh_reward.study.rows.table_items import TableItem
from posh_reward.study.rows.tables import STANDARD, Row, format_of, write_table
from posh_reward.types import Failure

if TYPE_CHECKING:
    from posh_reward.metrics.prove.pair_maker import PairMaker, PairVerifier, QuestionPair
    from posh_reward.metrics.prove.prove import Prove


MOST_TYPES = 10  # types of questions listed, as in the paper's Fig. 7


@dataclass(slots=True)
class ProveTotals:
    """Scores of some responses."""

    helpfulness: list[float] = field(default_factory=list)
    truthfulness: list[float] = field(default_factory=list)  # responses without claims have none

    def add(self, row: Row) -> None:
        """Count one more row."""
        for name in ("helpfulness", "truthfulness"):
            if row[name] is not None:
                getattr(self, name).append(row[name])

    @property
    def average(self) -> float | None:
        """Mean of the two means, as in the paper's Table 1; None if one is missing."""
        # Not the mean over rows with both scores: an empty response has no truthfulness, and
        # dropping its helpfulness, which is 0, would reward silence.
        if not self.helpfulness or not self.truthfulness:
            return None
        return (fmean(self.helpfulness) + fmean(self.truthfulness)) / 2

    def __str__(self) -> str:
        average = "none" if self.average is None else f"{self.average:.3f}"
        return (
            f"helpfulness {_mean(self.helpfulness)}, truthfulness {_mean(self.truthfulness)}, "
            f"average of the two {average}"
        )


def average_values(
    helpfulness: Sequence[float | None], truthfulness: Sequence[float | None]
) -> list[float]:
    """(rows,) values with the mean and interval of the mean of two means (PROVE, Table 1).

    Empty if no row has one of the scores.
    """
    # Taking only rows with both scores would leave out silence (helpfulness 0, no truthfulness).
    # Each value is the average plus the row's influence on both means, so resampling the values
    # resamples, to first order, both means together.
    columns = [
        np.array([nan if value is None else value for value in values], dtype=float)
        for values in (helpfulness, truthfulness)
    ]  # each (rows,)
    counts = [int(np.isfinite(column).sum()) for column in columns]
    if not all(counts):
        return []
    means = [float(np.nanmean(column)) for column in columns]
    influence = [
        np.nan_to_num(column - mean) * len(column) / count
        for column, mean, count in zip(columns, means, counts, strict=True)
    ]
    values: list[float] = ((sum(means) + influence[0] + influence[1]) / 2).tolist()
    return values


def _mean(values: Sequence[float]) -> str:
    return f"{f'{fmean(values):.3f}' if values else 'none'} (of {len(values):,})"


def question_type(question: object) -> str:
    """First two words of a question, such as "where is" or "what color" (paper, Fig. 7)."""
    return " ".join(re.findall(r"[^\W_]+(?:['\u2019][^\W_]+)?", str(question).casefold())[:2])


class Means:
    """Means over the rows that have the score, by model if there are several (paper, Table 1)."""

    def __init__(self, *, types: bool = False) -> None:
        self.failures: dict[str, ReasonCount] = {}  # by reason
        self.models: dict[str | None, ProveTotals] = {}
        self.types: dict[str | None, dict[str, ProveTotals]] = {}  # model -> type of question ->
        self._with_types = types

    def add(self, row: Row) -> None:
        """Count one more row."""
        note_failure(self.failures, row)
        model = row.get("model")
        self.models.setdefault(model, ProveTotals()).add(row)
        if self._with_types:
            types = self.types.setdefault(model, {})
            types.setdefault(question_type(row.get("question") or ""), ProveTotals()).add(row)

    def __str__(self) -> str:
        lines = []
        for model, totals in self.models.items():
            name = "" if model is None else f"{on_one_line(model)}: "
            lines.append(f"{name}{totals}; higher is better")
            # The most frequent types, the best average first.
            types = sorted(
                self.types.get(model, {}).items(), key=lambda it: -len(it[1].helpfulness)
            )
            for type_, each in sorted(types[:MOST_TYPES], key=lambda it: -(it[1].average or 0)):
                lines.append(f"  {on_one_line(type_) or '(no words)'}: {each}")
        return "\n".join([*lines, *reason_lines(self.failures)])


def note_failure(failures: dict[str, ReasonCount], row: Row) -> None:
    """Count a row that failed under its reason."""
    if reason := reason_of(row):
        failures.setdefault(on_one_line(reason), ReasonCount()).add(row["id"])


RESPONSE_TEXTS = ("response", "answer", "question", "caption")  # columns of a table to score
PAIR_TEXTS = ("question", "answer", "program", "caption")  # columns of pairs to verify
GRAPH = "_graph"
"""Suffix of columns whose graphs replace a text's own, such as the authors' graphs."""


class GraphRows(RowScorer):
    """Rows of a table that may have graphs, which its rows repeat only where they are texts."""

    def head(self, item: TableItem) -> Row:
        """The item's columns, without other graphs."""
        head = item.head.items()
        return {name: value for name, value in head if value or not name.endswith(GRAPH)}


class CandidateRows(GraphRows):
    """Write candidate questions for captions; each row has all of its candidates."""

    unit = "caption"

    def __init__(self, maker: PairMaker) -> None:
        looks = maker.entailment is not None
        super().__init__(lambda: maker.signature, looks, "pairs")
        self.maker = maker

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        images = [item.content for item in items] if self.wants_images else None
        graphs = graphs_in(items).get("caption")
        candidates = self.maker.make(column(items, "caption"), images, graphs)
        return [
            {
                **self.head(item),
                "failure": each.failure and asdict(each.failure),
                "pairs": [asdict(pair) for pair in each.pairs],
                "signature": self.signature,
            }
            for item, each in zip(items, candidates, strict=True)
        ]


class ProgramRows(GraphRows):
    """Run the programs of pairs: their values, and the reason to drop a pair if there is one."""

    unit = "pair"

    def __init__(self, verifier: PairVerifier) -> None:
        super().__init__(lambda: verifier.signature, False, "dropped")
        self.verifier = verifier

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        question, answer, program, caption = (column(items, name) for name in PAIR_TEXTS)
        graphs = graphs_in(items).get("caption")
        pairs = self.verifier.verify(question, answer, program, caption, graphs)
        return [self._row(item, pair) for item, pair in zip(items, pairs, strict=True)]

    def _row(self, item: TableItem, pair: QuestionPair | Failure) -> Row:
        if isinstance(pair, Failure):
            result: Row = {"failure": asdict(pair), "value": None, "dropped": None, "why": None}
        else:
            value = {"value": as_text(pair.value), "dropped": pair.dropped, "why": pair.why}
            result = {"failure": None, **value}
        return {**self.head(item), **result, "signature": self.signature}


def graphs_in(items: Sequence[TableItem]) -> dict[str, list[object]]:
    """Text column -> graphs that replace its texts' own, for each such column of the table."""
    names = [name for name in items[0].texts if name.endswith(GRAPH)] if items else []
    return {name.removesuffix(GRAPH): column(items, name) for name in names}


class ResponseRows(GraphRows):
    """Score responses with PROVE; ``graphs`` are the text columns that the table has graphs of."""

    record = "prove"
    unit = "response"

    def __init__(self, prove: Prove, graphs: Sequence[str] = ()) -> None:
        signature = partial(prove.signature_for, graphs)
        super().__init__(signature, prove.entailment is not None, "average")
        self.prove = prove

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        images = [item.content for item in items] if self.wants_images else None
        response, answer, question, caption = (column(items, name) for name in RESPONSE_TEXTS)
        graphs = graphs_in(items)
        scores = self.prove.score(response, answer, question, caption, images, graphs=graphs)
        return [
            self.row(item, each, average=each.average)
            for item, each in zip(items, scores, strict=True)
        ]


def make_pairs(maker: PairMaker, source: str, output: str, settings: TableSettings) -> list[Row]:
    """Make verified questions for a table of captions; return the rows of ``OUTPUT.made.jsonl``.

    Args:
        maker: writes and verifies them.
        source: a table with captions.
        output: table of the kept pairs, written at the end. ``OUTPUT.made.jsonl`` beside it has all
            candidates of each caption, with the reason where one was dropped.
        settings: columns, with ``caption`` as the text; batch size.

    Raises:
        InputError: a file cannot be used, or the output holds something else.
        JudgeError: the writer cannot work at all, or not any more.
    """
    format = format_of(output)
    if output == STANDARD:
        raise InputError(
            "pairs cannot go to standard output: name a file; all candidates are kept beside it"
        )
    check_apart(source, output)
    candidates = f"{output}.made.jsonl"
    if Path(output).exists() and not Path(candidates).exists() and not settings.overwrite:
        raise InputError(f"{output!r} already exists: {REMEDY}")
    work = CandidateRows(maker)
    rows: list[Row] = []
    with (
        open_items(source, settings, images=work.wants_images) as (items, total),
        sink(candidates, format_of(candidates), settings.overwrite) as out,
    ):
        fill(out, work, items, candidates, settings, rows.append, total)
    write_table([pair for row in rows for pair in pair_rows(row)], Path(output), format)
    return rows


def pair_rows(row: Row) -> Iterator[Row]:
    """The kept pairs of one caption, as rows to ask a model under test."""
    head: Row = {key: row[key] for key in ("caption", "image") if key in row}
    pairs = [pair for pair in row["pairs"] if pair["dropped"] is None]
    for number, pair in enumerate(pairs, start=1):
        task: Row = {key: pair[key] for key in ("question", "answer", "program")}
        yield {"id": f"{row['id']}/{number}", **head, **task}


def candidates_summary(rows: Iterable[Row]) -> str:
    """Counts of one run: captions, candidates, kept, and dropped by reason."""
    rows = list(rows)
    pairs = [pair for row in rows for pair in row["pairs"]]
    drops = Counter(pair["dropped"] for pair in pairs)
    kept = drops.pop(None, 0)
    count = sum(row["failure"] is not None for row in rows)
    lines = [f"{len(rows):,} captions ({count:,} failed), {len(pairs):,} candidates, {kept:,} kept"]
    lines += [f"  {on_one_line(str(reason))}: {count:,}" for reason, count in drops.most_common()]
    doubts = Counter(pair["why"] for pair in pairs if pair["dropped"] == "unjudged")
    lines += [
        f"  unjudged, {count:,} of them: {on_one_line(str(why))}"
        for why, count in doubts.most_common(3)
    ]
    failures: dict[str, ReasonCount] = {}
    for row in rows:
        note_failure(failures, row)
    return "\n".join([*lines, *reason_lines(failures, "no pairs")])


class PairCounts:
    """Counts of verified and dropped pairs."""

    def __init__(self) -> None:
        self.failures: dict[str, ReasonCount] = {}
        self.drops: Counter[str | None] = Counter()
        """Reason -> pairs; None: verified."""

    def add(self, row: Row) -> None:
        """Count one more row."""
        note_failure(self.failures, row)
        if row["failure"] is None:
            self.drops[row["dropped"]] += 1

    def __str__(self) -> str:
        count = self.drops.total() + sum(each.count for each in self.failures.values())
        lines = [f"{count:,} pairs, {self.drops[None]:,} verified"]
        lines += [
            f"  {on_one_line(reason)}: {number:,}"
            for reason, number in self.drops.most_common()
            if reason is not None
        ]
        return "\n".join([*lines, *reason_lines(self.failures, "not verified")])


def verify_pairs(
    verifier: PairVerifier, source: str, output: str, settings: TableSettings
) -> PairCounts:
    """Verify a table of pairs by running their programs again; texts are ``PAIR_TEXTS``.

    Raises:
        InputError: a file cannot be used, or the output holds something else.
        OSError: the output cannot be written.
    """
    counts = PairCounts()
    go_through(ProgramRows(verifier), source, output, settings, counts.add)
    return counts


def score_responses(
    prove: Prove, source: str, output: str, settings: TableSettings, *, types: bool = False
) -> Means:
    """Score a table of responses, as ``go_through``; ``types`` adds means by type of question.

    Texts are ``RESPONSE_TEXTS``, and optionally columns of their graphs (``GRAPH``).
    """
    means = Means(types=types)
    graphs = [name.removesuffix(GRAPH) for name in settings.columns.texts if name.endswith(GRAPH)]
    go_through(ResponseRows(prove, graphs), source, output, settings, means.add)
    return means
