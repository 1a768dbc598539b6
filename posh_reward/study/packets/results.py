"""Answers and the key -> which model people prefer, by how much, and how far they agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isnan
from statistics import fmean

import numpy as np

from posh_reward.study.agreement.reliability import counted
from posh_reward.study.agreement.spans import Matches, span_matches
from posh_reward.study.packets import rater_texts
from posh_reward.study.packets.answer_files import AnswerCollection
from posh_reward.study.packets.rater_reports import RaterReport, rater_reports
from posh_reward.study.packets.study_records import (
    PacketKey,
    RaterAnswer,
    touched_words,
    word_spans,
)
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Interval, Ints, bootstrap, bootstrap_mean, sign_test

AXES = tuple(question.axis for question in rater_texts.QUESTIONS)


@dataclass(frozen=True, slots=True)
class Preference:
    """How much better people find the later of two models, on one axis."""

    axis: str
    mean: Interval
    """-2 to 2 with the 95 % interval over items; above 0 the later model is better."""
    wins: int
    """Items on which the later model is better, by the mean of their raters."""
    ties: int
    losses: int
    p: float
    """Sign test of wins against losses, two-sided."""
    alpha: Interval | None
    """Krippendorff's, ordinal: 1 is full agreement, 0 chance. None if no pair had two raters."""
    counts: dict[int, int]
    """Single answers by preference."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models, side by side."""

    earlier: str
    later: str
    items: int
    identical: int
    """Of these, those with equal texts, which count as ties without being asked; while answers are
    missing, in proportion to the items answered, or they would pull every early result to 0."""
    answers: int
    several: int
    """Items with several raters."""
    axes: tuple[Preference, ...]


@dataclass(frozen=True, slots=True)
class MarkRate:
    """What raters marked in one model's generations, or missed in them."""

    model: str
    side: str
    """mistakes: in the generation. omissions: in the correct description."""
    items: int
    marks: Interval
    """A text; lower is better."""
    unmarked: Interval
    """Share of words, 0 to 1; higher is better (paper, Table 4)."""


@dataclass(frozen=True, slots=True)
class SpanAgreement:
    """How far raters mark the same spans: 0 to 1, higher is better."""

    side: str
    tasks: int
    """With several raters."""
    f1: float | None
    f1_at_50: float | None


@dataclass(frozen=True, slots=True)
class StudyResults:
    """All that a study says."""

    packet: str
    models: tuple[str, ...]
    suggested: bool
    comparisons: tuple[Comparison, ...]
    marked: tuple[MarkRate, ...]
    span_agreement: tuple[SpanAgreement, ...]
    raters: tuple[RaterReport, ...]
    refused: tuple[str, ...]
    missing: tuple[str, ...]
    """Raters from whom nothing counts."""
    left_out: tuple[str, ...]
    """Raters whose answers were set aside on request."""


def results(
    collected: AnswerCollection, key: PacketKey, leave_out: Sequence[str] = ()
) -> StudyResults:
    """Sums up a study.

    Each item counts once, as the mean of its raters; intervals are over items.

    Args:
        collected: what came back.
        key: of the packet.
        leave_out: raters whose answers are not to count.
    """
    answers = [answer for answer in collected.answers if answer.rater not in leave_out]
    coarse = [answer for answer in answers if answer.marks is None]
    granular = [answer for answer in answers if answer.marks is not None]
    pairs = combinations(key.models, 2)
    return StudyResults(
        key.packet,
        key.models,
        key.suggested,
        tuple(filter(None, (_comparison(coarse, key, *pair) for pair in pairs))),
        tuple(
            _marked(granular, key, model, side)
            for side in rater_texts.SIDES
            for model in key.models
            if any(answer.task.models == (model,) for answer in granular)
        ),
        tuple(_span_agreement(granular, key, side) for side in rater_texts.SIDES if granular),
        rater_reports(collected, key),
        tuple(map(str, collected.refusals)),
        collected.missing,
        tuple(leave_out),
    )


def judgments(answers: Sequence[RaterAnswer], key: PacketKey) -> list[Row]:
    """One row for each coarse answer: preferences say how much better the later model is."""
    rows: list[Row] = []
    for answer in answers:
        if answer.marks is None:
            earlier, later = sorted(answer.task.models, key=key.models.index)
            said = _towards(answer, later)
            rows.append({
                "id": answer.task.item, "rater": answer.rater, "earlier": earlier, "later": later,
                **said, "seconds": answer.seconds, "comment": answer.comment,
            })  # fmt: skip
    return rows


def _towards(answer: RaterAnswer, model: str) -> dict[str, int]:
    """By axis, how much better a model is than the other."""
    sign = 1 if answer.task.models[0] == model else -1
    return {axis: sign * value for axis, value in answer.preferences.items()}


def _comparison(
    answers: Sequence[RaterAnswer], key: PacketKey, earlier: str, later: str
) -> Comparison | None:
    units: dict[str, list[dict[str, int]]] = defaultdict(list)
    for answer in answers:
        if set(answer.task.models) == {earlier, later}:
            units[answer.task.item].append(_towards(answer, later))
    if not units:
        return None
    identical = _ties_unasked(key, {earlier, later}, len(units))
    return Comparison(
        earlier,
        later,
        len(units) + identical,
        identical,
        sum(map(len, units.values())),
        sum(len(unit) > 1 for unit in units.values()),
        tuple(_preference(units, axis, identical) for axis in AXES),
    )


def _ties_unasked(key: PacketKey, models: set[str], answered: int) -> int:
    """How many items with equal texts count, if so many of those asked about are answered."""
    identical = sum(set(task.models) == models for task in key.identical)
    tasks = (task for rater in key.raters.values() for task in rater.tasks)
    asked = len({task.item for task in tasks if set(task.models) == models})
    return round(identical * answered / asked)


def _preference(
    units: Mapping[str, Sequence[Mapping[str, int]]], axis: str, identical: int
) -> Preference:
    said = [[each[axis] for each in unit] for unit in units.values()]
    means = [fmean(unit) for unit in said] + [0.0] * identical
    counts = Counter(value for unit in said for value in unit)
    return Preference(
        axis,
        bootstrap_mean(means),
        sum(mean > 0 for mean in means),
        sum(mean == 0 for mean in means),
        sum(mean < 0 for mean in means),
        sign_test(means),
        _alpha([unit for unit in said if len(unit) > 1]),
        {value: counts[value] for value in rater_texts.CHOICES},
    )


def _alpha(units: Sequence[Sequence[int]]) -> Interval | None:
    if not units:
        return None

    ratings = counted(units)

    def alpha(rows: Ints) -> list[float]:
        return [ratings.alpha(np.bincount(rows, minlength=len(units)).astype(np.float64))]

    [found] = bootstrap(alpha, range(len(units)))
    if isnan(found.value):
        return None
    if isnan(found.low):  # a single pair, which cannot be resampled: alpha may be anything
        return Interval(found.value, -1.0, 1.0, len(units))
    return Interval(found.value, found.low, found.high, len(units))


def _known(value: float) -> float | None:
    return None if isnan(value) else value


def _text(key: PacketKey, item: str, model: str, side: str) -> str:
    """The text in which a side is marked."""
    return key.items[item].texts[model] if side == "mistakes" else key.items[item].reference


def _marked(answers: Sequence[RaterAnswer], key: PacketKey, model: str, side: str) -> MarkRate:
    counts: dict[str, list[int]] = defaultdict(list)
    shares: dict[str, list[float]] = defaultdict(list)
    for answer in answers:
        if answer.task.models == (model,):
            spans = getattr(answer.marks, side)
            within = word_spans(_text(key, answer.task.item, model, side))
            counts[answer.task.item].append(len(spans))
            shares[answer.task.item].append(
                1 - len(touched_words(spans, within)) / max(len(within), 1)
            )
    return MarkRate(
        model,
        side,
        len(counts),
        bootstrap_mean([fmean(each) for each in counts.values()]),
        bootstrap_mean([fmean(each) for each in shares.values()]),
    )


def _span_agreement(answers: Sequence[RaterAnswer], key: PacketKey, side: str) -> SpanAgreement:
    tasks: dict[tuple[str, str], list[RaterAnswer]] = defaultdict(list)
    for answer in answers:
        tasks[answer.task.item, answer.task.models[0]].append(answer)
    some, half = Matches(), Matches()
    for (item, model), several in tasks.items():
        text = _text(key, item, model, side)
        for one, other in combinations(several, 2):
            spans = (getattr(one.marks, side), getattr(other.marks, side))
            some += span_matches(text, *spans)
            half += span_matches(text, *spans, share=0.5)
    shared = sum(len(several) > 1 for several in tasks.values())
    return SpanAgreement(side, shared, _known(some.f1), _known(half.f1))
