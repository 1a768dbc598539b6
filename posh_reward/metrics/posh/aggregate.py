"""Graded elements -> scores (paper, section 3, step 3), their coverage, and figures for logs."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from posh_reward.errors import ConfigError
from posh_reward.lexicon.function_words import LIGHT
from posh_reward.lexicon.likeness import is_known, without_a_letter
from posh_reward.lexicon.wordnet import wordnet
from posh_reward.metrics.metric import mean
from posh_reward.settings import check_settings
from posh_reward.types import (
    CACHED,
    DIRECTIONS,
    HIGHEST_GRADE,
    KINDS,
    Direction,
    Element,
    Kind,
    Scores,
    score_in_means,
)


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each kind of element in the means; all 1 in the paper."""

    entity: float = 1.0
    attribute: float = 1.0
    relation: float = 1.0

    def __post_init__(self) -> None:
        for kind in KINDS:
            weight = getattr(self, kind)
            if not 0 <= weight < math.inf:
                raise ConfigError(f"the weight of {kind} is {weight}: use a number from 0")
            object.__setattr__(self, kind, float(weight))  # NumPy's would round all means
        if not any(getattr(self, kind) for kind in KINDS):  # every mean would be 1
            raise ConfigError(f"the weights of {', '.join(KINDS)} are all 0: set one above 0")

    def of(self, element: Element) -> float:
        weight: float = getattr(self, element.kind)
        return weight


EQUAL = Weights()


def weights_of(settings: Weights | Mapping[str, float]) -> Weights:
    """Weights from settings such as ``{"relation": 0.5}``."""
    if isinstance(settings, Weights):
        return settings
    return Weights(**check_settings(Weights, settings, "weights"))


def mean_score(elements: Sequence[Element], weights: Weights = EQUAL) -> float | None:
    """Weighted mean grade / 5, 0.2 to 1; None if a judgment failed.

    Without elements it is 1, as in the release: no element is wrong.
    """
    total = 0.0
    weight = 0.0
    for element in elements:
        if element.grade is None:
            return None
        total += weights.of(element) * element.grade
        weight += weights.of(element)
    return total / weight / HIGHEST_GRADE if weight else 1.0


def harmonic_mean(precision: float | None, recall: float | None) -> float | None:
    """The paper's overall quality; None if either score is."""
    if precision is None or recall is None:
        return None
    return 2 * precision * recall / (precision + recall)


def figures(scores: Sequence[Scores]) -> dict[str, float]:
    """Return the figures of one call, in the order in which they are logged.

    ``unparsed`` is the number of replies read as the lowest label. The others are means over the
    scores that have the figure, and NaN if none has; precision, over texts with elements.
    """
    scored = [score for score in scores if score.f1 is not None]
    return {
        **{name: mean([counted(score, name) for score in scores]) for name in columns([])},
        **{
            f"{direction}_{kind}": mean([_sub_score(each, direction, kind) for each in scored])
            for direction in DIRECTIONS
            for kind in KINDS
        },
        "generation_elements": mean([score.generation_elements for score in scored]),
        "reference_elements": mean([score.reference_elements for score in scored]),
        "elements_per_100_words": mean([_elements_per_100_words(score) for score in scored]),
        "length_ratio": mean([length_ratio(score) for score in scored]),
        "silent_share": mean([float(not score.generation_elements) for score in scored]),
        "coverage": mean([loose_words(score).coverage for score in scored]),
        "unparsed": float(sum(score.unparsed for score in scores)),
    }


def counted(score: Scores, axis: str) -> float | None:
    """Return a score as it counts in means (``score_in_means``)."""
    return score_in_means(partial(getattr, score), axis)


def witness_figures(scores: Sequence[Scores]) -> dict[str, float]:
    """Return what the image contributed to one call.

    Mean number of elements per generation about which the image was asked, the share of them whose
    grade it raised, and the number that it did not settle.
    """
    scored = [score for score in scores if score.f1 is not None]
    by_score = [[e for e in score.elements if e.image_grade is not None] for score in scored]
    elements = [element for some in by_score for element in some]
    open_grades = [e.image_grade for e in elements if e.image_grade and e.image_grade.grade is None]
    return {
        "picture_asked": mean([len(some) for some in by_score]),
        "picture_raised": mean([float(element.witness == "image") for element in elements]),
        "picture_unanswered": float(len(open_grades)),
    }


def columns(scores: Sequence[Scores]) -> dict[str, list[float | None]]:
    """Figures of each completion: name -> one value per completion."""
    names = ("precision", "recall", "f1")
    return {name: [getattr(score, name) for score in scores] for name in names}


def length_ratio(scores: Scores) -> float:
    """Words of the generation per word of the reference."""
    return len(scores.generation.split()) / max(len(scores.reference.split()), 1)


def _elements_per_100_words(scores: Scores) -> float | None:
    words = len(scores.generation.split())
    return 100 * scores.generation_elements / words if words else None


def _sub_score(scores: Scores, direction: Direction, kind: Kind) -> float | None:
    elements = [e for e in scores.elements if (e.direction, e.kind) == (direction, kind)]
    return mean_score(elements) if elements else None


WORD = re.compile(r"[^\W_]{2,}")
SENTENCE = re.compile(r"[^.!?\n]*(?:\n(?=[ \t]*[a-z])[^.!?\n]*)*(?:[.!?\n]|\Z)")
"""Up to a full stop or a line break, unless a lower-case letter shows that the sentence goes on."""


@dataclass(frozen=True, slots=True)
class LooseWords:
    """Counts of a generation's content words."""

    content: int
    loose: int  # of these, words outside the spans of all elements
    supported: int  # of the loose ones, words whose lemma is in the reference
    bare: int  # of the loose ones missing from the reference, words in sentences without elements

    @property
    def coverage(self) -> float | None:
        """Share of content words inside spans of elements; None without content words."""
        return 1 - self.loose / self.content if self.content else None


def loose_words(scores: Scores) -> LooseWords:
    """Count the content words of a generation that none of its elements covers."""
    text = scores.generation
    # One byte per character: spans overlap and nest, and marking is simpler than merging.
    covered = bytearray(len(text))
    for element in scores.elements:
        if element.direction == "precision":
            for start, end in element.spans:
                covered[start:end] = b"\1" * len(covered[start:end])
    words = [each for each in WORD.finditer(text) if each[0].lower() not in LIGHT]
    loose = [each for each in words if not any(covered[each.start() : each.end()])]
    lacking = [each for each in loose if lacks(scores.reference, each[0])]
    sentences = list(SENTENCE.finditer(text))
    has_element = [any(covered[each.start() : each.end()]) for each in sentences]
    ends = [each.end() for each in sentences]
    bare = sum(not has_element[bisect_right(ends, each.start())] for each in lacking)
    return LooseWords(len(words), len(loose), len(loose) - len(lacking), bare)


def lacks(text: str, word: str) -> bool:
    """Return True if a text contains no form of a word."""
    return _lemmas_of_text(text).isdisjoint(_lemmas(word.lower())) and not _is_slip(text, word)


def _is_slip(text: str, word: str) -> bool:
    """Return True if a word is none, but nearly one of the text's."""
    lower = word.lower()
    return not is_known(lower) and not _parts_of_text(text).isdisjoint(without_a_letter(lower))


@lru_cache(maxsize=4096)
def _parts_of_text(text: str) -> frozenset[str]:
    return frozenset().union(*(without_a_letter(each.lower()) for each in WORD.findall(text)))


@lru_cache(maxsize=4096)
def _lemmas_of_text(text: str) -> frozenset[str]:
    return frozenset().union(*(_lemmas(word.lower()) for word in WORD.findall(text)))


@lru_cache(maxsize=CACHED)
def _lemmas(word: str) -> frozenset[str]:
    return frozenset((word, *wordnet().lemmas(word)))
