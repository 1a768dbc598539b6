"""Answers and the key -> which model people prefer, by how much, and how far they agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from math import isnan
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from posh_reward.errors import MissingDependencyError
from posh_reward.study.agreement.rater_agreement import Matches, count_ratings, span_matches
from posh_reward.study.crossed import CrossedDesign, MeanTest, bound_unanimous_mean
from posh_reward.study.packets.rater_answers import AnswerCollection, AnswerSheet
from posh_reward.study.packets.study_records import (
    BETTER,
    PREFERENCE_AXES,
    PREFERENCE_VALUES,
    Answer,
    Form,
    Marking,
    PacketKey,
    Preference,
    Rater,
    RaterTexts,
    unmarked_share,
)
from posh_reward.tables.statistics import (
    CONFIDENCE_LEVEL,
    ROUNDING_TOLERANCE,
    Floats,
    Interval,
    Ints,
    bootstrap,
    bootstrap_mean,
    correct_by_holm,
)
from posh_reward.tables.tables import Row

PRIOR_WINS = 0.5  # wins of each model over each other one added to those counted
MAX_STRENGTH_LOGITS = 10.0  # bound on a strength's distance from the mean


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


class Game(NamedTuple):
    """Two models compared on an item."""

    first: int  # index of the model
    second: int
    points: float  # of the first: 1 for a win, 0.5 for a tie
    item: str
    rater: str  # empty if nobody was asked


def _rank_models(answers: Sequence[Preference], key: PacketKey, axis: str) -> Ranking:
    # Bradley-Terry knows wins only: how much better a text is does not count, and a tie is half a
    # win for each. Davidson's parameter for ties would be of no use here.
    games: list[Game] = []
    for answer in answers:
        first, second = map(key.models.index, answer.models)
        points = float(1 + np.sign(answer.by_axis[axis])) / 2
        games.append(Game(first, second, points, answer.item, answer.rater))
    items = {answer.item for answer in answers}
    for task in key.identical:
        # Equal texts are ties without asking. Count those of answered items only: all of them
        # would pull an early look to 0.
        if task.item in items:
            first, second = map(key.models.index, task.models)
            games.append(Game(first, second, 0.5, task.item, ""))
    strengths = _fit_strengths(games, len(key.models))
    intervals = _strength_intervals(games, strengths)
    chances = 1 / (1 + np.exp(-strengths))  # Bradley-Terry: against a strength of 0, the mean
    models = list(map(RankedModel, key.models, intervals, chances.tolist()))
    models.sort(key=lambda each: -each.strength.mean)
    return Ranking(axis, tuple(models))


def _fit_strengths(games: Sequence[Game], count: int) -> Floats:
    """(models,) strengths in logits, with mean 0."""
    try:
        import choix
    except ImportError:
        raise MissingDependencyError("a ranking needs choix: pip install choix") from None
    # The likelihood has no finite maximum for a model that never loses, and models that nobody
    # compared have no common scale. Half a win of each model over each other one solves both.
    wins = PRIOR_WINS * (1 - np.eye(count))  # (models, models) wins of row over column
    for game in games:
        wins[game.first, game.second] += game.points
        wins[game.second, game.first] += 1 - game.points
    strengths = np.asarray(choix.ilsr_pairwise_dense(wins), dtype=np.float64)
    return np.asarray(strengths - strengths.mean())


def _strength_intervals(games: Sequence[Game], strengths: Floats) -> list[Interval]:
    """Intervals over items and raters, from how far each answer moves the strengths."""
    # The information matrix alone would treat answers as independent. But a maximum likelihood
    # estimate is nearly a sum of the answers' influences: the inverse information times an answer's
    # score (observed minus expected points). That is the linearisation behind "sandwich" variances
    # with clusters; so ``CrossedDesign``, which gives the interval of a mean over items and raters,
    # also gives that of a strength.
    count = len(strengths)
    information, scores = np.zeros((count, count)), np.zeros((len(games), count))
    for row, game in enumerate(games):
        chance = 1 / (1 + np.exp(strengths[game.second] - strengths[game.first]))
        direction = np.zeros(count)
        direction[[game.first, game.second]] = 1, -1
        scores[row] = (game.points - chance) * direction
        information += chance * (1 - chance) * np.outer(direction, direction)
    # pinv: strengths are defined up to a constant, so one eigenvalue is 0.
    influences = scores @ np.linalg.pinv(information)  # (games, models)
    rows = [row for row, game in enumerate(games) if game.rater]
    items = [games[row].item for row in rows]
    design = CrossedDesign(items, [games[row].rater for row in rows])
    # The design averages over items and over an item's answers, but influences add up.
    answers_by_item = Counter(items)
    weights = design.items * np.array([answers_by_item[item] for item in items])
    intervals = []
    for strength, influence in zip(strengths, influences.T, strict=True):
        values = (weights * influence[rows]).tolist()
        test = design.test(values, largest=MAX_STRENGTH_LOGITS).interval
        low, high = strength + test.low - test.mean, strength + test.high - test.mean
        intervals.append(Interval(float(strength), float(low), float(high), test.count))
    return intervals


MAX_WORDS_PER_SECOND = 10  # nobody reads faster; people read about 4 and skim 8
RUSHED_TASK_SHARE = 0.25  # of tasks answered faster than that, from which a rater is flagged
MONOTONY_FLAG = "the answers hardly vary"
MIN_TASKS_FOR_MONOTONY = 6  # equal answers to so many are unlikely to be chance


@dataclass(frozen=True, slots=True)
class RaterReport:
    """One rater's work; flags are for people, and remove no answer."""

    rater: str
    form: Form
    tasks: int  # as the rater's page counts them: with those for attention
    answered: int
    seconds: float | None  # median per task of the study
    flags: tuple[str, ...]
    background: dict[str, str] = field(default_factory=dict)  # question -> answer, where given


def report_raters(
    collection: AnswerCollection, key: PacketKey, *, shows_answers: bool = True
) -> tuple[RaterReport, ...]:
    """Sum up each rater's work; without ``shows_answers`` no flag says what the answers are."""
    reports = []
    sheets = {sheet.rater: sheet for sheet in collection.sheets}
    for name, rater in key.raters.items():
        sheet = sheets.get(name, AnswerSheet(name, (), ()))
        answers = sheet.answers
        seconds = [answer.seconds for answer in answers if answer.seconds is not None]
        flags = [*_flag_attention(sheet, rater), *_flag_pace(answers, key)]
        if len(answers) >= MIN_TASKS_FOR_MONOTONY:
            monotony = _flag_monotony(answers, key.texts)
            flags += monotony if shows_answers else [MONOTONY_FLAG] * bool(monotony)
        reports.append(
            RaterReport(
                name,
                rater.form,
                len(rater.numbered),
                len(answers) + len(sheet.attention),
                median(seconds) if seconds else None,
                tuple(flags),
                _read_background(sheet, key),
            )
        )
    return tuple(reports)


def _flag_attention(sheet: AnswerSheet, rater: Rater) -> list[str]:
    """Attention tasks in which the rater did not find the better text better overall.

    Those that are left open when all others are answered are flagged, too.
    """
    missed = sum(answer.towards(BETTER)["overall"] <= 0 for answer in sheet.attention)
    asked = sum(task.purpose == "attention" for task in rater.numbered)
    flags = []
    if missed:
        flags.append(f"missed {missed} of {len(sheet.attention)} attention tasks")
    is_open = len(sheet.attention) < asked
    if is_open and len(sheet.answers) == len(rater.numbered) - asked:
        flags.append(f"left {asked - len(sheet.attention)} of {asked} attention tasks open")
    return flags


def _read_background(sheet: AnswerSheet, key: PacketKey) -> dict[str, str]:
    given = sheet.about.background if sheet.about else ()
    questions = [each.question for each in key.texts.background]
    return {question: answer for question, answer in zip(questions, given, strict=False) if answer}


def _flag_pace(answers: Sequence[Answer], key: PacketKey) -> list[str]:
    fast = 0
    for answer in answers:
        if answer.seconds is None:
            continue
        words = key.items[answer.item].count_words(answer.models)
        fast += answer.seconds < words / MAX_WORDS_PER_SECOND
    if not answers or fast / len(answers) < RUSHED_TASK_SHARE:
        return []
    pace = f"{MAX_WORDS_PER_SECOND} words per second"
    return [f"{fast} of {len(answers)} tasks answered faster than {pace}"]


def _flag_monotony(answers: Sequence[Answer], texts: RaterTexts) -> list[str]:
    """Flags of one rater, whose answers are all of one form."""
    # Sides are balanced, so honest answers vary between tasks, whatever the rater's taste.
    markings = [answer for answer in answers if isinstance(answer, Marking)]
    if markings:
        if any(answer.mistakes or answer.omissions for answer in markings):
            return []
        return ["marked nothing in any task"]
    choices = [answer.by_axis for answer in answers if isinstance(answer, Preference)]
    labels = {value: label for label, value in texts.values.items()}
    flags = []
    for axis, question in texts.questions.items():
        values = {each[axis] for each in choices}
        if len(values) == 1:
            flags.append(f"always answered {labels[values.pop()]!r} to {question.title}")
    if flags:
        return flags
    every = set(chain.from_iterable(each.values() for each in choices))
    if max(every) > 0 and min(every) >= 0:
        return ["never preferred #2"]
    if min(every) < 0 and max(every) <= 0:
        return ["never preferred #1"]
    if all(len(set(each.values())) == 1 for each in choices):
        return ["gave the same answer to all three questions in every task"]
    return []


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


def compute_results(
    collection: AnswerCollection, key: PacketKey, leave_out: Sequence[str] = (), readings: int = 1
) -> StudyResults:
    answers = select_answers(collection, leave_out)
    coarse = [answer for answer in answers if isinstance(answer, Preference)]
    granular = [answer for answer in answers if isinstance(answer, Marking)]
    rankings: list[Ranking] = []
    if coarse and len(key.models) > 2:
        rankings = [_rank_models(coarse, key, axis) for axis in PREFERENCE_AXES]
    marked_models = {answer.models[0] for answer in granular}
    mark_rates: list[MarkRate] = []
    span_agreement: list[SpanAgreement] = []
    for side in key.sides if granular else ():
        for model in key.models:
            if model in marked_models:
                mark_rates.append(_measure_mark_rate(granular, key, model, side))
        span_agreement.append(_measure_span_agreement(granular, key, side))
    return StudyResults(
        key.packet,
        key.models,
        _compare_models(coarse, key),
        tuple(rankings),
        _measure_side_bias(coarse),
        tuple(mark_rates),
        tuple(span_agreement),
        report_raters(collection, key),
        readings,
        collection.refusals,
        collection.superseded,
        collection.missing,
        key.incomplete,
        tuple(leave_out),
        dict(key.origins),
    )


def select_answers(collection: AnswerCollection, leave_out: Sequence[str] = ()) -> list[Answer]:
    return [answer for answer in collection.answers if answer.rater not in leave_out]


ANSWER_COLUMNS = (
    "packet", "rater", "task", "order", "item", "form", "axis", "first", "second", "choice",
    "earlier", "later", "preference", "marks", "unmarked", "seconds", "comment",
)  # fmt: skip


def list_answer_rows(answers: Sequence[Answer], key: PacketKey) -> Iterator[Row]:
    """One row per answer to each question; none for equal texts, which are not asked about.

    ``choice`` is the answer as given, -2 to 2, above 0 if the ``first`` text is better, and
    ``preference`` the same towards the ``later`` model; ``marks`` and ``unmarked`` (share of words)
    are of granular tasks. Columns that a form lacks are None.
    """
    tasks = key.by_task()
    columns = dict.fromkeys(ANSWER_COLUMNS)
    for answer in answers:
        common = {
            "packet": key.packet, "rater": answer.rater, "task": answer.task,
            "order": tasks[answer.task][1], "item": answer.item,
            "form": key.raters[answer.rater].form, "first": answer.models[0],
            "seconds": answer.seconds, "comment": answer.comment,
        }  # fmt: skip
        for values in _axis_values(answer, key):
            yield {**columns, **common, **values}


def _axis_values(answer: Answer, key: PacketKey) -> Iterator[Row]:
    """The columns of ``list_answer_rows`` that only one form has, axis by axis."""
    if isinstance(answer, Preference):
        earlier, later = key.in_order(answer.models)
        models = {"second": answer.models[1], "earlier": earlier, "later": later}
        towards = answer.towards(later)
        for axis, choice in answer.by_axis.items():
            yield {"axis": axis, **models, "choice": choice, "preference": towards[axis]}
    if isinstance(answer, Marking):
        texts = key.items[answer.item].by_side(answer.models[0])
        for side in key.sides:
            spans = answer.by_side[side]
            unmarked = unmarked_share(texts[side], spans)
            yield {"axis": side, "marks": len(spans), "unmarked": unmarked}


def _compare_models(answers: Sequence[Preference], key: PacketKey) -> tuple[Comparison, ...]:
    answers_by_pair: dict[tuple[str, str], list[Preference]] = {}
    for pair in combinations(key.models, 2):
        if ours := [answer for answer in answers if set(answer.models) == set(pair)]:
            answers_by_pair[pair] = ours
    tests: dict[tuple[tuple[str, str], str], tuple[MeanTest, MeanTest]] = {}
    for pair, ours in answers_by_pair.items():
        for axis in PREFERENCE_AXES:
            tests[pair, axis] = _test_means(ours, _count_ties(ours, key), pair[1], axis)
    # Readers quote whichever statement of the page is striking, so all are one family.
    general = dict(zip(tests, correct_by_holm([both.p for both, _ in tests.values()]), strict=True))
    here = dict(zip(tests, correct_by_holm([own.p for _, own in tests.values()]), strict=True))
    comparisons = []
    for pair, ours in answers_by_pair.items():
        ties, counts = _count_ties(ours, key), Counter(answer.item for answer in ours)
        raters = len({answer.rater for answer in ours})
        axes = []
        for axis in PREFERENCE_AXES:
            corrected = general[pair, axis], here[pair, axis]
            values = _group_by_item(ours, pair[1], axis)
            axes.append(_describe_axis(axis, values, ties, tests[pair, axis], corrected, raters))
        several = sum(count > 1 for count in counts.values())
        items = len(counts) + ties
        comparisons.append(Comparison(*pair, items, ties, len(ours), raters, several, tuple(axes)))
    return tuple(comparisons)


def _describe_axis(
    axis: str,
    values: Mapping[str, Sequence[int]],
    ties: int,
    tests: tuple[MeanTest, MeanTest],
    corrected: tuple[float, float],
    raters: int,
) -> AxisPreference:
    """Sum up one axis: ``values`` by item, and the two tests with their corrected p-values."""
    both, own = tests
    p, p_here = corrected
    units = list(values.values())
    counts = Counter(chain.from_iterable(units))
    means = [fmean(unit) for unit in units] + [0.0] * ties  # above 0 the later model is better
    # One rater settles no sign for others, and what these raters leave open (as with fewer than six
    # items) would hold for others only by luck.
    excludes = own.interval.excludes_zero
    return AxisPreference(
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
        counts={value: counts[value] for value in PREFERENCE_VALUES},
    )


def _count_ties(answers: Sequence[Answer], key: PacketKey) -> int:
    """Items with equal texts of the two models that the answers compare: ties without asking."""
    # While answers are missing, count them in proportion to the answered items: all of them would
    # pull every early result to 0.
    pair = set(answers[0].models)
    identical = sum(set(task.models) == pair for task in key.identical)
    answered = len({answer.item for answer in answers})
    return round(identical * answered / (len(key.items) - identical))


def _group_by_item(answers: Sequence[Preference], later: str, axis: str) -> dict[str, list[int]]:
    """Item -> its raters' preferences for the later model."""
    units: dict[str, list[int]] = defaultdict(list)
    for answer in answers:
        units[answer.item].append(answer.towards(later)[axis])
    return units


def _test_means(
    answers: Sequence[Preference], ties: int, later: str, axis: str
) -> tuple[MeanTest, MeanTest]:
    """The mean preference over items and raters, and over items for these raters only."""
    design = _cross_items_with_raters(answers, ties)
    values = [answer.towards(later)[axis] for answer in answers]
    units = _group_by_item(answers, later, axis)
    alone = CrossedDesign([*units], [0] * len(units), ties)
    return design.test(values), alone.test(list(map(fmean, units.values())))


def _cross_items_with_raters(answers: Sequence[Answer], ties: int = 0) -> CrossedDesign:
    items = [answer.item for answer in answers]
    return CrossedDesign(items, [answer.rater for answer in answers], ties)


def _measure_side_bias(answers: Sequence[Preference]) -> dict[str, Interval]:
    if not answers:
        return {}
    design = _cross_items_with_raters(answers)
    bias = {}
    for axis in PREFERENCE_AXES:
        bias[axis] = design.test([answer.by_axis[axis] for answer in answers]).interval
    return bias


def alpha_both_orders(units: Sequence[Sequence[int]]) -> Interval | None:
    """Krippendorff's ordinal alpha of the answers to each item, with each pair in both orders."""
    if not units:
        return None
    # Expected disagreement depends on how often each answer occurs. If all raters prefer the later
    # model, answers hardly vary and full agreement would look like chance; in both orders they vary
    # as much as the choices do.
    mirrored = [np.negative(unit).tolist() for unit in units]
    ratings = count_ratings([*units, *mirrored])

    def measure_alpha(rows: Ints) -> list[float]:
        # An item and its mirror image are one observation, so draw them together.
        weights = np.bincount(rows, minlength=len(units)).astype(np.float64)  # (units,)
        return [ratings.alpha(np.tile(weights, 2))]

    # Packets of 40 pairs repeat six of them; the bootstrap widens intervals of so few.
    [estimate] = bootstrap(measure_alpha, range(len(units)))
    if isnan(estimate.value):
        return None
    # A single pair cannot be resampled: alpha may be anything.
    low, high = estimate.low, estimate.high
    if isnan(low):
        low, high = -1.0, 1.0
    if high - low < ROUNDING_TOLERANCE:
        return bound_unanimous_mean(estimate.value, len(units), largest=1.0).interval
    return Interval(estimate.value, low, high, len(units))


def _measure_mark_rate(
    answers: Sequence[Marking], key: PacketKey, model: str, side: str
) -> MarkRate:
    counts: dict[str, list[int]] = defaultdict(list)
    shares: dict[str, list[float]] = defaultdict(list)
    for answer in answers:
        if answer.models == (model,):
            spans = answer.by_side[side]
            text = key.items[answer.item].by_side(model)[side]
            counts[answer.item].append(len(spans))
            shares[answer.item].append(unmarked_share(text, spans))
    marks = bootstrap_mean(list(map(fmean, counts.values())))
    unmarked = bootstrap_mean(list(map(fmean, shares.values())))
    return MarkRate(model, side, len(counts), marks, unmarked)


def _measure_span_agreement(answers: Sequence[Marking], key: PacketKey, side: str) -> SpanAgreement:
    tasks: dict[tuple[str, str], list[Marking]] = defaultdict(list)
    for answer in answers:
        tasks[answer.item, answer.models[0]].append(answer)
    some, half = Matches(), Matches()
    for (item, model), several in tasks.items():
        text = key.items[item].by_side(model)[side]
        for one, other in combinations(several, 2):
            spans = (one.by_side[side], other.by_side[side])
            some += span_matches(text, *spans)
            half += span_matches(text, *spans, share=0.5)
    shared = sum(len(several) > 1 for several in tasks.values())
    if isnan(some.f1):  # nobody marked anything; then neither is there an F1 at 50 %
        return SpanAgreement(side, shared, None, None)
    return SpanAgreement(side, shared, some.f1, half.f1)
