"""Small sets of judgments whose true order is known."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from posh_reward.study.agreement.metric_scores import AxisScores, TextPair

Row = dict[str, Any]
LABELS = ("2_much_better", "2_slightly_better", "equal", "1_slightly_better", "1_much_better")
MODELS = ("gamma", "alpha", "delta", "beta")
"""From worst to best."""


class Quality:
    """A metric that reads a text's true quality from its last word, with noise of its own."""

    signature = "quality"

    def __init__(self, name: str, noise: float = 0.0) -> None:
        self.name = name
        self.asked: list[TextPair] = []
        self._noise = noise

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        self.asked += pairs
        return [self._given(pair.generation) for pair in pairs]

    def _given(self, text: str) -> AxisScores:
        seed = [ord(c) for c in self.name + text]
        noise = np.random.default_rng(seed).normal(0, 1) * self._noise
        return AxisScores.same(float(text.split()[-1]) + float(noise))


def text(model: int, quality: float) -> str:
    return f"A text by {MODELS[model]} of {quality:.3f}"


def docent_rows(images: int, seed: int = 0) -> list[Row]:
    """Rows with the columns of ``amitha/docent-eval-coarse``; labels follow the true quality."""
    rng = np.random.default_rng(seed)
    rows = []
    for image in range(images):
        first, second = rng.choice(len(MODELS), 2, replace=False)
        one, other = first + rng.normal(0, 0.5), second + rng.normal(0, 0.5)
        label = LABELS[int(np.clip(np.round(one - other), -2, 2)) + 2]
        rows.append({
            "uuid": f"image-{image // 2}", "reference": f"The reference of {image // 2}.",
            "model1": MODELS[first], "model1_generation": text(first, one),
            "model2": MODELS[second], "model2_generation": text(second, other),
            "mistakes": label, "omissions": label, "overall_quality": label,
        })  # fmt: skip
    return rows


def caparena_rows(battles: int, seed: int = 0) -> list[Row]:
    """Rows with the columns of ``caparena_annots_eval.json``."""
    rng = np.random.default_rng(seed)
    rows = []
    for battle in range(battles):
        first, second = rng.choice(len(MODELS), 2, replace=False)
        one, other = first + rng.normal(0, 0.5), second + rng.normal(0, 0.5)
        close = abs(one - other) < 0.5
        winner = MODELS[first] if one > other else MODELS[second]
        rows.append({
            "img": f"test/{battle}.jpg", "ref": f"The reference of {battle}.",
            "source1": MODELS[first], "caption1": text(first, one),
            "source2": MODELS[second], "caption2": text(second, other),
            "winner": ("equal", "bad", "skip")[battle % 3] if close else winner,
            "cluster": ("people", "nature")[battle % 2],
        })  # fmt: skip
    return rows
