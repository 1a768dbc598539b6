"""Guards: what keeps a policy from being paid for texts that score without describing.

POSH asks about elements of a scene graph. So words outside of all elements cost nothing, a list of
nouns is found in any long reference, and what nobody can check is hardly wrong. Each guard is a
function of a text's scores: the share that it keeps, from 0 to 1, of its reward or of its
precision alone.

A text is its own best description, so a guard takes from it only what it would not take from the
reference, as a description of itself::

    kept = 1 - max(0, guard(reference) - guard(text))

A reference that enumerates ("A dog, a cat, a bird ... are on a lawn.") may keep .3 by the guard
against lists. A text that keeps .3, too, then loses nothing, and one that keeps .1 loses a fifth.

All but silence are relative. Rules about words are for English, and are left out where the
reference is not; the guard against lists counts elements, in any language.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal, NamedTuple

from posh_reward.errors import ConfigError
from posh_reward.posh.examine import MIN_SUPPORTED_GRADE
from posh_reward.posh.loose_words import SENTENCE, LooseWords, count_loose_words
from posh_reward.posh.means import length_ratio
from posh_reward.reward.texts import repeated_share, says_nothing
from posh_reward.types import HIGHEST_GRADE, LOWEST_GRADE, Element, Scores
from posh_reward.words import CONTENT_WORD, LIGHT, UNSPECIFIC


def limit_field(
    default: Any, low: float, high: float = math.inf, *, flag: str | None = None
) -> Any:
    """Field of ``Guards`` with its range and, if recipes offer it, the help of its flag."""
    return field(default=default, metadata={"range": (low, high), "help": flag})


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Limits of the guards; ``Guards.off()`` has none.

    Raises:
        ConfigError: a limit is not a number in its range.
    """

    silence: bool = field(default=True, metadata={"help": None})
    """Pay the worst reward to a text that is empty, gibberish, or without any element. POSH gives
    an empty text precision 1, since it makes no mistake, which would teach silence."""
    length_limit: float | None = limit_field(
        None, 0.01, flag="Words per word of the reference without penalty."
    )
    """Words per word of the reference that cost nothing; twice as many lose all."""
    repetition_limit: float | None = limit_field(
        None, 0, 0.99, flag="Share of repeated four-word sequences without penalty, such as 0.15."
    )
    """Share of four-word sequences that may repeat an earlier one; a text that only repeats loses
    all. People's descriptions stay below 0.15."""
    coverage_floor: float = limit_field(
        0.65, 0, 1, flag="Scale the reward down below this share of content words inside elements."
    )
    """Share of content words inside spans of elements, below which a text loses in proportion.
    People's descriptions have 0.73 or more, captions of ten content words 0.67."""
    disorder_limit: float = limit_field(
        0.15, 0, flag="Word disorder that gets the worst reward; 0 is off."
    )
    """Disorder of words, in bits per word (``embedded.english.word_order``), that loses all.
    People's texts have 0, shuffled ones 0.5, keywords 0.4 or more."""
    detail_floor: float = limit_field(
        0.65, 0, flag="Scale the reward of lists down below this many details per entity."
    )
    """Attributes and relations per entity, below which a list loses in proportion. Prepositions
    count up to the number of verbs and attributes. People's descriptions have 0.69 or more; the
    best of a search without images had 0.42 ("There are a person, something red, light")."""
    loose_weight: float = limit_field(
        0.5, 0, flag="Weight in precision of words outside all elements, beyond people's share."
    )
    """Weight in precision of a content word outside all elements, of an entity that the reference
    lacks, and of an entity in fabricated sentences, relative to an element that is a mistake."""
    image_cap: float = limit_field(
        MIN_SUPPORTED_GRADE, LOWEST_GRADE, HIGHEST_GRADE,
        flag="Highest grade that the image alone can give an element.",
    )  # fmt: skip
    """Maximum grade, 1 to 5, from a witness's look at the image; 5 is no cap. Without a cap, texts
    pad with what is true of any image ("it has edges and colours"). Since the witness is asked only
    below the metric's ``supported`` (3), a higher cap would also pay less for an element with weak
    support in the reference (3.2) than for one without (2.9)."""

    free_words: int = limit_field(3, 0)
    """Loose words that cost nothing, and the lack of which no text is blamed for. Of 2,445
    captions, ten lost more than 0.005 if two were free, and one does with three."""
    list_entities: int = limit_field(8, 1)
    """Entities from which a text can be a list, and from which sentences can be fabricated: in a
    caption, another person's words for the same thing look so."""
    bare_list_entities: int = limit_field(5, 1)
    """The same for a text with at most one attribute or relation, as none of 1,314 captions is."""
    bare_entities: int = limit_field(3, 0)
    """Entities of a sentence that need no attribute or verb, each of which allows two more."""
    bare_share: float = limit_field(0.1, 0, 1)
    """Share of further entities that costs nothing; people have at most 0.09, chains 0.5."""
    lacking_entities: int = limit_field(3, 0)
    """Entities that the reference lacks, per attribute or verb of their sentence. Of 129 texts
    about the reference's image, 8 have one beyond."""
    fabricated_share: float = limit_field(0.4, 0, 0.99)
    """Share of unsupported claims around an entity that costs nothing."""
    fabricated_mistakes: float = limit_field(2.0, 0)
    """Mistakes that an entity in wholly fabricated sentences counts as."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None or "range" not in each.metadata:
                continue
            low, high = each.metadata["range"]
            if not (math.isfinite(value) and low <= value <= high):
                raise ConfigError(
                    f"{each.name} is {value:g}: use a number from {low:g} to {high:g}"
                )

    @classmethod
    def off(cls) -> Guards:
        """No guard: only the objective is left, and silence makes no mistakes."""
        return cls(
            silence=False, length_limit=None, repetition_limit=None, coverage_floor=0,
            disorder_limit=0, detail_floor=0, loose_weight=0, image_cap=HIGHEST_GRADE,
        )  # fmt: skip


class ScoredText:
    """Scores of a text, with what several guards read of them, each made at first use."""

    def __init__(self, scores: Scores) -> None:
        self.scores = scores

    @cached_property
    def statements(self) -> Statements:
        return sort_statements(self.scores)

    @cached_property
    def loose_words(self) -> LooseWords:
        return count_loose_words(self.scores)


KeptShare = Callable[[ScoredText, Guards], float]


class Guard(NamedTuple):
    """A rule and the rewards that it lowers."""

    name: str  # in logs
    limit: str  # field of ``Guards`` that switches it
    kept: KeptShare
    lowers: Literal["precision", "both"] = "both"
    relative: bool = True  # to what the reference would keep
    english: bool = False  # a rule about words, left out if the reference is not English


# Each takes a scored text, and returns the share of its reward that the text keeps.


def breaks_silence(text: ScoredText, guards: Guards) -> float:
    scores = text.scores
    if scores.generation_elements == 0 or says_nothing(scores.generation, scores.reference):
        return 0.0
    return 1.0


def within_length(text: ScoredText, guards: Guards) -> float:
    """With a limit of 2 words per word, 3 keep 2 - 3 / 2 = 0.5."""
    assert guards.length_limit is not None, "it is on"
    return _clip_share(2 - length_ratio(text.scores) / guards.length_limit)


def without_repetition(text: ScoredText, guards: Guards) -> float:
    """With a limit of 0.15, a text whose four-word sequences repeat by 0.575 keeps 0.5."""
    assert guards.repetition_limit is not None, "it is on"
    return _clip_share((1 - repeated_share(text.scores.generation)) / (1 - guards.repetition_limit))


def well_covered(text: ScoredText, guards: Guards) -> float:
    """10 content words, 7 of them loose: without the 3 free ones, 0.6 are covered of 0.65."""
    words = text.loose_words
    if not words.content:
        return 1.0
    coverage = 1 - max(0, words.loose - guards.free_words) / words.content
    return _clip_share(coverage / guards.coverage_floor)


def in_order(text: ScoredText, guards: Guards) -> float:
    """With a limit of 0.15 bits per word, a disorder of 0.06 keeps 0.6."""
    from posh_reward.embedded.english.word_order import disorder

    return _clip_share(1 - disorder(text.scores.generation) / guards.disorder_limit)


def more_than_a_list(text: ScoredText, guards: Guards) -> float:
    """Lower the more a text is a list; 1 with few entities.

    Plain sentences are no list: "On the left, there is a man. Behind him, there is a dog." names a
    thing in each, besides places. Prepositions can join any two entities ("the sky of the quay
    beside the sailors"), so they count only up to the number of supported attributes and verbs,
    and not at all in a crowded sentence. 10 entities with 3 such verbs and 9 prepositions keep
    min(2 * 3, 12) / 10 / 0.65 = 0.92. With one such verb and all in one sentence, 5 of them are
    bare (10 - 3 - 2), which keeps 0.31 * (1 - 2 * (5 / 10 - 0.1)) = 0.06.
    """
    stated = text.statements
    specific = [places for entity, places in stated.entities if _is_specific(entity)]
    in_sentence = Counter(chain.from_iterable(specific))
    listed = sum(any(in_sentence[at] > 1 for at in places) for places in specific)
    others = sum(e.direction == "precision" and e.kind != "entity" for e in text.scores.elements)
    kept = 1.0
    if listed >= guards.list_entities:
        kept *= _clip_share(min(2 * stated.details, others) / listed / guards.detail_floor)
    least = guards.list_entities if others > 1 else guards.bare_list_entities
    if listed >= least:
        bare = 0
        for at, entities in in_sentence.items():
            bare += max(0, entities - guards.bare_entities - 2 * stated.supported_details[at])
        kept *= _clip_share(1 - 2 * (bare / in_sentence.total() - guards.bare_share))
    return kept


# The three guards of precision count further mistakes. The mean of n elements becomes one of n and
# of e more of the worst grade: precision keeps n / (n + e) of its distance from the worst
# (``add_mistakes``).


def without_loose_words(text: ScoredText, guards: Guards) -> float:
    """Each content word outside all elements that the reference lacks is a mistake.

    The judge is never asked about it, so it can only gain recall. In a sentence without a scored
    element ("We run.") none is free, since people do not describe images like that. 12 elements and
    5 such words, 3 of them free, keep 12 / (12 + 0.5 * 2).
    """
    words = text.loose_words
    in_sentences = words.loose - words.supported - words.bare
    mistakes = words.bare + max(0, in_sentences - guards.free_words)
    return _keep_despite_mistakes(text, mistakes, guards)


def without_lacking_entities(text: ScoredText, guards: Guards) -> float:
    """Each entity that the reference lacks and of which little is said is a mistake.

    Vague entities ("There is an item in a person") are hardly wrong for any image, and gain recall.
    """
    from posh_reward.embedded.english.word_forms import lacks_word

    stated = text.statements
    if len(stated.entities) < guards.list_entities:
        return 1.0
    lacking: Counter[int] = Counter()
    for entity, places in stated.entities:
        named = CONTENT_WORD.findall(entity.text)
        words = [word for word in named if word.lower() not in UNSPECIFIC]
        if places and words and all(lacks_word(text.scores.reference, word) for word in words):
            lacking[min(places)] += 1
    mistakes = 0
    for at, count in lacking.items():
        mistakes += max(0, count - guards.lacking_entities * stated.supported_details[at])
    return _keep_despite_mistakes(text, mistakes, guards)


def without_fabrication(text: ScoredText, guards: Guards) -> float:
    """Entities of the image count as mistakes where most of what is said around them is false.

    "The coat covers the lantern, and the hand holds the man": each noun is in the reference, so it
    gains recall, and nothing that is said of it is true. With 4 of 5 claims false and 0.4 free, an
    entity counts as 2 * (0.8 - 0.4) / 0.6 = 1.3 mistakes.
    """
    stated = text.statements
    if len(stated.entities) < guards.list_entities:
        return 1.0
    mistakes = 0.0
    for entity, places in stated.entities:
        # A sentence is judged with those before and after it.
        around = {at + step for at in places for step in (-1, 0, 1)}
        false = sum(stated.unsupported[at] for at in around)
        claims = false + sum(stated.supported[at] for at in around)
        if (entity.grade or 0) < MIN_SUPPORTED_GRADE or false <= guards.fabricated_share * claims:
            continue
        share = (false / claims - guards.fabricated_share) / (1 - guards.fabricated_share)
        mistakes += guards.fabricated_mistakes * share
    return _keep_despite_mistakes(text, mistakes, guards)


GUARDS = (
    Guard("silence", "silence", breaks_silence, relative=False),
    Guard("length", "length_limit", within_length),
    Guard("repetition", "repetition_limit", without_repetition),
    Guard("coverage", "coverage_floor", well_covered, english=True),
    Guard("disorder", "disorder_limit", in_order, english=True),
    Guard("list", "detail_floor", more_than_a_list),
    Guard("loose_words", "loose_weight", without_loose_words, "precision", english=True),
    Guard("lacking_entities", "loose_weight", without_lacking_entities, "precision", english=True),
    Guard("fabrication", "loose_weight", without_fabrication, "precision", english=True),
)
"""All guards, in the order in which they are applied and logged."""


def kept_shares(scores: Scores, guards: Guards) -> dict[str, float]:
    """Return the share of the reward that each active guard leaves, by its name."""
    from posh_reward.embedded.english.wordnet import is_english

    text = ScoredText(scores)
    itself: ScoredText | None = None
    shares: dict[str, float] = {}
    for guard in list_active_guards(guards):
        if guard.english and not is_english(scores.reference):
            shares[guard.name] = 1.0
            continue
        kept = guard.kept(text, guards)
        # A reference without elements describes nothing, and is no measure.
        if kept < 1 and guard.relative and scores.reference_elements:
            itself = itself or ScoredText(describing_itself(scores))
            kept = 1 - max(0.0, guard.kept(itself, guards) - kept)
        shares[guard.name] = kept
    return shares


def list_active_guards(guards: Guards) -> list[Guard]:
    return [guard for guard in GUARDS if getattr(guards, guard.limit)]


def add_mistakes(shares: list[float]) -> float:
    """Return the share that is left after the guards of precision, whose mistakes add up.

    A share of n / (n + e) stands for e mistakes: 0.8 for n / 4, 0.5 for n. Both together leave
    n / (n + 1.25 n) = 0.44.
    """
    if min(shares, default=1.0) == 0:
        return 0.0
    return 1 / (1 + math.fsum(1 / share - 1 for share in shares))


def describing_itself(scores: Scores) -> Scores:
    """Return the scores of the reference as a description of itself: all of it is supported."""
    own: list[Element] = []
    for element in scores.elements:
        if element.direction == "recall":
            own.append(replace(element, direction="precision", grade=HIGHEST_GRADE))
    return replace(
        scores, generation=scores.reference, elements=tuple(own), generation_elements=len(own)
    )


def cap_grade(element: Element, cap: float) -> Element:
    """Cap a grade that the image alone gave; the reference's is not capped."""
    if element.witness != "image" or element.image_grade is None or element.grade is None:
        return element
    grade = max(element.image_grade.reference_grade, min(element.grade, cap))
    return replace(element, grade=grade)


@dataclass(frozen=True, slots=True)
class Statements:
    """Entities of a generation, and what is said of them, by sentence."""

    entities: list[tuple[Element, set[int]]]  # with their sentences
    supported_details: Counter[int]  # supported attributes and verbs
    supported: Counter[int]  # supported attributes and relations of any kind, and
    unsupported: Counter[int]  # those that are not
    details: int  # supported attributes and verbs, each once


def sort_statements(scores: Scores) -> Statements:
    """Sort the elements of a generation by sentence."""
    ends = [sentence.end() for sentence in SENTENCE.finditer(scores.generation)]
    entities: list[tuple[Element, set[int]]] = []
    supported_details: Counter[int] = Counter()
    supported: Counter[int] = Counter()
    unsupported: Counter[int] = Counter()
    details = 0
    for element in scores.elements:
        if element.direction != "precision":
            continue
        places = {bisect_right(ends, start) for start, _ in element.spans}
        if element.kind == "entity":
            entities.append((element, places))
            continue
        if element.grade is not None and element.grade < MIN_SUPPORTED_GRADE:
            unsupported.update(places)
            continue
        supported.update(places)
        if _says_something(element):
            supported_details.update(places)
            details += 1
    return Statements(entities, supported_details, supported, unsupported, details)


def _says_something(element: Element) -> bool:
    # Attributes, and relations with more than prepositions, which can join any two entities.
    return not LIGHT.issuperset(element.text.lower().split())


def _is_specific(entity: Element) -> bool:
    return not UNSPECIFIC.issuperset(entity.text.lower().split())


def _keep_despite_mistakes(text: ScoredText, mistakes: float, guards: Guards) -> float:
    if mistakes <= 0:
        return 1.0
    elements = text.scores.generation_elements
    return elements / (elements + guards.loose_weight * mistakes)


def _clip_share(share: float) -> float:
    return min(max(share, 0.0), 1.0)
