"""How many pairs and raters settle a difference of a given size, by simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.packets.rater_model import Opinions, opinions_with

PAPER = {"mistakes": 0.235, "omissions": 0.464, "overall": 0.184}
"""Krippendorff's alpha by axis in the paper's comparison of two models (Table 7)."""
PAPER_PAIRS = 40
STUDIES = 2000
"""Simulated for each figure: a power of 80 % is then known to 2 points."""
MOST = 5000
"""Pairs that a plan goes up to."""
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Plan:
    """What a study of one axis can settle."""

    axis: str
    alpha: float
    raters: int
    """For each pair."""
    needed: int | None
    """Pairs for the power that was asked for; None if more than ``MOST``."""
    power: float
    """Chance that the given number of pairs settles the difference that was asked about."""
    smallest: float | None
    """The smallest difference that the given number of pairs settles with that power."""


def power(
    opinions: Opinions,
    difference: float,
    pairs: int,
    raters: int,
    *,
    studies: int = STUDIES,
    seed: int = 0,
) -> float:
    """Chance that the 95 % interval of the mean preference lies on the right side of 0.

    Args:
        opinions: how raters answer.
        difference: the true mean preference, above 0.
        pairs: how many there are.
        raters: of each pair.
        studies: to simulate.
        seed: equal seeds simulate the same people.
    """
    rng = np.random.default_rng(seed)
    shift = opinions.shift(difference)
    settled = 0
    at_once = max(1, 2_000_000 // (pairs * (raters + 1)))
    for begun in range(0, studies, at_once):
        count = min(at_once, studies - begun)
        shared = opinions.shared**0.5 * rng.standard_normal((count, pairs, 1))
        own = (1 - opinions.shared) ** 0.5 * rng.standard_normal((count, pairs, raters))
        means = opinions.choices(shift + shared + own).mean(axis=2)
        # The interval over items that resampling comes to, without resampling.
        reach = NormalDist().inv_cdf((1 + LEVEL) / 2) * means.std(axis=1) / pairs**0.5
        settled += int((means.mean(axis=1) > reach).sum())
    return settled / studies


def plans(
    difference: float,
    pairs: int = PAPER_PAIRS,
    raters: Iterable[int] = (1, 2, 3),
    *,
    wanted: float = 0.8,
    alphas: dict[str, float] | None = None,
    equal: float = 0.2,
    much: float = 0.3,
    seed: int = 0,
) -> list[Plan]:
    """What a number of pairs settles, and how many it takes, by axis and raters for each pair.

    Args:
        difference: mean preference, above 0 to 2, that is to be told from none.
        pairs: how many there are, or could be.
        raters: for each pair, to compare.
        wanted: the chance with which a study should settle it.
        alphas: how far raters agree, by axis; the paper's if not given.
        equal: share of "Equal" between models that are equally good.
        much: share of both "much better" between such models.
        seed: of the simulation.

    Raises:
        InputError: an argument is out of its range.
    """
    if not 0 < difference < 2:
        raise InputError(f"the difference {difference} is not above 0 and below 2")
    raters = tuple(raters)
    if pairs < 2 or not 0 < wanted < 1 or min(raters, default=0) < 1:
        raise InputError(
            "a plan needs two pairs at least, a rater for each, and a power between 0 and 1"
        )
    found = []
    for axis, alpha in (alphas or PAPER).items():
        opinions = opinions_with(alpha, equal, much)
        for count in raters:
            found.append(
                Plan(
                    axis,
                    alpha,
                    count,
                    pairs_needed(opinions, difference, count, wanted, seed=seed),
                    power(opinions, difference, pairs, count, seed=seed),
                    smallest_difference(opinions, pairs, count, wanted, seed=seed),
                )
            )
    return found


def pairs_needed(
    opinions: Opinions, difference: float, raters: int, wanted: float, *, seed: int = 0
) -> int | None:
    """The fewest pairs, to about 2 %, with the wanted chance to settle a difference."""
    low, high = 1, 16
    while power(opinions, difference, high, raters, seed=seed) < wanted:
        low, high = high, min(high * 2, MOST)
        if low == MOST:
            return None
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        enough = power(opinions, difference, middle, raters, seed=seed) >= wanted
        low, high = (low, middle) if enough else (middle, high)
    return high


def smallest_difference(
    opinions: Opinions, pairs: int, raters: int, wanted: float, *, seed: int = 0
) -> float | None:
    """The smallest mean preference, to 0.01, that so many pairs settle with the wanted chance."""
    low, high = 0.0, 1.9
    if power(opinions, high, pairs, raters, seed=seed) < wanted:
        return None
    while high - low > 0.005:
        middle = (low + high) / 2
        enough = power(opinions, middle, pairs, raters, seed=seed) >= wanted
        low, high = (low, middle) if enough else (middle, high)
    return high


def plan_table(plans: Sequence[Plan], difference: float, pairs: int, wanted: float) -> str:
    """A table in plain text."""
    lines = [
        f"Mean preference from -2 to 2. To settle a difference: its 95 % interval excludes 0, with "
        f"a chance of {wanted:.0%}.",
        "",
        f"{'axis':<10}  {'alpha':>5}  {'raters for':>10}  {'pairs that settle':>17}  "
        f"{f'chance that {pairs}':>15}  {f'smallest that {pairs}':>17}",
        f"{'':<10}  {'':>5}  {'each pair':>10}  {f'{difference:g}':>17}  "
        f"{f'pairs settle {difference:g}':>15}  {'pairs settle':>17}",
    ]
    for each in plans:
        needed = f"over {MOST}" if each.needed is None else str(each.needed)
        smallest = "none" if each.smallest is None else f"{each.smallest:.2f}"
        lines.append(
            f"{each.axis:<10}  {each.alpha:>5.3f}  {each.raters:>10}  {needed:>17}  "
            f"{each.power:>15.0%}  {smallest:>17}"
        )
    return "\n".join(lines)
