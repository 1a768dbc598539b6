"""Comparisons of judges -> a decision, text for terminals, JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import comb, isnan, nan, sqrt
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from posh_reward.distill.judge_runs import SECOND_RUN_SUFFIX, JudgeRun, QuestionKey, ScoredPair
from posh_reward.posh.means import read_counted_score
from posh_reward.posh.names import MIN_PRESENT_GRADE
from posh_reward.posh.wording import build_question
from posh_reward.process.progress import progress_bar
from posh_reward.tables.statistics import (
    Estimate,
    Floats,
    Ints,
    bootstrap,
    group_rows,
    replace_nan,
    spearman,
)
from posh_reward.tables.text_tables import align_columns
from posh_reward.types import HIGHEST_GRADE, LOWEST_GRADE, Question

MAX_DIFFERENCES_STORED = 20  # questions with the largest differences, in JSON
MAX_DIFFERENCES_SHOWN = 5  # of them in a terminal
SCORE_AXES = ("precision", "recall", "f1")
OBJECTIVES: Mapping[str, tuple[str, ...]] = {
    "f1": ("f1",),
    "precision and recall": ("precision", "recall"),
}
"""Sets of rewards; two are normalised within the group before they are added."""
QUESTION_PARTS = ("all", "entity", "attribute", "relation", "precision", "recall")
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
    questions: Mapping[str, QuestionAgreement]  # by those of ``QUESTION_PARTS`` that have questions
    failures: int  # questions that at least one could not answer
    largest: Sequence[QuestionDifference]
    pairs: Mapping[str, PairAgreement]  # by axis
    pair_failures: int  # pairs that at least one could not score
    groups: Mapping[str, GroupAgreement]  # by objective; empty if no reference has two texts


def compare_runs(
    first: JudgeRun, other: JudgeRun, pairs: Sequence[ScoredPair], resamples: int = 1000
) -> JudgeComparison:
    """Compare two runs over the same pairs: ``other`` may replace ``first``."""
    keys, grades = _shared_grades(first, other)
    graded = np.flatnonzero(~np.isnan(grades).any(axis=1))
    failures = len(keys) - len(graded)
    keys, grades = [keys[i] for i in graded], grades[graded]
    scores = {axis: _score_columns(first, other, axis) for axis in SCORE_AXES}
    scored = np.flatnonzero(~np.isnan(scores["f1"]).any(axis=1))
    references = [pair.reference.strip() for pair in pairs]
    by_axis: dict[str, PairAgreement] = {}
    for axis in SCORE_AXES:
        if rows := _with_elements(first, axis, scored):
            some = [references[row] for row in rows]
            by_axis[axis] = pair_agreement(scores[axis][rows], some, resamples)
    by_objective: dict[str, GroupAgreement] = {}
    for name, axes in OBJECTIVES.items():
        rewards = np.stack([scores[axis] for axis in axes])
        if group := group_agreement(rewards, references, resamples):
            by_objective[name] = group
    return JudgeComparison(
        first,
        other,
        len(set(references)),
        _agreement_by_part(keys, grades, resamples),
        failures,
        _largest_differences(keys, grades, {**first.questions, **other.questions}),
        by_axis,
        len(pairs) - len(scored),
        by_objective,
    )


def _shared_grades(first: JudgeRun, other: JudgeRun) -> tuple[list[QuestionKey], Floats]:
    """Return the questions put to both, and their grades, (questions, 2); nan where one failed."""
    asked = dict.fromkeys((*first.questions, *other.questions))
    both = [key for key in asked if key in other.verdicts]
    both.sort(key=lambda key: (key.source, key.target, *map(str, key)))
    columns = np.full((2, len(both)), nan)
    for column, run in zip(columns, (first, other), strict=True):
        for place, key in enumerate(both):
            verdict = run.verdicts.get(key)
            if verdict is not None and verdict.grade is not None:
                column[place] = verdict.grade
    return both, columns.T


def _score_columns(first: JudgeRun, other: JudgeRun, axis: str) -> Floats:
    columns = [list(map(attrgetter(axis), run.scores)) for run in (first, other)]
    scores: Floats = np.array(columns, dtype=np.float64).T
    return scores


def _with_elements(run: JudgeRun, axis: str, rows: Ints) -> list[int]:
    """Leave out pairs whose score is 1 by definition, on which any two judges agree."""
    return [row for row in rows.tolist() if read_counted_score(run.scores[row], axis) is not None]


def _agreement_by_part(
    keys: Sequence[QuestionKey], grades: Floats, resamples: int
) -> dict[str, QuestionAgreement]:
    references = [key.pair.reference for key in keys]
    by_part = {}
    for part in QUESTION_PARTS:
        rows = [i for i, key in enumerate(keys) if part in ("all", key.kind, key.direction)]
        if rows:
            some = [references[i] for i in rows]
            by_part[part] = question_agreement(grades[rows], some, resamples)
    return by_part


def _largest_differences(
    keys: Sequence[QuestionKey], grades: Floats, questions: Mapping[QuestionKey, Question]
) -> list[QuestionDifference]:
    order = np.argsort(-np.abs(grades[:, 0] - grades[:, 1]), kind="stable")[:MAX_DIFFERENCES_STORED]
    return [
        QuestionDifference(questions[keys[i]], float(grades[i, 0]), float(grades[i, 1]))
        for i in order.tolist()
        if grades[i, 0] != grades[i, 1]
    ]


LABEL_COUNT = int(HIGHEST_GRADE)
STD_EPSILON = 1e-4  # added to the standard deviation of a group (GRPOTrainer of TRL 1.16)
ADVANTAGE_TOLERANCE = 1e-3
"""Advantages below this have no sign, and two that differ by less are tied: rounding of rewards
causes differences of this size among equal texts."""
NORMAL_QUANTILE_975 = 1.959964
"""Half-width of the normal distribution's central 95 %, in standard deviations."""


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
    flips: Estimate  # share of completions whose advantage changes sign; lower is better
    alike: Estimate  # share of pairs of siblings in the same order
    # Cosine of the two vectors of all advantages: of the two updates, if gradients of different
    # completions are orthogonal and of equal length.
    cosine: Estimate


def question_agreement(
    grades: Floats, references: Sequence[str], resamples: int = 1000
) -> QuestionAgreement:
    """Measure agreement of grades, (questions, 2); ``references`` has each question's."""
    first, other = grades.T
    present = (first >= MIN_PRESENT_GRADE) == (other >= MIN_PRESENT_GRADE)

    def measure(rows: Ints) -> list[float]:
        a, b = first[rows], other[rows]
        return [
            float(np.abs(a - b).mean()),
            float((b - a).mean()),
            float(present[rows].mean()),
            quadratic_kappa(a, b),
        ]

    return QuestionAgreement(len(first), *bootstrap(measure, references, resamples=resamples))


def quadratic_kappa(first: Floats, other: Floats) -> float:
    """Return Cohen's kappa with quadratic weights: 1 if all agree, 0 as by chance, or nan."""
    # With quadratic weights, two labels off counts four times as much as one. Raw agreement would
    # be high for judges that nearly always say "present", hence the correction for chance.
    a, b = np.rint([first, other]).astype(np.int64) - int(LOWEST_GRADE)
    table = np.bincount(a * LABEL_COUNT + b, minlength=LABEL_COUNT**2)
    table = table.reshape(LABEL_COUNT, LABEL_COUNT)
    places = np.arange(LABEL_COUNT)
    weights = np.square(places[:, None] - places[None, :])
    by_chance = np.outer(table.sum(axis=1), table.sum(axis=0)) / len(a)
    chance = float((weights * by_chance).sum())
    if not chance:
        return nan
    return 1 - float((weights * table).sum()) / chance


def pair_agreement(
    scores: Floats, references: Sequence[str], resamples: int = 1000
) -> PairAgreement:
    """Measure agreement of scores, (pairs, 2); ``references`` has each pair's."""
    first, other = scores.T
    differences = other - first

    def measure(rows: Ints) -> list[float]:
        some = differences[rows]
        spread = float(some.std(ddof=1)) if len(some) > 1 else nan
        return [float(some.mean()), spread, spearman(first[rows], other[rows])]

    return PairAgreement(len(scores), *bootstrap(measure, references, resamples=resamples))


def group_advantages(rewards: Floats) -> Floats:
    """Advantages of a group as in TRL, (siblings,); rewards are (objectives, siblings)."""
    # TRL's ``normalize_then_sum``: objectives are normalised within the group, then added. Its last
    # factor, one number for the whole batch, is left out: it changes neither sign nor order.
    apart = rewards - rewards.mean(axis=1, keepdims=True)  # (objectives, siblings)
    normal = apart / (rewards.std(axis=1, ddof=1, keepdims=True) + STD_EPSILON)
    total: Floats = normal.sum(axis=0)
    return total


def group_agreement(
    rewards: Floats, references: Sequence[str], resamples: int = 1000
) -> GroupAgreement | None:
    """Measure agreement about siblings; None if no reference has two texts scored by both judges.

    ``rewards`` are (objectives, pairs, 2), nan where a judge failed; ``references``, (pairs,).
    """
    by_group, possible = [], 0
    for rows in group_rows(references):
        possible += comb(len(rows), 2)
        siblings = rewards[:, rows]
        siblings = siblings[:, ~np.isnan(siblings).any(axis=(0, 2))]
        if siblings.shape[1] > 1:
            by_group.append(_group_sums(siblings))
    if not by_group:
        return None
    # Each group is reduced to sums once, so that a thousand resamples need no pass over the texts.
    table = np.array(by_group)  # (groups, sums)

    def measure(groups: Ints) -> list[float]:
        sums = table[groups].sum(axis=0)
        flips, completions, alike, ordered, product, own, others, _ = sums
        scale = float(np.sqrt(own * others))
        return [
            flips / completions,
            alike / ordered if ordered else nan,
            product / scale if scale else nan,
        ]

    flips, alike, cosine = bootstrap(measure, range(len(table)), resamples=resamples)
    _, sizes, _, ordered, *_, apart = table.T  # (groups,) each
    with_order = int((ordered > 0).sum())
    alike = below_unseen(at_least_wilson(alike, int(apart.sum())), with_order)
    compared = sum(comb(size, 2) for size in sizes.astype(int).tolist()) / possible
    return GroupAgreement(
        len(table), with_order, int(sizes.sum()), compared, int(ordered.sum()), flips, alike, cosine
    )


def at_least_wilson(share: Estimate, count: int) -> Estimate:
    """Widen a share's interval to at least Wilson's (1927) for ``count`` independent cases."""
    # A share of 1 is 1 in every resample, so the bootstrap interval has no width just where a judge
    # looks best; and with few groups it is too narrow.
    if np.isnan(share.low) or np.isnan(share.value) or count < 1:
        return share
    low, high = wilson_interval(share.value, count)
    return replace(share, low=min(share.low, low), high=max(share.high, high))


def below_unseen(alike: Estimate, references: int) -> Estimate:
    """Lower the interval's low end for references on which the other judge orders by chance."""
    # A judge that is at a loss on some kind of reference agrees in half of their pairs. No number
    # of siblings shows this if no such reference was drawn: without this bound, a judge at a loss
    # on a tenth "may replace" after 24 references in 11 % of simulated comparisons (now 0 %). Each
    # reference is one case here, ordered as by the first judge or by a coin.
    if np.isnan(alike.low) or references < 1:
        return alike
    low, _ = wilson_interval(max(2 * alike.value - 1, 0.0), references)
    return replace(alike, low=min(alike.low, (1 + low) / 2))


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share: all shares that a score test does not reject."""
    z = NORMAL_QUANTILE_975
    z2 = z**2
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = z * sqrt(share * (1 - share) / count + z2 / (4 * count**2)) / (1 + z2 / count)
    return centre - half, min(centre + half, 1.0)


def _group_sums(siblings: Floats) -> list[float]:
    """Sum up one group for ``measure``; ``siblings`` are (objectives, siblings, 2)."""
    a, b = group_advantages(siblings[:, :, 0]), group_advantages(siblings[:, :, 1])
    alike, ordered = count_alike_pairs(a, b)
    return [
        float((signs(a) != signs(b)).sum()),
        float(len(a)),
        alike,
        ordered,
        float(a @ b),
        float(a @ a),
        float(b @ b),
        float(count_distinct_siblings(a, b) - 1),
    ]


def signs(differences: Floats) -> Floats:
    """Return -1, 0 or 1 for each; 0 for all that rounding alone may cause."""
    return np.where(np.abs(differences) < ADVANTAGE_TOLERANCE, 0, np.sign(differences))


def count_alike_pairs(first: Floats, other: Floats) -> tuple[float, float]:
    """Count pairs of siblings in the same order, and pairs that at least one judge orders."""
    # A tie of one judge alone counts half, as in a rank correlation: a judge that ties everything
    # does as well as a coin.
    i, j = np.triu_indices(len(first), 1)
    a, b = signs(first[i] - first[j]), signs(other[i] - other[j])
    ordered = (a != 0) | (b != 0)
    ties = ordered & ((a == 0) | (b == 0))
    return float((ordered & (a == b)).sum() + ties.sum() / 2), float(ordered.sum())


def count_distinct_siblings(first: Floats, other: Floats) -> int:
    """Count siblings; those that both judges tie count once."""
    # An order of k siblings has only k - 1 independent comparisons, not one per pair; and equal
    # texts add none.
    tied = (signs(first[:, None] - first) == 0) & (signs(other[:, None] - other) == 0)
    return int((~np.tril(tied, -1).any(axis=1)).sum())


MIN_ALIKE_SHARE = 0.95  # of siblings in the same order, for a judge that may replace another
MIN_REFERENCES_FOR_INTERVAL = 6  # with fewer it means nothing: resampling repeats the same few
COST_HEADINGS = {
    "requests": "questions",
    "rewrites": "rewrites",
    "cache_hits": "not asked again",
    "prompt_tokens_submitted": "tokens submitted",
    "prompt_tokens_computed": "computed",
    "tokens_decoded": "decoded",
    "seconds": "seconds",
}
"""Field of ``Usage`` -> heading in tables."""


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """All judges compared with the first."""

    first: JudgeRun
    comparisons: Sequence[JudgeComparison]
    floor: JudgeComparison | None  # the first judge's second run, against its first; None without

    @property
    def lines(self) -> list[JudgeComparison]:
        """All comparisons, the floor last."""
        if self.floor is None:
            return list(self.comparisons)
        return [*self.comparisons, self.floor]

    @property
    def runs(self) -> list[JudgeRun]:
        return [self.first, *(line.other for line in self.lines)]


def judge_report(
    runs: Sequence[JudgeRun],
    pairs: Sequence[ScoredPair],
    *,
    resamples: int = 1000,
    quiet: bool = True,
) -> JudgeReport:
    """Compare every run with the first; the last may be the first judge's second run."""
    lines = []
    with progress_bar("comparing", len(runs) - 1, "judge", quiet) as bar:
        for run in runs[1:]:
            lines.append(compare_runs(runs[0], run, pairs, resamples))
            bar.update()
    floor = None
    if runs[-1].label == runs[0].label + SECOND_RUN_SUFFIX:
        floor = lines.pop()
    return JudgeReport(runs[0], lines, floor)


@dataclass(frozen=True, slots=True)
class JudgeDecision:
    """Decision on replacing the first judge in training."""

    verdict: Literal["yes", "no", "not settled"]
    sentence: str  # the verdict with its figures


def decide_replacement(
    comparison: JudgeComparison, floor: JudgeComparison | None = None
) -> JudgeDecision:
    """Decide by the intervals of the share of siblings ordered alike, for f1 and two objectives."""
    first, other = comparison.first.label, comparison.other.label
    unsettled = f"Not settled whether {other} may replace {first} for training"
    groups = comparison.groups.values()
    if not groups or any(isnan(group.alike.value) for group in groups):
        common = "that a judge orders" if groups else "that both judges scored"
        return JudgeDecision("not settled", f"{unsettled}: no reference has two texts {common}.")
    by_f1, by_two = (comparison.groups[name].alike for name in OBJECTIVES)
    figures = (
        f"siblings are ordered alike in {format_percent(by_f1)} of pairs by f1, and in "
        f"{format_percent(by_two)} with precision and recall as two objectives"
    )
    if floor is not None and floor.groups:
        figures += f" (the first judge against itself: {format_percent(floor.groups['f1'].alike)})"
    if comparison.pair_failures:
        unscored = comparison.pair_failures / len(comparison.first.scores)
        figures += f"; {100 * unscored:.0f} % of the pairs have no score from both"
    unsettled += f": {figures}."
    needed = MIN_REFERENCES_FOR_INTERVAL
    few = min(group.references for group in groups) < needed
    if few or isnan(by_f1.low) or isnan(by_two.low):
        required = f"It takes intervals over {needed} or more references to decide."
        return JudgeDecision("not settled", f"{unsettled} {required}")
    # The worst case: every pair of siblings that lacks a score would be ordered differently.
    if min(group.alike.low * group.compared for group in groups) >= MIN_ALIKE_SHARE:
        return JudgeDecision("yes", f"{other} may replace {first} for training: {figures}.")
    if min(by_f1.high, by_two.high) < MIN_ALIKE_SHARE:
        return JudgeDecision("no", f"{other} may not replace {first} for training: {figures}.")
    share = f"{100 * MIN_ALIKE_SHARE:.0f} %"
    required = f"At least {share} are required; use more references to decide."
    return JudgeDecision("not settled", f"{unsettled} {required}")


def format_percent(estimate: Estimate) -> str:
    """Format a share with its interval: ``97 % [96, 98]``."""
    form = ".1f" if 0.98 < estimate.value < 1 else ".0f"
    value, low, high = (100 * each for each in (estimate.value, estimate.low, estimate.high))
    text, *interval = f"{Estimate(value, low, high, estimate.p):{form}}".split(" ", 1)
    return text if isnan(value) else " ".join([text, "%", *interval])


def _overview_rows(report: JudgeReport) -> list[list[str]]:
    heads = ["against " + report.first.label, "siblings alike, f1", "two objectives",
             "sign changed", "cosine", "present alike", "kappa"]  # fmt: skip
    rows = [heads]
    for line in report.lines:
        alike = alike_by_two = flips = cosine = present = kappa = "none"
        by_f1, by_two = map(line.groups.get, OBJECTIVES)
        if by_f1:
            alike, flips = format_percent(by_f1.alike), format_percent(by_f1.flips)
            cosine = f"{by_f1.cosine:.2f}"
        if by_two:
            alike_by_two = format_percent(by_two.alike)
        if questions := line.questions.get("all"):
            present, kappa = format_percent(questions.present), f"{questions.kappa:.2f}"
        rows.append([line.other.label, alike, alike_by_two, flips, cosine, present, kappa])
    return rows


def _question_rows(comparison: JudgeComparison) -> list[list[str]]:
    heads = ["questions", "count", "difference", "bias", "present alike", "kappa"]
    rows = [
        [part, f"{it.count:,}", f"{it.difference:.3f}", f"{it.bias:+.3f}",
         format_percent(it.present), f"{it.kappa:.3f}"]
        for part, it in comparison.questions.items()
    ]  # fmt: skip
    return [heads, *rows]


def _pair_rows(comparison: JudgeComparison) -> list[list[str]]:
    heads = ["score", "pairs", "bias", "spread", "rank correlation"]
    rows = [
        [axis, f"{it.count:,}", f"{it.bias:+.3f}", f"{it.spread:.3f}", f"{it.rank:.3f}"]
        for axis, it in comparison.pairs.items()
    ]
    return [heads, *rows]


def _cost_rows(report: JudgeReport) -> list[list[str]]:
    rows = [["judge", *COST_HEADINGS.values()]]
    for run in report.runs:
        row = [run.label]
        for name in COST_HEADINGS:
            digits = int(name == "seconds")
            row.append(f"{getattr(run.usage, name):,.{digits}f}")
        rows.append(row)
    return rows


def question_text(difference: QuestionDifference) -> str:
    return build_question(difference.question).removeprefix("Q: ").partition(" Consider")[0]


def terminal_text(report: JudgeReport) -> str:
    references = report.comparisons[0].references
    parts = [
        "\n".join(decide_replacement(line, report.floor).sentence for line in report.comparisons),
        f"{len(report.first.scores):,} pairs of {references:,} references; 95 % over references.",
        align_columns(_overview_rows(report)),
        align_columns(_cost_rows(report)),
    ]
    for line in report.comparisons:
        parts += [
            f"{line.other.label} against {line.first.label}",
            align_columns(_question_rows(line)),
            align_columns(_pair_rows(line)),
            f"without an answer: {line.failures:,} questions, {line.pair_failures:,} pairs",
        ]
        for each in line.largest[:MAX_DIFFERENCES_SHOWN]:
            grades = f"{each.first:.2f} and {each.other:.2f}"
            text = each.question.target.text
            parts.append(f"{grades}: {question_text(each)}\n  about: {text}")
    return "\n\n".join(parts)


def as_json(report: JudgeReport) -> dict[str, Any]:
    """Collect all figures for JSON; undefined ones are null."""
    rows = []
    for place, pair in enumerate(report.first.scores):
        scores = {}
        for run in report.runs:
            scores[run.label] = {axis: getattr(run.scores[place], axis) for axis in SCORE_AXES}
        rows.append({"generation": pair.generation, "reference": pair.reference, "scores": scores})
    return {
        "pairs": len(rows),
        "references": report.comparisons[0].references,
        "judges": [
            {"judge": run.label, "signature": run.signature, "usage": asdict(run.usage)}
            for run in report.runs
        ],
        "comparisons": [_comparison_json(line, report.floor) for line in report.comparisons],
        "floor": _comparison_json(report.floor, None) if report.floor else None,
        "rows": rows,
    }


def _comparison_json(line: JudgeComparison, floor: JudgeComparison | None) -> dict[str, Any]:
    parts = {}
    for name in ("questions", "pairs", "groups"):
        agreements = getattr(line, name)
        parts[name] = {key: replace_nan(asdict(value)) for key, value in agreements.items()}
    return {
        "judge": line.other.label,
        "against": line.first.label,
        **asdict(decide_replacement(line, floor)),
        **parts,
        "largest": [
            {"question": question_text(each), "target": each.question.target.text,
             "source": each.question.source.text, "first": each.first, "other": each.other}
            for each in line.largest
        ],
        "failed_questions": line.failures,
        "unscored_pairs": line.pair_failures,
    }  # fmt: skip
