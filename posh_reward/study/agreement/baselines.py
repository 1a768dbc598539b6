"""Baselines by their names on the command line: overlap of words, and random scores."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import chain
from math import exp, hypot, log
from statistics import fmean
from typing import Literal

import numpy as np

from posh_reward.embedded.english.wordnet import WordNet, load_wordnet
from posh_reward.errors import InputError, MissingDependencyError, install_command
from posh_reward.graph.reader import Reader, original_places
from posh_reward.metrics.wording import fill_fields, read_prompt_file
from posh_reward.models.asker import CachingModel
from posh_reward.models.encoders import Encoder, unit_vectors
from posh_reward.models.model import Model, Prompt
from posh_reward.models.prompt_images import load_prompt_image
from posh_reward.store import Store
from posh_reward.study.agreement.metric_scores import Alerts, AxisScores, Measure, TextPair
from posh_reward.study.agreement.rater_agreement import token_spans
from posh_reward.tables.statistics import Floats
from posh_reward.types import Description, Failure, Reply, Span

Source = Literal["reference", "image", "both"]
"""The model compares a generation with the reference, the image, or both."""
MAX_REPLY_TOKENS = 256  # the JSON has about thirty
SCORE_KEYS = ("precision", "recall", "overall_quality")
JSON_OBJECT = re.compile(r"\{[^{}]*\}")


class LlmScores:
    """A model's own scores of each pair; several references are joined into one text.

    ``model`` must accept images unless ``source`` is "reference". ``store`` keeps its replies.
    """

    def __init__(self, model: Model, source: Source = "reference", store: Store | None = None):
        self.name = f"LLM ({source})"
        self.signature = f"{model.name}|prompt:{source}"
        self.sees = source != "reference"
        self._asker = CachingModel(model, store)
        self._prompt = read_prompt_file("study/agreement", source).strip()

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        prompts = [self._build_prompt(pair) for pair in pairs]
        valid = [prompt for prompt in prompts if isinstance(prompt, Prompt)]
        with self._asker.awake(valid):
            replies = iter(self._asker.write(valid, MAX_REPLY_TOKENS))
        scores = []
        for prompt in prompts:
            if isinstance(prompt, Failure):
                scores.append(AxisScores(failure=prompt))
            else:
                scores.append(read_scores(next(replies)))
        return scores

    def _build_prompt(self, pair: TextPair) -> Prompt | Failure:
        texts = {"reference": pair.reference, "generation": pair.generation}
        if not self.sees:
            return Prompt("", fill_fields(self._prompt, texts))
        image = load_prompt_image(pair.image)
        if isinstance(image, Failure):
            return image
        return Prompt("", fill_fields(self._prompt, texts), (image,))


def read_scores(reply: Reply) -> AxisScores:
    """Read the three scores from the JSON anywhere in a reply; a failure if there are none."""
    if reply.text is None:
        return AxisScores(failure=reply.failure)
    for values in _find_json_objects(reply.text):
        precision, recall, overall = map(_check_score, map(values.get, SCORE_KEYS))
        if precision is not None and recall is not None and overall is not None:
            return AxisScores(precision, recall, overall)
    why = "the model's reply has no JSON with three scores from 0 to 5"
    return AxisScores(failure=Failure("reply", why))


def _find_json_objects(text: str) -> Iterator[dict[str, object]]:
    """Innermost JSON objects in a text, also with Python's single quotes."""
    for match in JSON_OBJECT.findall(text):
        for variant in (match, match.replace("'", '"')):
            with suppress(ValueError):
                yield json.loads(variant)
                break


def _check_score(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= 5:  # as for nan
        return None
    return float(value)


Piece = tuple[str, tuple[Span, ...]]  # text to embed, and its spans

WRITTEN_WORD = re.compile(r"\S+")
WORDS_PER_GRAM = 4
GRAM_THRESHOLD, GRAPH_THRESHOLD = 0.7, 0.8  # the paper's; pieces below are errors


class EmbeddingAlerts:
    """Pieces of two texts compared by an encoder: graph elements, or 4-grams without a reader."""

    def __init__(self, encoder: Encoder, encoder_name: str, reader: Reader | None = None) -> None:
        self.name = "4GramEmbed" if reader is None else "SGEmbed"
        self.signature = f"{self.name}|encoder:{encoder_name}"
        self.threshold = GRAM_THRESHOLD if reader is None else GRAPH_THRESHOLD
        self._encoder = encoder
        self._reader = reader

    def alerts(self, pairs: Sequence[TextPair]) -> list[Alerts | Failure]:
        generations = self._split_texts([pair.generation for pair in pairs])
        references = self._split_texts([pair.reference for pair in pairs])
        return list(map(self._compare_pieces, generations, references))

    def _split_texts(self, texts: Sequence[str]) -> list[list[Piece] | Failure]:
        if self._reader is None:
            return list(map(split_into_grams, texts))
        pieces: list[list[Piece] | Failure] = []
        for found, text in zip(self._reader.read(texts, keep=True), texts, strict=True):
            if isinstance(found, Failure):
                pieces.append(found)
            else:
                pieces.append(graph_pieces(found, text))
        return pieces

    def _compare_pieces(
        self, generation: list[Piece] | Failure, reference: list[Piece] | Failure
    ) -> Alerts | Failure:
        if isinstance(generation, Failure):
            return generation
        if isinstance(reference, Failure):
            return reference
        ours = unit_vectors(self._encoder, [text for text, _ in generation])
        theirs = unit_vectors(self._encoder, [text for text, _ in reference])
        # (our pieces, their pieces) cosines; a text without pieces has none, and ``initial`` counts
        cosines = np.zeros((len(ours), len(theirs)))
        if generation and reference:
            cosines = ours @ theirs.T
        return {
            "mistakes": _span_scores(generation, cosines.max(axis=1, initial=-1.0)),
            "omissions": _span_scores(reference, cosines.max(axis=0, initial=-1.0)),
        }


def _span_scores(pieces: Sequence[Piece], similarity: Floats) -> list[tuple[Span, float]]:
    scores = []
    for (_, spans), score in zip(pieces, similarity, strict=True):
        scores += [(span, float(score)) for span in spans]
    return scores


def split_into_grams(text: str) -> list[Piece]:
    """All sequences of four words within sentences; shorter sentences as a whole."""
    pieces: list[Piece] = []
    start = 0
    for end in [*(match.end() for match in SENTENCE_END.finditer(text)), len(text)]:
        words = [match.span() for match in WRITTEN_WORD.finditer(text, start, end)]
        start = end
        if not words:
            continue
        for first in range(max(1, len(words) - WORDS_PER_GRAM + 1)):
            gram = words[first : first + WORDS_PER_GRAM]
            span = gram[0][0], gram[-1][1]
            pieces.append((text[slice(*span)], (span,)))
    return pieces


def graph_pieces(description: Description, text: str) -> list[Piece]:
    """Entities, attributes with their entity, relations with both entities."""
    places = original_places(text)
    entities, relations = description.graph.entities, description.graph.relations

    def shift_spans(spans: Sequence[Span]) -> tuple[Span, ...]:
        return tuple((places[start], places[end]) for start, end in spans)

    pieces = [(entity.head, shift_spans(entity.spans)) for entity in entities]
    for entity in entities:
        for attribute in entity.attributes:
            pieces.append((f"{attribute.text} {entity.head}", shift_spans(attribute.spans)))
    for relation in relations:
        subject, other = entities[relation.subject], entities[relation.object]
        words = f"{subject.head} {relation.text} {other.head}"
        pieces.append((words, shift_spans(relation.spans)))
    return pieces


WORD_PATTERN = re.compile(r"\w+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
INSTALL_REMEDY = install_command("baselines") + " ({})"


@dataclass(frozen=True)
class WordMeasure:
    """A baseline computed by a function of a text and its references."""

    name: str
    signature: str
    function: Callable[[str, Sequence[str]], float]  # (generation, references) -> score

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        return [AxisScores.same(self.function(pair.generation, pair.references)) for pair in pairs]


def make_length() -> WordMeasure:
    return WordMeasure("length", "words", lambda generation, _: float(len(generation.split())))


class BagOfWords:
    """Share of the generation's words in the references, the reverse, and their harmonic mean."""

    name = "bag of words"
    signature = "distinct words, lower case"

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        return [self._score_pair(pair) for pair in pairs]

    def _score_pair(self, pair: TextPair) -> AxisScores:
        ours, theirs = _distinct_words(pair.generation), _distinct_words(pair.reference)
        shared = len(ours & theirs)
        f1 = 2 * shared / ((len(ours) + len(theirs)) or 1)
        return AxisScores(shared / (len(ours) or 1), shared / (len(theirs) or 1), f1)


def _distinct_words(text: str) -> set[str]:
    return {word.lower() for word in WORD_PATTERN.findall(text)}


def load_bleu() -> WordMeasure:
    try:
        import sacrebleu
    except ImportError:
        raise MissingDependencyError(INSTALL_REMEDY.format("sacrebleu")) from None
    metric = sacrebleu.BLEU(effective_order=True)

    def score_bleu(generation: str, references: Sequence[str]) -> float:
        return float(metric.sentence_score(generation, references).score) / 100

    return WordMeasure("BLEU-4", f"sacrebleu {sacrebleu.__version__}, sentence level", score_bleu)


def load_rouge() -> WordMeasure:
    """ROUGE-L-sum F-measure by rouge-score, with one sentence per line."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MissingDependencyError(INSTALL_REMEDY.format("rouge-score")) from None
    scorer = RougeScorer(["rougeLsum"], use_stemmer=True)

    def put_sentences_on_lines(text: str) -> str:
        return "\n".join(SENTENCE_END.split(text))

    def score_rouge(generation: str, references: Sequence[str]) -> float:
        ours = put_sentences_on_lines(generation)
        theirs = list(map(put_sentences_on_lines, references))
        return float(scorer.score_multi(theirs, ours)["rougeLsum"].fmeasure)

    return WordMeasure("ROUGE-LS", "rouge-score rougeLsum, stemmed, F-measure", score_rouge)


def load_meteor() -> WordMeasure:
    """METEOR by NLTK, with synonyms from our lexicon instead of a download of WordNet.

    Our lexicon is WordNet 3.0, as NLTK's, but without proper names and with our own lemmatizer. The
    paper's METEOR is its authors' Java program, which weights matches differently.
    """
    try:
        from nltk.translate.meteor_score import meteor_score
    except ImportError:
        raise MissingDependencyError(INSTALL_REMEDY.format("nltk")) from None
    synonyms = Synonyms(load_wordnet())

    def score_meteor(generation: str, references: Sequence[str]) -> float:
        ours = WORD_PATTERN.findall(generation)
        theirs = list(filter(None, map(WORD_PATTERN.findall, references)))
        if not theirs or not ours:
            return 0.0
        return float(meteor_score(theirs, ours, wordnet=synonyms))

    signature = "nltk, synonyms of the embedded lexicon (WordNet 3.0)"
    return WordMeasure("METEOR", signature, score_meteor)


@dataclass(frozen=True)
class Synset:
    """The words of one meaning, with as much of NLTK's interface as METEOR uses."""

    words: Sequence[str]

    def lemmas(self) -> Iterator[Synset]:
        return (Synset((word,)) for word in self.words)

    def name(self) -> str:
        """The first word; several words are joined by underscores."""
        return self.words[0]


class Synonyms:
    """Our lexicon with the part of NLTK's WordNet interface that METEOR uses."""

    def __init__(self, table: WordNet) -> None:
        self._table = table
        self._words: dict[int, list[str]] = {}  # by synset
        for number, name in enumerate(table.names):
            for synset in table.sense_rows[number]:
                self._words.setdefault(synset, []).append(name)

    def synsets(self, word: str) -> list[Synset]:
        numbers: dict[int, None] = {}
        for lemma in self._table.lemmas(word.lower()):
            numbers |= dict.fromkeys(number for number, _ in self._table.senses(lemma))
        return [Synset(self._words[number]) for number in numbers]


MAX_WORDS_PER_GRAM = 4
CIDER_SIGMA_BIGRAMS = 6.0  # difference in length at which the penalty is exp(-1/2)
CIDER_FACTOR = 10.0
NO_CORPUS = Failure("text", "CIDEr weighs words by their rarity: it needs references of two images")
Gram = tuple[str, ...]


class Cider:
    """CIDEr as in COCO's evaluation code, from 0 to 10: the variant that it calls CIDEr-D.

    It counts words of letters and digits, in lower case, where COCO's code counts the words of a
    Java tokenizer. How rare they are follows from the references at hand, each image's once.
    """

    name = "CIDEr"
    signature = "as pycocoevalcap 1.2, but words of letters and digits, lower case"
    weighs_corpus = True

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        grams = {
            references: list(map(_count_grams, references))
            for references in dict.fromkeys(pair.references for pair in pairs)
        }
        if len(grams) < 2:
            return [AxisScores(failure=NO_CORPUS) for _ in pairs]
        images_by_gram = Counter(chain.from_iterable(map(_distinct_grams, grams.values())))
        rarity = partial(_compute_rarity, images_by_gram, len(grams))
        scores = []
        for pair in pairs:
            ours = _count_grams(pair.generation)
            likeness = [_compare_grams(ours, theirs, rarity) for theirs in grams[pair.references]]
            scores.append(AxisScores.same(CIDER_FACTOR * fmean(likeness)))
        return scores


def _count_grams(text: str) -> Counter[Gram]:
    """Count the sequences of one to four words."""
    words = [word.lower() for word in WORD_PATTERN.findall(text)]
    lengths = range(1, MAX_WORDS_PER_GRAM + 1)
    return Counter(
        tuple(words[start : start + length])
        for length in lengths
        for start in range(len(words) - length + 1)
    )


def _distinct_grams(references: Sequence[Counter[Gram]]) -> set[Gram]:
    return set(chain.from_iterable(references))


def _compute_rarity(images_by_gram: Counter[Gram], images: int, gram: Gram) -> float:
    """Inverse document frequency, where an image's references are one document."""
    return log(images / max(1, images_by_gram[gram]))


def _compare_grams(
    ours: Counter[Gram], theirs: Counter[Gram], rarity: Callable[[Gram], float]
) -> float:
    """Mean cosine over lengths of grams, 0 to 1; what exceeds the reference's counts is cut."""
    cosines = []
    for length in range(1, MAX_WORDS_PER_GRAM + 1):
        a, b = (
            {gram: count * rarity(gram) for gram, count in counts.items() if len(gram) == length}
            for counts in (ours, theirs)
        )
        norms = hypot(*a.values()) * hypot(*b.values())
        shared = sum(min(weight, b.get(gram, 0.0)) * b.get(gram, 0.0) for gram, weight in a.items())
        cosines.append(shared / norms if norms else 0.0)
    difference = _count_bigrams(ours) - _count_bigrams(theirs)
    return fmean(cosines) * exp(-(difference**2) / (2 * CIDER_SIGMA_BIGRAMS**2))


def _count_bigrams(grams: Counter[Gram]) -> int:
    """The length of a text, as COCO's code takes it."""
    return sum(count for gram, count in grams.items() if len(gram) == 2)


class Random:
    """Random scores, which any metric should beat (paper, Table 2); the same in every run."""

    name = "random"
    signature = "uniform, seeded by the texts"
    threshold = 0.5

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        return [AxisScores(*_seed_generator(pair).random(3).tolist()) for pair in pairs]

    def alerts(self, pairs: Sequence[TextPair]) -> list[Alerts | Failure]:
        return [self._locate_in_pair(pair) for pair in pairs]

    def _locate_in_pair(self, pair: TextPair) -> Alerts:
        rng = _seed_generator(pair)
        return {
            "mistakes": [(span, rng.random()) for span in token_spans(pair.generation)],
            "omissions": [(span, rng.random()) for span in token_spans(pair.reference)],
        }


def _seed_generator(pair: TextPair) -> np.random.Generator:
    text = f"{pair.generation}\0{pair.reference}".encode("utf-8", "surrogatepass")
    return np.random.default_rng(int.from_bytes(blake2b(text, digest_size=8).digest(), "big"))


BASELINES: dict[str, tuple[str, Callable[[], Measure]]] = {
    "length": ("length", make_length),
    "words": ("bag of words", BagOfWords),
    "bleu": ("BLEU-4", load_bleu),
    "cider": ("CIDEr", Cider),
    "meteor": ("METEOR", load_meteor),
    "rouge": ("ROUGE-LS", load_rouge),
    "random": ("random", Random),
}
"""Name on the command line -> name in tables, and factory."""
ALL_BASELINES = "all"


def load_baselines(names: Sequence[str]) -> tuple[list[Measure], list[tuple[str, str]]]:
    """Make baselines, and list the name and remedy of each that cannot run here.

    ``names`` are keys of ``BASELINES`` or ``all``, also comma-separated; ``InputError`` for an
    unknown one.
    """
    choices = dict.fromkeys(chain.from_iterable(each.split(",") for each in names))
    for name in choices:
        if name not in BASELINES and name != ALL_BASELINES:
            known = ", ".join(BASELINES)
            raise InputError(f"no baseline {name!r}: use {ALL_BASELINES}, {known}")
    if ALL_BASELINES in choices:
        choices = dict.fromkeys(BASELINES)
    baselines: list[Measure] = []
    missing: list[tuple[str, str]] = []
    for name in choices:
        title, make = BASELINES[name]
        try:
            baselines.append(make())
        except MissingDependencyError as error:
            missing.append((title, str(error)))
    return baselines, missing
