"""Rank correlation of the metric with people's comparisons of IIW descriptions.

    python research/eval_iiw.py ../shared/data/iiw/iiw_400_dev.jsonl [--judge embedded]

A model's description (``IIW-P5B``) is scored against the human one (``IIW``). People judged which
of the two is better, from -2 (the human text is substantially better) to 2. Spearman's correlation
over the rows with both texts and a comparison: precision with *Hallucination*, recall with
*Comprehensiveness* and *Specificity*; 95 % intervals by bootstrap over rows (2,000 resamples,
seed 0).

Data: ImageInWords, google/imageinwords, CC BY 4.0.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from posh_reward.study.agreement.measures import spearman
from posh_reward.study.statistics import Floats

HUMAN, MODEL, JUDGMENTS = "IIW", "IIW-P5B", "iiw-human-sxs-iiw-p5b"
AXES = (("precision", "Hallucination"), ("recall", "Comprehensiveness"), ("recall", "Specificity"))
DEGREES = {"marginally": 1, "substantially": 2}
RESAMPLES = 2_000


def label(verdict: str) -> int:
    """Convert a verdict, such as ``IIW-P5B is marginally better``, to -2 to 2: here 1."""
    if verdict == "Neutral":
        return 0
    side, _, degree, _ = verdict.split(" ")
    return DEGREES[degree] * (1 if side == MODEL else -1)


def interval(a: Floats, b: Floats) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of Spearman's rho."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(a), (RESAMPLES, len(a)))
    rhos = np.array([spearman(a[row], b[row]) for row in rows])
    low, high = np.nanpercentile(rhos, (2.5, 97.5))
    return float(low), float(high)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the correlations."""
    from posh_reward import PoSh

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("iiw", type=Path)
    parser.add_argument("--judge", default="embedded")
    options = parser.parse_args(arguments)
    lines = options.iiw.read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row.get(MODEL) and row.get(JUDGMENTS)]
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
