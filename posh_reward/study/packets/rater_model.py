"""A model of raters: how preferences spread, how far raters agree; and files that they would save.

How much better one model is on an item is normal: a part that all raters of the item share, a taste
of each rater (a lean towards one model), and a part of each answer, together of variance 1 around a
mean. Cuts turn it into five choices.
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
from posh_reward.study.packets.rater_reports import FASTEST
from posh_reward.study.packets.rater_texts import AXES
from posh_reward.study.packets.study_records import ANSWERS_FORMAT, PacketKey, RaterTask, word_spans
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats

VALUES = tuple(sorted(rater_texts.VALUES))
NORMAL = NormalDist()
NODES = 64  # points of the quadrature over what raters share


@dataclass(frozen=True)
class Opinions:
    """The way raters answer."""

    shared: float  # part of the variance that the raters of an item share, 0 to 1
    equal: float = 0.2  # share of the answer "Equal", if the models are equally good
    much: float = 0.3  # share of both "much better" together, if the models are equally good
    # Standard deviation of what each rater adds for the later model on every item: a taste.
    lean: float = 0.0
    side: float = 0.0  # added by all raters for the text shown as #1

    def __post_init__(self) -> None:
        if not (0 <= self.shared <= 1 and self.equal > 0 and 0 < self.much < 1 - self.equal):
            raise InputError(
                f"equal is {self.equal} and much {self.much}: both above 0, together below 1"
            )
        if not 0 <= self.lean**2 <= 1 - self.shared:
            raise InputError(
                f"lean is {self.lean}: raters who share {self.shared:.2f} of the variance can lean "
                f"from 0 to {(1 - self.shared) ** 0.5:.2f}"
            )

    @property
    def own(self) -> float:
        """Standard deviation of what a rater adds to one answer."""
        return float((1 - self.shared - self.lean**2) ** 0.5)

    @cached_property
    def cuts(self) -> tuple[float, ...]:
        """Ends of the choices, four."""
        inner = NORMAL.inv_cdf(0.5 + self.equal / 2)
        outer = NORMAL.inv_cdf(1 - self.much / 2)
        return (-outer, -inner, inner, outer)

    def choice(self, latent: float) -> int:
        """The answer, -2 to 2, of a rater to whom the difference is so large."""
        return VALUES[bisect_left(self.cuts, latent)]

    def choices(self, latent: Floats) -> Floats:
        """The same for many raters at once."""
        return np.searchsorted(self.cuts, latent).astype(np.float64) + VALUES[0]

    def mean(self, shift: float) -> float:
        """Mean answer if one model is better by ``shift``."""
        return VALUES[-1] - sum(NORMAL.cdf(cut - shift) for cut in self.cuts)

    def shift(self, mean: float) -> float:
        """The shift that makes a mean answer; ``InputError`` if none does."""
        if not abs(mean) < VALUES[-1]:
            raise InputError(f"the mean preference {mean} is not between -2 and 2")
        from scipy.optimize import brentq

        return float(brentq(lambda shift: self.mean(shift) - mean, -10, 10, xtol=1e-15))

    def alpha(self) -> float:
        """Krippendorff's ordinal alpha that a growing number of answers tends to."""
        # Two raters of an item share its quality and are independent given that. So the chance of
        # their answers is an integral over a normal quality, by Gauss and Hermite.
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
    """Raters who agree as far as ``alpha``, 0 to below 1."""
    if not 0 <= alpha < 1:
        raise InputError(f"alpha is {alpha}: raters who agree have one from 0 to below 1")
    # Alpha has no inverse in closed form; it rises with what raters share.
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        less = Opinions(middle, equal, much).alpha() < alpha
        low, high = (middle, high) if less else (low, middle)
    return Opinions((low + high) / 2, equal, much, lean, side)


@dataclass(frozen=True, slots=True)
class Crowd:
    """Opinions of simulated raters."""

    # By axis, the mean preference for the later of two models, -2 to 2.
    preference: Mapping[str, float]
    opinions: Opinions
    marks: Mapping[str, float]  # by model, the chance that a word is marked
    seed: int = 0


def answer_file(key: PacketKey, name: str, crowd: Crowd) -> bytes:
    """A rater's file, as the page would save it."""
    rater = key.raters[name]
    rng = random.Random(f"{crowd.seed} {name}")
    content: Row = {
        "format": ANSWERS_FORMAT,
        "packet": key.packet,
        "rater": name,
        "saved": "1970-01-01T00:00:00.000Z",
        "answers": [_answer(key, task, crowd, rng, name) for task in rater.tasks],
    }
    return with_checksum(content, rater.token)


def _answer(key: PacketKey, task: RaterTask, crowd: Crowd, rng: random.Random, name: str) -> Row:
    content = (
        _preferences(key, task, crowd, rng, name)
        if len(task.models) == 2
        else _marks(key, task, crowd, rng)
    )
    words = key.items[task.item].words(task.models)
    seconds = round(words / FASTEST * rng.uniform(3, 6), 1)
    return {"task": task.id, **content, "seconds": seconds, "comment": ""}


def _preferences(
    key: PacketKey, task: RaterTask, crowd: Crowd, rng: random.Random, name: str
) -> Row:
    earlier, later = key.in_order(task.models)
    sign = 1 if task.models[0] == later else -1
    choices: Row = {}
    for axis in AXES:
        # All raters of an item see the same quality: it is drawn from the item's name; and a
        # rater's taste from the rater's, for each model, so that it goes for all pairs.
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
