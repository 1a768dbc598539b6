"""Baselines on words: one number for all axes, higher is more like the reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from posh_reward.errors import MissingDependencyError
from posh_reward.lexicon.wordnet import WordNet, wordnet
from posh_reward.study.agreement.items import Given, Pair

WORD = re.compile(r"\w+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class WordMeasure:
    """A baseline that is a function of two texts."""

    name: str
    signature: str
    of: Callable[[str, str], float]
    """(Generation, reference) -> score."""

    def score(self, pairs: Sequence[Pair]) -> list[Given]:
        """One number for each pair, on all axes."""
        return [Given.same(self.of(pair.generation, pair.reference)) for pair in pairs]


def length() -> WordMeasure:
    """Words of the generation: longer is better, whatever it says."""
    return WordMeasure("length", "words", lambda generation, _: float(len(generation.split())))


class BagOfWords:
    """Share of the generation's words in the reference, the converse, and their harmonic mean."""

    name = "bag of words"
    signature = "distinct words, lower case"

    def score(self, pairs: Sequence[Pair]) -> list[Given]:
        """Precision, recall and F1 of distinct words."""
        return [self._score(pair) for pair in pairs]

    def _score(self, pair: Pair) -> Given:
        texts = (pair.generation, pair.reference)
        ours, theirs = ({w.lower() for w in WORD.findall(text)} for text in texts)
        shared = len(ours & theirs)
        f1 = 2 * shared / ((len(ours) + len(theirs)) or 1)
        return Given(shared / (len(ours) or 1), shared / (len(theirs) or 1), f1)


def bleu() -> WordMeasure:
    """BLEU-4 of each text, smoothed, by sacrebleu.

    Raises:
        MissingDependencyError: sacrebleu is not installed.
    """
    try:
        import sacrebleu
    except ImportError:
        raise MissingDependencyError("pip install 'posh-reward[baselines]' (sacrebleu)") from None
    metric = sacrebleu.BLEU(effective_order=True)

    def of(generation: str, reference: str) -> float:
        return float(metric.sentence_score(generation, [reference]).score) / 100

    return WordMeasure("BLEU-4", f"sacrebleu {sacrebleu.__version__}, sentence level", of)


def rouge() -> WordMeasure:
    """ROUGE-L-sum, F-measure, by rouge-score; a text's sentences are its lines.

    Raises:
        MissingDependencyError: rouge-score is not installed.
    """
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MissingDependencyError("pip install 'posh-reward[baselines]' (rouge-score)") from None
    scorer = RougeScorer(["rougeLsum"], use_stemmer=True)

    def of(generation: str, reference: str) -> float:
        lines = ("\n".join(SENTENCE_END.split(text)) for text in (reference, generation))
        return float(scorer.score(*lines)["rougeLsum"].fmeasure)

    return WordMeasure("ROUGE-LS", "rouge-score rougeLsum, stemmed, F-measure", of)


def meteor() -> WordMeasure:
    """METEOR by NLTK, with the synonyms of our lexicon instead of WordNet's download.

    Our lexicon is WordNet 3.0, which is NLTK's too, without proper names and with dictionary forms
    found by rules of our own. The paper's METEOR is the Java program of its authors, which weighs
    matches otherwise: compare with care.

    Raises:
        MissingDependencyError: NLTK is not installed.
    """
    try:
        from nltk.translate.meteor_score import single_meteor_score
    except ImportError:
        raise MissingDependencyError("pip install 'posh-reward[baselines]' (nltk)") from None
    synonyms = Synonyms(wordnet())

    def of(generation: str, reference: str) -> float:
        theirs, ours = (WORD.findall(text) for text in (reference, generation))
        if not theirs or not ours:
            return 0.0
        return float(single_meteor_score(theirs, ours, wordnet=synonyms))

    return WordMeasure("METEOR", "nltk, synonyms of the embedded lexicon (WordNet 3.0)", of)


@dataclass(frozen=True)
class Lemma:
    """A word of a synset, as NLTK asks for it."""

    word: str

    def name(self) -> str:
        """The word itself; of several words, joined by underscores."""
        return self.word


@dataclass(frozen=True)
class Synset:
    """Words of one meaning, as NLTK asks for them."""

    words: tuple[str, ...]

    def lemmas(self) -> Iterator[Lemma]:
        """Its words."""
        return map(Lemma, self.words)


class Synonyms:
    """Our lexicon as the part of NLTK's WordNet reader that METEOR uses.

    Args:
        table: the lexicon.
    """

    def __init__(self, table: WordNet) -> None:
        self._table = table
        self._words: dict[int, list[str]] = {}
        for number, name in enumerate(table.names):
            for synset in table.sense_rows[number]:
                self._words.setdefault(synset, []).append(name)

    def synsets(self, word: str) -> list[Synset]:
        """The meanings of a word in any form, each with its words."""
        numbers = {
            synset: None
            for lemma in self._table.lemmas(word.lower())
            for synset, _ in self._table.senses(lemma)
        }
        return [Synset(tuple(self._words[number])) for number in numbers]
