"""Fits the embedded judge's weights for relations, on artworks that are not the planted ones.

    python tools/calibrate_judge.py tools/calibration/artworks.json

The 20 artworks were written for this by the project, in the form of the planted ones (which the
writer had read): a reference, a faithful rewording, the same with marked mistakes, and a text that
leaves out what is marked in the reference. Every relation of a reference is an example: it is
omitted if most of it is marked. The logistic regression (ridge penalty 3, by Newton's method) has
the four features of ``joining.as_such`` and ``joining.named_and_said``, and one for having a verb.
Prints what to write into ``judge/embedded/joining.py``, and how well the regressions of five folds
tell omitted relations from kept ones in the artworks that they have not seen (area under the
curve).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posh_reward.metrics.posh.judges.embedded import EmbeddedJudge
from posh_reward.metrics.posh.judges.embedded.joining import as_such, named_and_said, says_little
from posh_reward.metrics.posh.judges.embedded.words import words_of
from posh_reward.types import Request, Span, Verdict

RIDGE = 3.0
FOLDS = 5
STEPS = 50

Floats = NDArray[np.float64]


class Recorder(EmbeddedJudge):
    """The embedded judge, which keeps the relations of references that it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Request, list[float]]] = []
        """With what speaks for each."""

    def grade(self, requests: Sequence[Request]) -> list[Verdict]:
        """As the judge does."""
        for request in requests:
            if request.kind == "relation" and request.direction == "recall":
                self.asked.append((request, self._evidence(request)))
        return super().grade(requests)

    def _evidence(self, request: Request) -> list[float]:
        matching = self._matching(request.source, request.target)
        words, other = words_of(request.text or ""), request.other_entity or 0
        firsts, seconds = matching.players(request.entity), matching.players(other)
        best = as_such(matching, firsts, words, seconds)
        said, *ends = named_and_said(matching, request.entity, words, other)
        has_verb = not all(map(says_little, words))
        return [1.0, best, said if has_verb else 0.0, float(has_verb), *ends]


def spans_of(request: Request) -> list[Span]:
    """Where the text has the relation that a question is about."""
    ends = request.entity, request.other_entity
    relations = request.source.graph.relations
    return [
        span
        for relation in relations
        if (relation.subject, relation.object) == ends and relation.text == request.text
        for span in relation.spans
    ]


def is_marked(spans: Sequence[Span], marks: Sequence[Span]) -> bool:
    """Whether most of some spans' characters are marked."""
    length = sum(end - start for start, end in spans)
    inside = sum(max(0, min(e, b) - max(s, a)) for s, e in spans for a, b in marks)
    return 2 * inside > length


def examples(items: Sequence[Any]) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """(Features, 1 where the relation is kept, number of the artwork), one row per relation."""
    from posh_reward import PoSh

    rows, kept, artwork = [], [], []
    for number, item in enumerate(items):
        judge = Recorder()
        PoSh(judge=judge).score([item["omitting"]], [item["reference"]])
        marks = [(start, end) for start, end in item["omission_spans"]]
        for request, evidence in judge.asked:
            rows.append(evidence)
            kept.append(float(not is_marked(spans_of(request), marks)))
            artwork.append(number)
    return np.array(rows), np.array(kept), np.array(artwork)


def fitted(rows: Floats, kept: Floats) -> Floats:
    """Weights of the logistic regression; the penalty is on standardised features."""
    centre, scale = rows[:, 1:].mean(0), rows[:, 1:].std(0)
    standard = np.c_[rows[:, :1], (rows[:, 1:] - centre) / scale]
    penalty = np.r_[0.0, np.full(len(scale), RIDGE)]
    weights: Floats = np.zeros(len(penalty))
    for _ in range(STEPS):
        likely = 1 / (1 + np.exp(-standard @ weights))
        slope = standard.T @ (likely - kept) + penalty * weights
        curve = (standard * (likely * (1 - likely))[:, None]).T @ standard + np.diag(penalty)
        weights -= np.linalg.solve(curve, slope)
    slopes = weights[1:] / scale
    return np.concatenate(([weights[0] - slopes @ centre], slopes))


def area(scores: Floats, kept: Floats) -> float:
    """How often a kept relation scores above an omitted one; ties count half."""
    gaps = scores[kept == 1][:, None] - scores[kept == 0][None]
    return float((gaps > 0).mean() + (gaps == 0).mean() / 2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the weights and how well they do."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("artworks", type=Path)
    options = parser.parse_args(arguments)
    rows, kept, artwork = examples(json.loads(options.artworks.read_text(encoding="utf-8")))
    held_out = np.zeros(len(rows))
    for fold in range(FOLDS):
        away = artwork % FOLDS == fold
        held_out[away] = rows[away] @ fitted(rows[~away], kept[~away])
    bias, best, said, has_verb, *ends = fitted(rows, kept).tolist()
    print(f"{len(rows)} relations, {kept.mean():.2f} kept; area {area(held_out, kept):.3f}")
    print(f"BURDEN = {-bias - has_verb:.1f}")
    print(f"WEIGHTS = ({best:.1f}, {said:.1f}, {ends[0]:.1f}, {ends[1]:.1f})")
    print(f"NO_VERB = {-has_verb / said:.2f}")


if __name__ == "__main__":
    main()
