"""Baselines on words: one number for all axes, higher is more like the references.

Several references are taken as each library takes them: BLEU clips its n-grams by the reference
that has most of them, ROUGE and METEOR take the best reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from posh_reward.errors import MissingDependencyError
from posh_reward.lexicon.wordnet import WordNet, wordnet
from posh_reward.study.agreement.metric_scores import AxisScores, TextPair

WORD = re.compile(r"\w+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
INSTALL = "pip install 'posh-reward[baselines]' ({})"


@dataclass(frozen=True)
class WordMeasure:
    """A baseline that is a function of a text and its references."""

    name: str
    signature: str
    function: Callable[[str, Sequence[str]], float]  # (Generation, references) -> score

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        """One number for each pair, on all axes."""
        return [AxisScores.same(self.function(pair.generation, pair.references)) for pair in pairs]


def length() -> WordMeasure:
    """Words of the generation: longer is better, whatever it says."""
    return WordMeasure("length", "words", lambda generation, _: float(len(generation.split())))


class BagOfWords:
    """Share of the generation's words in the references, the converse, and their harmonic mean."""

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
    """BLEU-4 of each text, smoothed, by sacrebleu."""
    try:
        import sacrebleu
    except ImportError:
        raise MissingDependencyError(INSTALL.format("sacrebleu")) from None
    metric = sacrebleu.BLEU(effective_order=True)

    def function(generation: str, references: Sequence[str]) -> float:
        return float(metric.sentence_score(generation, references).score) / 100

    return WordMeasure("BLEU-4", f"sacrebleu {sacrebleu.__version__}, sentence level", function)


def rouge() -> WordMeasure:
    """ROUGE-L-sum, F-measure, by rouge-score; a text's sentences are its lines."""
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
    """METEOR by NLTK, with the synonyms of our lexicon instead of WordNet's download.

    Our lexicon is WordNet 3.0, which is NLTK's too, without proper names and with dictionary forms
    by rules of our own. The paper's METEOR is the Java program of its authors, which weighs matches
    otherwise: compare with care.
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
        """The word itself; of several words, joined by underscores."""
        return self.word


@dataclass(frozen=True)
class Synset:
    """Words of one meaning, with the interface of NLTK's."""

    words: tuple[str, ...]

    def lemmas(self) -> Iterator[Lemma]:
        """Its words."""
        return map(Lemma, self.words)


class Synonyms:
    """Our lexicon as the part of NLTK's WordNet reader that METEOR uses."""

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
