"""People's judgments beside a metric's scores, item by item, the most disputed first.

An item is what people judged: two texts, or one. Its judgments are all rows about the same texts,
such as several raters' answers; of two texts, whichever was shown first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
from scipy.stats import rankdata

from posh_reward.study.agreement.agreement_report import AgreementReport
from posh_reward.study.agreement.metric_scores import ScoreColumn, TextPair
from posh_reward.study.agreement.preferences import Arena, Preferences, score_differences
from posh_reward.study.agreement.ratings import TextRatings
from posh_reward.tables.statistics import Floats
from posh_reward.tables.tables import Row
from posh_reward.types import is_missing

PREFERENCE_HEADS = {
    2: "1 much better", 1: "1 slightly better", 0: "equal", -1: "2 slightly better",
    -2: "2 much better",
}  # fmt: skip
WINNER_HEADS = {1: "1 better", 0: "tie", -1: "2 better"}
MODEL_COLUMNS = ("model", "source")
"""Columns that name who wrote a text, with 1 or 2 at the end for the first and second of a pair."""


@dataclass(frozen=True, slots=True)
class JudgedAxis:
    """People's judgment and a metric's scores on one axis."""

    axis: str
    judgments: tuple[str, ...]  # cells: how often each label was given, or the ratings
    people: float | None  # mean; of two texts, above 0 if the first is better
    scores: tuple[float | None, ...]  # of each text
    disagreement: float | None  # -1 to 1; above 0 if people think better of the (first) text


@dataclass(frozen=True, slots=True)
class JudgedItem:
    """One or two texts that people judged."""

    name: str
    texts: tuple[TextPair, ...]
    models: tuple[str, ...]  # of each text; empty if unknown
    axes: tuple[JudgedAxis, ...]
    comments: tuple[str, ...]

    @property
    def dispute(self) -> JudgedAxis | None:
        """The axis with the largest disagreement, if there is any."""
        known = [each for each in self.axes if each.disagreement is not None]
        return max(known, key=lambda each: abs(each.disagreement or 0.0), default=None)


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """All judged items, the most disputed first."""

    metric: str
    heads: tuple[str, ...]  # of the cells ``JudgedAxis.judgments``
    items: tuple[JudgedItem, ...]


def rank_with_sign(values: Floats) -> Floats:
    """(values,) from -1 to 1: each one's rank by size, over their number, with its sign.

    Equal sizes share the mean of their ranks; 0 has the rank 0, and nan none.
    """
    known = np.flatnonzero(~np.isnan(values))
    ranks = np.full(len(values), np.nan)
    ranks[known] = np.sign(values[known]) * rankdata(np.abs(values[known])) / max(len(known), 1)
    return ranks


def disagree_on_pairs(labels: Floats, differences: Floats) -> Floats:
    """(pairs,) from -1 to 1: how much more people prefer the first text than a metric does.

    It is half the difference of the ranks with signs of labels and of differences of scores. Take
    three pairs: labels 2, 0, -1 have the ranks 3/3, 0, -2/3, differences -0.3, 0.1, -0.2 the ranks
    -3/3, 1/3, -2/3. So the disagreements are 1 (people say that the first text is better, the
    metric says the second), -1/6 and 0.
    """
    both = ~np.isnan(labels + differences)
    ours, theirs = (np.where(both, values, np.nan) for values in (labels, differences))
    disagreement: Floats = (rank_with_sign(ours) - rank_with_sign(theirs)) / 2
    return disagreement


def disagree_on_ratings(ratings: Floats, scores: Floats) -> Floats:
    """(texts,) from -1 to 1: how much better people think of a text than a metric does.

    It is the difference of ranks, counted from 0 (worst) to 1 (best). Ratings 1, 3, 5 have the
    ranks 0, 1/2, 1, scores 0.9, 0.5, 0.7 the ranks 1, 0, 1/2: the disagreements are -1, 1/2, 1/2.
    """
    both = np.flatnonzero(~np.isnan(ratings + scores))
    disagreement = np.full(len(ratings), np.nan)
    last = max(len(both) - 1, 1)
    disagreement[both] = (rankdata(ratings[both]) - rankdata(scores[both])) / last
    return disagreement


@dataclass(frozen=True, slots=True)
class PairGroup:
    """All judgments of the same two texts."""

    texts: tuple[TextPair, TextPair]  # in the order of the first row
    rows: list[int]
    signs: list[int]  # of each row: 1, or -1 if the texts stand in the other order

    def labels(self, people: Floats) -> list[float]:
        """Labels of the rows that have one, above 0 if the group's first text is better."""
        return _drop_missing((people[self.rows] * self.signs).tolist())


def list_judged_pairs(judged: Preferences | Arena, report: AgreementReport) -> JudgedSet:
    """Gather all judgments of the same two texts, and the scores of the metric compared with."""
    column = find_compared_column(report)
    heads = WINNER_HEADS if isinstance(judged, Arena) else PREFERENCE_HEADS
    groups = _group_pairs(judged.texts)
    axes: list[list[JudgedAxis]] = [[] for _ in groups]
    for axis, people in judged.judgments.people.items():
        for own, each in zip(axes, _judge_pairs(axis, people, groups, column, heads), strict=True):
            own.append(each)
    items = []
    for number, (group, own) in enumerate(zip(groups, axes, strict=True), start=1):
        contents = [judged.texts[2 * row].row for row in group.rows]
        items.append(_make_item(contents, group.texts, own, number))
    return JudgedSet(column.name, tuple(heads.values()), _sort_by_dispute(items))


def _group_pairs(texts: Sequence[TextPair]) -> list[PairGroup]:
    groups: dict[frozenset[TextPair], PairGroup] = {}
    for row, both in enumerate(zip(texts[::2], texts[1::2], strict=True)):
        group = groups.setdefault(frozenset(both), PairGroup(both, [], []))
        group.rows.append(row)
        group.signs.append(1 if both[0] == group.texts[0] else -1)
    return list(groups.values())


def _judge_pairs(
    axis: str,
    people: Floats,
    groups: Sequence[PairGroup],
    column: ScoreColumn,
    heads: Mapping[int, str],
) -> list[JudgedAxis]:
    labels = [group.labels(people) for group in groups]
    means = np.array(list(map(_mean, labels)))
    first_rows = [group.rows[0] for group in groups]
    apart = disagree_on_pairs(means, score_differences(column, axis)[first_rows])
    judged = []
    for row, own, mean, disagreement in zip(first_rows, labels, means, apart, strict=True):
        counts = _count_labels(own, heads)
        scores = tuple(map(_number, column.scores[axis][2 * row : 2 * row + 2]))
        judged.append(JudgedAxis(axis, counts, _number(mean), scores, _number(disagreement)))
    return judged


def list_judged_texts(ratings: TextRatings, report: AgreementReport) -> JudgedSet:
    """Gather all ratings of each text, and the scores of the metric compared with."""
    column = find_compared_column(report)
    rows_by_text: list[list[int]] = [[] for _ in ratings.texts]
    for row, text in enumerate(ratings.text_of):
        rows_by_text[text].append(row)
    axes: list[list[JudgedAxis]] = [[] for _ in ratings.texts]
    for axis, people in ratings.people.items():
        given = [_drop_missing([people[row] for row in rows]) for rows in rows_by_text]
        means = np.array(list(map(_mean, given)))
        scores = column.scores[axis]
        apart = disagree_on_ratings(means, scores)
        for own, each, mean, score, disagreement in zip(
            axes, given, means, scores, apart, strict=True
        ):
            cell = ", ".join(f"{rating:g}" for rating in each)
            numbers = _number(mean), (_number(score),), _number(disagreement)
            own.append(JudgedAxis(axis, (cell,), *numbers))
    items = []
    for number, (text, own) in enumerate(zip(ratings.texts, axes, strict=True), start=1):
        items.append(_make_item([text.row], [text], own, number))
    return JudgedSet(column.name, ("ratings",), _sort_by_dispute(items))


def find_compared_column(report: AgreementReport) -> ScoreColumn:
    """Return the scores of the metric that the others are compared with."""
    return next(column for column in report.columns if column.name == report.against)


def _make_item(
    rows: Sequence[Mapping[str, object]],
    texts: Sequence[TextPair],
    axes: Sequence[JudgedAxis],
    number: int,
) -> JudgedItem:
    first: Row = dict(rows[0])
    name = texts[0].image_id or first.get("id")
    return JudgedItem(
        str(number) if is_missing(name) else str(name),
        tuple(texts),
        tuple(find_model(first, text.side) for text in texts),
        tuple(axes),
        gather_comments(rows),
    )


def gather_comments(rows: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the comments in judgments' rows, with their raters."""
    comments = []
    for row in rows:
        comment = row.get("comment")
        if isinstance(comment, str) and comment.strip():
            rater = row.get("rater")
            comments.append(comment if is_missing(rater) else f"{rater}: {comment}")
    return tuple(comments)


def find_model(row: Row, side: str) -> str:
    names = [row.get(f"{column}{side}") for column in MODEL_COLUMNS]
    return next((str(name) for name in names if not is_missing(name)), "")


def _sort_by_dispute(items: Sequence[JudgedItem]) -> tuple[JudgedItem, ...]:
    def size(item: JudgedItem) -> float:
        if item.dispute is None:
            return -1.0  # last: one side has no number
        return abs(item.dispute.disagreement or 0.0)

    return tuple(sorted(items, key=size, reverse=True))


def _count_labels(labels: Sequence[float], heads: Mapping[int, str]) -> tuple[str, ...]:
    nearest = np.rint(labels).astype(int).tolist()
    return tuple(str(nearest.count(label)) for label in heads)


def _drop_missing(values: Sequence[float]) -> list[float]:
    return [float(value) for value in values if not isnan(value)]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _number(value: float) -> float | None:
    return None if isnan(value) else float(value)
