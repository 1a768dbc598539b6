"""Simulated studies -> pairs, raters and hours that settle a difference of a given size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.crossed import CrossedDesign
from posh_reward.study.packets import study_records
from posh_reward.study.packets.study_records import PacketKey, Rater
from posh_reward.tables.statistics import CONFIDENCE_LEVEL, MIN_VALUES_FOR_SIGN, Floats
from posh_reward.tables.text_tables import align_columns

CHOICE_VALUES = tuple(sorted(study_records.PREFERENCE_VALUES))
STANDARD_NORMAL = NormalDist()
QUADRATURE_NODES = 64  # of the integral over what the raters of an item share
EQUAL_SHARE = 0.2  # of "Equal" among answers about equally good models
MUCH_BETTER_SHARE = 0.3  # of both "much better" together, among such answers
OUTER_CUT = STANDARD_NORMAL.inv_cdf(1 - MUCH_BETTER_SHARE / 2)
INNER_CUT = STANDARD_NORMAL.inv_cdf(0.5 + EQUAL_SHARE / 2)
CHOICE_CUTS = (-OUTER_CUT, -INNER_CUT, INNER_CUT, OUTER_CUT)
"""Boundaries of the five choices on a latent standard normal scale of perceived differences, as in
an ordered probit model."""


@dataclass(frozen=True)
class Opinions:
    """Distribution of raters' answers: an ordered probit model with random effects.

    A rater's perceived difference is the sum of what all raters of the item see, the rater's taste
    for the later model, and a part of the single answer; their variances add up to 1. The choice is
    the interval between ``CHOICE_CUTS`` in which it lies.
    """

    shared: float  # share of the variance that the raters of an item have in common, 0 to 1
    lean: float = 0.0  # standard deviation of raters' tastes for the later model
    side: float = 0.0  # bonus of all raters for the text shown as #1

    def __post_init__(self) -> None:
        if not 0 <= self.lean**2 <= 1 - self.shared:
            raise InputError(
                f"lean is {self.lean}: raters who share {self.shared:.2f} of the variance have one "
                f"from 0 to {(1 - self.shared) ** 0.5:.2f}"
            )

    @property
    def own_deviation(self) -> float:
        """Standard deviation of the part of each answer."""
        return float((1 - self.shared - self.lean**2) ** 0.5)

    def choose_answers(self, latent: Floats) -> Floats:
        """The answers, -2 to 2, to perceived differences."""
        return np.searchsorted(CHOICE_CUTS, latent).astype(np.float64) + CHOICE_VALUES[0]

    def mean_answer(self, shift: float) -> float:
        """Mean answer if one model is better by ``shift``."""
        return CHOICE_VALUES[-1] - sum(STANDARD_NORMAL.cdf(cut - shift) for cut in CHOICE_CUTS)

    def find_shift(self, mean: float) -> float:
        """The shift that gives a mean answer; ``InputError`` if none does."""
        if not abs(mean) < CHOICE_VALUES[-1]:
            raise InputError(f"the mean preference {mean} is not between -2 and 2")
        from scipy.optimize import brentq

        return float(brentq(lambda shift: self.mean_answer(shift) - mean, -10, 10, xtol=1e-15))

    def alpha(self) -> float:
        """Krippendorff's ordinal alpha in the limit of many answers."""
        # Given an item's quality, its raters are independent. So the probability of two answers is
        # an integral over a normal quality (Gauss-Hermite quadrature).
        nodes, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE_NODES)
        weights = weights / weights.sum()
        centres = self.shared**0.5 * nodes  # (nodes,)
        own = max((1 - self.shared) ** 0.5, 1e-9)
        below = np.empty((QUADRATURE_NODES, len(CHOICE_CUTS)))
        for node, centre in enumerate(centres):
            below[node] = [STANDARD_NORMAL.cdf((cut - centre) / own) for cut in CHOICE_CUTS]
        edges = np.hstack([np.zeros((QUADRATURE_NODES, 1)), below, np.ones((QUADRATURE_NODES, 1))])
        chances = np.diff(edges, axis=1)  # (nodes, choices)
        together = (chances * weights[:, None]).T @ chances  # (choices, choices)
        totals = together.sum(axis=1)
        places = np.cumsum(totals) - totals / 2
        distances = np.square(places[:, None] - places[None, :])
        disagreement, by_chance = (together * distances).sum(), totals @ distances @ totals
        return float(1 - disagreement / by_chance)


def fit_opinions(alpha: float, lean: float = 0.0, side: float = 0.0) -> Opinions:
    """Raters who agree with an alpha from 0 to below 1."""
    from scipy.optimize import brentq

    if not 0 <= alpha < 1:
        raise InputError(f"alpha is {alpha}: use a value from 0 to below 1")
    shared = 0.0
    if alpha:  # alpha has no inverse in closed form, but rises with the shared part
        shared = brentq(lambda shared: Opinions(shared).alpha() - alpha, 0, 1)
    return Opinions(float(shared), lean, side)


PAPER_ALPHAS = {"mistakes": 0.235, "omissions": 0.464, "overall": 0.184}
"""Krippendorff's alpha by axis in the paper's comparison of two models (Table 7)."""
SIMULATED_STUDIES = 1000  # for each figure: a power of 80 % is known to within 2.5 points
MAX_PAIRS = 2000  # that a plan considers
WANTED_POWER = 0.8  # chance to settle the difference
MINUTES_PER_MARKING = 18  # paper, section 4
READ_ALOUD_WORDS_PER_MINUTE = 150
MINUTES_TO_JUDGE = 1.0  # after reading
PAPER_WORDS = 600  # of a reference and two texts, with which a comparison takes five minutes


def estimate_comparison(words: float) -> float:
    """Minutes that a comparison takes: all its texts read aloud, then judged."""
    return words / READ_ALOUD_WORDS_PER_MINUTE + MINUTES_TO_JUDGE


def estimate_minutes(rater: Rater, key: PacketKey) -> float:
    """Minutes that all tasks of a rater take."""
    if rater.form == "granular":
        return float(MINUTES_PER_MARKING * len(rater.tasks))
    words = [key.find_item(task).count_words(task.models) for task in rater.tasks]
    return sum(map(estimate_comparison, words))


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Assumptions and aims of a planned study."""

    difference: float = 0.3  # mean preference to settle
    pairs: int = 40  # number of pairs available
    team: int = 7  # raters in all
    lean: float = 0.3  # standard deviation of raters' tastes; 0 plans for these raters only
    statements: int = 3  # axes times pairs of models; each is held to its share of 5 %
    seed: int = 0
    words: int = PAPER_WORDS  # of a comparison: the reference and both texts

    def __post_init__(self) -> None:
        if not 0 < self.difference < 2:
            raise InputError(f"difference is {self.difference}: use a value above 0 and below 2")
        if self.words < 1:
            raise InputError(f"words is {self.words}: use 1 or more")
        if self.pairs < 2 or min(self.team, self.statements) < 1:
            raise InputError("a plan needs at least two pairs, one rater and one statement")


@dataclass(frozen=True, slots=True)
class AxisPlan:
    """Needs and power of a study, on one axis."""

    axis: str
    alpha: float
    raters: int  # per pair
    needed: int | None  # pairs for the wanted power; None if more than ``MAX_PAIRS``
    power: float  # chance that the available pairs settle the difference
    hours: float | None  # per rater for the needed pairs


def plan_axes(
    settings: PlanSettings,
    raters: Iterable[int] = (1, 2, 3),
    alphas: dict[str, float] | None = None,
) -> list[AxisPlan]:
    """One plan per axis and number of raters per pair.

    ``alphas`` is Krippendorff's alpha by axis; the paper's by default.
    """
    counts = tuple(raters)
    if min(counts, default=0) < 1 or max(counts) > settings.team:
        raise InputError(
            f"raters per pair are {', '.join(map(str, counts))}: use 1 to {settings.team}, the "
            "raters in all (--team)"
        )
    table = []
    for axis, alpha in (alphas or PAPER_ALPHAS).items():
        opinions = fit_opinions(alpha)
        # Raters who agree perfectly cannot have tastes of their own.
        lean = min(settings.lean, (1 - opinions.shared) ** 0.5)
        opinions = replace(opinions, lean=lean)
        for count in counts:
            needed = find_pairs_needed(opinions, settings, count)
            hours = None
            if needed is not None:
                minutes = needed * count * estimate_comparison(settings.words)
                hours = minutes / 60 / settings.team
            chance = simulate_power(opinions, settings, count)
            table.append(AxisPlan(axis, alpha, count, needed, chance, hours))
    return table


@lru_cache(maxsize=32)
def _build_design(
    pairs: int, raters: int, team: int, alone: bool
) -> tuple[CrossedDesign, tuple[int, ...]]:
    """Design and the rater of each answer; with ``alone``, intervals are for these raters only."""
    # Raters take turns, shifted by one after each round: otherwise the same ones would always share
    # a pair, unlike in a packet.
    answers = np.arange(pairs * raters)
    items = answers // raters
    members = tuple(((answers + items * raters // team) % team).tolist())
    if alone:
        return CrossedDesign(items.tolist(), [0] * len(members)), members
    return CrossedDesign(items.tolist(), members), members


def simulate_power(
    opinions: Opinions, settings: PlanSettings, raters: int, studies: int = SIMULATED_STUDIES
) -> float:
    """Chance that the interval of ``packets read`` lies above 0.

    ``raters`` is their number per pair. Equal seeds simulate the same people.
    """
    if settings.pairs < MIN_VALUES_FOR_SIGN:
        return 0.0
    rng = np.random.default_rng(settings.seed)
    design, members = _build_design(settings.pairs, raters, settings.team, not settings.lean)
    shift = opinions.find_shift(settings.difference)
    # Bonferroni, not Holm: the first statement's level, whatever the others turn out to be.
    level = 1 - (1 - CONFIDENCE_LEVEL) / settings.statements
    successes, answers = 0, settings.pairs * raters
    at_once = max(1, 1_000_000 // answers)
    for start in range(0, studies, at_once):
        count = min(at_once, studies - start)
        shared = opinions.shared**0.5 * rng.standard_normal((count, settings.pairs))
        lean = opinions.lean * rng.standard_normal((count, settings.team))
        own = opinions.own_deviation * rng.standard_normal((count, answers))
        latent = shift + np.repeat(shared, raters, axis=1) + lean[:, members] + own
        means, variances = design.estimate(opinions.choose_answers(latent))  # of (studies, answers)
        these = variances._replace(items=variances.over_items, raters=0 * variances.raters)
        half_widths = np.maximum(design.half_width(variances, level), design.half_width(these))
        successes += int((means > half_widths).sum())
    return successes / studies


def find_pairs_needed(opinions: Opinions, settings: PlanSettings, raters: int) -> int | None:
    """Fewest pairs, to about 2 %, that settle the difference with the wanted power."""

    def has_power(pairs: int) -> bool:
        return simulate_power(opinions, replace(settings, pairs=pairs), raters) >= WANTED_POWER

    # Power rises with pairs, so double to find a bracket, then bisect. Equal seeds simulate the
    # same people, which keeps noise out of comparisons.
    low, high = MIN_VALUES_FOR_SIGN - 1, 16
    while not has_power(high):
        low, high = high, min(high * 2, MAX_PAIRS)
        if low == MAX_PAIRS:
            return None
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        if has_power(middle):
            high = middle
        else:
            low = middle
    return high


def plan_table(table: Sequence[AxisPlan], settings: PlanSettings) -> str:
    size, pairs = f"{settings.difference:g}", f"{settings.pairs}"
    people = f"raters like these {settings.team}" if settings.lean else "these raters only"
    lines = [
        f"Mean preference from -2 to 2. Settled: its interval excludes 0 for {people}, corrected "
        f"for the number of statements ({settings.statements}), with a chance of "
        f"{WANTED_POWER:.0%}.",
        "",
    ]
    rows = [
        ["axis", "alpha", "raters for", "pairs that", "hours of", f"chance that {pairs}"],
        ["", "", "each pair", f"settle {size}", "each rater", f"pairs settle {size}"],
    ]
    for each in table:
        needed = f"over {MAX_PAIRS}" if each.needed is None else str(each.needed)
        hours = "" if each.hours is None else f"{each.hours:.1f}"
        power = f"{each.power:.0%}"
        rows.append([each.axis, f"{each.alpha:.3f}", str(each.raters), needed, hours, power])
    return "\n".join([*lines, align_columns(rows)])
