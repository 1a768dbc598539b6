"""Scores and people's numbers -> how much each kind of element counts, and precision to recall.

Three numbers are fitted: the weights of attributes and of relations, in units of an entity's, and
how many times as much precision counts as recall. Every point of a small grid is tried, so the
best one is found for certain. It has the greatest

    mean over axes of -(images / 2) log(1 - r^2)  -  1/2 (distance from equal in factors of two)^2

where r is the correlation of scores with ratings, or of differences with preferences: the
likelihood of people's numbers being proportional to scores with normal noise, and a normal prior by
which a weight is within a factor of two of equal in two of three cases. Few images, or none that
tell the weights apart, leave them equal. An image counts once, however many ratings it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from posh_reward.metrics.posh.aggregate import Weights
from posh_reward.study.calibration.calibration_set import CalibrationSet
from posh_reward.study.calibration.graded_texts import GradeSums, overall
from posh_reward.study.rows.score_axes import AXES
from posh_reward.study.statistics import Floats, Ints, group_numbers

FACTORS: Floats = np.array([0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4])
"""Values of a weight or the balance: 1/4 to 4 in steps of about the square root of 2."""
PRIOR = 1.0  # standard deviation of the prior, in factors of two
ROUNDING = 1e-14  # relative differences between people's numbers that are errors of rounding
AT_ONCE = 100  # resamples that are fitted at a time: bounds memory

KIND_GRID: Floats = np.array([(1.0, a, r) for a in FACTORS for r in FACTORS])
"""(kind points, kinds) weights of entity, attribute and relation."""
Progress = Callable[[int], object]


def _penalties() -> Floats:
    """(kind points, balances) negative log of the prior; 0 if all is equal."""
    # Only ratios of weights matter, so their logs are centred; the entity's own is always 0.
    logs = np.log2(KIND_GRID)
    kinds = np.square(logs - logs.mean(axis=1, keepdims=True)).sum(axis=1)
    penalties: Floats = (kinds[:, None] + np.square(np.log2(FACTORS))[None, :]) / 2 / PRIOR**2
    return penalties


PENALTY: Floats = _penalties()
NEAREST_FIRST: Ints = np.argsort(PENALTY.ravel(), kind="stable")
"""Points of the grid, flat, from equal outwards: of points that are as good, the first is taken."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """One point of the grid."""

    attribute: float = 1.0  # weight, where an entity counts 1
    relation: float = 1.0  # likewise
    balance: float = 1.0  # weight of precision, where recall counts 1

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
    """Sums over the rows of each image, from which any correlation over images follows."""

    n: Floats  # (images, 1) rows
    y: Floats  # (images, 1) of people's numbers
    yy: Floats  # likewise
    x: Floats  # (images, points) of scores
    xx: Floats  # likewise
    xy: Floats  # likewise
    centred: bool  # False for differences: a preference of 0 belongs to a difference of 0

    def evidence(self, times: Floats) -> Floats:
        """(samples, points) log likelihood, if images count ``times`` (samples, images) times."""
        xy, xx, yy = times @ self.xy, times @ self.xx, times @ self.yy
        if self.centred:  # n times the sums of squares around the means
            n, x, y = times @ self.n, times @ self.x, times @ self.y
            xy, xx, yy = n * xy - x * y, n * xx - x * x, n * yy - y * y
        spread = xx * yy
        varies = spread > 1e-12
        r = np.where(varies, xy / np.sqrt(np.where(varies, spread, 1)), 0).clip(-1, 1)
        images = times @ (self.n > 0)
        # A negative correlation counts as much against a point as a positive one for it.
        evidence: Floats = -np.sign(r) * images / 2 * np.log1p(-np.square(r) * (1 - 1e-9))
        return evidence


@dataclass(frozen=True)
class Fit:
    """A calibration set, ready to be fitted on any choice of its images."""

    data: CalibrationSet
    sums: GradeSums
    # Receives the number of further points of the kinds' grid; there are ``len(KIND_GRID)``.
    progress: Progress = lambda _: None

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
        """Axis -> (rows,) people's numbers on a scale of their own, on which sums keep digits."""
        centred = self.data.text_of is not None
        return {axis: standardised(y, centred) for axis, y in self.data.judgments.people.items()}

    @cached_property
    def moments(self) -> Mapping[str, Moments]:
        """By axis; overall has a point for each balance, kinds first."""
        parts: dict[str, list[tuple[Floats, ...]]] = {
            axis: [] for axis in self.data.judgments.people
        }
        for weights in KIND_GRID:
            means = self.sums.means(weights)
            columns = (means[:, :1], means[:, 1:], overall(means, FACTORS))
            for axis, scores in zip(AXES, columns, strict=True):
                if axis.name in parts:
                    parts[axis.name].append(self._sums_by_image(axis.name, self.data.rows(scores)))
            self.progress(1)
        return {axis: self._moments(axis, sums) for axis, sums in parts.items()}

    def _sums_by_image(self, axis: str, x: Floats) -> tuple[Floats, ...]:
        """(images, columns) sums of x, x^2 and x y over the rows of each image that have both."""
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
        """The best point for each sample, in which images count ``times`` (samples, images)."""
        # Every point of the grid is tried, so the best is found for certain, whatever local maxima
        # there are.
        best: list[Calibration] = []
        for start in range(0, len(times), AT_ONCE):
            some = times[start : start + AT_ONCE]
            total = np.zeros((len(some), *PENALTY.shape))
            for moments in self.moments.values():
                evidence = moments.evidence(some).reshape(len(some), len(KIND_GRID), -1)
                total += evidence / len(self.moments)
            flat = (total - PENALTY).reshape(len(some), -1)[:, NEAREST_FIRST]
            # argmax takes the first of equals, which is the nearest to equal weights
            best += [_point(int(NEAREST_FIRST[place])) for place in flat.argmax(axis=1)]
        return best


def standardised(values: Floats, centred: bool) -> Floats:
    """(rows,) values in units of their spread; around their mean, if ``centred``, else around 0."""
    numbers = values[~np.isnan(values)]
    largest = np.abs(numbers).max(initial=0)
    if largest == 0:
        return values
    units = values / largest  # the square of a large number is infinite
    units = units - np.mean(numbers / largest) if centred else units
    spread = np.sqrt(np.nanmean(np.square(units)))
    if spread <= ROUNDING:  # all the same: what is left is rounding, not a spread
        return np.where(np.isnan(units), units, 0)
    return np.asarray(units / spread)


def _point(place: int) -> Calibration:
    kinds, balance = divmod(place, len(FACTORS))
    _, attribute, relation = KIND_GRID[kinds].tolist()
    return Calibration(attribute, relation, float(FACTORS[balance]))
