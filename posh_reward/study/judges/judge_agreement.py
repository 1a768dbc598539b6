"""Grades, scores and rewards of two judges -> agreement measures with intervals.

References are resampled, each with all its texts and questions, since those are not independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, nan, sqrt

import numpy as np
from numpy.typing import NDArray

from posh_reward.metrics.posh.questions import PRESENT
from posh_reward.study.agreement.measures import spearman
from posh_reward.study.judges.judge_runs import JudgeRun, QuestionKey, ScoredPair
from posh_reward.study.statistics import Estimate, Floats, Ints, bootstrap, rows_by_group
from posh_reward.types import HIGHEST_GRADE, LOWEST_GRADE, Question

LARGEST = 20  # number of questions with the largest differences to list
AXES = ("precision", "recall", "f1")
OBJECTIVES: Mapping[str, tuple[str, ...]] = {
    "f1": ("f1",),
    "precision and recall": ("precision", "recall"),
}
"""Sets of rewards; two are normalised within the group before they are added."""
PARTS = ("all", "entity", "attribute", "relation", "precision", "recall")
"""Sets of questions: all, of one kind, of one direction."""


@dataclass(frozen=True, slots=True)
class QuestionDifference:
    """A question that two judges grade differently."""

    question: Question
    first: float
    other: float


@dataclass(frozen=True, slots=True)
class JudgeComparison:
    """A judge compared with the first."""

    first: JudgeRun
    other: JudgeRun
    references: int
    questions: Mapping[str, QuestionAgreement]  # by those of ``PARTS`` that have questions
    failures: int  # questions that at least one could not answer
    calibration: Sequence[CalibrationBin]
    largest: Sequence[QuestionDifference]
    pairs: Mapping[str, PairAgreement]  # by axis
    pair_failures: int  # pairs that at least one could not score
    groups: Mapping[str, GroupAgreement]  # by objective; empty if no reference has two texts

    @property
    def scored_share(self) -> float:
        """Share of pairs that both scored."""
        count = self.pairs["f1"].count if self.pairs else 0
        return count / (count + self.pair_failures) if count else 0.0


def compare(
    first: JudgeRun,
    other: JudgeRun,
    pairs: Sequence[ScoredPair],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> JudgeComparison:
    """Compare two runs over the same pairs: ``other`` may replace ``first``."""
    both, grades = shared_grades(first, other)
    sound: NDArray[np.bool_] = np.asarray(~np.isnan(grades).any(axis=1), np.bool_)
    keys = [key for key, is_sound in zip(both, sound.tolist(), strict=True) if is_sound]
    axes = {axis: _axis(first, other, axis) for axis in AXES}
    usable: NDArray[np.bool_] = np.asarray(~np.isnan(axes["f1"]).any(axis=1), np.bool_)
    references = [pair.reference.strip() for pair in pairs]
    usable_references = [references[i] for i in np.flatnonzero(usable)]
    groups = {
        name: group_agreement(np.stack([axes[a] for a in objectives]), references, resamples, seed)
        for name, objectives in OBJECTIVES.items()
    }
    return JudgeComparison(
        first,
        other,
        len(set(references)),
        _by_part(keys, grades[sound], resamples, seed),
        int((~sound).sum()),
        calibration(grades[sound]),
        _largest(keys, grades[sound], first.questions | other.questions),
        {
            axis: pair_agreement(values[usable], usable_references, resamples, seed)
            for axis, values in axes.items()
            if usable.any()
        },
        int((~usable).sum()),
        {name: group for name, group in groups.items() if group},
    )


def shared_grades(first: JudgeRun, other: JudgeRun) -> tuple[list[QuestionKey], Floats]:
    """Return the questions put to both, and their grades, (questions, 2); nan where one failed."""
    both = [key for key in dict.fromkeys((*first.own, *other.own)) if key in other.verdicts]
    both.sort(key=lambda key: (key.source, key.target, *map(str, key)))
    columns = [
        [run.verdicts[key].grade if key in run.verdicts else None for key in both]
        for run in (first, other)
    ]
    grades: Floats = np.array(columns, dtype=np.float64).T  # None becomes nan
    return both, grades


def _axis(first: JudgeRun, other: JudgeRun, axis: str) -> Floats:
    """Scores of each pair on one axis, (pairs, 2); nan where one failed."""
    columns = [[getattr(each, axis) for each in run.scores] for run in (first, other)]
    scores: Floats = np.array(columns, dtype=np.float64).T
    return scores


def _by_part(
    keys: Sequence[QuestionKey], grades: Floats, resamples: int, seed: int
) -> dict[str, QuestionAgreement]:
    references = [key.target if key.direction == "precision" else key.source for key in keys]
    by_part = {}
    for part in PARTS:
        rows = [i for i, key in enumerate(keys) if part in ("all", key.kind, key.direction)]
        if rows:
            some = [references[i] for i in rows]
            by_part[part] = question_agreement(grades[rows], some, resamples, seed)
    return by_part


def _largest(
    keys: Sequence[QuestionKey], grades: Floats, questions: Mapping[QuestionKey, Question]
) -> list[QuestionDifference]:
    order = np.argsort(-np.abs(grades[:, 0] - grades[:, 1]), kind="stable")[:LARGEST]
    return [
        QuestionDifference(questions[keys[i]], float(grades[i, 0]), float(grades[i, 1]))
        for i in order.tolist()
        if grades[i, 0] != grades[i, 1]
    ]


LABELS = int(HIGHEST_GRADE)
EPSILON = 1e-4  # added to the standard deviation of a group (GRPOTrainer of TRL 1.16)
FLAT = 1e-3
"""Advantages below this have no sign, and two that differ by less are tied: rounding of rewards
causes differences of this size among equal texts."""
Z95 = 1.959964  # half-width of the normal distribution's central 95 %, in standard deviations
BIN = 0.5  # width of the calibration curve's bins, in grades


@dataclass(frozen=True, slots=True)
class QuestionAgreement:
    """Agreement of grades of the same questions."""

    count: int
    difference: Estimate  # mean absolute difference, 0 to 4; lower is better
    bias: Estimate  # mean of the other judge's grade minus the first's
    present: Estimate  # share of questions where both say present (grade of 2 or more) or absent
    kappa: Estimate  # Cohen's, with quadratic weights, of grades rounded to labels


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """Agreement of one score of the same pairs."""

    count: int
    bias: Estimate
    spread: Estimate  # standard deviation of the differences
    rank: Estimate  # Spearman's correlation over all pairs


@dataclass(frozen=True, slots=True)
class GroupAgreement:
    """Agreement of siblings' advantages: what GRPO sees."""

    groups: int  # references with at least two texts scored by both judges
    references: int  # those of them whose texts at least one judge orders
    completions: int
    compared: float  # share of all pairs of siblings in which both texts have both scores
    ordered: int  # pairs of siblings that at least one judge orders
    correlation: Estimate  # of advantages within a group, averaged over groups
    flips: Estimate  # share of completions whose advantage changes sign; lower is better
    alike: Estimate  # share of pairs of siblings in the same order
    # Cosine of the two vectors of all advantages: of the two updates, if gradients of different
    # completions are orthogonal and of equal length.
    cosine: Estimate


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Questions that the other judge graded about the same."""

    other: float  # its mean grade
    first: float  # mean grade of the first judge
    spread: float  # standard deviation of the first judge's grades
    count: int


def question_agreement(
    grades: Floats, references: Sequence[str], resamples: int = 1000, seed: int = 0
) -> QuestionAgreement:
    """Measure agreement of grades, (questions, 2); ``references`` has each question's."""
    first, other = grades.T
    present = (first >= PRESENT) == (other >= PRESENT)

    def measure(rows: Ints) -> list[float]:
        a, b = first[rows], other[rows]
        return [
            float(np.abs(a - b).mean()),
            float((b - a).mean()),
            float(present[rows].mean()),
            quadratic_kappa(a, b),
        ]

    return QuestionAgreement(
        len(first), *bootstrap(measure, references, resamples=resamples, seed=seed)
    )


def quadratic_kappa(first: Floats, other: Floats) -> float:
    """Cohen's kappa of grades rounded to labels, quadratically weighted; nan if neither varies."""
    # With quadratic weights, two labels off counts four times as much as one. Raw agreement would
    # be high for judges that nearly always say "present", hence the correction for chance.
    a, b = (np.rint(each).astype(np.int64) - int(LOWEST_GRADE) for each in (first, other))
    table = np.bincount(a * LABELS + b, minlength=LABELS**2).reshape(LABELS, LABELS)
    places = np.arange(LABELS)
    weights = np.square(places[:, None] - places[None, :])
    by_chance = np.outer(table.sum(axis=1), table.sum(axis=0)) / len(a)
    chance = float((weights * by_chance).sum())
    return 1 - float((weights * table).sum()) / chance if chance else nan


def calibration(grades: Floats) -> list[CalibrationBin]:
    """Average the first judge's grades by bins of the other's; empty bins are left out."""
    first, other = grades.T
    bins = np.floor((other - LOWEST_GRADE) / BIN + 1e-9).astype(np.int64)
    return [
        CalibrationBin(
            float(other[inside].mean()),
            float(first[inside].mean()),
            float(first[inside].std()),
            int(inside.sum()),
        )
        for place in np.unique(bins)
        for inside in [bins == place]
    ]


def pair_agreement(
    scores: Floats, references: Sequence[str], resamples: int = 1000, seed: int = 0
) -> PairAgreement:
    """Measure agreement of scores, (pairs, 2); ``references`` has each pair's."""
    first, other = scores.T
    differences = other - first

    def measure(rows: Ints) -> list[float]:
        some = differences[rows]
        spread = float(some.std(ddof=1)) if len(some) > 1 else nan
        return [float(some.mean()), spread, spearman(first[rows], other[rows])]

    return PairAgreement(
        len(scores), *bootstrap(measure, references, resamples=resamples, seed=seed)
    )


def advantages(rewards: Floats) -> Floats:
    """Advantages of a group as in TRL, (siblings,); rewards are (objectives, siblings)."""
    # TRL's ``normalize_then_sum``: objectives are normalised within the group, then added. Its last
    # factor, one number for the whole batch, is left out: it changes neither sign nor order.
    apart = rewards - rewards.mean(axis=1, keepdims=True)  # (objectives, siblings)
    normal = apart / (rewards.std(axis=1, ddof=1, keepdims=True) + EPSILON)
    total: Floats = normal.sum(axis=0)
    return total


def group_agreement(
    rewards: Floats, references: Sequence[str], resamples: int = 1000, seed: int = 0
) -> GroupAgreement | None:
    """Measure agreement about siblings; None if no reference has two texts scored by both judges.

    ``rewards`` are (objectives, pairs, 2), nan where a judge failed; ``references``, (pairs,).
    """
    sums, possible = [], 0
    for rows in rows_by_group(references):
        possible += comb(len(rows), 2)
        siblings = rewards[:, rows]
        siblings = siblings[:, ~np.isnan(siblings).any(axis=(0, 2))]
        if siblings.shape[1] > 1:
            sums.append(_group_sums(siblings))
    if not sums:
        return None
    # Each group is reduced to sums once, so that a thousand resamples need no pass over the texts.
    table = np.array(sums)  # (groups, sums)

    def measure(groups: Ints) -> list[float]:
        some = table[groups]
        flips, completions, alike, ordered, product, own, others = some[:, 1:8].sum(axis=0)
        correlations = some[:, 0][~np.isnan(some[:, 0])]
        scale = float(np.sqrt(own * others))
        return [
            float(correlations.mean()) if len(correlations) else nan,
            flips / completions,
            alike / ordered if ordered else nan,
            product / scale if scale else nan,
        ]

    correlation, flips, alike, cosine = bootstrap(
        measure, range(len(table)), resamples=resamples, seed=seed
    )
    completions, ordered = int(table[:, 2].sum()), int(table[:, 4].sum())
    with_order = int((table[:, 4] > 0).sum())
    alike = at_least_wilson(alike, int(table[:, 8].sum()))
    alike = below_unseen(alike, with_order)
    compared = sum(comb(size, 2) for size in table[:, 2].astype(int).tolist()) / possible
    return GroupAgreement(
        len(table), with_order, completions, compared, ordered, correlation, flips, alike, cosine
    )


def at_least_wilson(share: Estimate, count: int) -> Estimate:
    """Widen a share's interval to at least Wilson's (1927) for ``count`` independent cases."""
    # A share of 1 is 1 in every resample, so the bootstrap interval has no width just where a judge
    # looks best; and with few groups it is too narrow.
    if np.isnan(share.low) or np.isnan(share.value) or count < 1:
        return share
    low, high = wilson(share.value, count)
    return replace(share, low=min(share.low, low), high=max(share.high, high))


def below_unseen(alike: Estimate, references: int) -> Estimate:
    """Lower the interval's low end for references on which the other judge orders by chance."""
    # A judge that is at a loss on some kind of reference agrees in half of their pairs. No number
    # of siblings shows this if no such reference was drawn: without this bound, a judge at a loss
    # on a tenth "may replace" after 24 references in 11 % of simulated comparisons (now 0 %). Each
    # reference is one case here, ordered as by the first judge or by a coin.
    if np.isnan(alike.low) or references < 1:
        return alike
    low, _ = wilson(max(2 * alike.value - 1, 0.0), references)
    return replace(alike, low=min(alike.low, (1 + low) / 2))


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of ``count`` independent cases."""
    z2 = Z95**2
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = Z95 * sqrt(share * (1 - share) / count + z2 / (4 * count**2)) / (1 + z2 / count)
    return centre - half, min(centre + half, 1.0)


def _group_sums(siblings: Floats) -> list[float]:
    """Sum up one group for ``measure``; ``siblings`` are (objectives, siblings, 2)."""
    a, b = (advantages(siblings[:, :, judge]) for judge in (0, 1))
    signs = [np.where(np.abs(each) < FLAT, 0, np.sign(each)) for each in (a, b)]
    scale = float(np.sqrt((a @ a) * (b @ b)))
    alike, ordered = alike_pairs(a, b)
    return [
        float(a @ b) / scale if scale else nan,  # both are centred, so this is a correlation
        float((signs[0] != signs[1]).sum()),
        float(len(a)),
        alike,
        ordered,
        float(a @ b),
        float(a @ a),
        float(b @ b),
        float(distinct_siblings(a, b) - 1),
    ]


def alike_pairs(first: Floats, other: Floats) -> tuple[float, float]:
    """Count pairs of siblings in the same order, and pairs that at least one judge orders."""
    # A tie of one judge alone counts half, as in a rank correlation: a judge that ties everything
    # does as well as a coin.
    i, j = np.triu_indices(len(first), 1)
    a, b = (
        np.where(np.abs(gap) < FLAT, 0, np.sign(gap))
        for gap in (first[i] - first[j], other[i] - other[j])
    )
    ordered = (a != 0) | (b != 0)
    ties = ordered & ((a == 0) | (b == 0))
    return float((ordered & (a == b)).sum() + ties.sum() / 2), float(ordered.sum())


def distinct_siblings(first: Floats, other: Floats) -> int:
    """Count siblings; those that both judges tie count once."""
    # An order of k siblings has only k - 1 independent comparisons, not one per pair; and equal
    # texts add none.
    gaps = [np.abs(each[:, None] - each[None, :]) for each in (first, other)]
    tied = (gaps[0] < FLAT) & (gaps[1] < FLAT)
    return int((~np.tril(tied, -1).any(axis=1)).sum())
