"""Answers and the key -> which model people prefer, by how much, and how far they agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import isnan
from statistics import fmean

import numpy as np

from posh_reward.study.agreement.rater_agreement import Matches, count_ratings, span_matches
from posh_reward.study.crossed import CrossedDesign, holm, significant
from posh_reward.study.packets.answer_files import AnswerCollection
from posh_reward.study.packets.ranking import Ranking, rankings
from posh_reward.study.packets.rater_reports import RaterReport, rater_reports
from posh_reward.study.packets.rater_texts import AXES, VALUES
from posh_reward.study.packets.study_records import (
    PacketKey,
    RaterAnswer,
    comparisons,
    unmarked_share,
)
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import (
    Interval,
    Ints,
    bootstrap,
    bootstrap_mean,
    sign_test,
)


@dataclass(frozen=True, slots=True)
class AxisPreference:
    """Preference for the later of two models, on one axis: -2 to 2, above 0 the later is better."""

    axis: str
    mean: Interval
    """With the 95 % interval over items and raters; over items, if there is one rater."""
    these_raters: Interval
    """With the 95 % interval over items, for these raters only."""
    p_mean: float
    """Of the mean being 0, over items and raters."""
    p_holm: float
    """The same, corrected for all statements of the study."""
    settled: bool
    """The sign holds for raters like these, after the corrections for statements and looks."""
    wins: int
    """Items on which the later model is better, by the mean of their raters."""
    ties: int
    losses: int
    p: float
    """Sign test of wins against losses, two-sided."""
    alpha: Interval | None
    """Krippendorff's, ordinal: 1 is full agreement, 0 chance. None if no pair had two raters."""
    same_side: float | None
    """Share of pairs of raters on the same side, 0 to 1; chance is not taken out."""
    counts: dict[int, int]
    """Single answers by preference."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models, side by side."""

    earlier: str
    later: str
    items: int
    identical: int
    """Of these, those with equal texts, which count as ties without being asked."""
    answers: int
    raters: int
    several: int
    """Items with several raters."""
    axes: tuple[AxisPreference, ...]


@dataclass(frozen=True, slots=True)
class SideBias:
    """Preference for what is shown as #1, whatever it is."""

    axis: str
    mean: Interval
    """-2 to 2. Sides are balanced, so a bias hardly moves preferences; it tells of the raters."""


@dataclass(frozen=True, slots=True)
class MarkRate:
    """Marks in one model's generations, or of what is missing in them."""

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
    """Agreement of raters on spans: 0 to 1, higher is better."""

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
    rankings: tuple[Ranking, ...]
    """By axis; none of two models."""
    side_bias: tuple[SideBias, ...]
    marked: tuple[MarkRate, ...]
    span_agreement: tuple[SpanAgreement, ...]
    raters: tuple[RaterReport, ...]
    looks: tuple[float, ...]
    """Share of the answers that were in at each look, the last one included."""
    refused: tuple[str, ...]
    superseded: tuple[str, ...]
    """Files of which a newer one counts."""
    missing: tuple[str, ...]
    """Raters from whom nothing counts."""
    incomplete: tuple[str, ...]
    """Items that were left out since not all models wrote about them."""
    left_out: tuple[str, ...]
    """Raters whose answers were set aside on request."""


def results(
    collection: AnswerCollection,
    key: PacketKey,
    leave_out: Sequence[str] = (),
    looks: Sequence[float] = (1.0,),
) -> StudyResults:
    """Sum up a study.

    Args:
        collection: what came back.
        key: of the packet.
        leave_out: raters whose answers are not to count.
        looks: share of the answers that were in at each look, this one included.
    """
    answers = answers_that_count(collection, leave_out)
    coarse = comparisons(answers, key)
    granular = [answer for answer in answers if answer.marks is not None]
    pairs = [_comparison(coarse, key, *pair) for pair in combinations(key.models, 2)]
    return StudyResults(
        key.packet,
        key.models,
        key.suggested,
        _correct([each for each in pairs if each], looks),
        rankings(coarse, key, AXES) if coarse and len(key.models) > 2 else (),
        _side_bias(coarse),
        tuple(
            _mark_rate(granular, key, model, side)
            for side in key.sides
            for model in key.models
            if any(answer.task.models == (model,) for answer in granular)
        ),
        tuple(_span_agreement(granular, key, side) for side in key.sides if granular),
        rater_reports(collection, key),
        tuple(looks),
        tuple(map(str, collection.refusals)),
        tuple(map(str, collection.superseded)),
        collection.missing,
        key.incomplete,
        tuple(leave_out),
    )


def answers_that_count(
    collection: AnswerCollection, leave_out: Sequence[str] = ()
) -> list[RaterAnswer]:
    """The answers without those of raters who are set aside."""
    return [answer for answer in collection.answers if answer.rater not in leave_out]


def judgments(answers: Sequence[RaterAnswer], key: PacketKey) -> list[Row]:
    """One row for each comparison: preferences say how much better the later model is."""
    rows: list[Row] = []
    for answer in comparisons(answers, key):
        earlier, later = key.in_order(answer.task.models)
        rows.append({
            "id": answer.task.item, "rater": answer.rater, "earlier": earlier, "later": later,
            **answer.towards(later), "seconds": answer.seconds, "comment": answer.comment,
        })  # fmt: skip
    return rows


def _comparison(
    answers: Sequence[RaterAnswer], key: PacketKey, earlier: str, later: str
) -> Comparison | None:
    ours = [answer for answer in answers if set(answer.task.models) == {earlier, later}]
    if not ours:
        return None
    of_item = Counter(answer.task.item for answer in ours)
    # Items with equal texts are ties. While answers are missing they count in proportion to the
    # items answered: all at once, they would pull every early result to 0.
    identical = sum(set(task.models) == {earlier, later} for task in key.identical)
    identical = round(identical * len(of_item) / (len(key.items) - identical))
    designs = _design(ours, identical), CrossedDesign([*of_item], [0] * len(of_item), identical)
    return Comparison(
        earlier,
        later,
        len(of_item) + identical,
        identical,
        len(ours),
        designs[0].raters,
        sum(count > 1 for count in of_item.values()),
        tuple(_preference(ours, later, axis, designs) for axis in AXES),
    )


def _preference(
    answers: Sequence[RaterAnswer],
    later: str,
    axis: str,
    designs: tuple[CrossedDesign, CrossedDesign],
) -> AxisPreference:
    """One axis, tested over items and raters, and over items alone."""
    both, items_alone = designs  # items alone: one answer each, the mean of its raters
    values = [answer.towards(later)[axis] for answer in answers]
    units: dict[str, list[int]] = defaultdict(list)
    for answer, value in zip(answers, values, strict=True):
        units[answer.task.item].append(value)
    of_items = [fmean(unit) for unit in units.values()]
    means = of_items + [0.0] * both.ties
    test = both.test(values)
    several = [unit for unit in units.values() if len(unit) > 1]
    counts = Counter(values)
    return AxisPreference(
        axis,
        test.interval,
        items_alone.test(of_items).interval,
        test.p,
        test.p,
        False,
        sum(mean > 0 for mean in means),
        sum(mean == 0 for mean in means),
        sum(mean < 0 for mean in means),
        sign_test(means),
        alpha_both_orders(several),
        same_side(several),
        {value: counts[value] for value in VALUES},
    )


def _design(answers: Sequence[RaterAnswer], ties: int = 0) -> CrossedDesign:
    return CrossedDesign([a.task.item for a in answers], [a.rater for a in answers], ties)


def _correct(comparisons: Sequence[Comparison], looks: Sequence[float]) -> tuple[Comparison, ...]:
    # A reader quotes whichever statement of the page is striking, so all are one family.
    axes = [axis for comparison in comparisons for axis in comparison.axes]
    p_values = [axis.p_mean for axis in axes]
    levels = iter(zip(axes, holm(p_values), significant(p_values, looks), strict=True))
    return tuple(
        replace(
            each,
            axes=tuple(
                replace(
                    axis,
                    p_holm=p,
                    # One rater settles no sign for others, and what does not hold for these raters
                    # (as of fewer than six items) would hold for others by luck.
                    settled=holds and axis.these_raters.excludes_zero and each.raters > 1,
                )
                for axis, p, holds in islice(levels, len(each.axes))
            ),
        )
        for each in comparisons
    )


def _side_bias(answers: Sequence[RaterAnswer]) -> tuple[SideBias, ...]:
    if not answers:
        return ()
    design = _design(answers)
    return tuple(
        SideBias(axis, design.test([answer.preferences[axis] for answer in answers]).interval)
        for axis in AXES
    )


def alpha_both_orders(units: Sequence[Sequence[int]]) -> Interval | None:
    """Krippendorff's ordinal alpha of the answers to each item, with each pair in both orders."""
    if not units:
        return None
    # Expected disagreement comes from how often each answer is given. If all raters prefer the
    # later model, that hardly varies, and full agreement would pass for chance; with both orders
    # the answers are as varied as the choices.
    ratings = count_ratings([*units, *([-value for value in unit] for unit in units)])

    def alpha(rows: Ints) -> list[float]:
        # An item and its mirror image are one observation: they are drawn together.
        weights = np.bincount(rows, minlength=len(units)).astype(np.float64)  # (units,)
        return [ratings.alpha(np.tile(weights, 2))]

    [estimate] = bootstrap(alpha, range(len(units)))
    if isnan(estimate.value):
        return None
    if isnan(estimate.low):  # a single pair cannot be resampled: alpha may be anything
        return Interval(estimate.value, -1.0, 1.0, len(units))
    return Interval(estimate.value, estimate.low, estimate.high, len(units))


def same_side(units: Sequence[Sequence[int]]) -> float | None:
    """Share of pairs of raters of one item who choose the same side, or both "equal"."""
    # Alpha is near 0 or wild where few answers vary; a share is what readers can picture.
    agree = [
        (one > 0) - (one < 0) == (other > 0) - (other < 0)
        for unit in units
        for one, other in combinations(unit, 2)
    ]
    return fmean(agree) if agree else None


def _mark_rate(answers: Sequence[RaterAnswer], key: PacketKey, model: str, side: str) -> MarkRate:
    counts: dict[str, list[int]] = defaultdict(list)
    shares: dict[str, list[float]] = defaultdict(list)
    for answer in answers:
        if answer.task.models == (model,):
            spans = getattr(answer.marks, side)
            text = key.items[answer.task.item].by_side(model)[side]
            counts[answer.task.item].append(len(spans))
            shares[answer.task.item].append(unmarked_share(text, spans))
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
        text = key.items[item].by_side(model)[side]
        for one, other in combinations(several, 2):
            spans = (getattr(one.marks, side), getattr(other.marks, side))
            some += span_matches(text, *spans)
            half += span_matches(text, *spans, share=0.5)
    shared = sum(len(several) > 1 for several in tasks.values())
    f1, f1_at_50 = (None if isnan(each.f1) else each.f1 for each in (some, half))
    return SpanAgreement(side, shared, f1, f1_at_50)
