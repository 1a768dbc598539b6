"""POSH's scores -> one reward, or one for each axis.

A model tuned on POSH as published trades mistakes for coverage: against SFT, on a scale of -2 to 2
(higher is better), people gave it -0.243 for mistakes and +0.432 for omissions (paper, Table 7).
``Shaping`` changes that balance. A text that describes nothing always gets the worst reward.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from posh_reward.embedded.english.word_forms import lacks
from posh_reward.embedded.english.word_order import disorder
from posh_reward.embedded.english.wordnet import is_english
from posh_reward.errors import ConfigError
from posh_reward.posh.examine import SUPPORTED
from posh_reward.posh.loose_words import SENTENCE, loose_words
from posh_reward.posh.means import EQUAL, Weights, length_ratio, mean_score
from posh_reward.reward.texts import repeated_share, says_nothing
from posh_reward.types import HIGHEST_GRADE, LOWEST_GRADE, WORST_SCORE, Element, Scores
from posh_reward.words import CONTENT_WORD, LIGHT, UNSPECIFIC

AXES = ("precision", "recall")
REWARD_VERSION = 11
"""Version of the rules that turn scores into rewards, here and in ``texts``, for signatures."""

FREE_WORDS, FREE_SHARE = 3, 0.06
"""Loose words not in the reference that cost nothing: three, or this share of the content words.
People's rewordings have 0.047 on average (mostly adverbs, and verbs without an object). Of 2,445
captions, ten lost more than 0.005 if two were free, and one does with three."""

LIST = 8  # entities from which a text with few attributes and relations counts as a list, and
SHORT_LIST = 5  # from which bare ones cost if it has at most one, as none of 1,314 captions has

BARE_THINGS, BARE_SHARE = 3, 0.1
"""Entities of a sentence that need no attribute or verb (each of which allows two more), and the
share of further ones that costs nothing. People's texts have at most 0.09, chains of prepositions
0.5."""

FOREIGN_THINGS = 3  # entities not in the reference, per attribute or verb of their sentence
THING = 2.0  # mistakes that an entity in made-up sentences counts as
BORNE_OUT = 3.0  # grade from which a claim counts as detail
NEAR = 1  # sentences before and after one whose claims are judged with it
TELLING = 5  # claims that are enough to tell that what is said there is made up
MADE_UP = 0.4  # share of such claims, not borne out, that costs nothing

BOUNDS = {
    "precision_weight": (0, math.inf), "recall_weight": (0, math.inf),
    "length_limit": (0.01, math.inf), "repetition_limit": (0, 0.99), "detail_floor": (0, math.inf),
    "coverage_floor": (0, 1), "loose_weight": (0, math.inf), "disorder_limit": (0, math.inf),
    "image_cap": (LOWEST_GRADE, HIGHEST_GRADE),
}  # fmt: skip
"""Setting -> its least and greatest value."""
Objective = Literal["f1", "weighted", "separate"]


@dataclass(frozen=True, slots=True)
class Shaping:
    """Rules that turn precision (few mistakes) and recall (few omissions) into rewards.

    Rewards are in [0.2, 1]; higher is better.
    """

    objective: Objective = "f1"
    """f1: the weighted harmonic mean, as in the paper. weighted: the weighted arithmetic mean.
    separate: two rewards, each normalised within its group before the trainer adds them."""
    precision_weight: float = 1.0
    recall_weight: float = 1.0
    length_limit: float | None = None
    """Words per word of the reference that cost nothing; twice as many get the worst reward."""
    repetition_limit: float | None = None
    """Share of four-word sequences that may repeat an earlier one at no cost; beyond it the reward
    falls, to the worst if all do. People's descriptions stay below 0.15."""
    detail_floor: float = 0.65
    """Attributes and relations per entity below which a text of 8 entities or more counts as a
    list: its reward falls, to the worst at none. Prepositions count up to the number of verbs and
    attributes. People's descriptions have 0.69 or more; the best of a search without images had
    0.42 ("There are a person, something red, light"). Sentences full of bare entities cost, too."""
    coverage_floor: float = 0.65
    """Share of content words inside spans of elements below which the reward falls, to the worst at
    none. People's descriptions have 0.73 or more, captions of ten content words 0.67."""
    loose_weight: float = 0.5
    """Weight of a loose word in precision, relative to an element. Loose words are content words
    outside all elements; those not in the reference, beyond people's usual few, are mistakes."""
    disorder_limit: float = 0.15
    """Disorder of words, in bits per word (``embedded.english.word_order``), with the worst reward. People's
    texts have 0, shuffled ones 0.5, keywords 0.4 or more. 0 turns it off."""
    image_cap: float = SUPPORTED
    """Maximum grade, 1 to 5, from a witness's look at the image; 5 is no cap. Without a cap, texts
    pad with what is true of any image ("it has edges and colours"). Since the witness is asked only
    below the metric's ``supported`` (3), a higher cap would also pay less for an element with weak
    support in the reference (3.2) than for one without (2.9)."""

    def __post_init__(self) -> None:
        if self.objective not in get_args(Objective):
            raise ConfigError(
                f"objective is {self.objective!r}: choose {', '.join(get_args(Objective))}"
            )
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and low <= value <= high):
                raise ConfigError(f"{name} is {value:g}: use a number from {low:g} to {high:g}")
        if not sum(self.weights):
            raise ConfigError("the weights of precision and recall are both 0: set one above 0")

    @property
    def weights(self) -> tuple[float, float]:
        """Weights of precision and of recall."""
        return self.precision_weight, self.recall_weight


def shape(scores: Scores, shaping: Shaping, weights: Weights = EQUAL) -> float | None:
    """Return the reward of one generation; None without scores."""
    axes = _axes(scores, shaping, weights)
    if axes is None:
        return None
    return _towards_worst(_combine(*axes, shaping), _share_left(scores, shaping))


LOWERED = 0.1  # what rules take from a reward before a run tells of it


def is_lowered(scores: Scores, shaping: Shaping, weights: Weights = EQUAL) -> bool:
    """Return True if the rules take more than 0.1 from the reward for precision or recall."""
    no_rules = replace(
        shaping, length_limit=None, repetition_limit=None, detail_floor=0, coverage_floor=0,
        loose_weight=0, disorder_limit=0, image_cap=HIGHEST_GRADE,
    )  # fmt: skip
    before, after = (shape_axes(scores, each, weights) or () for each in (no_rules, shaping))
    return any(b - a > LOWERED for b, a in zip(before, after, strict=True))


def shape_axes(
    scores: Scores, shaping: Shaping, weights: Weights = EQUAL
) -> tuple[float, float] | None:
    """Return a generation's rewards for precision and recall; None without scores.

    Penalties apply to both.
    """
    axes = _axes(scores, shaping, weights)
    if axes is None:
        return None
    precision, recall = axes
    left = _share_left(scores, shaping)
    return _towards_worst(precision, left), _towards_worst(recall, left)


def _axes(scores: Scores, shaping: Shaping, weights: Weights) -> tuple[float, float] | None:
    """Precision, loose words included, and recall; None if either is missing."""
    if scores.precision is None or scores.recall is None:
        return None
    # POSH gives an empty text precision 1, since it makes no mistake. As a reward that would teach
    # silence, so a text that is empty, gibberish or without any element gets the worst on both.
    if scores.generation_elements == 0 or says_nothing(scores.generation, scores.reference):
        return WORST_SCORE, WORST_SCORE
    elements = [_cap(element, shaping.image_cap) for element in scores.elements]
    precision = scores.precision
    if any(new is not old for new, old in zip(elements, scores.elements, strict=True)):
        own = [element for element in elements if element.direction == "precision"]
        precision = mean_score(own, weights) or WORST_SCORE
    return _with_loose_words(scores, precision, shaping), scores.recall


def _cap(element: Element, cap: float) -> Element:
    # The reference's grade is not capped.
    if element.witness != "image" or element.image_grade is None or element.grade is None:
        return element
    grade = max(element.image_grade.reference_grade, min(element.grade, cap))
    return element if grade == element.grade else replace(element, grade=grade)


def _with_loose_words(scores: Scores, precision: float, shaping: Shaping) -> float:
    """Precision with the loose words as further elements.

    The judge is never asked about a word outside all elements, so it can only gain recall, which a
    policy learns to exploit. So each that is not in the reference, beyond people's share, counts as
    a mistake: the mean of n elements becomes one of n + weight * excess. In a sentence without any
    element ("We run.") none is free, since people do not describe images like that.
    """
    if not shaping.loose_weight or not is_english(scores.reference):
        return precision
    words = loose_words(scores)
    within = words.loose - words.supported - words.bare
    excess = words.bare + max(0, within - max(FREE_WORDS, FREE_SHARE * words.content))
    excess += _foreign_things(scores) + _made_up(scores)
    if excess <= 0:
        return precision
    elements, extra = scores.generation_elements, shaping.loose_weight * excess
    return (precision * elements + WORST_SCORE * extra) / (elements + extra)


def _foreign_things(scores: Scores) -> int:
    """Number of entities not in the reference, beyond three per claim in their sentence.

    Vague entities ("There is an item in a person") are hardly wrong for any image, and gain recall.
    Of 129 texts about the reference's image, 8 have one.
    """
    things, claims, *_ = _by_sentence(scores)
    if len(things) < LIST:
        return 0
    foreign: Counter[int] = Counter()
    for thing, places in things:
        words = [
            word for word in CONTENT_WORD.findall(thing.text) if word.lower() not in UNSPECIFIC
        ]
        if places and words and all(lacks(scores.reference, word) for word in words):
            foreign[min(places)] += 1
    return sum(max(0, count - FOREIGN_THINGS * claims[at]) for at, count in foreign.items())


def _made_up(scores: Scores) -> float:
    """Mistakes that the image's entities count as where most of what is said is false.

    "The coat covers the lantern, and the hand holds the man": each noun is in the reference, so it
    gains recall, and nothing that is said of it is true.
    """
    said = _by_sentence(scores)
    # In a caption, another person's words for the same thing look made up.
    if len(said.things) < LIST:
        return 0.0
    made_up = 0.0
    for thing, places in said.things:
        around = {at + step for at in places for step in range(-NEAR, NEAR + 1)}
        wrong, right = (sum(claims[at] for at in around) for claims in (said.false, said.true))
        if (thing.grade or 0) >= BORNE_OUT and wrong > MADE_UP * (wrong + right):
            share = (wrong / (wrong + right) - MADE_UP) / (1 - MADE_UP)
            made_up += THING * share * min(1.0, (wrong + right) / TELLING)
    return made_up


class Said(NamedTuple):
    """Entities and claims of a generation, by sentence."""

    things: list[tuple[Element, set[int]]]  # entities with their sentences
    claims: Counter[int]  # attributes and verbs that are borne out
    true: Counter[int]  # all attributes and relations that are borne out, and
    false: Counter[int]  # those that are not
    details: int  # attributes and verbs that are borne out, each once


def _by_sentence(scores: Scores) -> Said:
    ends = [sentence.end() for sentence in SENTENCE.finditer(scores.generation)]
    said = Said([], Counter(), Counter(), Counter(), 0)
    details = 0
    for element in scores.elements:
        if element.direction == "precision":
            places = {bisect_right(ends, start) for start, _ in element.spans}
            if element.kind == "entity":
                said.things.append((element, places))
                continue
            is_true = element.grade is None or element.grade >= BORNE_OUT
            (said.true if is_true else said.false).update(places)
            if is_true and _says_something(element):
                said.claims.update(places)
                details += 1
    return said._replace(details=details)


def _says_something(element: Element) -> bool:
    # Attributes, and relations with more than prepositions, which can join any two entities.
    return not LIGHT.issuperset(element.text.lower().split())


def _costly_coverage(scores: Scores) -> float:
    # Coverage without the loose words that are free.
    words = loose_words(scores)
    if not words.content or not is_english(scores.reference):
        return 1.0
    return 1 - max(0, words.loose - FREE_WORDS) / words.content


def _combine(precision: float, recall: float, shaping: Shaping) -> float:
    p, r = shaping.weights
    if shaping.objective == "f1":
        # Harmonic: the weaker axis counts most. Neither can be 0, since grades begin at 1.
        mean = (p + r) / (p / precision + r / recall)
    else:
        mean = (p * precision + r * recall) / (p + r)
    return max(min(precision, recall), min(mean, max(precision, recall)))  # despite rounding


def _share_left(scores: Scores, shaping: Shaping) -> float:
    """Share of its distance from the worst that a reward keeps."""
    # Factors, not differences: two faults cost more than one, and none goes below the worst.
    left = 1.0
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
    """Share of its reward that a text keeps, lower the more it is a list; 1 with few entities.

    Plain sentences are no list: "On the left, there is a man. Behind him, there is a dog." names a
    thing in each, besides places. Prepositions can join any two entities ("the sky of the quay
    beside the sailors"), so they count only up to the number of attributes and verbs, and not at
    all in a crowded sentence.
    """
    things, claims, *_, details = _by_sentence(scores)
    sentences = [places for thing, places in things if _is_specific(thing)]
    by_sentence = Counter(at for places in sentences for at in places)
    listed = sum(any(by_sentence[at] > 1 for at in places) for places in sentences)
    others = sum(e.direction == "precision" and e.kind != "entity" for e in scores.elements)
    left = 1.0
    if listed >= LIST:
        left *= _clip(min(2 * details, others) / listed / floor)
    if listed >= (LIST if others > 1 else SHORT_LIST):
        bare = sum(max(0, n - BARE_THINGS - 2 * claims[at]) for at, n in by_sentence.items())
        left *= _clip(1 - 2 * (bare / by_sentence.total() - BARE_SHARE))
    return left


def _is_specific(thing: Element) -> bool:
    return not UNSPECIFIC.issuperset(thing.text.lower().split())


def _towards_worst(reward: float, left: float) -> float:
    return WORST_SCORE + (reward - WORST_SCORE) * left if left < 1 else reward


def _clip(share: float) -> float:
    return min(max(share, 0.0), 1.0)
