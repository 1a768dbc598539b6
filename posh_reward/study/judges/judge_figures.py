"""Runs of two judges over the same pairs -> agreement per question, pair and group.

Each judge is compared with the first one, which it may replace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posh_reward.study.judges.judge_agreement import (
    CalibrationBin,
    GroupAgreement,
    PairAgreement,
    QuestionAgreement,
    calibration,
    group_agreement,
    pair_agreement,
    question_agreement,
)
from posh_reward.study.judges.judge_runs import JudgeRun, QuestionKey, ScoredPair
from posh_reward.study.statistics import Floats
from posh_reward.types import Question

LARGEST = 20  # number of questions with the largest differences to list
AXES = ("precision", "recall", "f1")
OBJECTIVES: Mapping[str, tuple[str, ...]] = {
    "f1": ("f1",),
    "precision and recall": ("precision", "recall"),
}
"""Sets of rewards; two are normalised within the group before they are added."""
PARTS = ("all", "entity", "attribute", "relation", "precision", "recall")
"""Sets of questions: all, of one kind, of one direction."""


@dataclass(frozen=True, slots=True)
class QuestionDifference:
    """A question that two judges grade differently."""

    question: Question
    first: float
    other: float


@dataclass(frozen=True, slots=True)
class JudgeComparison:
    """A judge compared with the first."""

    first: JudgeRun
    other: JudgeRun
    references: int
    questions: Mapping[str, QuestionAgreement]  # by those of ``PARTS`` that have questions
    failures: int  # questions that at least one could not answer
    calibration: Sequence[CalibrationBin]
    largest: Sequence[QuestionDifference]
    pairs: Mapping[str, PairAgreement]  # by axis
    pair_failures: int  # pairs that at least one could not score
    groups: Mapping[str, GroupAgreement]  # by objective; empty if no reference has two texts

    @property
    def scored_share(self) -> float:
        """Share of pairs that both scored."""
        count = self.pairs["f1"].count if self.pairs else 0
        return count / (count + self.pair_failures) if count else 0.0


def compare(
    first: JudgeRun,
    other: JudgeRun,
    pairs: Sequence[ScoredPair],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> JudgeComparison:
    """Compare two runs over the same pairs: ``other`` may replace ``first``."""
    both, grades = shared_grades(first, other)
    sound: NDArray[np.bool_] = np.asarray(~np.isnan(grades).any(axis=1), np.bool_)
    keys = [key for key, is_sound in zip(both, sound.tolist(), strict=True) if is_sound]
    axes = {axis: _axis(first, other, axis) for axis in AXES}
    usable: NDArray[np.bool_] = np.asarray(~np.isnan(axes["f1"]).any(axis=1), np.bool_)
    references = [pair.reference.strip() for pair in pairs]
    usable_references = [references[i] for i in np.flatnonzero(usable)]
    groups = {
        name: group_agreement(np.stack([axes[a] for a in objectives]), references, resamples, seed)
        for name, objectives in OBJECTIVES.items()
    }
    return JudgeComparison(
        first,
        other,
        len(set(references)),
        _by_part(keys, grades[sound], resamples, seed),
        int((~sound).sum()),
        calibration(grades[sound]),
        _largest(keys, grades[sound], first.questions | other.questions),
        {
            axis: pair_agreement(values[usable], usable_references, resamples, seed)
            for axis, values in axes.items()
            if usable.any()
        },
        int((~usable).sum()),
        {name: group for name, group in groups.items() if group},
    )


def shared_grades(first: JudgeRun, other: JudgeRun) -> tuple[list[QuestionKey], Floats]:
    """Return the questions put to both, and their grades, (questions, 2); nan where one failed."""
    both = [key for key in dict.fromkeys((*first.own, *other.own)) if key in other.verdicts]
    both.sort(key=lambda key: (key.source, key.target, *map(str, key)))
    columns = [
        [run.verdicts[key].grade if key in run.verdicts else None for key in both]
        for run in (first, other)
    ]
    grades: Floats = np.array(columns, dtype=np.float64).T  # None becomes nan
    return both, grades


def _axis(first: JudgeRun, other: JudgeRun, axis: str) -> Floats:
    """Scores of each pair on one axis, (pairs, 2); nan where one failed."""
    columns = [[getattr(each, axis) for each in run.scores] for run in (first, other)]
    scores: Floats = np.array(columns, dtype=np.float64).T
    return scores


def _by_part(
    keys: Sequence[QuestionKey], grades: Floats, resamples: int, seed: int
) -> dict[str, QuestionAgreement]:
    references = [key.target if key.direction == "precision" else key.source for key in keys]
    by_part = {}
    for part in PARTS:
        rows = [i for i, key in enumerate(keys) if part in ("all", key.kind, key.direction)]
        if rows:
            some = [references[i] for i in rows]
            by_part[part] = question_agreement(grades[rows], some, resamples, seed)
    return by_part


def _largest(
    keys: Sequence[QuestionKey], grades: Floats, questions: Mapping[QuestionKey, Question]
) -> list[QuestionDifference]:
    order = np.argsort(-np.abs(grades[:, 0] - grades[:, 1]), kind="stable")[:LARGEST]
    return [
        QuestionDifference(questions[keys[i]], float(grades[i, 0]), float(grades[i, 1]))
        for i in order.tolist()
        if grades[i, 0] != grades[i, 1]
    ]
