"""Baselines by their names on the command line, and random scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.study.agreement.baselines import word_overlap
from posh_reward.study.agreement.localisation import Alerts
from posh_reward.study.agreement.metric_scores import AxisScores, Measure, TextPair
from posh_reward.study.agreement.rater_agreement import token_spans
from posh_reward.types import Failure

CIDER = (
    "its libraries are heavy (aac-metrics, CIDEr-D, depends on torch and msclap) or unmaintained "
    "(pycocoevalcap, 2020): compute it in a separate environment, and pass --scores CIDEr=FILE"
)


class Random:
    """Random scores, which any metric should beat (paper, Table 2); the same in every run."""

    name = "random"
    signature = "uniform, seeded by the texts"
    threshold = 0.5

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """Three random numbers for each pair."""
        return [AxisScores(*_generator(pair).random(3).tolist()) for pair in pairs]

    def alerts(self, pairs: Sequence[TextPair]) -> list[Alerts | Failure]:
        """A random number for each token."""
        alerts: list[Alerts | Failure] = []
        for pair in pairs:
            rng = _generator(pair)
            texts = {"mistakes": pair.generation, "omissions": pair.reference}
            alerts.append(
                {axis: [(s, rng.random()) for s in token_spans(t)] for axis, t in texts.items()}
            )
        return alerts


def _generator(pair: TextPair) -> np.random.Generator:
    text = f"{pair.generation}\0{pair.reference}".encode("utf-8", "surrogatepass")
    return np.random.default_rng(int.from_bytes(blake2b(text, digest_size=8).digest(), "big"))


def _cider() -> Measure:
    raise MissingDependencyError(CIDER)


BASELINES: dict[str, tuple[str, Callable[[], Measure]]] = {
    "length": ("length", word_overlap.length),
    "words": ("bag of words", word_overlap.BagOfWords),
    "bleu": ("BLEU-4", word_overlap.bleu),
    "cider": ("CIDEr", _cider),
    "meteor": ("METEOR", word_overlap.meteor),
    "rouge": ("ROUGE-LS", word_overlap.rouge),
    "random": ("random", Random),
}
"""Name on the command line -> name in tables, and factory."""
ALL = "all"


def load_baselines(names: Sequence[str]) -> tuple[list[Measure], list[tuple[str, str]]]:
    """Make baselines, and list the name and remedy of each that cannot run here.

    ``names`` are keys of ``BASELINES`` or ``all``, also comma-separated; ``InputError`` for an
    unknown one.
    """
    choices = [name for each in names for name in each.split(",")]
    if unknown := [name for name in choices if name not in BASELINES and name != ALL]:
        raise InputError(f"no baseline {unknown[0]!r}: use {ALL}, {', '.join(BASELINES)}")
    baselines: list[Measure] = []
    missing: list[tuple[str, str]] = []
    for name in BASELINES if ALL in choices else dict.fromkeys(choices):
        title, make = BASELINES[name]
        try:
            baselines.append(make())
        except MissingDependencyError as error:
            missing.append((title, str(error)))
    return baselines, missing
