"""Coarse answers about three or more models -> a Bradley-Terry ranking for each axis."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

from posh_reward.errors import MissingDependencyError
from posh_reward.study.crossed import CrossedDesign
from posh_reward.study.packets.study_records import Answer, PacketKey
from posh_reward.study.statistics import Floats, Interval

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
    cycles: tuple[tuple[str, ...], ...]  # three models that no ranking fits: a > b > c > a


def rankings(answers: Sequence[Answer], key: PacketKey, axes: Sequence[str]) -> tuple[Ranking, ...]:
    return tuple(_ranking(answers, key, axis) for axis in axes)


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
    return Ranking(axis, tuple(models), _cycles(answers, key, axis))


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


def _cycles(answers: Sequence[Answer], key: PacketKey, axis: str) -> tuple[tuple[str, ...], ...]:
    # A ranking puts the models on a line even if their preferences are circular, so look for that.
    values: dict[tuple[str, str], list[int]] = defaultdict(list)
    for answer in answers:
        one, other = answer.models
        values[one, other].append(answer.preferences[axis])
        values[other, one].append(-answer.preferences[axis])
    beats = {pair for pair, each in values.items() if fmean(each) > 0}
    cycles = []
    for one, other, third in combinations(key.models, 3):
        for cycle in ((one, other, third), (one, third, other)):
            if all(pair in beats for pair in zip(cycle, (*cycle[1:], cycle[0]), strict=True)):
                cycles.append(cycle)
    return tuple(cycles)
