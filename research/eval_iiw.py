"""Rank correlation of the metric with people's side-by-sides of IIW descriptions.

    python research/eval_iiw.py ../shared/data/iiw/iiw_400_dev.jsonl [--judge embedded]

A model's description (``IIW-P5B``) is scored against the human one (``IIW``). People said which
of the two is better, and by how much; that is the label of the model's text: -2 (the human text is
substantially better) to 2. Spearman's correlation over the rows with both texts and a
side-by-side: precision with *Hallucination*, recall with *Comprehensiveness* and *Specificity*;
95 % intervals by bootstrap over rows (10,000 resamples, seed 0).

Data: ImageInWords, google/imageinwords, CC BY 4.0.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

HUMAN, MODEL, JUDGMENTS = "IIW", "IIW-P5B", "iiw-human-sxs-iiw-p5b"
AXES = (("precision", "Hallucination"), ("recall", "Comprehensiveness"), ("recall", "Specificity"))
DEGREES = {"marginally": 1, "substantially": 2}
RESAMPLES = 2_000

Floats = NDArray[np.float64]


def label(verdict: str) -> int:
    """``IIW-P5B is marginally better`` -> 1; the human text better -> below 0.

    Raises:
        ValueError: an unknown verdict.
    """
    if verdict == "Neutral":
        return 0
    side, _, degree, _ = verdict.split(" ")
    return DEGREES[degree] * (1 if side == MODEL else -1)


def spearman(a: Floats, b: Floats) -> float:
    """Spearman's rho; nan where one side does not vary."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(spearmanr(a, b).statistic)


def interval(a: Floats, b: Floats, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Percentile bootstrap, 95 %."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(a), (resamples, len(a)))
    rhos = np.array([spearman(a[row], b[row]) for row in rows])
    low, high = np.nanpercentile(rhos, (2.5, 97.5))
    return float(low), float(high)


def rows_with_both(path: Path) -> list[dict[str, Any]]:
    """Rows of the file that people compared."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line]
    return [row for row in rows if row.get(MODEL) and row.get(JUDGMENTS)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the correlations."""
    from posh_reward import PoSh

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("iiw", type=Path)
    parser.add_argument("--judge", default="embedded")
    options = parser.parse_args(arguments)
    rows = rows_with_both(options.iiw)
    metric = PoSh(judge=options.judge)
    scores = metric.score([row[MODEL] for row in rows], [row[HUMAN] for row in rows])
    for score, axis in AXES:
        ours = np.array([getattr(s, score) for s in scores], dtype=np.float64)
        labels = [label(row[JUDGMENTS][f"metrics/{axis}"]) for row in rows]
        people = np.array(labels, dtype=np.float64)
        low, high = interval(ours, people)
        print(f"{score} ~ {axis}: rho {spearman(ours, people):+.3f} [{low:+.3f}, {high:+.3f}]")
    print(f"{len(rows)} pairs; {metric.signature}")


if __name__ == "__main__":
    main()
