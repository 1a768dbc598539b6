"""The three scores: people's names for them, and the paper's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """One of the three scores."""

    name: str  # raters' word, a column of scored rows
    field: str  # the paper's word, a field of ``Scores``
    meaning: str


AXES = (
    Axis("mistakes", "precision", "how much of what was written is true"),
    Axis("omissions", "recall", "how much of the reference was written"),
    Axis("overall", "f1", "the harmonic mean of the two"),
)
NAMES = tuple(axis.name for axis in AXES)
SCALE = "0.2 to 1, higher is better"
"""Shown with all scores: without it "mistakes 0.95" reads as many mistakes."""
MEANINGS = "; ".join(f"{axis.name} ({axis.field} in the paper): {axis.meaning}" for axis in AXES)
EXPLANATION = f"Scores are {SCALE}; {MEANINGS}"
"""Shown once on each page and under each table: 1 in mistakes means that there are none."""
