"""Simulated studies -> pairs, raters and hours that settle a difference of a given size."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.crossed import LEVEL, CrossedDesign
from posh_reward.study.packets import rater_texts
from posh_reward.study.packets.rater_answers import with_checksum
from posh_reward.study.packets.rater_texts import AXES
from posh_reward.study.packets.results import FASTEST
from posh_reward.study.packets.study_records import ANSWERS_FORMAT, PacketKey, RaterTask, word_spans
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import FEWEST, Floats

VALUES = tuple(sorted(rater_texts.VALUES))
NORMAL = NormalDist()
NODES = 64  # of the quadrature over the shared part


@dataclass(frozen=True)
class Opinions:
    """Distribution of raters' answers."""

    shared: float  # share of the variance that the raters of an item have in common, 0 to 1
    equal: float = 0.2  # share of "Equal" between equally good models
    much: float = 0.3  # share of both "much better" together, between equally good models
    lean: float = 0.0  # standard deviation of raters' tastes for the later model
    side: float = 0.0  # bonus of all raters for the text shown as #1

    def __post_init__(self) -> None:
        if not (0 <= self.shared <= 1 and self.equal > 0 and 0 < self.much < 1 - self.equal):
            raise InputError(
                f"equal is {self.equal}, much is {self.much}: use shares above 0, together below 1"
            )
        if not 0 <= self.lean**2 <= 1 - self.shared:
            raise InputError(
                f"lean is {self.lean}: raters who share {self.shared:.2f} of the variance have one "
                f"from 0 to {(1 - self.shared) ** 0.5:.2f}"
            )

    @property
    def own(self) -> float:
        """Standard deviation of the part of each answer."""
        return float((1 - self.shared - self.lean**2) ** 0.5)

    @cached_property
    def cuts(self) -> tuple[float, ...]:
        """Boundaries of the five choices."""
        inner = NORMAL.inv_cdf(0.5 + self.equal / 2)
        outer = NORMAL.inv_cdf(1 - self.much / 2)
        return (-outer, -inner, inner, outer)

    def choice(self, latent: float) -> int:
        """The answer, -2 to 2, to a perceived difference."""
        return VALUES[bisect_left(self.cuts, latent)]

    def choices(self, latent: Floats) -> Floats:
        """The answers to many perceived differences."""
        return np.searchsorted(self.cuts, latent).astype(np.float64) + VALUES[0]

    def mean(self, shift: float) -> float:
        """Mean answer if one model is better by ``shift``."""
        return VALUES[-1] - sum(NORMAL.cdf(cut - shift) for cut in self.cuts)

    def shift(self, mean: float) -> float:
        """The shift that gives a mean answer; ``InputError`` if none does."""
        if not abs(mean) < VALUES[-1]:
            raise InputError(f"the mean preference {mean} is not between -2 and 2")
        from scipy.optimize import brentq

        return float(brentq(lambda shift: self.mean(shift) - mean, -10, 10, xtol=1e-15))

    def alpha(self) -> float:
        """Krippendorff's ordinal alpha in the limit of many answers."""
        # Given an item's quality, its raters are independent. So the probability of two answers is
        # an integral over a normal quality (Gauss-Hermite quadrature).
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        weights = weights / weights.sum()
        centres = self.shared**0.5 * nodes  # (nodes,)
        own = max((1 - self.shared) ** 0.5, 1e-9)
        below = np.array([[NORMAL.cdf((cut - c) / own) for cut in self.cuts] for c in centres])
        edges = np.hstack([np.zeros((NODES, 1)), below, np.ones((NODES, 1))])
        chances = np.diff(edges, axis=1)  # (nodes, choices)
        together = (chances * weights[:, None]).T @ chances  # (choices, choices)
        totals = together.sum(axis=1)
        places = np.cumsum(totals) - totals / 2
        distances = np.square(places[:, None] - places[None, :])
        disagreement, by_chance = (together * distances).sum(), totals @ distances @ totals
        return float(1 - disagreement / by_chance)


def opinions_with(
    alpha: float, equal: float = 0.2, much: float = 0.3, lean: float = 0.0, side: float = 0.0
) -> Opinions:
    """Raters who agree with an alpha from 0 to below 1."""
    if not 0 <= alpha < 1:
        raise InputError(f"alpha is {alpha}: use a value from 0 to below 1")
    # Alpha has no inverse in closed form, but rises with the shared part: bisect.
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        less = Opinions(middle, equal, much).alpha() < alpha
        low, high = (middle, high) if less else (low, middle)
    return Opinions((low + high) / 2, equal, much, lean, side)


@dataclass(frozen=True, slots=True)
class Crowd:
    """Opinions of simulated raters."""

    preference: Mapping[str, float]  # by axis, mean preference for the later model, -2 to 2
    opinions: Opinions
    marks: Mapping[str, float]  # by model, the probability that a word is marked
    seed: int = 0


def answer_file(key: PacketKey, name: str, crowd: Crowd) -> bytes:
    """A rater's file, as the page would save it."""
    rater = key.raters[name]
    rng = random.Random(f"{crowd.seed} {name}")
    answers: list[Row] = []
    for task in rater.tasks:
        compares = len(task.models) == 2
        values = (
            _preferences(key, task, crowd, rng, name) if compares else _marks(key, task, crowd, rng)
        )
        words = key.items[task.item].words(task.models)
        seconds = round(words / FASTEST * rng.uniform(3, 6), 1)
        answers.append({"task": task.id, **values, "seconds": seconds, "comment": ""})
    content: Row = {
        "format": ANSWERS_FORMAT,
        "packet": key.packet,
        "rater": name,
        "saved": "1970-01-01T00:00:00.000Z",
        "answers": answers,
    }
    return with_checksum(content, rater.token)


def _preferences(
    key: PacketKey, task: RaterTask, crowd: Crowd, rng: random.Random, name: str
) -> Row:
    earlier, later = key.in_order(task.models)
    sign = 1 if task.models[0] == later else -1
    choices: Row = {}
    for axis in AXES:
        # Seed the quality with the item's name, so that all its raters see the same; and a rater's
        # taste for each model with the rater's name, so that it holds for all pairs.
        shared = _normal(crowd.seed, task.item, sorted(task.models), axis)
        early, late = (_normal(crowd.seed, name, model, axis) for model in (earlier, later))
        latent = crowd.opinions.shift(crowd.preference[axis])
        latent += crowd.opinions.shared**0.5 * shared + sign * crowd.opinions.side
        latent += crowd.opinions.lean * (late - early) / 2**0.5
        latent += crowd.opinions.own * rng.gauss(0, 1)
        choices[axis] = sign * crowd.opinions.choice(latent)
    return choices


def _normal(*name: object) -> float:
    return random.Random(" ".join(map(str, name))).gauss(0, 1)


def _marks(key: PacketKey, task: RaterTask, crowd: Crowd, rng: random.Random) -> Row:
    [model] = task.models
    texts = key.items[task.item].by_side(model)
    return {
        side: [span for span in word_spans(texts[side]) if rng.random() < crowd.marks[model]]
        for side in key.sides
    }


PAPER = {"mistakes": 0.235, "omissions": 0.464, "overall": 0.184}
"""Krippendorff's alpha by axis in the paper's comparison of two models (Table 7)."""
STUDIES = 1000  # simulated for each figure, which gives a power of 80 % to within 2.5 points
MOST = 2000  # pairs considered
MINUTES = 5  # for one comparison (paper, section 4)


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Assumptions and aims of a planned study."""

    difference: float = 0.3  # mean preference to settle
    pairs: int = 40  # number of pairs available
    team: int = 7  # raters in all
    lean: float = 0.3  # standard deviation of raters' tastes; 0 plans for these raters only
    statements: int = 3  # axes times pairs of models; each is held to its share of 5 %
    power: float = 0.8  # wanted chance to settle the difference
    equal: float = 0.2  # share of "Equal" between equally good models
    much: float = 0.3  # share of both "much better" between such models
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.difference < 2:
            raise InputError(f"difference is {self.difference}: use a value above 0 and below 2")
        if self.pairs < 2 or not 0 < self.power < 1 or min(self.team, self.statements) < 1:
            raise InputError(
                "a plan needs at least two pairs, one rater and one statement, and a power between "
                "0 and 1"
            )


@dataclass(frozen=True, slots=True)
class AxisPlan:
    """Needs and power of a study, on one axis."""

    axis: str
    alpha: float
    raters: int  # per pair
    needed: int | None  # pairs for the wanted power; None if more than ``MOST``
    power: float  # chance that the available pairs settle the difference
    smallest: float | None  # difference that they settle with the wanted power
    hours: float | None  # per rater for the needed pairs, at five minutes a comparison


def plans(
    settings: PlanSettings,
    raters: Iterable[int] = (1, 2, 3),
    alphas: dict[str, float] | None = None,
) -> list[AxisPlan]:
    """One plan per axis and number of raters per pair.

    ``alphas`` is Krippendorff's alpha by axis; the paper's by default.

    Raises:
        InputError: more raters per pair than there are, or none; or an alpha is out of range.
    """
    counts = tuple(raters)
    if min(counts, default=0) < 1 or max(counts) > settings.team:
        raise InputError(
            f"raters per pair are {', '.join(map(str, counts))}: use 1 to {settings.team}, the "
            "raters in all (--team)"
        )
    table = []
    for axis, alpha in (alphas or PAPER).items():
        opinions = opinions_with(alpha, settings.equal, settings.much)
        # Raters who agree perfectly cannot have tastes of their own.
        lean = min(settings.lean, (1 - opinions.shared) ** 0.5)
        opinions = replace(opinions, lean=lean)
        for count in counts:
            needed = pairs_needed(opinions, settings, count)
            hours = None if needed is None else needed * count * MINUTES / 60 / settings.team
            chance = power(opinions, settings, count)
            smallest = smallest_difference(opinions, settings, count)
            table.append(AxisPlan(axis, alpha, count, needed, chance, smallest, hours))
    return table


@lru_cache(maxsize=32)
def _design(
    pairs: int, raters: int, team: int, alone: bool
) -> tuple[CrossedDesign, tuple[int, ...]]:
    """Design and the rater of each answer; with ``alone``, intervals are for these raters only."""
    # Raters take turns, shifted by one after each round: otherwise the same ones would always share
    # a pair, unlike in a packet.
    members = tuple(
        (pair * raters + seat + (pair * raters) // team) % team
        for pair in range(pairs)
        for seat in range(raters)
    )
    items = [pair for pair in range(pairs) for _ in range(raters)]
    return CrossedDesign(items, [0] * len(members) if alone else members), members


def power(opinions: Opinions, settings: PlanSettings, raters: int, studies: int = STUDIES) -> float:
    """Chance that the interval of ``packets read`` lies above 0.

    ``raters`` is their number per pair. Equal seeds simulate the same people.
    """
    if settings.pairs < FEWEST:
        return 0.0
    rng = np.random.default_rng(settings.seed)
    design, members = _design(settings.pairs, raters, settings.team, not settings.lean)
    shift = opinions.shift(settings.difference)
    # Bonferroni, not Holm: the first statement's level, whatever the others turn out to be.
    level = 1 - (1 - LEVEL) / settings.statements
    successes, answers = 0, settings.pairs * raters
    at_once = max(1, 1_000_000 // answers)
    for start in range(0, studies, at_once):
        count = min(at_once, studies - start)
        shared = opinions.shared**0.5 * rng.standard_normal((count, settings.pairs))
        lean = opinions.lean * rng.standard_normal((count, settings.team))
        own = opinions.own * rng.standard_normal((count, answers))
        latent = shift + np.repeat(shared, raters, axis=1) + lean[:, members] + own
        means, variances = design.moments(opinions.choices(latent))  # of (studies, answers)
        these = variances._replace(items=variances.over_items, raters=0 * variances.raters)
        reach = np.maximum(design.reach(variances, level), design.reach(these))
        successes += int((means > reach).sum())
    return successes / studies


def pairs_needed(opinions: Opinions, settings: PlanSettings, raters: int) -> int | None:
    """Fewest pairs, to about 2 %, that settle the difference with the wanted power."""

    def enough(pairs: int) -> bool:
        return power(opinions, replace(settings, pairs=pairs), raters) >= settings.power

    # Power rises with pairs, so double to find a bracket, then bisect. Equal seeds simulate the
    # same people, which keeps noise out of comparisons.
    low, high = FEWEST - 1, 16
    while not enough(high):
        low, high = high, min(high * 2, MOST)
        if low == MOST:
            return None
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def smallest_difference(opinions: Opinions, settings: PlanSettings, raters: int) -> float | None:
    """Smallest mean preference, to 0.01, that the pairs settle with the wanted power."""

    def enough(difference: float) -> bool:
        return power(opinions, replace(settings, difference=difference), raters) >= settings.power

    low, high = 0.0, 1.9
    if not enough(high):
        return None
    while high - low > 0.005:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def plan_table(table: Sequence[AxisPlan], settings: PlanSettings) -> str:
    """A table in plain text."""
    size, pairs = f"{settings.difference:g}", f"{settings.pairs}"
    people = f"raters like these {settings.team}" if settings.lean else "these raters only"
    lines = [
        f"Mean preference from -2 to 2. Settled: its interval excludes 0 for {people}, corrected "
        f"for the number of statements ({settings.statements}), with a chance of "
        f"{settings.power:.0%}.",
        "",
        f"{'axis':<10}  {'alpha':>5}  {'raters for':>10}  {'pairs that':>10}  {'hours of':>10}  "
        f"{f'chance that {pairs}':>16}  {f'smallest that {pairs}':>17}",
        f"{'':<10}  {'':>5}  {'each pair':>10}  {f'settle {size}':>10}  {'each rater':>10}  "
        f"{f'pairs settle {size}':>16}  {'pairs settle':>17}",
    ]
    for each in table:
        needed = f"over {MOST}" if each.needed is None else str(each.needed)
        hours = "" if each.hours is None else f"{each.hours:.1f}"
        smallest = "none" if each.smallest is None else f"{each.smallest:.2f}"
        lines.append(
            f"{each.axis:<10}  {each.alpha:>5.3f}  {each.raters:>10}  {needed:>10}  {hours:>10}  "
            f"{each.power:>16.0%}  {smallest:>17}"
        )
    return "\n".join(lines)
