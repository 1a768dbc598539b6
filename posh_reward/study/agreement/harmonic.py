"""HarmonicEval among the metrics that are held against people's judgments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import nan

import numpy as np

from posh_reward.metrics.harmonic.metric import HarmonicEval
from posh_reward.metrics.harmonic.scores import HarmonicScores
from posh_reward.study.agreement.items import Column, Given, Pair

NAME = "HarmonicEval"


class HarmonicMeasure:
    """HarmonicEval of captions; it looks at the pair's image and not at its reference.

    Correctness stands for mistakes and completeness for omissions. Where one of them is not asked
    about, the overall score stands for it.

    Args:
        harmonic: the metric.
    """

    name = NAME

    def __init__(self, harmonic: HarmonicEval) -> None:
        self.harmonic = harmonic
        self.signature = harmonic.signature

    def score(self, pairs: Sequence[Pair]) -> list[Given]:
        """One record for each pair, in order."""
        texts, images = [p.generation for p in pairs], [p.image for p in pairs]
        return [_given(score) for score in self.harmonic.score(texts, images)]


def _given(score: HarmonicScores) -> Given:
    if score.overall is None:
        return Given(failure=score.failure)
    means = {name: score.overall if mean is None else mean for name, mean in score.means.items()}
    return Given(
        means.get("correctness", score.overall),
        means.get("completeness", score.overall),
        score.overall,
    )


def criteria_column(scores: Sequence[HarmonicScores], signature: str) -> Column:
    """The scores of texts as a column with an axis for each criterion besides ``overall``."""
    names = dict.fromkeys(name for score in scores for name in score.means)
    axes: Mapping[str, list[float | None]] = {
        "overall": [score.overall for score in scores],
        **{name: [score.means.get(name) for score in scores] for name in names},
    }
    failures = Counter(str(score.failure) for score in scores if score.failure is not None)
    arrays = {
        axis: np.array([nan if value is None else value for value in values], dtype=np.float64)
        for axis, values in axes.items()
    }
    return Column(NAME, arrays, dict(failures), signature)
