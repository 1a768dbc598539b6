"""Scores -> what the trainer gets: one number, or one for each axis.

A model tuned on POSH as published buys coverage with mistakes: against SFT, on a scale of -2 to 2
(higher is better), people gave it -0.243 for mistakes and +0.432 for omissions (paper, Table 7).
``Shaping`` moves that balance. What describes nothing gets the worst reward, whatever the shaping.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal, get_args

from posh_reward.errors import ConfigError
from posh_reward.lexicon.function_words import LIGHT
from posh_reward.lexicon.word_order import disorder
from posh_reward.lexicon.wordnet import is_english
from posh_reward.metrics.posh.aggregate import (
    EQUAL,
    SENTENCE,
    WORD,
    Weights,
    lacks,
    length_ratio,
    loose_words,
    mean_score,
)
from posh_reward.metrics.posh.examine import SUPPORTED
from posh_reward.reward.texts import repeated_share, says_nothing
from posh_reward.types import HIGHEST_GRADE, LOWEST_GRADE, Element, Scores

REWARD_VERSION = 4
"""Of what makes rewards of scores, here and in ``texts``; part of a reward's signature."""
WORST = LOWEST_GRADE / HIGHEST_GRADE  # the lowest possible score: every element graded 1 of 5

FREE_WORDS, FREE_SHARE = 2, 0.06
"""Loose words that the reference lacks, and that cost nothing: two, or this share of the content
words. Rewordings by people have 0.047 on average (adverbs, and verbs without an object, mostly)."""

LIST = 8  # a text of this many entities or more that says nothing about them is a list

BARE_THINGS, BARE_SHARE = 3, 0.1
"""Entities of a sentence that need no attribute or verb, of which each stands for two more; and the
share of others that costs nothing. People's texts have 0.09 at most, chains of prepositions 0.5."""

FOREIGN_THINGS = 3  # that the reference does not name, for each attribute or verb of their sentence

Objective = Literal["f1", "weighted", "separate"]


@dataclass(frozen=True, slots=True)
class Shaping:
    """Settings by which precision (few mistakes) and recall (few omissions) make rewards.

    Rewards lie in [0.2, 1]; higher is better.
    """

    objective: Objective = "f1"
    """f1: the weighted harmonic mean, as in the paper. weighted: the weighted arithmetic mean.
    separate: two rewards, which the trainer compares each within its group before it adds them."""
    precision_weight: float = 1.0
    recall_weight: float = 1.0
    mistake_floor: float | None = None
    """Below this precision the reward falls, down to the worst at precision 0.2."""
    length_limit: float | None = None
    """Words per word of the reference that cost nothing; twice as many get the worst reward."""
    repetition_limit: float | None = None
    """Share of four-word sequences that may repeat an earlier one at no cost; beyond it the reward
    falls, down to the worst if all do. People's descriptions stay below 0.15."""
    detail_floor: float = 0.65
    """Attributes and relations per entity below which a text of 8 entities or more counts as a
    list: its reward falls, down to the worst at none. Prepositions count as far as verbs and
    attributes do. People's descriptions have 0.69 or more; a search without looking at images came
    to 0.42 ("There are a person, something red, light"). It also falls for a text with sentences
    that are full of bare things."""

    coverage_floor: float = 0.65
    """Share of content words inside spans of elements below which the reward falls, down to the
    worst at none. Descriptions by people have 0.73 or more, captions of ten content words 0.67."""
    loose_weight: float = 0.5
    """Weight, in the mean of precision, of a loose word against an element's. Loose words are
    content words of no element; those that the reference lacks, beyond the few that people have,
    count as mistakes."""

    disorder_limit: float = 0.15
    """Disorder of words, in bits a word (``lexicon.word_order``), at which the reward is the worst.
    Texts by people have none, shuffled ones 0.5, keywords 0.4 or more. 0 is off."""

    image_cap: float = SUPPORTED
    """Grade, 1 to 5, that an element can reach by a witness's look at the image. A text pads with
    what is true of any image ("it has edges and colours"); and since the image is asked only below
    the metric's ``supported`` (3), a higher cap would pay an element that the reference supports
    weakly (3.2) less than one that it does not (2.9). 5 is no cap."""

    def __post_init__(self) -> None:
        if self.objective not in get_args(Objective):
            raise ConfigError(
                f"objective is {self.objective!r}: choose {', '.join(get_args(Objective))}"
            )
        if min(self.weights) < 0 or not sum(self.weights):
            raise ConfigError(
                f"weights of precision and recall are {self.precision_weight:g} and "
                f"{self.recall_weight:g}: neither may be negative, nor both 0"
            )
        if self.mistake_floor is not None and not WORST < self.mistake_floor <= 1:
            raise ConfigError(f"mistake_floor is {self.mistake_floor:g}: give one in (0.2, 1]")
        if self.length_limit is not None and self.length_limit <= 0:
            raise ConfigError(f"length_limit is {self.length_limit:g}: give a ratio above 0")
        if self.repetition_limit is not None and not 0 <= self.repetition_limit < 1:
            raise ConfigError(f"repetition_limit is {self.repetition_limit:g}: give one in [0, 1)")
        for name in ("detail_floor", "loose_weight", "disorder_limit"):
            if (value := getattr(self, name)) < 0:
                raise ConfigError(f"{name} is {value:g}: give 0, for none, or more")
        if not LOWEST_GRADE <= self.image_cap <= HIGHEST_GRADE:
            raise ConfigError(f"image_cap is {self.image_cap:g}: give a grade from 1 to 5")
        if not 0 <= self.coverage_floor <= 1:
            raise ConfigError(f"coverage_floor is {self.coverage_floor:g}: give one in [0, 1]")

    @property
    def weights(self) -> tuple[float, float]:
        """Of precision and of recall."""
        return self.precision_weight, self.recall_weight


def shape(scores: Scores, shaping: Shaping, weights: Weights = EQUAL) -> float | None:
    """The reward of one scored generation; None if it has no scores."""
    axes = _axes(scores, shaping, weights)
    if axes is None:
        return None
    return _towards_worst(_combine(*axes, shaping), _share_left(scores, axes[0], shaping))


def shape_axes(
    scores: Scores, shaping: Shaping, weights: Weights = EQUAL
) -> tuple[float, float] | None:
    """The rewards of one scored generation on precision and on recall; None if it has no scores.

    What shaping takes away, it takes from both.
    """
    axes = _axes(scores, shaping, weights)
    if axes is None:
        return None
    precision, recall = axes
    left = _share_left(scores, precision, shaping)
    return _towards_worst(precision, left), _towards_worst(recall, left)


def _axes(scores: Scores, shaping: Shaping, weights: Weights) -> tuple[float, float] | None:
    """Precision, loose words included, and recall; None if either is missing.

    A generation that says nothing (empty, blank, gibberish, or without any element of a scene
    graph) gets the worst on both. POSH gives an empty one precision 1, since it makes no mistake;
    as a reward that would teach silence.
    """
    if scores.precision is None or scores.recall is None:
        return None
    if scores.count("precision") == 0 or says_nothing(scores.generation, scores.reference):
        return WORST, WORST
    elements = [_cap(element, shaping.image_cap) for element in scores.elements]
    precision = scores.precision
    if any(new is not old for new, old in zip(elements, scores.elements, strict=True)):
        own = [element for element in elements if element.direction == "precision"]
        precision = mean_score(own, weights) or WORST
    return _with_loose_words(scores, precision, shaping), scores.recall


def _cap(element: Element, cap: float) -> Element:
    """The element with at most the cap from the image, and at least the reference's grade."""
    if element.witness != "picture" or element.image_grade is None or element.grade is None:
        return element
    grade = max(element.image_grade.reference_grade, min(element.grade, cap))
    return element if grade == element.grade else replace(element, grade=grade)


def _with_loose_words(scores: Scores, precision: float, shaping: Shaping) -> float:
    """Precision with the loose words as further elements.

    A word that no element covers is asked about by nobody, so that it can only earn recall. A
    policy that pads finds that. So each that the reference lacks, beyond people's share, counts as
    a mistake: the mean of n elements becomes one of n + weight * excess. In a sentence without any
    element ("We run.") none is free: people do not write such sentences of an image.
    """
    if not is_english(scores.reference):
        return precision
    words = loose_words(scores)
    within = words.loose - words.supported - words.bare
    excess = words.bare + max(0, within - max(FREE_WORDS, FREE_SHARE * words.content))
    excess += _foreign_things(scores)
    if excess <= 0:
        return precision
    elements, extra = scores.count("precision"), shaping.loose_weight * excess
    return (precision * elements + WORST * extra) / (elements + extra)


def _foreign_things(scores: Scores) -> int:
    """Number of entities that the reference does not name, beyond three for each claim beside them.

    Vague things ("There is an item in a person") are hardly wrong of any image, and earn recall. Of
    129 texts written of the reference's image, 8 have one.
    """
    things, claims = _by_sentence(scores)
    if len(things) < LIST:
        return 0
    foreign: Counter[int] = Counter()
    for thing, places in things:
        words = [word for word in WORD.findall(thing.text) if word.lower() not in LIGHT]
        if places and words and all(lacks(scores.reference, word) for word in words):
            foreign[min(places)] += 1
    return sum(max(0, count - FOREIGN_THINGS * claims[at]) for at, count in foreign.items())


def _by_sentence(scores: Scores) -> tuple[list[tuple[Element, set[int]]], Counter[int]]:
    """A generation's entities with their sentences, and the number of claims of each sentence."""
    ends = [sentence.end() for sentence in SENTENCE.finditer(scores.generation)]
    things: list[tuple[Element, set[int]]] = []
    claims: Counter[int] = Counter()
    for element in scores.elements:
        if element.direction == "precision":
            places = {bisect_right(ends, start) for start, _ in element.spans}
            if element.kind == "entity":
                things.append((element, places))
            elif _is_claim(element):
                claims.update(places)
    return things, claims


def _is_claim(element: Element) -> bool:
    """True of attributes, and of relations by more than prepositions, which join any two things."""
    return not LIGHT.issuperset(element.text.lower().split())


def _costly_coverage(scores: Scores) -> float:
    """Coverage, but for the loose words that cost nothing; 1 if the reference is not English."""
    words = loose_words(scores)
    if not words.content or not is_english(scores.reference):
        return 1.0
    return 1 - max(0, words.loose - FREE_WORDS) / words.content


def _combine(precision: float, recall: float, shaping: Shaping) -> float:
    p, r = shaping.weights
    if shaping.objective == "f1":
        # Weighted harmonic: the weaker axis counts most. Neither can be 0, since grades begin at 1.
        mean = (p + r) / (p / precision + r / recall)
    else:
        mean = (p * precision + r * recall) / (p + r)
    return max(min(precision, recall), min(mean, max(precision, recall)))  # rounding apart


def _share_left(scores: Scores, precision: float, shaping: Shaping) -> float:
    """The share of its distance from the worst that a reward keeps."""
    # Factors, not differences: two faults cost more than one, and none can push below the worst.
    left = 1.0
    if shaping.mistake_floor is not None:
        left *= _clip((precision - WORST) / (shaping.mistake_floor - WORST))
    if shaping.length_limit is not None:
        left *= _clip(2 - length_ratio(scores) / shaping.length_limit)
    if shaping.repetition_limit is not None:
        repetition = repeated_share(scores.generation)
        left *= _clip((1 - repetition) / (1 - shaping.repetition_limit))
    if shaping.coverage_floor:
        left *= _clip(_costly_coverage(scores) / shaping.coverage_floor)
    if shaping.disorder_limit and is_english(scores.reference):
        left *= _clip(1 - disorder(scores.generation) / shaping.disorder_limit)
    if shaping.detail_floor:
        left *= _described_share(scores, shaping.detail_floor)
    return left


def _described_share(scores: Scores, floor: float) -> float:
    """The share that a reward keeps of a text that may be a list; 1 if it names only a few things.

    Prepositions join any two things ("the sky of the quay beside the sailors"), so that they count
    for no more than attributes and verbs do, and not at all for a sentence that is full of things.
    """
    things, claims = _by_sentence(scores)
    if len(things) < LIST:
        return 1.0
    others = [e for e in scores.elements if e.direction == "precision" and e.kind != "entity"]
    details = min(2 * sum(map(_is_claim, others)), len(others)) / len(things)
    by_sentence = Counter(at for _, places in things for at in places)
    bare = sum(max(0, n - BARE_THINGS - 2 * claims[at]) for at, n in by_sentence.items())
    crowded = bare / max(1, by_sentence.total()) - BARE_SHARE
    return _clip(details / floor) * _clip(1 - 2 * crowded)


def _towards_worst(reward: float, left: float) -> float:
    return WORST + (reward - WORST) * left if left < 1 else reward


def _clip(share: float) -> float:
    return min(max(share, 0.0), 1.0)
