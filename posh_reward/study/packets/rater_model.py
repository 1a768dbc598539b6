"""A model of raters: how preferences spread and how far raters agree; and their answer files.

How much better one model is on an item is normal, of variance 1 around a mean: a part that all
raters of the item share, a taste of each rater (a lean towards one model), and a part of each
answer. Cuts turn it into five choices.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.packets import rater_texts
from posh_reward.study.packets.rater_answers import with_checksum
from posh_reward.study.packets.rater_texts import AXES
from posh_reward.study.packets.results import FASTEST
from posh_reward.study.packets.study_records import ANSWERS_FORMAT, PacketKey, RaterTask, word_spans
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats

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
