"""Which of two texts is better: accuracy over better, tie and worse (paper, section 5).

A metric gives two texts real numbers, which are hardly ever equal, while people say "equal". So the
least differences count as ties, as many as people saw: |differences| are sorted, the threshold is
the one at the index that is the number of people's ties, and from it on a difference is a win.
"""

from __future__ import annotations

import re
from math import inf, nan

import numpy as np

from posh_reward.errors import InputError
from posh_reward.study.statistics import Floats

LABELS = {
    "1_much_better": 2.0,
    "1_slightly_better": 1.0,
    "equal": 0.0,
    "2_slightly_better": -1.0,
    "2_much_better": -2.0,
}
"""What people say of two texts -> s, positive if the first is better (paper, A.3.2)."""


def label_score(label: object) -> float:
    """The number of a label: one of ``LABELS``, however it is spaced, or a number from -2 to 2.

    Raises:
        InputError: it is neither.
    """
    if isinstance(label, str):
        plain = re.sub(r"[\W_]+", "_", label.lower()).strip("_")
        if plain in LABELS:
            return LABELS[plain]
    try:
        number = float(str(label))
    except ValueError:
        number = nan
    if not -2 <= number <= 2:
        raise InputError(
            f"the label {str(label)[:40]!r} is unknown: use one of {', '.join(LABELS)}, or a "
            "number from -2 (the second text is much better) to 2"
        )
    return number


def tie_threshold(differences: Floats, ties: int) -> float:
    """The least |difference| that counts as a win, so that about ``ties`` of them are ties.

    Infinite if all are to be ties.
    """
    magnitudes = np.sort(np.abs(differences))
    return float(magnitudes[ties]) if ties < len(magnitudes) else inf


def outcomes(differences: Floats, threshold: float) -> Floats:
    """1 where the first text wins, -1 where the second does, 0 for ties.

    A difference of 0 is a tie under any threshold, since it names no winner.
    """
    wins: Floats = np.sign(differences) * (np.abs(differences) >= threshold)
    return wins


def predicted_outcomes(differences: Floats, people: Floats) -> Floats:
    """A metric's outcomes, with as many ties as people saw.

    Args:
        differences: of the metric's scores, first text minus second.
        people: positive where people preferred the first text, 0 for ties.
    """
    return outcomes(differences, tie_threshold(differences, int((people == 0).sum())))


def accuracy(differences: Floats, people: Floats) -> float:
    """How often a metric's outcome is people's, 0 to 1; nan without pairs."""
    if not len(people):
        return nan
    return float(np.mean(predicted_outcomes(differences, people) == np.sign(people)))
