"""Names -> baselines, or what has to be installed for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.graph.reader import Reader
from posh_reward.study.agreement.baselines import overlap, words
from posh_reward.study.agreement.baselines.random import Random
from posh_reward.study.agreement.items import Measure

Missing = tuple[str, str]
"""(What tables call it, why it cannot be measured here, with the remedy)."""

CIDER = (
    "its libraries are heavy (aac-metrics, CIDEr-D, brings torch and msclap) or no longer kept "
    "(pycocoevalcap, 2020): compute it in an environment of its own, and pass --scores CIDEr=FILE"
)


def _cider(reader: Reader) -> Measure:
    raise MissingDependencyError(CIDER)


BASELINES: dict[str, tuple[str, Callable[[Reader], Measure]]] = {
    "length": ("length", lambda _: words.length()),
    "words": ("bag of words", lambda _: words.BagOfWords()),
    "bleu": ("BLEU-4", lambda _: words.bleu()),
    "cider": ("CIDEr", _cider),
    "meteor": ("METEOR", lambda _: words.meteor()),
    "rouge": ("ROUGE-LS", lambda _: words.rouge()),
    "spice": ("SPICE-like", lambda reader: overlap.GraphOverlap(reader, weighted=False)),
    "capture": ("CAPTURE-like", lambda reader: overlap.GraphOverlap(reader, weighted=True)),
    "random": ("random", lambda _: Random()),
}
"""Name on the command line -> what tables call it, and how it is made."""
ALL = "all"


def load_baselines(names: Sequence[str], reader: Reader) -> tuple[list[Measure], list[Missing]]:
    """The baselines of some names, and those that cannot work here.

    Args:
        names: of ``BASELINES``, or ``all``; each may be several, with commas between.
        reader: reads scene graphs for those that compare them.

    Raises:
        InputError: a name is unknown.
    """
    listed = [name for each in names for name in each.split(",")]
    unknown = [name for name in listed if name not in BASELINES and name != ALL]
    if unknown:
        raise InputError(f"there is no baseline {unknown[0]!r}: use {ALL}, {', '.join(BASELINES)}")
    chosen = BASELINES if ALL in listed else dict.fromkeys(listed)
    found: list[Measure] = []
    missing: list[Missing] = []
    for name in chosen:
        called, make = BASELINES[name]
        try:
            found.append(make(reader))
        except MissingDependencyError as error:
            missing.append((called, str(error)))
    return found, missing
