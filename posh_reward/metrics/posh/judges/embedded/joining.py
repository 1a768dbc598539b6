"""Relations and places: are two corresponding things joined in the target, and in the same way?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from posh_reward.lexicon.function_words import (
    FUNCTION_WORDS,
    HAVING,
    PREPOSITIONS,
    agreement,
    converse,
    stands_in,
)
from posh_reward.lexicon.likeness import conflict, likeness
from posh_reward.lexicon.meaning import Term
from posh_reward.metrics.posh.judges.embedded.matching import Matching

ONE_THING = 0.5  # link where both ends correspond to the same thing of the target
TURNED = 0.7  # link where the target joins the two only the other way round
JOINED = 0.5  # from here on the target joins the two
POSSIBLE = 0.35  # least sureness of two players together
EXCLUDED = 0.1  # value where the target's own prepositions rule the relation out
BARE = 0.7  # match of a relation that has no word to compare
UNHEARD = 0.4  # agreement of a preposition with none
CONVERSE = 0.3  # share of a verb's value where the target has its subject and object changed round
ATTACHMENT = 0.4  # attachment to both things from which on a preposition may join them
SAME_VERB = 0.5  # likeness from which on two verbs say the same
SAME_PREPOSITION = 0.8  # agreement from which on two prepositions say the same
OPEN = 0.5  # value of a place where nothing that stands there can be found
SAME_PLACE = 0.7  # likeness of words for the same place
AT_PLACE = 0.6  # attachment to a place from which on a thing stands there
HARDLY = 0.27  # value of a place where the target puts its things on the other side

Players = Sequence[tuple[int, float]]  # (Thing of the target, sureness), the likeliest first


class Joint(NamedTuple):
    """The best that the target says of any two things that may be a relation's ends."""

    link: float  # attachment of the two, whatever joins them, 0 to 1
    match: float  # agreement with the relation's words, 0 to 1


def joint(matching: Matching, firsts: Players, words: list[str], seconds: Players) -> Joint:
    """Link and match of the likeliest things, each the best over all players."""
    links, matches = [0.0], [0.0]
    for a, p in firsts:
        for b, q in seconds:
            if p * q > POSSIBLE:
                link, match = link_between(matching, a, words, b)
                links.append(p * q * link)
                matches.append(p * q * match)
    return Joint(max(links), max(matches))


def link_between(matching: Matching, a: int, words: list[str], b: int) -> Joint:
    """Link of two things of the target, and its match with a relation's words."""
    target = matching.target
    reverse = is_turned(matching, a, words, b)
    if a == b:
        link = ONE_THING
    elif b in target.partners[a]:
        link = TURNED if reverse else 1.0
    else:
        attachments = target.attachments(a)
        link = max((attachments.get(token, 0.0) for token in target.mentions[b]), default=0.0)
    prepositions = [
        preposition_value(matching, a, word, b, reverse) for word in words if word in PREPOSITIONS
    ]
    if prepositions and not any(prepositions):
        return Joint(link, EXCLUDED)  # what lies under a box does not lie on it
    values = prepositions + [
        word_value(matching, a, word, b) * (CONVERSE if reverse else 1.0)
        for word in words
        if not says_little(word)
    ]
    match = sum(values) / len(values) if values else BARE
    # Half for being joined at all, half for the words; words count less between things apart.
    return Joint(link, 0.5 * link + 0.5 * match * (0.4 + 0.6 * link))


def is_turned(matching: Matching, a: int, words: list[str], b: int) -> bool:
    """True if the target joins the two the other way round; "held by" turns a verb round."""
    theirs = matching.target.partners[a].get(b)
    if not theirs or (a, b) in matching.target.directions:
        return False
    return "by" not in words and "by" not in theirs


def preposition_value(matching: Matching, a: int, word: str, b: int, reverse: bool) -> float:
    """Agreement of a preposition with the likeliest of those that join the two things."""
    near = matching.target.partners[a].get(b) or between(matching, a, b)
    # "A above B" confirms "B below A", not "B above A".
    agree = converse if reverse else agreement
    return max((agree(word, other) for other in near if other in PREPOSITIONS), default=UNHEARD)


def between(matching: Matching, a: int, b: int) -> list[str]:
    """Prepositions of the target that hang on both things."""
    target = matching.target
    here, there = target.attachments(a), target.attachments(b)
    return [
        target.tokens[i].text.lower()
        for i, weight in here.items()
        if weight > ATTACHMENT and there.get(i, 0.0) > ATTACHMENT and target.tokens[i].pos == "ADP"
    ]


def word_value(matching: Matching, a: int, word: str, b: int) -> float:
    """Support for a verb or adverb of both things, 0 to 1."""
    term = matching.source.by_word.get(word, (word, "v"))
    said_of = matching.target.said_of
    return max(
        (
            alike * (said_of[other].get(a, 0.0) + said_of[other].get(b, 0.0)) / 2
            for other, alike in matching.words(term).items()
        ),
        default=0.0,
    )


def says_little(word: str) -> bool:
    """True for prepositions and function words."""
    return word in PREPOSITIONS or word in FUNCTION_WORDS


def verb_support(matching: Matching, words: list[str], a: int, b: int) -> float:
    """Mean support for a relation's verbs of either of two things; 0 without a verb."""
    terms = [
        matching.source.by_word.get(word, (word, "v")) for word in words if not says_little(word)
    ]
    support = [max(matching.support(term, a), matching.support(term, b)) for term in terms]
    return sum(support) / len(support) if support else 0.0


def excludes(matching: Matching, a: int, words: list[str], b: int) -> bool:
    """True if the target joins the two by prepositions that rule all of the relation's out."""
    theirs = set(matching.target.partners[a].get(b, ())) & PREPOSITIONS
    ours = set(words) & PREPOSITIONS
    return bool(theirs and ours) and not any(agreement(x, y) for x in ours for y in theirs)


def opposes(matching: Matching, a: int, words: list[str], b: int) -> bool:
    """True if the target says the opposite of the two: opens, closes."""
    ours = [v for v in words if not says_little(v)]
    theirs = [v for v in matching.target.partners[a].get(b, ()) if not says_little(v)]
    return any(
        conflict(matching.source.by_word.get(x, (x, "v")), matching.target.by_word.get(y, (y, "v")))
        for x in ours
        for y in theirs
    )


def has_rival(matching: Matching, ends: Players, words: list[str], others: Players) -> bool:
    """True if another of its sort is at this end in the target: the angel's, Mary's shoulders."""
    possible = {thing for thing, _ in ends}
    end, other = ends[0][0], others[0][0]
    return any(
        partner not in possible
        and partner != other
        and same_sort(matching, end, partner)
        and say_the_same(words, theirs)
        for partner, theirs in matching.target.partners[other].items()
    )


def same_sort(matching: Matching, a: int, b: int) -> bool:
    """True if two things of the target differ only by who or where they are."""
    heads = matching.target.heads
    if stands_in(heads[a]) or stands_in(heads[b]):
        return False
    persons = matching.target.genders[a] and matching.target.genders[b]
    alike = any(x[0] == y[0] or conflict(x, y) for x in heads[a] for y in heads[b])
    return alike or bool(persons)


def say_the_same(words: Iterable[str], others: Iterable[str]) -> bool:
    """True if the words of two relations say much the same."""
    if HAVING.intersection(words) and HAVING.intersection(others):
        return True
    for a in words:
        for b in others:
            prepositions = (a in PREPOSITIONS) + (b in PREPOSITIONS)
            if prepositions == 2 and agreement(a, b) > SAME_PREPOSITION:
                return True
            if prepositions == 0 and likeness((a, "v"), (b, "v")) > SAME_VERB:
                return True
    return False


def place_value(matching: Matching, entity: int, term: Term) -> float:
    """Share of the things at a place that the target has there, 0 to 1.

    "The left" says nothing by itself. A side is confirmed if the target puts the things that stand
    there on the same side, and denied if it puts them on the other.
    """
    against = matching.contraries(term)
    same = [o for o, alike in matching.words(term).items() if alike >= SAME_PLACE]
    said_of = matching.target.said_of
    here = there = 0.0
    for thing, weight in standing_at(matching, entity):
        for other, sureness in matching.cast(thing)[:1]:
            sure = weight * sureness * (1 - matching.doubt(thing))
            here += sure * max((said_of[o].get(other, 0.0) for o in same), default=0.0)
            there += sure * max((said_of[o].get(other, 0.0) for o in against), default=0.0)
    if not here and not there:
        return OPEN
    return HARDLY + (1 - HARDLY) * here / (here + there)


def standing_at(matching: Matching, place: int) -> list[tuple[int, float]]:
    """Things of the source that hang on a place, with attachment."""
    source = matching.source
    weights: dict[int, float] = {}
    for token in source.mentions[place]:
        for thing, weight in source.holders.get(token, {}).items():
            if thing != place and weight >= max(AT_PLACE, weights.get(thing, 0.0)):
                weights[thing] = weight
    return sorted(weights.items())
