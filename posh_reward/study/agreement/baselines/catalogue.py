"""Baselines by their names on the command line: overlap of words, and random scores."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from posh_reward.errors import InputError, MissingDependencyError, install
from posh_reward.lexicon.wordnet import WordNet, wordnet
from posh_reward.study.agreement.localisation import Alerts
from posh_reward.study.agreement.metric_scores import AxisScores, Measure, TextPair
from posh_reward.study.agreement.rater_agreement import token_spans
from posh_reward.types import Failure

WORD = re.compile(r"\w+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
INSTALL = install("baselines") + " ({})"


@dataclass(frozen=True)
class WordMeasure:
    """A baseline computed by a function of a text and its references."""

    name: str
    signature: str
    function: Callable[[str, Sequence[str]], float]  # (generation, references) -> score

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """One number per pair, on all axes."""
        return [AxisScores.same(self.function(pair.generation, pair.references)) for pair in pairs]


def length() -> WordMeasure:
    """Number of words in the generation: longer is better."""
    return WordMeasure("length", "words", lambda generation, _: float(len(generation.split())))


class BagOfWords:
    """Share of the generation's words in the references, the reverse, and their harmonic mean."""

    name = "bag of words"
    signature = "distinct words, lower case"

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """Precision, recall and F1 of distinct words."""
        return [self._score(pair) for pair in pairs]

    def _score(self, pair: TextPair) -> AxisScores:
        texts = (pair.generation, pair.reference)
        ours, theirs = ({w.lower() for w in WORD.findall(text)} for text in texts)
        shared = len(ours & theirs)
        f1 = 2 * shared / ((len(ours) + len(theirs)) or 1)
        return AxisScores(shared / (len(ours) or 1), shared / (len(theirs) or 1), f1)


def bleu() -> WordMeasure:
    """Smoothed sentence-level BLEU-4 by sacrebleu."""
    try:
        import sacrebleu
    except ImportError:
        raise MissingDependencyError(INSTALL.format("sacrebleu")) from None
    metric = sacrebleu.BLEU(effective_order=True)

    def function(generation: str, references: Sequence[str]) -> float:
        return float(metric.sentence_score(generation, references).score) / 100

    return WordMeasure("BLEU-4", f"sacrebleu {sacrebleu.__version__}, sentence level", function)


def rouge() -> WordMeasure:
    """ROUGE-L-sum F-measure by rouge-score, with one sentence per line."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MissingDependencyError(INSTALL.format("rouge-score")) from None
    scorer = RougeScorer(["rougeLsum"], use_stemmer=True)

    def function(generation: str, references: Sequence[str]) -> float:
        first, *others = ("\n".join(SENTENCE_END.split(t)) for t in (generation, *references))
        return float(scorer.score_multi(others, first)["rougeLsum"].fmeasure)

    return WordMeasure("ROUGE-LS", "rouge-score rougeLsum, stemmed, F-measure", function)


def meteor() -> WordMeasure:
    """METEOR by NLTK, with synonyms from our lexicon instead of a download of WordNet.

    Our lexicon is WordNet 3.0, as NLTK's, but without proper names and with our own lemmatizer. The
    paper's METEOR is its authors' Java program, which weights matches differently.
    """
    try:
        from nltk.translate.meteor_score import meteor_score
    except ImportError:
        raise MissingDependencyError(INSTALL.format("nltk")) from None
    synonyms = Synonyms(wordnet())

    def function(generation: str, references: Sequence[str]) -> float:
        ours = WORD.findall(generation)
        theirs = [words for each in references if (words := WORD.findall(each))]
        if not theirs or not ours:
            return 0.0
        return float(meteor_score(theirs, ours, wordnet=synonyms))

    signature = "nltk, synonyms of the embedded lexicon (WordNet 3.0)"
    return WordMeasure("METEOR", signature, function)


@dataclass(frozen=True)
class Lemma:
    """A word of a synset, with the interface of NLTK's."""

    word: str

    def name(self) -> str:
        """The word; several words are joined by underscores."""
        return self.word


@dataclass(frozen=True)
class Synset:
    """The words of one meaning, with the interface of NLTK's."""

    words: Sequence[str]

    def lemmas(self) -> Iterator[Lemma]:
        """Its words."""
        return map(Lemma, self.words)


class Synonyms:
    """Our lexicon with the part of NLTK's WordNet interface that METEOR uses."""

    def __init__(self, table: WordNet) -> None:
        self._table = table
        self._words: dict[int, list[str]] = {}  # by synset
        for number, name in enumerate(table.names):
            for synset in table.sense_rows[number]:
                self._words.setdefault(synset, []).append(name)

    def synsets(self, word: str) -> list[Synset]:
        """Meanings of a word in any form."""
        senses = (self._table.senses(lemma) for lemma in self._table.lemmas(word.lower()))
        numbers = dict.fromkeys(number for some in senses for number, _ in some)
        return [Synset(self._words[number]) for number in numbers]


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
    "length": ("length", length),
    "words": ("bag of words", BagOfWords),
    "bleu": ("BLEU-4", bleu),
    "cider": ("CIDEr", _cider),
    "meteor": ("METEOR", meteor),
    "rouge": ("ROUGE-LS", rouge),
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
