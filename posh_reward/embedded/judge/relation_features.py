"""Features of relations and places: does the target join two entities, and in the same way?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product, starmap
from math import fsum

from posh_reward.embedded.english.likeness import conflict, likeness
from posh_reward.embedded.english.meaning import Term
from posh_reward.embedded.english.word_classes import (
    HAVING,
    PREPOSITIONS,
    converse,
    preposition_agreement,
    split_words,
)
from posh_reward.embedded.judge.alignment import Alignment
from posh_reward.embedded.judge.index import DescriptionIndex
from posh_reward.embedded.judge.negation import WITHOUT_WORDS
from posh_reward.words import FUNCTION_WORDS

SAME_ENTITY_LINK = 0.5  # if both ends correspond to the same entity of the target
REVERSED_LINK = 0.7  # if the target joins the two only in the opposite direction
MIN_JOINING_MATCH = 0.5  # for the target to join the two
MIN_PAIR_CERTAINTY = 0.35  # product of the certainties of two candidates
EXCLUDED_MATCH = 0.1  # if the target's own prepositions rule the relation out
WORDLESS_MATCH = 0.7  # of a relation without a word to compare
NO_PREPOSITION_AGREEMENT = 0.4  # of a preposition if the target joins the two by none
REVERSED_VERB_FACTOR = 0.3  # on a verb's value if the target swaps its subject and object
MIN_SHARED_ATTACHMENT = 0.4  # of a preposition to both entities that it joins
SAME_RELATION_MATCH = 0.75  # above which the target joins the two in the same way
SPATIAL_PREPOSITIONS = PREPOSITIONS - frozenset(
    "of with by for to from as part having wearing at close out off after before along".split()
)
"""Prepositions of place, which exclude each other."""
CONTACT_PREPOSITIONS = frozenset("on in against into onto upon inside within across".split())
"""Those of which two are often true: pearls on her palm, or in it."""
MIN_PLACE_DISAGREEMENT = 0.5  # of prepositions that are no paraphrases of each other
MIN_SAME_VERB_SIMILARITY = 0.5  # of verbs that say the same
MIN_SAME_PREPOSITION_AGREEMENT = 0.8  # of prepositions that say the same
UNKNOWN_PLACE_VALUE = 0.5  # if none of the entities there is found
MIN_SAME_PLACE_SIMILARITY = 0.7  # of words for the same place
MIN_PLACE_ATTACHMENT = 0.6  # of an entity that stands there
OPPOSITE_PLACE_VALUE = 0.27  # if the target puts its entities on the other side

Features = dict[str, float]
"""Names and values of what is known about an element; missing features are 0."""
Candidates = Sequence[tuple[int, float]]  # (entity of the target, certainty), the likeliest first


def compute_relation_features(
    alignment: Alignment, subject: int, text: str, other: int
) -> Features:
    """Compute features of a relation of two entities."""
    words = ["with" if word in WITHOUT_WORDS else word for word in split_words(text)]
    # A few candidates for each end: the likeliest entity may not be in any relation, and
    # pronouns may stand for it.
    firsts, seconds = alignment.relation_candidates(subject), alignment.relation_candidates(other)
    best = best_relation_match(alignment, firsts, words, seconds)
    features = {"as_such": best}
    if not (firsts and seconds):
        return features
    a, b = firsts[0][0], seconds[0][0]
    known = (1 - alignment.uncertainty(subject)) * (1 - alignment.uncertainty(other))
    features["verb_said"] = verb_support(alignment, words, a, b)
    features["other_verb"] = known * verb_difference(alignment, a, words, b)
    features["other_preposition"] = known * place_disagreement(alignment, a, words, b)
    if best < SAME_RELATION_MATCH:
        features["exchanged"] = known * exchange_certainty(alignment, a, words, b)
    # Features against a relation need certainty about both ends: only the same two entities can
    # contradict who holds what.
    if known == 1:
        theirs = alignment.target.relation_words[a].get(b, {})
        turned = is_reversed(alignment, a, words, b) and say_the_same(words, theirs)
        features["turned_round"] = float(
            turned and subject_is_part(words) == subject_is_part(theirs)
        )
        features["opposed"] = float(verbs_conflict(alignment, a, words, b))
        if best < MIN_JOINING_MATCH:
            features["excluded"] = float(prepositions_exclude(alignment, a, words, b))
    return features


def verb_difference(alignment: Alignment, a: int, words: list[str], b: int) -> float:
    """Difference, 0 to 1, of a relation's verbs from those that join the two in the target."""
    joining_words = alignment.target.relation_words[a].get(b, ())
    ours = [verb for verb in find_verbs(alignment.source, words) if verb[1] == "v"]
    theirs = [verb for verb in find_verbs(alignment.target, joining_words) if verb[1] == "v"]
    return 1 - max(starmap(likeness, product(ours, theirs)), default=1.0)


def place_disagreement(alignment: Alignment, a: int, words: list[str], b: int) -> float:
    """Disagreement, 0 to 1, of a relation's place with the one that the target gives: under, on.

    Only of prepositions of place; the last one counts, since the release joins all those of a verb
    ("rides up near" the bicycle).
    """
    ours = keep_words(words, SPATIAL_PREPOSITIONS)
    theirs = keep_words(relating_words(alignment, a, b), SPATIAL_PREPOSITIONS)
    if not (ours and theirs):
        return 0.0
    return 1 - best_agreement(ours[-1], theirs, is_reversed(alignment, a, words, b))


def best_agreement(word: str, prepositions: Sequence[str], reverse: bool) -> float:
    """Agreement of a preposition with the one most like it, or most like its converse."""
    # "A above B" confirms "B below A", not "B above A".
    agree = converse if reverse else preposition_agreement
    return max(agree(word, other) for other in prepositions)


def strict_place_disagreement(alignment: Alignment, subject: int, text: str, other: int) -> float:
    """Disagreement of a relation's place with one that the target states of the same two entities.

    Stricter than ``place_disagreement``, for long texts: both entities are certain, the target
    relates them by a place, and nothing attached to both allows the other one. "The bucket stands
    on the anvil" where the target's bucket "stands beside the anvil".
    """
    firsts, seconds = alignment.relation_candidates(subject), alignment.relation_candidates(other)
    if not (firsts and seconds) or alignment.uncertainty(subject) or alignment.uncertainty(other):
        return 0.0
    words, a, b = split_words(text), firsts[0][0], seconds[0][0]
    ours = keep_words(words, SPATIAL_PREPOSITIONS)
    theirs = keep_words(alignment.target.relation_words[a].get(b, ()), SPATIAL_PREPOSITIONS)
    if a == b or not (ours and theirs):
        return 0.0
    theirs += keep_words(find_joining_words(alignment, a, b), SPATIAL_PREPOSITIONS)
    if ours[-1] in CONTACT_PREPOSITIONS and not CONTACT_PREPOSITIONS.isdisjoint(theirs):
        return 0.0
    difference = 1 - best_agreement(ours[-1], theirs, is_reversed(alignment, a, words, b))
    return difference if difference > MIN_PLACE_DISAGREEMENT else 0.0


def relating_words(alignment: Alignment, a: int, b: int) -> list[str]:
    """Find the words that relate two entities of the target: of relations, or else prepositions."""
    target = alignment.target
    return list(target.relation_words[a].get(b, ())) or find_joining_words(alignment, a, b)


def find_joining_words(alignment: Alignment, a: int, b: int) -> list[str]:
    """Find the target's prepositions that are attached to both entities, lower-case."""
    tokens = find_joining_prepositions(alignment, a, b)
    return [alignment.target.tokens[i].text.lower() for i in tokens]


def keep_words(words: Iterable[str], among: frozenset[str]) -> list[str]:
    """Keep the words that are in a set, in order."""
    return [word for word in words if word in among]


def exchange_certainty(alignment: Alignment, a: int, words: list[str], b: int) -> float:
    """Certainty, 0 to 1, that the target says this of another entity than ``a``, the source not.

    "A dog lies on the table" where the target has a cat on it, and a dog elsewhere. Whoever has
    one part has others, too, so there the part is what both texts must name: "the man's hat" where
    the target has the woman's.
    """
    first = subject_is_part(words)
    shared = a if first else b
    here, most = alignment.find_counterpart(shared), 0.0
    if here is None:
        return 0.0
    for relation in alignment.target.relations_by_entity[shared]:
        theirs = relation.text.lower().split()
        theirs_first = subject_is_part(theirs)
        other, end = relation.subject, relation.object
        if theirs_first:
            other, end = end, other
        if end != shared or other in (a, b) or (first is None) != (theirs_first is None):
            continue
        there = alignment.find_counterpart(other)
        if there is None or not say_the_same(words, theirs):
            continue
        if not states_relation(alignment.source, there, words, here):
            most = max(most, 1 - alignment.uncertainty(there))
    return most


def states_relation(index: DescriptionIndex, entity: int, words: list[str], other: int) -> bool:
    """Return True if a description relates two entities by words that mean much the same."""
    for relation in index.relations_by_entity[entity]:
        is_between = other in (relation.subject, relation.object)
        if is_between and say_the_same(words, relation.text.lower().split()):
            return True
    return False


def subject_is_part(words: Iterable[str]) -> bool | None:
    """Return True if a relation's subject is part of its object, False if it has it, else None."""
    having = HAVING.intersection(words)
    if not having:
        return None
    return bool(having & {"of", "part"})


def best_relation_match(
    alignment: Alignment, firsts: Candidates, words: list[str], seconds: Candidates
) -> float:
    """Agreement of a relation with what joins its ends, the highest over pairs of candidates."""
    best = 0.0
    for (a, p), (b, q) in product(firsts, seconds):
        if p * q > MIN_PAIR_CERTAINTY:
            best = max(best, p * q * relation_match(alignment, a, words, b))
    return best


def relation_match(alignment: Alignment, a: int, words: list[str], b: int) -> float:
    """Agreement of a relation with what joins two entities of the target, 0 to 1."""
    target = alignment.target
    reverse = is_reversed(alignment, a, words, b)
    if a == b:
        link = SAME_ENTITY_LINK
    elif b in target.relation_words[a]:
        link = REVERSED_LINK if reverse else 1.0
    else:
        attachments = target.attachments_to(a)
        link = max((attachments.get(token, 0.0) for token in target.mentions[b]), default=0.0)
    prepositions = keep_words(words, PREPOSITIONS)
    values = [preposition_value(alignment, a, word, b, reverse) for word in prepositions]
    if values and not any(values):
        return EXCLUDED_MATCH  # what lies under a box does not lie on it
    factor = REVERSED_VERB_FACTOR if reverse else 1.0
    for verb in find_verbs(alignment.source, words):
        values.append(factor * verb_value(alignment, a, verb, b))
    agreement_of_words = mean_or(WORDLESS_MATCH, values)
    # Half for being joined at all, half for the words, which count less between unlinked entities.
    return 0.5 * link + 0.5 * agreement_of_words * (0.4 + 0.6 * link)


def is_reversed(alignment: Alignment, a: int, words: list[str], b: int) -> bool:
    """Return True if the target joins the two only in the opposite direction.

    A passive ("held by") reverses a verb; a place ("stands by") has no direction.
    """
    theirs = alignment.target.relation_words[a].get(b)
    if not theirs:
        return False
    passive = "by" in words and not alignment.source.passive_verbs.isdisjoint(words)
    theirs_is = "by" in theirs and not alignment.target.passive_verbs.isdisjoint(theirs)
    if ("by" in words and not passive) or ("by" in theirs and not theirs_is):
        return False
    if passive != theirs_is:
        a, b = b, a
    return (a, b) not in alignment.target.directions


def preposition_value(alignment: Alignment, a: int, word: str, b: int, reverse: bool) -> float:
    """Agreement of a preposition with the closest one that joins the two entities."""
    theirs = keep_words(relating_words(alignment, a, b), PREPOSITIONS)
    return best_agreement(word, theirs, reverse) if theirs else NO_PREPOSITION_AGREEMENT


def find_joining_prepositions(alignment: Alignment, a: int, b: int) -> list[int]:
    """Find the tokens of the target's prepositions that are attached to both entities."""
    target = alignment.target
    here, there = target.attachments_to(a), target.attachments_to(b)
    joining = []
    for token, weight in here.items():
        is_shared = min(weight, there.get(token, 0.0)) > MIN_SHARED_ATTACHMENT
        if is_shared and target.tokens[token].pos == "ADP":
            joining.append(token)
    return joining


def verb_value(alignment: Alignment, a: int, verb: Term, b: int) -> float:
    """Strength, 0 to 1, with which a verb is said of both entities."""
    best = 0.0
    for other, alike in alignment.words(verb).items():
        attachments = alignment.target.attachments_by_term[other]
        best = max(best, alike * (attachments.get(a, 0.0) + attachments.get(b, 0.0)) / 2)
    return best


def find_verbs(index: DescriptionIndex, words: Iterable[str]) -> list[Term]:
    """Find verbs and adverbs of a relation: words but for prepositions and function words."""
    verbs = []
    for word in words:
        if word not in PREPOSITIONS and word not in FUNCTION_WORDS:
            verbs.append(index.by_word.get(word, (word, "v")))
    return verbs


def verb_support(alignment: Alignment, words: list[str], a: int, b: int) -> float:
    """Mean strength with which a relation's verbs are said of either entity; 0 without a verb."""
    support = []
    for verb in find_verbs(alignment.source, words):
        support.append(max(alignment.term_support(verb, a), alignment.term_support(verb, b)))
    return mean_or(0.0, support)


def mean_or(default: float, values: Sequence[float]) -> float:
    """Return the mean of some values, or a default if there are none."""
    return fsum(values) / len(values) if values else default


def prepositions_exclude(alignment: Alignment, a: int, words: list[str], b: int) -> bool:
    """Return True if all prepositions that join the two contradict all of the relation's."""
    theirs = set(alignment.target.relation_words[a].get(b, ())) & PREPOSITIONS
    ours = set(words) & PREPOSITIONS
    return bool(theirs and ours) and not any(starmap(preposition_agreement, product(ours, theirs)))


def verbs_conflict(alignment: Alignment, a: int, words: list[str], b: int) -> bool:
    """Return True if a verb that joins the two contradicts the relation's: opens, closes."""
    ours = find_verbs(alignment.source, words)
    theirs = find_verbs(alignment.target, alignment.target.relation_words[a].get(b, ()))
    return any(starmap(conflict, product(ours, theirs)))


def say_the_same(words: Iterable[str], others: Iterable[str]) -> bool:
    """Return True if two relations have a pair of words that mean much the same."""
    if HAVING.intersection(words) and HAVING.intersection(others):
        return True
    for a in words:
        for b in others:
            prepositions = (a in PREPOSITIONS) + (b in PREPOSITIONS)
            if prepositions == 2 and preposition_agreement(a, b) > MIN_SAME_PREPOSITION_AGREEMENT:
                return True
            if prepositions == 0 and likeness((a, "v"), (b, "v")) > MIN_SAME_VERB_SIMILARITY:
                return True
    return False


def place_value(alignment: Alignment, place: int, term: Term) -> float:
    """Share of the entities at a place that the target puts there, 0 to 1.

    "The left" says nothing by itself. It is confirmed if the target puts the entities that stand
    there on the same side, and contradicted if it puts them on the other.
    """
    against = [other for other in alignment.target.places if conflict(term, other)]
    alike = alignment.words(term).items()
    same = [other for other, similarity in alike if similarity >= MIN_SAME_PLACE_SIMILARITY]
    attachments = alignment.target.attachments_by_term

    def best_attachment(entity: int, terms: list[Term]) -> float:
        return max((attachments[each].get(entity, 0.0) for each in terms), default=0.0)

    here = there = 0.0
    for entity, weight in find_entities_at(alignment, place):
        for likeliest, _ in alignment.candidates(entity)[:1]:
            certainty = weight * (1 - alignment.uncertainty(entity))
            here += certainty * best_attachment(likeliest, same)
            there += certainty * best_attachment(likeliest, against)
    if not here and not there:
        return UNKNOWN_PLACE_VALUE
    return OPPOSITE_PLACE_VALUE + (1 - OPPOSITE_PLACE_VALUE) * here / (here + there)


def find_entities_at(alignment: Alignment, place: int) -> list[tuple[int, float]]:
    """Find the entities of the source at a place, with their attachment to it."""
    source = alignment.source
    weights: dict[int, float] = {}
    for token in source.mentions[place]:
        for entity, weight in source.attachments_by_token.get(token, {}).items():
            if entity != place and weight >= max(MIN_PLACE_ATTACHMENT, weights.get(entity, 0.0)):
                weights[entity] = weight
    return sorted(weights.items())
