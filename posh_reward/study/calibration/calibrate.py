"""A judged set and its elements -> a calibration, and how much it gains out of fold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.agreement.bars import Bars
from posh_reward.study.agreement.compare import Figure
from posh_reward.study.agreement.items import Column
from posh_reward.study.agreement.report import ENOUGH, Report, left_out
from posh_reward.study.agreement.run import Choices, lines
from posh_reward.study.calibration.fit import EQUAL, KIND_GRID, Calibration, Fit
from posh_reward.study.calibration.judged import Judged
from posh_reward.study.calibration.sums import Sums
from posh_reward.study.statistics import Estimate, Floats, Ints, bootstrap
from posh_reward.types import Scores

FITTED, BEFORE = "calibrated", "equal weights"
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class How:
    """How a calibration is fitted and tested."""

    folds: int = 5
    resamples: int = 1000
    seed: int = 0
    """Of the folds and of the resamples."""
    quiet: bool = False


@dataclass(frozen=True)
class Found:
    """A calibration with all that speaks for and against it."""

    calibration: Calibration
    """Fitted to all images."""
    ranges: dict[str, tuple[float, float]]
    """By field of ``Calibration``, its 95 % interval over resamples of images."""
    gain: Estimate
    """Out of fold, against equal weights; above 0 people agree more with the calibrated scores."""
    figure: str
    """What the gain is a gain in."""
    images: int
    report: Report

    @property
    def settled(self) -> bool:
        """Whether the gain's interval lies above 0."""
        return self.images >= ENOUGH and self.gain.low > 0  # nan is not


def calibrate(judged: Judged, scores: Sequence[Scores], how: How) -> Found:
    """Fits weights and balance, and tests them on images that they were not fitted to.

    Args:
        judged: what people said of the texts.
        scores: of each item, with its elements.
        how: folds and resamples.

    Raises:
        InputError: there are fewer images than folds, or nothing to fit to.
    """
    sums = Sums.of(scores)
    bars = Bars(how.quiet)
    try:
        fit = Fit(judged, sums, bars.bar("sums", len(KIND_GRID), "weighting"))
        _check(fit, how)
        parts = fit.best(1.0 - folds(fit.images, how))
        calibration = fit.best(np.ones((1, fit.images)))[0]
        resampled = fit.best(_draws(fit.images, how))
    finally:
        bars.close()
    columns = _columns(fit, parts, scores, how)
    gain, figure = _gain(judged, columns, how)
    report = _report(judged, columns, how)
    return Found(calibration, _ranges(resampled), gain, figure, fit.images, report)


def folds(images: int, how: How) -> Floats:
    """(folds, images) 1 where an image is in a fold, else 0; each is in one, and sizes are even."""
    order = np.random.default_rng(how.seed).permutation(images)
    found = np.zeros((how.folds, images))
    found[np.arange(images) % how.folds, order] = 1
    return found


def _check(fit: Fit, how: How) -> None:
    if how.folds < 2 or fit.images < how.folds:
        raise InputError(
            f"{how.folds} folds of {fit.images} images: give two folds or more, and at least as "
            "many images"
        )
    if not any((moments.n > 0).any() for moments in fit.moments.values()):
        raise InputError("there is nothing to fit to: no text has both a score and people's number")


def _draws(images: int, how: How) -> Floats:
    """(resamples, images) how often each image is drawn."""
    rng = np.random.default_rng(how.seed)
    return rng.multinomial(images, np.full(images, 1 / images), how.resamples).astype(np.float64)


def _ranges(resampled: Sequence[Calibration]) -> dict[str, tuple[float, float]]:
    found = {}
    for name in ("attribute", "relation", "balance") if resampled else ():
        values = [getattr(each, name) for each in resampled]
        ends = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="nearest")
        found[name] = (float(ends[0]), float(ends[1]))
    return found


def _columns(
    fit: Fit, parts: Sequence[Calibration], scores: Sequence[Scores], how: How
) -> list[Column]:
    """Scores of all texts under equal weights, and under those that other folds gave."""
    judged, sums = fit.judged, fit.sums
    fold = folds(fit.images, how).argmax(axis=0)
    own = np.zeros(len(judged.items), dtype=np.int64)
    rows = np.arange(len(fit.image_of))
    for items in (judged.of,) if judged.of is not None else (2 * rows, 2 * rows + 1):
        own[items] = fold[fit.image_of]
    equal = EQUAL.scores(sums)
    by_fold = [part.scores(sums) for part in parts]
    every = np.arange(len(judged.items))
    crossed = {axis: np.stack([each[axis] for each in by_fold])[own, every] for axis in equal}
    failures = Counter(str(each.failure) for each in scores if each.failure is not None)
    return [Column(BEFORE, equal, dict(failures)), Column(FITTED, crossed)]


def _gain(judged: Judged, columns: Sequence[Column], how: How) -> tuple[Estimate, str]:
    """The gain in rho or, where people's numbers do not vary, in accuracy; mean over the axes."""
    people = judged.sheet.people
    varies = all(len(np.unique(values[~np.isnan(values)])) > 1 for values in people.values())
    name = "rho" if varies else "acc"
    figures = [figure for figure in judged.figures if figure.name == name]
    given = [[judged.sheet.scores(column, f.axis) for f in figures] for column in columns]

    def gain(rows: Ints) -> list[float]:
        before, after = (_mean(judged, figures, each, rows) for each in given)
        return [after - before]

    groups = judged.sheet.groups
    [found] = bootstrap(gain, groups, level=LEVEL, resamples=how.resamples, seed=how.seed)
    axes = ", ".join(figure.axis for figure in figures)
    return found, f"{name} ({'mean of ' if len(figures) > 1 else ''}{axes})"


def _mean(judged: Judged, figures: Sequence[Figure], given: Sequence[Floats], rows: Ints) -> float:
    values = []
    for figure, scores in zip(figures, given, strict=True):
        people = judged.sheet.people[figure.axis]
        usable = rows[~np.isnan(people[rows]) & ~np.isnan(scores[rows])]
        values.append(figure.measure(scores, people, usable))
    return float(np.mean(values))


def _report(judged: Judged, columns: Sequence[Column], how: How) -> Report:
    choices = Choices(resamples=how.resamples, seed=how.seed, quiet=how.quiet)
    found = lines(judged.sheet, columns, judged.figures, choices)
    notes = [
        f"{FITTED}: each text scored by weights that were fitted to the images of the other "
        f"{how.folds - 1} of {how.folds} folds.",
        *left_out(judged.sheet.people, "rating or label"),
    ]
    return Report(judged.title, judged.figures, found, notes, against=BEFORE)


def said(found: Found) -> list[str]:
    """What was fitted, what it gains, and whether that is settled, in words."""
    fitted = found.calibration
    named = {
        "attribute": ("attributes", fitted.attribute),
        "relation": ("relations", fitted.relation),
        "balance": ("precision to recall", fitted.balance),
    }
    listed = "; ".join(
        f"{words} {value:.2g}" + _range(found.ranges.get(name))
        for name, (words, value) in named.items()
    )
    if isnan(found.gain.low):
        why = "it has no interval (too few images, or no resamples), so it is not settled"
    elif found.settled:
        why = "its interval lies above 0: settled"
    elif found.gain.low > 0:
        why = f"not settled by so few images ({found.images}): {ENOUGH} or more are needed"
    elif found.gain.high < 0:
        why = "its interval lies below 0: equal weights agree better with people"
    else:
        why = "its interval holds 0: not settled"
    return [
        f"Fitted to all images, entities counting 1: {listed}.",
        f"Gain in {found.figure}, out of fold: {found.gain.value:+.3f}"
        + ("" if isnan(found.gain.low) else f" [{found.gain.low:+.3f}, {found.gain.high:+.3f}]")
        + f"; {why}.",
    ]


def _range(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f" [{ends[0]:.2g}, {ends[1]:.2g}]"
