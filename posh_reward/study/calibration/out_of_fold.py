"""A calibration set and its grades -> a calibration, and how much it gains out of fold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from posh_reward.errors import InputError
from posh_reward.process.progress import progress_bar
from posh_reward.study.agreement.agreement_report import (
    ENOUGH,
    AgreementReport,
    AgreementSettings,
    make_report,
    unrated_note,
)
from posh_reward.study.agreement.compare import Figure
from posh_reward.study.agreement.metric_scores import ScoreColumn
from posh_reward.study.calibration.calibration_set import CalibrationSet
from posh_reward.study.calibration.fit import EQUAL, KIND_GRID, Calibration, Fit
from posh_reward.study.calibration.graded_texts import GradeSums
from posh_reward.study.statistics import Estimate, Floats, Ints, bootstrap
from posh_reward.types import Scores

FITTED, BEFORE = "calibrated", "equal weights"
LEVEL = 0.95
CHANCE = {"rho": 0.0, "acc": 0.5}
"""Measure -> its value for scores that have nothing to do with people's numbers."""


@dataclass(frozen=True, slots=True)
class CalibrationSettings:
    """Folds and resamples."""

    folds: int = 5
    resamples: int = 1000
    seed: int = 0  # of the folds and of the resamples
    quiet: bool = False


@dataclass(frozen=True)
class CalibrationResult:
    """A calibration with all that speaks for and against it."""

    calibration: Calibration  # fitted to all images
    # By field of ``Calibration``, its 95 % interval over resamples of images.
    ranges: dict[str, tuple[float, float]]
    # Out of fold, against equal weights; above 0 people agree more with the calibrated scores.
    gain: Estimate
    agreement: Estimate  # out of fold, of the calibrated scores with people; higher is better
    chance: float  # the agreement of scores that have nothing to do with people's numbers
    figure: str  # the measure of agreement and gain
    # The column that each score is compared with; empty where that is not a choice.
    axis_columns: str
    images: int
    report: AgreementReport

    @property
    def agrees(self) -> bool:
        """True if the agreement's interval lies above chance."""
        return self.agreement.low > self.chance  # nan is not

    @property
    def runs_against(self) -> bool:
        """True if the agreement is at chance or below: people prefer lower scores."""
        return self.agreement.value <= self.chance

    @property
    def holds(self) -> bool:
        """True if scores agree with people, and the gain's interval lies above 0."""
        return self.images >= ENOUGH and self.agrees and self.gain.low > 0  # nan is not


def calibrate(
    data: CalibrationSet, scores: Sequence[Scores], settings: CalibrationSettings
) -> CalibrationResult:
    """Fit weights and balance, and test them on images that they were not fitted to.

    Raises:
        InputError: there are fewer images than folds, or nothing to fit to, such as ratings that
            are all alike.
    """
    with progress_bar("sums", len(KIND_GRID), "weighting", settings.quiet) as bar:
        fit = Fit(data, GradeSums.of(scores), bar.update)
        _check(fit, settings)
        by_fold = fit.best(1.0 - folds(fit.images, settings))
    calibration = fit.best(np.ones((1, fit.images)))[0]
    samples = fit.best(_draws(fit.images, settings))
    columns = _columns(fit, by_fold, scores, settings)
    measure = _measure(data)
    gain, agreement = _gain(data, measure, columns, settings)
    return CalibrationResult(
        calibration,
        _ranges(samples),
        gain,
        agreement,
        CHANCE[measure],
        _figure(data, measure),
        data.axis_columns,
        fit.images,
        _report(data, columns, settings),
    )


def folds(images: int, settings: CalibrationSettings) -> Floats:
    """(folds, images) 1 where an image is in a fold, else 0; each is in one, and sizes are even."""
    # Whole images: rows of one share its references, and a fold would know half of its test.
    order = np.random.default_rng(settings.seed).permutation(images)
    members = np.zeros((settings.folds, images))
    members[np.arange(images) % settings.folds, order] = 1
    return members


def _check(fit: Fit, settings: CalibrationSettings) -> None:
    if settings.folds < 2 or fit.images < settings.folds:
        raise InputError(
            f"{settings.folds} folds of {fit.images} images: give two folds or more, and at "
            "least as many images"
        )
    if not any((moments.n > 0).any() for moments in fit.moments.values()):
        raise InputError("there is nothing to fit to: no text has both a score and people's number")
    alike = [axis for axis, values in fit.data.judgments.people.items() if not _varies(values)]
    if alike and fit.data.text_of is not None:
        raise InputError(
            f"all ratings are alike ({', '.join(alike)}), so they do not tell weights apart: rate "
            "texts that differ, or leave these ratings out"
        )


def _draws(images: int, settings: CalibrationSettings) -> Floats:
    """(resamples, images) how often each image is drawn."""
    rng = np.random.default_rng(settings.seed)
    return rng.multinomial(images, np.full(images, 1 / images), settings.resamples).astype(
        np.float64
    )


def _ranges(samples: Sequence[Calibration]) -> dict[str, tuple[float, float]]:
    ranges = {}
    for name in ("attribute", "relation", "balance") if samples else ():
        values = [getattr(each, name) for each in samples]
        # nearest: a mean of two points of the grid is not a point of it
        ends = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="nearest")
        ranges[name] = (float(ends[0]), float(ends[1]))
    return ranges


def _columns(
    fit: Fit,
    by_fold: Sequence[Calibration],
    scores: Sequence[Scores],
    settings: CalibrationSettings,
) -> list[ScoreColumn]:
    """Scores of all texts under equal weights, and under those that other folds gave."""
    data, sums = fit.data, fit.sums
    fold = folds(fit.images, settings).argmax(axis=0)  # (images,)
    fold_of = np.zeros(len(data.texts), dtype=np.int64)
    rows = np.arange(len(fit.image_of))
    for texts in (data.text_of,) if data.text_of is not None else (2 * rows, 2 * rows + 1):
        fold_of[texts] = fold[fit.image_of]
    equal = EQUAL.scores(sums)
    scores_by_fold = [each.scores(sums) for each in by_fold]
    every = np.arange(len(data.texts))
    # Each text takes its score from the calibration that did not see its image.
    own = {a: np.stack([each[a] for each in scores_by_fold])[fold_of, every] for a in equal}
    failures = Counter(str(each.failure) for each in scores if each.failure is not None)
    return [ScoreColumn(BEFORE, equal, dict(failures)), ScoreColumn(FITTED, own)]


def _measure(data: CalibrationSet) -> str:
    """Spearman's rho or, for preferences that do not vary, accuracy."""
    return "rho" if all(map(_varies, data.judgments.people.values())) else "acc"


def _varies(values: Floats) -> bool:
    return len(np.unique(values[~np.isnan(values)])) > 1


def _figure(data: CalibrationSet, name: str) -> str:
    if data.single_column is not None:
        return f"{name} (mean of three scores, each with {data.single_column!r})"
    axes = list(data.judgments.people)
    return f"{name} ({'mean of ' if len(axes) > 1 else ''}{', '.join(axes)})"


def _gain(
    data: CalibrationSet, name: str, columns: Sequence[ScoreColumn], settings: CalibrationSettings
) -> tuple[Estimate, Estimate]:
    """The gain, and the agreement after it; means over the axes."""
    figures = [figure for figure in data.figures if figure.name == name]
    scores = [[data.judgments.scores(column, f.axis) for f in figures] for column in columns]

    def measure(rows: Ints) -> list[float]:
        before, after = (_mean(data, figures, each, rows) for each in scores)
        return [after - before, after]

    groups = data.judgments.groups
    gain, agreement = bootstrap(
        measure, groups, level=LEVEL, resamples=settings.resamples, seed=settings.seed
    )
    return gain, agreement


def _mean(
    data: CalibrationSet, figures: Sequence[Figure], scores: Sequence[Floats], rows: Ints
) -> float:
    values = []
    for figure, column in zip(figures, scores, strict=True):
        people = data.judgments.people[figure.axis]
        usable = rows[~np.isnan(people[rows]) & ~np.isnan(column[rows])]
        values.append(figure.measure(column, people, usable))
    return float(np.mean(values))


def _report(
    data: CalibrationSet, columns: Sequence[ScoreColumn], settings: CalibrationSettings
) -> AgreementReport:
    report_settings = AgreementSettings(
        resamples=settings.resamples, seed=settings.seed, quiet=settings.quiet, against=BEFORE
    )
    notes = [
        f"{FITTED}: each text scored by weights that were fitted to the images of the other "
        f"{settings.folds - 1} of {settings.folds} folds.",
        *unrated_note(data.judgments.people, "rating or label"),
    ]
    return make_report(data.title, data.judgments, columns, data.figures, report_settings, notes)


def verdict_lines(result: CalibrationResult) -> list[str]:
    """The fitted numbers, their gain, and the decision, in words."""
    best = result.calibration
    values = {
        "attribute": ("attributes", best.attribute),
        "relation": ("relations", best.relation),
        "balance": ("precision to recall", best.balance),
    }
    numbers = "; ".join(
        f"{words} {value:.2g}" + _range(result.ranges.get(name))
        for name, (words, value) in values.items()
    )
    if not isnan(result.agreement.low) and not result.agrees:
        why = "not settled, since the scores do not agree with people"
    elif isnan(result.gain.low):
        why = "it has no interval (too few images, or no resamples), so it is not settled"
    elif result.holds:
        why = "its interval lies above 0: settled"
    elif result.gain.low > 0:
        why = f"not settled by so few images ({result.images}): {ENOUGH} or more are needed"
    elif result.gain.high < 0:
        why = "its interval lies below 0: equal weights agree better with people"
    else:
        why = "its interval holds 0: not settled"
    against = disagreement(result)
    return [
        *([f"Held against: {result.axis_columns}."] if result.axis_columns else []),
        f"Fitted to all images, entities counting 1: {numbers}.",
        f"Gain in {result.figure}, out of fold: {_number(result.gain)}; {why}.",
        f"Agreement, out of fold: {_number(result.agreement)} (higher is better)"
        + (f"; {against}." if against else "."),
    ]


def disagreement(result: CalibrationResult) -> str:
    """The reason why scores cannot be said to agree with people; empty if there is none."""
    if result.runs_against:
        return (
            "the metric runs against these judgments: is their scale inverted? More has to be "
            "better"
        )
    if isnan(result.agreement.low) or result.agrees:
        return ""
    return f"its interval holds {result.chance:g}, which is chance: the metric may not agree at all"


def _number(estimate: Estimate) -> str:
    if isnan(estimate.value):
        return "none, since all scores are alike"
    ends = "" if isnan(estimate.low) else f" [{estimate.low:+.3f}, {estimate.high:+.3f}]"
    return f"{estimate.value:+.3f}{ends}"


def _range(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f" [{ends[0]:.2g}, {ends[1]:.2g}]"
