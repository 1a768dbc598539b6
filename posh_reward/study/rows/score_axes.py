"""POSH's three scores: their names and meanings."""

from __future__ import annotations

AXES = {
    "precision": "how much of the description the reference supports",
    "recall": "how much of the reference the description covers",
    "f1": "their harmonic mean",
}
"""Field of ``Scores`` -> meaning."""
NAMES = tuple(AXES)
SCALE = "0.2 to 1, higher is better"
EXPLANATION = f"Scores are {SCALE}; " + "; ".join(f"{name}: {AXES[name]}" for name in AXES)
"""Shown once on each page and under each table."""
JUDGED = {"mistakes": "precision", "omissions": "recall", "overall": "f1"}
"""Axis that people judge -> score that is compared with it."""
