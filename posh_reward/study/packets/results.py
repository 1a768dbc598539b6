"""Answers and the key -> which model people prefer, by how much, and how far they agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isnan
from statistics import fmean, median

import numpy as np

from posh_reward.errors import MissingDependencyError
from posh_reward.study.agreement.rater_agreement import Matches, count_ratings, span_matches
from posh_reward.study.crossed import CrossedDesign
from posh_reward.study.packets.rater_answers import AnswerCollection
from posh_reward.study.packets.study_records import (
    AXES,
    SIDES,
    VALUES,
    Answer,
    Form,
    PacketKey,
    RaterTexts,
    unmarked_share,
)
from posh_reward.tables.statistics import (
    CONFIDENCE_LEVEL,
    ROUNDING_TOLERANCE,
    Floats,
    Interval,
    Ints,
    MeanTest,
    bootstrap,
    bootstrap_mean,
    bound_unanimous_mean,
    correct_by_holm,
)
from posh_reward.tables.tables import Row

SHRINKAGE = 0.5  # wins of each model over each other one added to those counted
FARTHEST = 10.0  # logits; bound on a strength's distance from the mean


@dataclass(frozen=True, slots=True)
class RankedModel:
    """A model's strength."""

    model: str
    strength: Interval  # logits above the mean of the models; 95 % over items and raters
    chance: float  # of being preferred to a model of mean strength, 0 to 1; ties count half


@dataclass(frozen=True, slots=True)
class Ranking:
    """The models on one axis, best first."""

    axis: str
    models: tuple[RankedModel, ...]


def _ranking(answers: Sequence[Answer], key: PacketKey, axis: str) -> Ranking:
    # Bradley-Terry knows wins only: how much better a text is does not count, and a tie is half a
    # win for each. Davidson's parameter for ties would be of no use here.
    place = {model: index for index, model in enumerate(key.models)}
    games = [
        (place[answer.models[0]], place[answer.models[1]],
         (1 + np.sign(answer.preferences[axis])) / 2, answer.item, answer.rater)
        for answer in answers
    ]  # fmt: skip
    items = {answer.item for answer in answers}
    # Equal texts are ties without asking. Count those of answered items only: all of them would
    # pull an early look to 0.
    games += [
        (place[task.models[0]], place[task.models[1]], 0.5, task.item, "")
        for task in key.identical
        if task.item in items
    ]
    strengths = _strengths(games, len(key.models))
    intervals = _intervals(games, strengths)
    models = [
        RankedModel(model, intervals[index], float(1 / (1 + np.exp(-strengths[index]))))
        for model, index in place.items()
    ]
    models.sort(key=lambda each: -each.strength.mean)
    return Ranking(axis, tuple(models))


Game = tuple[int, int, float, str, str]
"""First and second model, the first one's points (0, 0.5 or 1), item, rater ("" if not asked)."""


def _strengths(games: Sequence[Game], count: int) -> Floats:
    """(models,) strengths in logits, with mean 0."""
    try:
        import choix
    except ImportError:
        raise MissingDependencyError("a ranking needs choix: pip install choix") from None
    # The likelihood has no finite maximum for a model that never loses, and models that nobody
    # compared have no common scale. Half a win of each model over each other one solves both.
    wins = SHRINKAGE * (1 - np.eye(count))  # (models, models) wins of row over column
    for one, other, points, _, _ in games:
        wins[one, other] += points
        wins[other, one] += 1 - points
    strengths = np.asarray(choix.ilsr_pairwise_dense(wins), dtype=np.float64)
    return np.asarray(strengths - strengths.mean())


def _intervals(games: Sequence[Game], strengths: Floats) -> list[Interval]:
    """Intervals over items and raters, from how far each answer moves the strengths."""
    # The information matrix alone would treat answers as independent. But a maximum likelihood
    # estimate is nearly a sum of the answers' influences: the inverse information times an answer's
    # score (observed minus expected points). So ``CrossedDesign``, which gives the interval of a
    # mean over items and raters, also gives that of a strength.
    count = len(strengths)
    information, scores = np.zeros((count, count)), np.zeros((len(games), count))
    for row, (one, other, points, _, _) in enumerate(games):
        chance = 1 / (1 + np.exp(strengths[other] - strengths[one]))
        direction = np.zeros(count)
        direction[[one, other]] = 1, -1
        scores[row] = (points - chance) * direction
        information += chance * (1 - chance) * np.outer(direction, direction)
    # pinv: strengths are defined up to a constant, so one eigenvalue is 0.
    influences = scores @ np.linalg.pinv(information)  # (games, models)
    rows = [row for row, game in enumerate(games) if game[4]]
    sizes = Counter(games[row][3] for row in rows)
    design = CrossedDesign([games[row][3] for row in rows], [games[row][4] for row in rows])
    # The design averages over items and over an item's answers, but influences add up.
    weights = np.array([design.items * sizes[games[row][3]] for row in rows])
    intervals = []
    for strength, influence in zip(strengths, influences.T, strict=True):
        test = design.test((weights * influence[rows]).tolist(), largest=FARTHEST).interval
        low, high = (float(strength + end - test.mean) for end in (test.low, test.high))
        intervals.append(Interval(float(strength), low, high, test.count))
    return intervals


FASTEST = 10  # words per second that nobody reads; people read about 4 and skim 8
RUSHED = 0.25  # share of tasks answered faster than that, from which a rater is flagged
ENOUGH = 6  # tasks; equal answers to so many are unlikely to be chance


@dataclass(frozen=True, slots=True)
class RaterReport:
    """One rater's work; flags are for people, and remove no answer."""

    rater: str
    form: Form
    tasks: int
    answered: int
    seconds: float | None  # median per task
    flags: tuple[str, ...]


def rater_reports(collection: AnswerCollection, key: PacketKey) -> tuple[RaterReport, ...]:
    reports = []
    for name, rater in key.raters.items():
        answers = [answer for answer in collection.answers if answer.rater == name]
        seconds = [answer.seconds for answer in answers if answer.seconds is not None]
        flags = _pace(answers, key)
        flags += _monotony(answers, key.texts) if len(answers) >= ENOUGH else []
        middle = median(seconds) if seconds else None
        reports.append(
            RaterReport(name, rater.form, len(rater.tasks), len(answers), middle, tuple(flags))
        )
    return tuple(reports)


def _pace(answers: Sequence[Answer], key: PacketKey) -> list[str]:
    fast = sum(
        answer.seconds is not None
        and answer.seconds < key.items[answer.item].words(answer.models) / FASTEST
        for answer in answers
    )
    if not answers or fast / len(answers) < RUSHED:
        return []
    return [f"{fast} of {len(answers)} tasks answered faster than {FASTEST} words per second"]


def _monotony(answers: Sequence[Answer], texts: RaterTexts) -> list[str]:
    # Sides are balanced, so honest answers vary between tasks, whatever the rater's taste.
    if answers[0].granular:
        empty = not any(a.marks(side) for a in answers for side in SIDES)
        return ["marked nothing in any task"] if empty else []
    flags, labels = [], {value: label for label, value in texts.values.items()}
    for axis, question in texts.questions.items():
        values = {answer.preferences[axis] for answer in answers}
        if len(values) == 1:
            flags.append(f"always answered {labels[values.pop()]!r} to {question.title}")
    signs = {value > 0 for a in answers for value in a.preferences.values() if value}
    if not flags and len(signs) == 1:
        flags.append(f"never preferred #{2 if signs.pop() else 1}")
    if not flags and all(len({*a.preferences.values()}) == 1 for a in answers):
        flags.append("gave the same answer to all three questions in every task")
    return flags


@dataclass(frozen=True, slots=True)
class AxisPreference:
    """Preference for the later of two models, on one axis: -2 to 2, above 0 the later is better."""

    axis: str
    mean: Interval  # 95 % over items and raters; over items, if there is one rater
    these_raters: Interval  # 95 % over items, for these raters only
    p_mean: float  # of the mean being 0, over items and raters
    p_holm: float  # the same, corrected for all statements of the study
    settled: bool  # the sign holds for raters like these, corrected for all statements
    settled_here: bool  # the sign holds for these raters, corrected likewise
    wins: int  # items on which the later model is better, by the mean of their raters
    ties: int
    losses: int
    # Krippendorff's, ordinal: 1 is full agreement, 0 chance. None if no pair had two raters.
    alpha: Interval | None
    counts: dict[int, int]  # answers by preference


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models, side by side."""

    earlier: str
    later: str
    items: int
    identical: int  # of the items, those with equal texts: ties, not asked
    answers: int
    raters: int
    several: int  # items with several raters
    axes: tuple[AxisPreference, ...]


@dataclass(frozen=True, slots=True)
class MarkRate:
    """Marks in one model's generations (mistakes), or in their references (omissions)."""

    model: str
    side: str
    items: int
    marks: Interval  # per text; lower is better
    unmarked: Interval  # share of words, 0 to 1; higher is better (paper, Table 4)


@dataclass(frozen=True, slots=True)
class SpanAgreement:
    """Agreement of raters on spans: 0 to 1, higher is better."""

    side: str
    tasks: int  # with several raters
    f1: float | None
    f1_at_50: float | None


@dataclass(frozen=True, slots=True)
class StudyResults:
    """All results of a study."""

    packet: str
    models: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    rankings: tuple[Ranking, ...]  # by axis; empty for two models
    # By axis, preference for the text shown as #1, -2 to 2; sides are balanced, so it hardly
    # moves the others.
    side_bias: dict[str, Interval]
    marked: tuple[MarkRate, ...]
    span_agreement: tuple[SpanAgreement, ...]
    raters: tuple[RaterReport, ...]
    readings: int  # times that new answers were read, this one included
    refused: tuple[str, ...]
    superseded: tuple[str, ...]  # files that the same rater's newer one replaces
    missing: tuple[str, ...]  # raters from whom nothing counts
    incomplete: tuple[str, ...]  # items left out, since not all models wrote about them
    left_out: tuple[str, ...]  # raters set aside on request
    origins: dict[str, str]  # by model: the weights and settings behind its texts, where known


def results(
    collection: AnswerCollection, key: PacketKey, leave_out: Sequence[str] = (), readings: int = 1
) -> StudyResults:
    answers = answers_that_count(collection, leave_out)
    coarse = [answer for answer in answers if not answer.granular]
    granular = [answer for answer in answers if answer.granular]
    return StudyResults(
        key.packet,
        key.models,
        _comparisons(coarse, key),
        tuple(_ranking(coarse, key, axis) for axis in AXES if coarse and len(key.models) > 2),
        _side_bias(coarse),
        tuple(
            _mark_rate(granular, key, model, side)
            for side in key.sides
            for model in key.models
            if any(answer.models == (model,) for answer in granular)
        ),
        tuple(_span_agreement(granular, key, side) for side in key.sides if granular),
        rater_reports(collection, key),
        readings,
        collection.refusals,
        collection.superseded,
        collection.missing,
        key.incomplete,
        tuple(leave_out),
        dict(key.origins),
    )


def answers_that_count(collection: AnswerCollection, leave_out: Sequence[str] = ()) -> list[Answer]:
    return [answer for answer in collection.answers if answer.rater not in leave_out]


def answer_rows(answers: Sequence[Answer], key: PacketKey) -> Iterator[Row]:
    """One row per answer to each question; none for equal texts, which are not asked about.

    ``choice`` is the answer as given, -2 to 2, above 0 if the ``first`` text is better, and
    ``preference`` the same towards the ``later`` model; ``marks`` and ``unmarked`` (share of words)
    are of granular tasks. Columns that a form lacks are None.
    """
    tasks = key.by_task()
    for answer in answers:
        first, *others = answer.models
        earlier, later = key.in_order(answer.models) if others else (None, None)
        texts = key.items[answer.item].by_side(first)
        for axis in key.sides if answer.granular else AXES:
            spans = answer.marks(axis) if answer.granular else None
            yield {
                "packet": key.packet, "rater": answer.rater, "task": answer.task,
                "order": tasks[answer.task][1], "item": answer.item,
                "form": key.raters[answer.rater].form, "axis": axis,
                "first": first, "second": others[0] if others else None,
                "choice": answer.preferences.get(axis),
                "earlier": earlier, "later": later,
                "preference": None if later is None else answer.towards(later)[axis],
                "marks": None if spans is None else len(spans),
                "unmarked": None if spans is None else unmarked_share(texts[axis], spans),
                "seconds": answer.seconds, "comment": answer.comment,
            }  # fmt: skip


def _comparisons(answers: Sequence[Answer], key: PacketKey) -> tuple[Comparison, ...]:
    pairs = {
        pair: ours
        for pair in combinations(key.models, 2)
        if (ours := [answer for answer in answers if set(answer.models) == set(pair)])
    }
    tests = {
        (pair, axis): _tests(ours, _ties(ours, key), pair[1], axis)
        for pair, ours in pairs.items()
        for axis in AXES
    }
    # Readers quote whichever statement of the page is striking, so all are one family.
    general = dict(zip(tests, correct_by_holm([both.p for both, _ in tests.values()]), strict=True))
    here = dict(zip(tests, correct_by_holm([own.p for _, own in tests.values()]), strict=True))
    comparisons = []
    for pair, ours in pairs.items():
        ties, of_item = _ties(ours, key), Counter(answer.item for answer in ours)
        raters = len({answer.rater for answer in ours})
        axes = []
        for axis in AXES:
            both, own = tests[pair, axis]
            units = list(_units(ours, pair[1], axis).values())
            means = [fmean(unit) for unit in units] + [0.0] * ties
            counts = Counter(value for unit in units for value in unit)
            p, p_here = general[pair, axis], here[pair, axis]
            # One rater settles no sign for others, and what these raters leave open (as with fewer
            # than six items) would hold for others only by luck.
            excludes = own.interval.excludes_zero
            axes.append(
                AxisPreference(
                    axis,
                    mean=both.interval,
                    these_raters=own.interval,
                    p_mean=both.p,
                    p_holm=p,
                    settled=p <= 1 - CONFIDENCE_LEVEL and excludes and raters > 1,
                    settled_here=p_here <= 1 - CONFIDENCE_LEVEL and excludes,
                    wins=sum(mean > 0 for mean in means),
                    ties=sum(mean == 0 for mean in means),
                    losses=sum(mean < 0 for mean in means),
                    alpha=alpha_both_orders([unit for unit in units if len(unit) > 1]),
                    counts={value: counts[value] for value in VALUES},
                )
            )
        several = sum(count > 1 for count in of_item.values())
        items = len(of_item) + ties
        comparisons.append(Comparison(*pair, items, ties, len(ours), raters, several, tuple(axes)))
    return tuple(comparisons)


def _ties(answers: Sequence[Answer], key: PacketKey) -> int:
    """Items with equal texts of the two models that the answers compare: ties without asking."""
    # While answers are missing, count them in proportion to the answered items: all of them would
    # pull every early result to 0.
    identical = sum(set(task.models) == set(answers[0].models) for task in key.identical)
    answered = len({answer.item for answer in answers})
    return round(identical * answered / (len(key.items) - identical))


def _units(answers: Sequence[Answer], later: str, axis: str) -> dict[str, list[int]]:
    """Item -> its raters' preferences for the later model."""
    units: dict[str, list[int]] = defaultdict(list)
    for answer in answers:
        units[answer.item].append(answer.towards(later)[axis])
    return units


def _tests(
    answers: Sequence[Answer], ties: int, later: str, axis: str
) -> tuple[MeanTest, MeanTest]:
    """The mean preference over items and raters, and over items for these raters only."""
    design = CrossedDesign([a.item for a in answers], [a.rater for a in answers], ties)
    units = _units(answers, later, axis)
    alone = CrossedDesign([*units], [0] * len(units), ties)
    values = [answer.towards(later)[axis] for answer in answers]
    return design.test(values), alone.test([fmean(unit) for unit in units.values()])


def _side_bias(answers: Sequence[Answer]) -> dict[str, Interval]:
    if not answers:
        return {}
    design = CrossedDesign([a.item for a in answers], [a.rater for a in answers])
    return {axis: design.test([a.preferences[axis] for a in answers]).interval for axis in AXES}


def alpha_both_orders(units: Sequence[Sequence[int]]) -> Interval | None:
    """Krippendorff's ordinal alpha of the answers to each item, with each pair in both orders."""
    if not units:
        return None
    # Expected disagreement depends on how often each answer occurs. If all raters prefer the later
    # model, answers hardly vary and full agreement would look like chance; in both orders they vary
    # as much as the choices do.
    ratings = count_ratings([*units, *([-value for value in unit] for unit in units)])

    def alpha(rows: Ints) -> list[float]:
        # An item and its mirror image are one observation, so draw them together.
        weights = np.bincount(rows, minlength=len(units)).astype(np.float64)  # (units,)
        return [ratings.alpha(np.tile(weights, 2))]

    # Packets of 40 pairs repeat six of them; the bootstrap widens intervals of so few.
    [estimate] = bootstrap(alpha, range(len(units)))
    if isnan(estimate.value):
        return None
    # A single pair cannot be resampled: alpha may be anything.
    low, high = (-1.0, 1.0) if isnan(estimate.low) else (estimate.low, estimate.high)
    if high - low < ROUNDING_TOLERANCE:
        return bound_unanimous_mean(estimate.value, len(units), largest=1.0).interval
    return Interval(estimate.value, low, high, len(units))


def _mark_rate(answers: Sequence[Answer], key: PacketKey, model: str, side: str) -> MarkRate:
    counts: dict[str, list[int]] = defaultdict(list)
    shares: dict[str, list[float]] = defaultdict(list)
    for answer in answers:
        if answer.models == (model,):
            spans = answer.marks(side)
            text = key.items[answer.item].by_side(model)[side]
            counts[answer.item].append(len(spans))
            shares[answer.item].append(unmarked_share(text, spans))
    marks = bootstrap_mean([fmean(each) for each in counts.values()])
    unmarked = bootstrap_mean([fmean(each) for each in shares.values()])
    return MarkRate(model, side, len(counts), marks, unmarked)


def _span_agreement(answers: Sequence[Answer], key: PacketKey, side: str) -> SpanAgreement:
    tasks: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for answer in answers:
        tasks[answer.item, answer.models[0]].append(answer)
    some, half = Matches(), Matches()
    for (item, model), several in tasks.items():
        text = key.items[item].by_side(model)[side]
        for one, other in combinations(several, 2):
            spans = (one.marks(side), other.marks(side))
            some += span_matches(text, *spans)
            half += span_matches(text, *spans, share=0.5)
    shared = sum(len(several) > 1 for several in tasks.values())
    f1, f1_at_50 = (None if isnan(each.f1) else each.f1 for each in (some, half))
    return SpanAgreement(side, shared, f1, f1_at_50)
