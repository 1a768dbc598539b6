"""Relations: whether the target joins the two things that correspond, and in the same way."""

from __future__ import annotations

from collections.abc import Sequence

from posh_reward.judge.embedded.likeness import conflict, likeness
from posh_reward.judge.embedded.matching import Matching
from posh_reward.judge.embedded.prepositions import PREPOSITIONS, agreement, converse
from posh_reward.judge.embedded.words import FUNCTION_WORDS, HAVING, stands_in, words_of

ONE_THING = 0.5
"""Link where both ends correspond to the same thing of the target."""
TURNED = 0.7
"""Link where the target joins the two only the other way round."""
JOINED = 0.5
"""From here on the target joins the two."""
RIVALLED = 0.3
"""What is left of a value where another stands in the thing's place."""
UNSTATED = 0.35
"""Least value of a relation that the target does not contradict: paraphrases join differently."""
LIKELY = 0.6
"""Value of a relation that is not stated, though both ends and the verb are surely there."""
TAKEN_FOR_GRANTED = 0.75
"""The same for one that goes without saying."""
EXCLUDED = 0.1
"""Value where what the target says of the two rules the relation out."""
WELL_FOUND = 0.7
"""Score of a correspondence that leaves no doubt."""
UNDONE = 0.5
"""What stands in for the presence of a verb where a relation has none."""
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


def relation_value(matching: Matching, subject: int, text: str, other: int) -> float:
    """Whether the target joins the corresponding things in this way, 0 to 1."""
    words = words_of(text)
    firsts, seconds = matching.players(subject), matching.players(other)
    best = max(
        (
            p * q * joined(matching, a, words, b)
            for a, p in firsts
            for b, q in seconds
            if p * q > UNSTATED
        ),
        default=0.0,
    )
    if best >= JOINED:
        return best
    doubtful = matching.doubt(subject) or matching.doubt(other)
    if not doubtful and excluded(matching, firsts[0][0], words, seconds[0][0]):
        return EXCLUDED
    if not doubtful and (
        rivalled(matching, firsts, words, seconds) or rivalled(matching, seconds, words, firsts)
    ):
        return best * RIVALLED
    if firsts and seconds and matching.target.partners[firsts[0][0]].get(seconds[0][0]):
        return max(best, UNSTATED)
    most = TAKEN_FOR_GRANTED if goes_without_saying(matching, subject, words, other) else LIKELY
    return UNSTATED + (most - UNSTATED) * plausible(matching, subject, words, other)


def goes_without_saying(matching: Matching, subject: int, words: list[str], other: int) -> bool:
    """Whether a relation is left unsaid once both ends are named.

    ``his hat``, where the target has a hat and nobody else's; ``we see``, in any picture.
    """
    entities = matching.source.graph.entities
    return words == ["part", "of"] or entities[subject].us or entities[other].us


def excluded(matching: Matching, a: int, words: list[str], b: int) -> bool:
    """Whether the target joins the two by prepositions that rule all of the relation's out."""
    stated = set(matching.target.partners[a].get(b, ())) & PREPOSITIONS
    claimed = set(words) & PREPOSITIONS
    return bool(stated and claimed) and not any(agreement(x, y) for x in claimed for y in stated)


def plausible(matching: Matching, subject: int, words: list[str], other: int) -> float:
    """How much speaks for a relation that the target does not state as such: 0 to 1.

    Paraphrases join things differently, but they name both, and say what is done.
    """
    entities = matching.source.graph.entities
    scores = [matching.best_score(end) for end in (subject, other) if not entities[end].us]
    ends = min(1.0, min(scores, default=0.0) / WELL_FOUND)
    if goes_without_saying(matching, subject, words, other):
        return ends
    verbs = [word for word in words if word not in PREPOSITIONS and word not in FUNCTION_WORDS]
    terms = [matching.source.by_word.get(verb, (verb, "v")) for verb in verbs]
    done = sum(map(matching.anywhere, terms)) / len(terms) if terms else UNDONE
    return (ends + done) / 2


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


def say_the_same(words: list[str], others: list[str]) -> bool:
    """Whether the words of two relations say much the same."""
    if HAVING & set(words) and HAVING & set(others):
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
    stated = target.partners[a].get(b, [])
    # "held by" turns a verb round; without it, the target says the converse.
    turned = bool(stated) and (a, b) not in target.directed and "by" not in [*words, *stated]
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
    hold = matching.target.hold
    term = matching.source.by_word.get(word, (word, "v"))
    return max(
        (
            alike * (hold(a, i) + hold(b, i)) / 2
            for other, alike in matching.words(term).items()
            for i in matching.target.places[other]
        ),
        default=0.0,
    )
