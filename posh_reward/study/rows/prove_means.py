"""PROVE's summary: means by model, and by type of question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from statistics import fmean

import numpy as np

from posh_reward.errors import on_one_line
from posh_reward.metrics.records import reason_of
from posh_reward.study.rows.standings import ReasonCount, reason_lines
from posh_reward.study.rows.tables import Row

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
