"""Places: "the left" says nothing by itself; what counts is what stands there.

A side is confirmed if the target puts the things that stand there on the same side, and denied
if it puts them on the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
from posh_reward.metrics.posh.judges.embedded.reading import BESIDE, SAME_SENTENCE

ONE_THING = 0.5
"""Link where both ends correspond to the same thing of the target."""
TURNED = 0.7
"""Link where the target joins the two only the other way round."""
JOINED = 0.5
"""From here on the target joins the two."""
POSSIBLE = 0.35
"""Two players together this sure or less are not looked at."""
EXCLUDED = 0.1
"""Value where what the target says of the two rules the relation out."""
BARE = 0.7
"""Match of a relation that has no word to compare."""
UNHEARD = 0.4
"""Agreement of a preposition with none."""
CONVERSE = 0.3
"""What is left of a verb's value where the target has its subject and object changed round."""
HELD = 0.4
"""Attachment to both things from which on a preposition may join them."""
SAME_VERB = 0.5
SAME_PREPOSITION = 0.8

Cast = Sequence[tuple[int, float]]
"""(Thing of the target, sureness), the likeliest first."""


def as_such(matching: Matching, firsts: Cast, words: list[str], seconds: Cast) -> float:
    """How well the relation is found between things that may correspond, 0 to 1."""
    return max(
        (
            p * q * joined(matching, a, words, b)
            for a, p in firsts
            for b, q in seconds
            if p * q > POSSIBLE
        ),
        default=0.0,
    )


def named_and_said(
    matching: Matching, subject: int, words: list[str], other: int
) -> tuple[float, float, float]:
    """How surely the target has a relation's verb anywhere (0 without one), subject and object.

    Paraphrases join things differently, but they name both, and say what is done.
    """
    verbs = [word for word in words if not says_little(word)]
    terms = [matching.source.by_word.get(verb, (verb, "v")) for verb in verbs]
    entities = matching.source.graph.entities
    first, second = (
        1.0 if entities[end].us else matching.best_score(end) for end in (subject, other)
    )
    return sum(map(matching.anywhere, terms)) / len(terms) if terms else 0.0, first, second


def excluded(matching: Matching, a: int, words: list[str], b: int) -> bool:
    """Whether the target joins the two by prepositions that rule all of the relation's out."""
    stated = set(matching.target.partners[a].get(b, ())) & PREPOSITIONS
    claimed = set(words) & PREPOSITIONS
    return bool(stated and claimed) and not any(agreement(x, y) for x in claimed for y in stated)


def opposed(matching: Matching, a: int, words: list[str], b: int) -> bool:
    """Whether what the target says of the two is the opposite: opens, closes."""
    verbs = [v for v in words if not says_little(v)]
    stated = [v for v in matching.target.partners[a].get(b, ()) if not says_little(v)]
    return any(
        conflict(matching.source.by_word.get(x, (x, "v")), matching.target.by_word.get(y, (y, "v")))
        for x in verbs
        for y in stated
    )


def rivalled(matching: Matching, ends: Cast, words: list[str], others: Cast) -> bool:
    """Whether in the target something else of the same sort stands at this end.

    ``the angel's shoulders`` where the target has Mary's.
    """
    possible = {thing for thing, _ in ends}
    end, other = ends[0][0], others[0][0]
    return any(
        partner not in possible
        and partner != other
        and same_sort(matching, end, partner)
        and say_the_same(words, stated)
        for partner, stated in matching.target.partners[other].items()
    )


def same_sort(matching: Matching, a: int, b: int) -> bool:
    """Whether two things of the target are told apart only by who or where they are."""
    heads = matching.target.heads
    if stands_in(heads[a]) or stands_in(heads[b]):
        return False
    persons = matching.target.genders[a] and matching.target.genders[b]
    alike = any(x[0] == y[0] or conflict(x, y) for x in heads[a] for y in heads[b])
    return alike or bool(persons)


def say_the_same(words: Iterable[str], others: Iterable[str]) -> bool:
    """Whether the words of two relations say much the same."""
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


def joined(matching: Matching, a: int, words: list[str], b: int) -> float:
    """How well what joins two things of the target matches a relation's words, 0 to 1."""
    target = matching.target
    stated = target.partners[a].get(b, {})
    turned = is_turned(matching, a, words, b)
    if a == b:
        link = ONE_THING
    elif stated:
        link = TURNED if turned else 1.0
    else:
        link = max((target.hold(a, token) for token in target.mentions[b]), default=0.0)
    prepositions = [
        preposition_value(matching, a, word, b, turned) for word in words if word in PREPOSITIONS
    ]
    others = [
        word_value(matching, a, word, b) * (CONVERSE if turned else 1.0)
        for word in words
        if word not in PREPOSITIONS and word not in FUNCTION_WORDS
    ]
    values = prepositions + others
    if prepositions and not any(prepositions):
        return EXCLUDED  # what lies under a box does not lie on it
    match = sum(values) / len(values) if values else BARE
    return 0.5 * link + 0.5 * match * (0.4 + 0.6 * link)


def is_turned(matching: Matching, a: int, words: list[str], b: int) -> bool:
    """Whether the target joins the two, but the other way round.

    "Held by" turns a verb round; without it, the target says the converse.
    """
    stated = matching.target.partners[a].get(b)
    if not stated or (a, b) in matching.target.directed:
        return False
    return "by" not in words and "by" not in stated


def preposition_value(matching: Matching, a: int, word: str, b: int, turned: bool) -> float:
    """Agreement of a preposition with the likeliest of those that join the two things."""
    near = matching.target.partners[a].get(b) or between(matching, a, b)
    agree = converse if turned else agreement
    return max((agree(word, other) for other in near if other in PREPOSITIONS), default=UNHEARD)


def between(matching: Matching, a: int, b: int) -> list[str]:
    """Prepositions of the target that hang on both things."""
    here, there = matching.target.attached(a), matching.target.attached(b)
    return [
        matching.target.tokens[i].text.lower()
        for i, held in here.items()
        if held > HELD and there.get(i, 0.0) > HELD and matching.target.tokens[i].pos == "ADP"
    ]


def word_value(matching: Matching, a: int, word: str, b: int) -> float:
    """How well the target says a verb or adverb of both things."""
    term = matching.source.by_word.get(word, (word, "v"))
    return max(
        (
            alike * matching.target.hold_of_both(a, b, other)
            for other, alike in matching.words(term).items()
        ),
        default=0.0,
    )


def says_little(word: str) -> bool:
    """Whether a relation's word is a preposition or a function word."""
    return word in PREPOSITIONS or word in FUNCTION_WORDS


OPEN = 0.5
"""Value of a place of which nothing that stands there can be found."""
SAME_PLACE = 0.7
"""Likeness of words for the same place."""
SENTENCE = 0.05
"""What being in one sentence says: "To our right, ..." may hold for all of it."""
HARDLY = 0.27
"""Value of a place where the target puts its things on the other side."""


def place_value(matching: Matching, entity: int, term: Term) -> float:
    """Whether the target has the same things at a place, 0 to 1."""
    against = [other for other in matching.target.places if conflict(term, other)]
    same = [o for o, alike in matching.words(term).items() if alike >= SAME_PLACE]
    here = there = 0.0
    for thing, weight in standing_at(matching, entity):
        for other, sureness in matching.cast(thing)[:1]:
            sure = weight * sureness * (1 - matching.doubt(thing))
            said = matching.target.said_of
            here += sure * max((firm(said[o].get(other, 0.0)) for o in same), default=0.0)
            there += sure * max((firm(said[o].get(other, 0.0)) for o in against), default=0.0)
    if not here and not there:
        return OPEN
    return HARDLY + (1 - HARDLY) * here / (here + there)


def firm(attachment: float) -> float:
    """What an attachment says beyond being in the same sentence, which says a little."""
    return max(0.0, attachment - SAME_SENTENCE + SENTENCE)


def standing_at(matching: Matching, place: int) -> list[tuple[int, float]]:
    """Things of the source that hang on a place, with attachment."""
    source = matching.source
    tokens = source.mentions[place]
    found = []
    for thing in range(len(source.mentions)):
        if thing != place:
            held = source.attached(thing)
            weight = max((held.get(token, 0.0) for token in tokens), default=0.0)
            if weight >= BESIDE:
                found.append((thing, weight))
    return found
