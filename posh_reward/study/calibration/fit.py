"""Scores and people's numbers -> weights of attributes and relations, and of precision to recall.

Weights of attributes and relations are in units of an entity's weight; the balance is the weight of
precision in units of recall's. All points of a small grid are tried, so there are no local maxima
to get stuck in. The best point maximises

    mean over axes of -(images / 2) log(1 - r^2)  -  1/2 (distance from equal in factors of two)^2

where r is the correlation of scores with ratings, or of differences with preferences. The first
term is the log likelihood of people's numbers being proportional to scores with normal noise, the
second a normal prior: a weight is within a factor of two of equal in two of three cases. With few
images, or none that distinguish the weights, they stay equal. An image counts once, however many
ratings it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from posh_reward.metrics.posh.aggregate import Weights
from posh_reward.process.progress import progress_bar
from posh_reward.study.calibration.calibration_set import CalibrationSet
from posh_reward.study.calibration.graded_texts import GradeSums, overall
from posh_reward.study.rows.score_axes import AXES
from posh_reward.study.statistics import Floats, Ints, group_numbers

FACTORS: Floats = np.array([0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4])
"""Values of each weight and the balance: 1/4 to 4 in steps of about the square root of 2."""
PRIOR = 1.0  # standard deviation of the prior, in factors of two
ROUNDING = 1e-14  # relative differences below this are rounding errors
AT_ONCE = 100  # resamples fitted at a time, to bound memory

KIND_GRID: Floats = np.array([(1.0, a, r) for a in FACTORS for r in FACTORS])
"""(kind points, kinds) weights of entity, attribute and relation."""


def _penalties() -> Floats:
    # Only ratios of weights matter, so their logs are centred.
    logs = np.log2(KIND_GRID)
    kinds = np.square(logs - logs.mean(axis=1, keepdims=True)).sum(axis=1)
    penalties: Floats = (kinds[:, None] + np.square(np.log2(FACTORS))[None, :]) / 2 / PRIOR**2
    return penalties


PENALTY: Floats = _penalties()  # (kind points, balances) negative log prior; 0 for equal weights
NEAREST_FIRST: Ints = np.argsort(PENALTY.ravel(), kind="stable")
"""Flat grid points from equal weights outwards: of equally good points the first one wins."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """One point of the grid."""

    attribute: float = 1.0  # weight; an entity's is 1
    relation: float = 1.0  # weight; an entity's is 1
    balance: float = 1.0  # weight of precision; recall's is 1

    @property
    def weights(self) -> Weights:
        """The ``weights`` of ``PoSh``."""
        return Weights(1.0, self.attribute, self.relation)

    @property
    def precision_and_recall(self) -> tuple[float, float]:
        """The weights of ``Shaping``."""
        return self.balance, 1.0

    def scores(self, sums: GradeSums) -> dict[str, Floats]:
        """Axis -> (texts,) scores."""
        means = sums.means(np.array([1.0, self.attribute, self.relation]))
        both = overall(means, np.array([self.balance]))[:, 0]
        columns = (means[:, 0], means[:, 1], both)
        return {axis.name: column for axis, column in zip(AXES, columns, strict=True)}


EQUAL = Calibration()


@dataclass(frozen=True)
class Moments:
    """Sums over each image's rows, which suffice for correlations over any choice of images."""

    n: Floats  # (images, 1) rows
    y: Floats  # (images, 1) sums of people's numbers
    yy: Floats  # (images, 1) of their squares
    x: Floats  # (images, points) sums of scores
    xx: Floats  # (images, points) of their squares
    xy: Floats  # (images, points) of products
    centred: bool  # False for differences: a preference of 0 belongs to a difference of 0

    def evidence(self, times: Floats) -> Floats:
        """(samples, points) log likelihood, weighting images by ``times`` (samples, images)."""
        xy, xx, yy = times @ self.xy, times @ self.xx, times @ self.yy
        if self.centred:  # n times the sums of squares around the means
            n, x, y = times @ self.n, times @ self.x, times @ self.y
            xy, xx, yy = n * xy - x * y, n * xx - x * x, n * yy - y * y
        spread = xx * yy
        varies = spread > 1e-12
        r = np.where(varies, xy / np.sqrt(np.where(varies, spread, 1)), 0).clip(-1, 1)
        images = times @ (self.n > 0)
        # A negative correlation is as much evidence against a point as a positive one is for it.
        evidence: Floats = -np.sign(r) * images / 2 * np.log1p(-np.square(r) * (1 - 1e-9))
        return evidence


@dataclass(frozen=True)
class Fit:
    """A calibration set that can be fitted to any choice of its images."""

    data: CalibrationSet
    sums: GradeSums
    quiet: bool = True

    @cached_property
    def image_of(self) -> Ints:
        """(rows,) the number of each row's image."""
        return group_numbers(self.data.judgments.groups)

    @property
    def images(self) -> int:
        """Number of images."""
        return len(set(self.data.judgments.groups))

    @cached_property
    def people(self) -> Mapping[str, Floats]:
        """Axis -> (rows,) people's numbers, standardised so that sums keep their precision."""
        centred = self.data.text_of is not None
        return {axis: standardised(y, centred) for axis, y in self.data.judgments.people.items()}

    @cached_property
    def moments(self) -> Mapping[str, Moments]:
        """Axis -> moments; overall has a point for each pair of kind point and balance."""
        parts: dict[str, list[tuple[Floats, ...]]] = {
            axis: [] for axis in self.data.judgments.people
        }
        bar = progress_bar("sums", len(KIND_GRID), "weighting", self.quiet, iterable=KIND_GRID)
        for weights in bar:
            means = self.sums.means(weights)
            columns = (means[:, :1], means[:, 1:], overall(means, FACTORS))
            for axis, scores in zip(AXES, columns, strict=True):
                if axis.name in parts:
                    parts[axis.name].append(self._sums_by_image(axis.name, self.data.rows(scores)))
        return {axis: self._moments(axis, sums) for axis, sums in parts.items()}

    def _sums_by_image(self, axis: str, x: Floats) -> tuple[Floats, ...]:
        """(images, columns) sums of x, x^2 and x y over each image's rows that have both."""
        y = self.people[axis][:, None]
        usable = ~np.isnan(x) & ~np.isnan(y)
        x, y = np.where(usable, x, 0), np.where(usable, y, 0)
        return tuple(self._by_image(each) for each in (x, x * x, x * y))

    def _moments(self, axis: str, parts: list[tuple[Floats, ...]]) -> Moments:
        people = self.people[axis]
        scores = self.data.rows(EQUAL.scores(self.sums)[axis])
        usable = ~np.isnan(people) & ~np.isnan(scores)
        y = np.where(usable, people, 0)
        rows = np.stack([usable.astype(np.float64), y, y * y], axis=1)
        n, y, yy = (self._by_image(rows[:, [place]]) for place in range(3))
        x, xx, xy = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        return Moments(n, y, yy, x, xx, xy, centred=self.data.text_of is not None)

    def _by_image(self, values: Floats) -> Floats:
        columns = [
            np.bincount(self.image_of, weights=column, minlength=self.images) for column in values.T
        ]
        return np.stack(columns, axis=1)

    def best(self, times: Floats) -> list[Calibration]:
        """Best point for each sample, weighting images by ``times`` (samples, images)."""
        best: list[Calibration] = []
        for start in range(0, len(times), AT_ONCE):
            some = times[start : start + AT_ONCE]
            total = np.zeros((len(some), *PENALTY.shape))
            for moments in self.moments.values():
                evidence = moments.evidence(some).reshape(len(some), len(KIND_GRID), -1)
                total += evidence / len(self.moments)
            flat = (total - PENALTY).reshape(len(some), -1)[:, NEAREST_FIRST]
            for place in NEAREST_FIRST[flat.argmax(axis=1)]:  # the first of equals
                kinds, balance = divmod(int(place), len(FACTORS))
                _, attribute, relation = KIND_GRID[kinds].tolist()
                best.append(Calibration(attribute, relation, float(FACTORS[balance])))
        return best


def standardised(values: Floats, centred: bool) -> Floats:
    """(rows,) values in units of their spread around their mean, or around 0 unless ``centred``."""
    numbers = values[~np.isnan(values)]
    largest = np.abs(numbers).max(initial=0)
    if largest == 0:
        return values
    units = values / largest  # or squares of large numbers would be infinite
    units = units - np.mean(numbers / largest) if centred else units
    spread = np.sqrt(np.nanmean(np.square(units)))
    if spread <= ROUNDING:  # all equal: the rest is rounding, not spread
        return np.where(np.isnan(units), units, 0)
    return np.asarray(units / spread)
