"""Baselines by their names on the command line, and scores by chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.graph.reader import Reader
from posh_reward.study.agreement.baselines import graph_overlap, word_overlap
from posh_reward.study.agreement.localisation import Alerts
from posh_reward.study.agreement.metric_scores import AxisScores, Measure, TextPair
from posh_reward.study.agreement.rater_agreement import token_spans
from posh_reward.types import Failure, Span

CIDER = (
    "its libraries are heavy (aac-metrics, CIDEr-D, brings torch and msclap) or no longer kept "
    "(pycocoevalcap, 2020): compute it in an environment of its own, and pass --scores CIDEr=FILE"
)


class Random:
    """Scores by chance, which any metric has to beat (paper, Table 2); the same in every run."""

    name = "random"
    signature = "uniform, seeded by the texts"
    threshold = 0.5

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """Three random numbers for each pair."""
        return [AxisScores(*_generator(pair).random(3).tolist()) for pair in pairs]

    def alerts(self, pairs: Sequence[TextPair]) -> list[Alerts | Failure]:
        """A random number for each token."""
        return [self._alerts(pair) for pair in pairs]

    def _alerts(self, pair: TextPair) -> Alerts:
        generator = _generator(pair)

        def tokens(text: str) -> list[tuple[Span, float]]:
            return [(span, float(generator.random())) for span in token_spans(text)]

        return {"mistakes": tokens(pair.generation), "omissions": tokens(pair.reference)}


def _generator(pair: TextPair) -> np.random.Generator:
    text = f"{pair.generation}\0{pair.reference}".encode("utf-8", "surrogatepass")
    return np.random.default_rng(int.from_bytes(blake2b(text, digest_size=8).digest(), "big"))


def _cider(reader: Reader) -> Measure:
    raise MissingDependencyError(CIDER)


BASELINES: dict[str, tuple[str, Callable[[Reader], Measure]]] = {
    "length": ("length", lambda _: word_overlap.length()),
    "words": ("bag of words", lambda _: word_overlap.BagOfWords()),
    "bleu": ("BLEU-4", lambda _: word_overlap.bleu()),
    "cider": ("CIDEr", _cider),
    "meteor": ("METEOR", lambda _: word_overlap.meteor()),
    "rouge": ("ROUGE-LS", lambda _: word_overlap.rouge()),
    "spice": ("SPICE-like", lambda reader: graph_overlap.GraphOverlap(reader, weighted=False)),
    "capture": ("CAPTURE-like", lambda reader: graph_overlap.GraphOverlap(reader, weighted=True)),
    "random": ("random", lambda _: Random()),
}
"""Name on the command line -> name in tables, and its maker."""
ALL = "all"


def load_baselines(
    names: Sequence[str], reader: Reader
) -> tuple[list[Measure], list[tuple[str, str]]]:
    """The baselines of some names, and the name and remedy of each that cannot work here.

    Names are those of ``BASELINES`` or ``all``, or several of them with commas between.

    Raises:
        InputError: a name is unknown.
    """
    choices = [name for each in names for name in each.split(",")]
    unknown = [name for name in choices if name not in BASELINES and name != ALL]
    if unknown:
        raise InputError(f"there is no baseline {unknown[0]!r}: use {ALL}, {', '.join(BASELINES)}")
    baselines: list[Measure] = []
    missing: list[tuple[str, str]] = []
    for name in BASELINES if ALL in choices else dict.fromkeys(choices):
        title, make = BASELINES[name]
        try:
            baselines.append(make(reader))
        except MissingDependencyError as error:
            missing.append((title, str(error)))
    return baselines, missing
