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
CHANCE = {"rho": 0.0, "acc": 0.5}
"""Measure -> what scores reach that have nothing to do with people's numbers."""


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
    agreement: Estimate
    """Out of fold, of the calibrated scores with people; higher is better."""
    chance: float
    """The agreement of scores that have nothing to do with people's numbers."""
    figure: str
    """What agreement and gain are measured in."""
    held_against: str
    """Which column each score is held against; empty where that is not a choice."""
    images: int
    report: Report

    @property
    def agrees(self) -> bool:
        """Whether the agreement's interval lies above chance."""
        return self.agreement.low > self.chance  # nan is not

    @property
    def runs_against(self) -> bool:
        """Whether people prefer what the metric scores lower, for all that is known."""
        return self.agreement.value <= self.chance

    @property
    def settled(self) -> bool:
        """Whether scores agree with people, and the gain's interval lies above 0."""
        return self.images >= ENOUGH and self.agrees and self.gain.low > 0  # nan is not


def calibrate(judged: Judged, scores: Sequence[Scores], how: How) -> Found:
    """Fits weights and balance, and tests them on images that they were not fitted to.

    Args:
        judged: what people said of the texts.
        scores: of each item, with its elements.
        how: folds and resamples.

    Raises:
        InputError: there are fewer images than folds, or nothing to fit to, such as ratings that
            are all alike.
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
    name = _measure(judged)
    gain, agreement = _gain(judged, name, columns, how)
    return Found(
        calibration,
        _ranges(resampled),
        gain,
        agreement,
        CHANCE[name],
        _figure(judged, name),
        judged.held_against,
        fit.images,
        _report(judged, columns, how),
    )


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
    alike = [axis for axis, values in fit.judged.sheet.people.items() if not _varies(values)]
    if alike and fit.judged.of is not None:
        raise InputError(
            f"all ratings are alike ({', '.join(alike)}), so they do not tell weights apart: rate "
            "texts that differ, or leave these ratings out"
        )


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


def _measure(judged: Judged) -> str:
    """Spearman's rho or, for preferences that do not vary, accuracy."""
    return "rho" if all(map(_varies, judged.sheet.people.values())) else "acc"


def _varies(values: Floats) -> bool:
    return len(np.unique(values[~np.isnan(values)])) > 1


def _figure(judged: Judged, name: str) -> str:
    if judged.single_column is not None:
        return f"{name} (mean of three scores, each with {judged.single_column!r})"
    axes = list(judged.sheet.people)
    return f"{name} ({'mean of ' if len(axes) > 1 else ''}{', '.join(axes)})"


def _gain(
    judged: Judged, name: str, columns: Sequence[Column], how: How
) -> tuple[Estimate, Estimate]:
    """The gain, and the agreement after it; means over the axes."""
    figures = [figure for figure in judged.figures if figure.name == name]
    given = [[judged.sheet.scores(column, f.axis) for f in figures] for column in columns]

    def measured(rows: Ints) -> list[float]:
        before, after = (_mean(judged, figures, each, rows) for each in given)
        return [after - before, after]

    groups = judged.sheet.groups
    gain, agreement = bootstrap(
        measured, groups, level=LEVEL, resamples=how.resamples, seed=how.seed
    )
    return gain, agreement


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
    if not isnan(found.agreement.low) and not found.agrees:
        why = "not settled, since the scores do not agree with people"
    elif isnan(found.gain.low):
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
        *([f"Held against: {found.held_against}."] if found.held_against else []),
        f"Fitted to all images, entities counting 1: {listed}.",
        f"Gain in {found.figure}, out of fold: {_number(found.gain)}; {why}.",
        f"Agreement, out of fold: {_number(found.agreement)} (higher is better)"
        + (f"; {against}." if (against := disagreement(found)) else "."),
    ]


def disagreement(found: Found) -> str:
    """Why scores cannot be said to agree with people; empty if they do, or nothing is known."""
    if found.runs_against:
        return (
            "the metric runs against these judgments: is their scale inverted? More has to be "
            "better"
        )
    if isnan(found.agreement.low) or found.agrees:
        return ""
    return f"its interval holds {found.chance:g}, which is chance: the metric may not agree at all"


def _number(estimate: Estimate) -> str:
    if isnan(estimate.value):
        return "none, since all scores are alike"
    ends = "" if isnan(estimate.low) else f" [{estimate.low:+.3f}, {estimate.high:+.3f}]"
    return f"{estimate.value:+.3f}{ends}"


def _range(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f" [{ends[0]:.2g}, {ends[1]:.2g}]"
