"""A calibration set and its grades -> a calibration, and its gain on held-out folds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.agreement.agreement_report import (
    ENOUGH,
    AgreementReport,
    AgreementSettings,
    make_report,
    unrated_note,
)
from posh_reward.study.agreement.metric_scores import ScoreColumn
from posh_reward.study.calibration.calibration_set import CalibrationSet
from posh_reward.study.calibration.fit import EQUAL, Calibration, Fit
from posh_reward.study.calibration.graded_texts import GradeSums
from posh_reward.study.statistics import Estimate, Floats, Ints, bootstrap
from posh_reward.types import Scores

FITTED, BEFORE = "calibrated", "equal weights"
LEVEL = 0.95
CHANCE = {"rho": 0.0, "acc": 0.5}
"""Measure -> its value for scores that are unrelated to people's numbers."""


@dataclass(frozen=True, slots=True)
class CalibrationSettings:
    """Folds and resamples."""

    folds: int = 5
    resamples: int = 1000
    seed: int = 0  # for folds and resamples
    quiet: bool = False


@dataclass(frozen=True)
class CalibrationResult:
    """A calibration with the evidence for and against it."""

    calibration: Calibration  # fitted to all images
    ranges: dict[str, tuple[float, float]]  # 95 % interval of each field of ``Calibration``
    gain: Estimate  # of agreement out of fold, over equal weights; higher is better
    agreement: Estimate  # of the calibrated scores with people, out of fold; higher is better
    chance: float  # agreement of scores that are unrelated to people's numbers
    figure: str  # name of the measure of agreement and gain
    axis_columns: str  # column that each score is compared with; empty if there is no choice
    images: int
    report: AgreementReport

    @property
    def agrees(self) -> bool:
        """True if the agreement's interval is above chance."""
        return self.agreement.low > self.chance  # False for nan

    @property
    def runs_against(self) -> bool:
        """True if the agreement is at chance or below: people prefer lower scores."""
        return self.agreement.value <= self.chance

    @property
    def holds(self) -> bool:
        """True if scores agree with people, and the gain's interval is above 0."""
        return self.images >= ENOUGH and self.agrees and self.gain.low > 0  # False for nan


def calibrate(
    data: CalibrationSet, scores: Sequence[Scores], settings: CalibrationSettings
) -> CalibrationResult:
    """Fit weights and balance, and test them on held-out images.

    Raises:
        InputError: there are fewer images than folds, or nothing to fit to, e.g. equal ratings.
    """
    fit = Fit(data, GradeSums.of(scores), settings.quiet)
    _check(fit, settings)
    [calibration] = fit.best(np.ones((1, fit.images)))
    # (resamples, images) times each image is drawn
    draws = np.random.default_rng(settings.seed).multinomial(
        fit.images, np.full(fit.images, 1 / fit.images), settings.resamples
    )
    columns = _columns(fit, scores, settings)
    # Preferences that do not vary have no correlation.
    measure = "rho" if all(map(_varies, data.judgments.people.values())) else "acc"
    gain, agreement = _gain(data, measure, columns, settings)
    return CalibrationResult(
        calibration,
        _ranges(fit.best(draws.astype(np.float64))),
        gain,
        agreement,
        CHANCE[measure],
        _figure(data, measure),
        data.axis_columns,
        fit.images,
        _report(data, columns, settings),
    )


def folds(images: int, settings: CalibrationSettings) -> Floats:
    """(folds, images) 1 where an image is in a fold, else 0; fold sizes differ by at most 1."""
    # Images stay whole: their rows share references, which would leak into the test fold.
    order = np.random.default_rng(settings.seed).permutation(images)
    members = np.zeros((settings.folds, images))
    members[np.arange(images) % settings.folds, order] = 1
    return members


def _check(fit: Fit, settings: CalibrationSettings) -> None:
    if settings.folds < 2 or fit.images < settings.folds:
        raise InputError(
            f"{settings.folds} folds of {fit.images} images: use two folds or more, and at least "
            "as many images"
        )
    if not any((moments.n > 0).any() for moments in fit.moments.values()):
        raise InputError("there is nothing to fit to: no text has both a score and a judgment")
    alike = [axis for axis, values in fit.data.judgments.people.items() if not _varies(values)]
    if alike and fit.data.text_of is not None:
        raise InputError(
            f"all ratings are alike ({', '.join(alike)}), so no weights can be fitted to them: "
            "rate texts that differ, or leave these ratings out"
        )


def _ranges(samples: Sequence[Calibration]) -> dict[str, tuple[float, float]]:
    ranges = {}
    for name in ("attribute", "relation", "balance") if samples else ():
        values = [getattr(each, name) for each in samples]
        # nearest: interpolated values are not in the grid
        ends = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="nearest")
        ranges[name] = (float(ends[0]), float(ends[1]))
    return ranges


def _columns(
    fit: Fit, scores: Sequence[Scores], settings: CalibrationSettings
) -> list[ScoreColumn]:
    """Scores of all texts under equal weights, and under weights fitted to the other folds."""
    data, sums = fit.data, fit.sums
    in_fold = folds(fit.images, settings)
    fold = in_fold.argmax(axis=0)  # (images,)
    fold_of = np.zeros(len(data.texts), dtype=np.int64)
    rows = np.arange(len(fit.image_of))
    for texts in (data.text_of,) if data.text_of is not None else (2 * rows, 2 * rows + 1):
        fold_of[texts] = fold[fit.image_of]
    equal = EQUAL.scores(sums)
    scores_by_fold = [calibration.scores(sums) for calibration in fit.best(1.0 - in_fold)]
    every = np.arange(len(data.texts))
    # Each text is scored by the calibration that was not fitted to its image.
    own = {a: np.stack([each[a] for each in scores_by_fold])[fold_of, every] for a in equal}
    failures = Counter(str(each.failure) for each in scores if each.failure is not None)
    return [ScoreColumn(BEFORE, equal, dict(failures)), ScoreColumn(FITTED, own)]


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
    """Gain and agreement of the calibrated scores, as means over the axes."""
    figures = [figure for figure in data.figures if figure.name == name]
    scores_of = [[data.judgments.scores(column, f.axis) for f in figures] for column in columns]

    def mean(by_figure: Sequence[Floats], rows: Ints) -> float:
        values = []
        for figure, scores in zip(figures, by_figure, strict=True):
            people = data.judgments.people[figure.axis]
            usable = rows[~np.isnan(people[rows]) & ~np.isnan(scores[rows])]
            values.append(figure.measure(scores, people, usable))
        return float(np.mean(values))

    def measure(rows: Ints) -> list[float]:
        before, after = (mean(by_figure, rows) for by_figure in scores_of)
        return [after - before, after]

    gain, agreement = bootstrap(
        measure, data.judgments.groups, level=LEVEL, resamples=settings.resamples,
        seed=settings.seed,
    )  # fmt: skip
    return gain, agreement


def _report(
    data: CalibrationSet, columns: Sequence[ScoreColumn], settings: CalibrationSettings
) -> AgreementReport:
    report_settings = AgreementSettings(
        resamples=settings.resamples, seed=settings.seed, quiet=settings.quiet, against=BEFORE
    )
    notes = [
        f"{FITTED}: each text scored with weights fitted to the images of the other "
        f"{settings.folds - 1} of {settings.folds} folds.",
        *unrated_note(data.judgments.people, "rating or label"),
    ]
    return make_report(data.title, data.judgments, columns, data.figures, report_settings, notes)


def verdict_lines(result: CalibrationResult) -> list[str]:
    """Describe the fitted numbers, their gain, and the decision."""
    names = {"attribute": "attributes", "relation": "relations", "balance": "precision to recall"}
    numbers = []
    for field, words in names.items():
        ends = " [{:.2g}, {:.2g}]".format(*result.ranges[field]) if result.ranges else ""
        numbers.append(f"{words} {getattr(result.calibration, field):.2g}{ends}")
    if not isnan(result.agreement.low) and not result.agrees:
        why = "not settled, since the scores do not agree with people"
    elif isnan(result.gain.low):
        why = "not settled, since it has no interval (too few images, or no resamples)"
    elif result.holds:
        why = "its interval is above 0: settled"
    elif result.gain.low > 0:
        why = f"not settled by so few images ({result.images}): use {ENOUGH} or more"
    elif result.gain.high < 0:
        why = "its interval is below 0: equal weights agree better with people"
    else:
        why = "its interval includes 0: not settled"
    against = disagreement(result)
    return [
        *([f"Compared with: {result.axis_columns}."] if result.axis_columns else []),
        f"Fitted to all images, with entities weighing 1: {'; '.join(numbers)}.",
        f"Gain in {result.figure}, out of fold: {_number(result.gain)}; {why}.",
        f"Agreement, out of fold: {_number(result.agreement)} (higher is better)"
        + (f"; {against}." if against else "."),
    ]


def disagreement(result: CalibrationResult) -> str:
    """Explain why scores may not agree with people; empty if they do, or without an interval."""
    if result.runs_against:
        return "the metric disagrees with these judgments: make sure that higher numbers are better"
    if isnan(result.agreement.low) or result.agrees:
        return ""
    return f"its interval includes chance, {result.chance:g}: the metric may not agree at all"


def _number(estimate: Estimate) -> str:
    if isnan(estimate.value):
        return "none, since all scores are alike"
    ends = "" if isnan(estimate.low) else f" [{estimate.low:+.3f}, {estimate.high:+.3f}]"
    return f"{estimate.value:+.3f}{ends}"
