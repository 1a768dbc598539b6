"""Facts about relations and places: does the target join two things, and in the same way?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

from posh_reward.embedded.english.likeness import conflict, likeness
from posh_reward.embedded.english.meaning import Term
from posh_reward.embedded.english.word_classes import (
    HAVING,
    PREPOSITIONS,
    agreement,
    converse,
    words_of,
)
from posh_reward.embedded.judge.alignment import Matching
from posh_reward.embedded.judge.index import Reading
from posh_reward.embedded.judge.negation import WITHOUT
from posh_reward.words import FUNCTION_WORDS

ONE_THING = 0.5  # link if both ends correspond to the same thing of the target
TURNED = 0.7  # link if the target joins the two only in the opposite direction
JOINED = 0.5  # minimum match for the target to join the two
POSSIBLE = 0.35  # minimum product of the certainties of two players
EXCLUDED = 0.1  # match if the target's own prepositions rule the relation out
BARE = 0.7  # match of a relation without a word to compare
UNHEARD = 0.4  # agreement of a preposition if the target joins the two by none
CONVERSE = 0.3  # factor on a verb's value if the target swaps its subject and object
ATTACHMENT = 0.4  # minimum attachment of a preposition to both things that it joins
SAID = 0.75  # match above which the target joins the two in the same way
SPATIAL = PREPOSITIONS - frozenset(
    "of with by for to from as part having wearing at close out off after before along".split()
)
"""Prepositions of place, which exclude each other."""
TOUCHING = frozenset("on in against into onto upon inside within across".split())
"""Those of which two are often true: pearls on her palm, or in it."""
UNLIKE = 0.5  # minimum disagreement of prepositions that are no paraphrases of each other
SAME_VERB = 0.5  # minimum similarity of verbs that say the same
SAME_PREPOSITION = 0.8  # minimum agreement of prepositions that say the same
OPEN = 0.5  # value of a place if none of the things there is found
SAME_PLACE = 0.7  # minimum similarity of words for the same place
AT_PLACE = 0.6  # minimum attachment to a place of a thing that stands there
HARDLY = 0.27  # value of a place if the target puts its things on the other side

Facts = dict[str, float]
"""Names and values of what is known about an element; missing facts are 0."""
Players = Sequence[tuple[int, float]]  # (thing of the target, certainty), the likeliest first


def relation_facts(matching: Matching, subject: int, text: str, other: int) -> Facts:
    """Facts about a relation of two things."""
    words = ["with" if word in WITHOUT else word for word in words_of(text)]
    # A few candidates for each end: the likeliest thing may not be in any relation, and pronouns
    # may stand for it.
    firsts, seconds = matching.players(subject), matching.players(other)
    best = best_match(matching, firsts, words, seconds)
    facts = {"as_such": best}
    if not (firsts and seconds):
        return facts
    a, b = firsts[0][0], seconds[0][0]
    known = (1 - matching.doubt(subject)) * (1 - matching.doubt(other))
    facts["verb_said"] = verb_support(matching, words, a, b)
    facts["other_verb"] = known * other_verb(matching, a, words, b)
    facts["other_preposition"] = known * other_place(matching, a, words, b)
    if best < SAID:
        facts["exchanged"] = known * exchanged(matching, a, words, b)
    # Facts against a relation need certainty about both ends: only the same two things can
    # contradict who holds what.
    if known == 1:
        theirs = matching.target.partners[a].get(b, {})
        turned = is_turned(matching, a, words, b) and say_the_same(words, theirs)
        facts["turned_round"] = float(
            turned and part_comes_first(words) == part_comes_first(theirs)
        )
        facts["opposed"] = float(opposes(matching, a, words, b))
        if best < JOINED:
            facts["excluded"] = float(excludes(matching, a, words, b))
    return facts


def other_verb(matching: Matching, a: int, words: list[str], b: int) -> float:
    """Difference, 0 to 1, of a relation's verbs from those that join the two in the target."""
    ours = [verb for verb in verbs_in(matching.source, words) if verb[1] == "v"]
    between = verbs_in(matching.target, matching.target.partners[a].get(b, ()))
    theirs = [verb for verb in between if verb[1] == "v"]
    return 1 - max((likeness(x, y) for x in ours for y in theirs), default=1.0)


def other_place(matching: Matching, a: int, words: list[str], b: int) -> float:
    """Disagreement, 0 to 1, of a relation's place with the one that the target gives: under, on.

    Only of prepositions of place; the last one counts, since the release joins all those of a verb
    ("rides up near" the bicycle).
    """
    ours = [word for word in words if word in SPATIAL]
    theirs = [word for word in related(matching, a, b) if word in SPATIAL]
    if not (ours and theirs):
        return 0.0
    agree = converse if is_turned(matching, a, words, b) else agreement
    return 1 - max(agree(ours[-1], other) for other in theirs)


def misplaced(matching: Matching, subject: int, text: str, other: int) -> float:
    """Disagreement of a relation's place with one that the target states of the same two things.

    Stricter than ``other_place``, for long texts: both things are certain, the target relates them
    by a place, and nothing attached to both allows the other one. "The bucket stands on the anvil"
    where the target's bucket "stands beside the anvil".
    """
    firsts, seconds = matching.players(subject), matching.players(other)
    if not (firsts and seconds) or matching.doubt(subject) or matching.doubt(other):
        return 0.0
    words, a, b = words_of(text), firsts[0][0], seconds[0][0]
    ours = [word for word in words if word in SPATIAL]
    theirs = [word for word in matching.target.partners[a].get(b, ()) if word in SPATIAL]
    if a == b or not (ours and theirs):
        return 0.0
    near = (matching.target.tokens[i].text.lower() for i in between(matching, a, b))
    theirs += [word for word in near if word in SPATIAL]
    if ours[-1] in TOUCHING and not TOUCHING.isdisjoint(theirs):
        return 0.0
    agree = converse if is_turned(matching, a, words, b) else agreement
    difference = 1 - max(agree(ours[-1], place) for place in theirs)
    return difference if difference > UNLIKE else 0.0


def related(matching: Matching, a: int, b: int) -> list[str]:
    """Words that relate two things of the target: of their relations, or else prepositions."""
    target = matching.target
    return list(target.partners[a].get(b, ())) or [
        target.tokens[i].text.lower() for i in between(matching, a, b)
    ]


def exchanged(matching: Matching, a: int, words: list[str], b: int) -> float:
    """Certainty, 0 to 1, that the target says this of another thing than ``a``, the source not.

    "A dog lies on the table" where the target has a cat on it, and a dog elsewhere. Whoever has
    one part has others, too, so there the part is what both texts must name: "the man's hat" where
    the target has the woman's.
    """
    first = part_comes_first(words)
    shared = a if first else b
    here, most = matching.counterpart(shared), 0.0
    for relation in matching.target.relations_of[shared] if here is not None else ():
        theirs = relation.text.lower().split()
        theirs_first = part_comes_first(theirs)
        ends = relation.object, relation.subject
        other, end = ends if theirs_first else ends[::-1]
        if end != shared or other in (a, b) or (first is None) != (theirs_first is None):
            continue
        there = matching.counterpart(other)
        if there is not None and say_the_same(words, theirs):
            said = any(
                say_the_same(words, r.text.lower().split())
                for r in matching.source.relations_of[there]
                if here in (r.subject, r.object)
            )
            most = max(most, 0.0 if said else 1 - matching.doubt(there))
    return most


def part_comes_first(words: Iterable[str]) -> bool | None:
    """Return True if a relation's subject is part of its object, False if it has it, else None."""
    having = HAVING.intersection(words)
    return bool(having & {"of", "part"}) if having else None


def best_match(matching: Matching, firsts: Players, words: list[str], seconds: Players) -> float:
    """Agreement of a relation with what joins its ends, the highest over all pairs of players."""
    likely = [(a, b, p * q) for a, p in firsts for b, q in seconds if p * q > POSSIBLE]
    return max((sure * match(matching, a, words, b) for a, b, sure in likely), default=0.0)


def match(matching: Matching, a: int, words: list[str], b: int) -> float:
    """Agreement of a relation with what joins two things of the target, 0 to 1."""
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
        return EXCLUDED  # what lies under a box does not lie on it
    verbs = verbs_in(matching.source, words)
    values = prepositions + [
        verb_value(matching, a, verb, b) * (CONVERSE if reverse else 1.0) for verb in verbs
    ]
    said = fsum(values) / len(values) if values else BARE
    # Half for being joined at all, half for the words, which count less between unlinked things.
    return 0.5 * link + 0.5 * said * (0.4 + 0.6 * link)


def is_turned(matching: Matching, a: int, words: list[str], b: int) -> bool:
    """Return True if the target joins the two only in the opposite direction.

    A passive ("held by") reverses a verb; a place ("stands by") has no direction.
    """
    theirs = matching.target.partners[a].get(b)
    if not theirs:
        return False
    passive = "by" in words and not matching.source.passives.isdisjoint(words)
    theirs_is = "by" in theirs and not matching.target.passives.isdisjoint(theirs)
    if ("by" in words and not passive) or ("by" in theirs and not theirs_is):
        return False
    return ((b, a) if passive != theirs_is else (a, b)) not in matching.target.directions


def preposition_value(matching: Matching, a: int, word: str, b: int, reverse: bool) -> float:
    """Agreement of a preposition with the closest one that joins the two things."""
    near = related(matching, a, b)
    # "A above B" confirms "B below A", not "B above A".
    agree = converse if reverse else agreement
    return max((agree(word, other) for other in near if other in PREPOSITIONS), default=UNHEARD)


def between(matching: Matching, a: int, b: int) -> list[int]:
    """Tokens of the target's prepositions that are attached to both things."""
    target = matching.target
    here, there = target.attachments(a), target.attachments(b)
    return [
        i
        for i, weight in here.items()
        if weight > ATTACHMENT and there.get(i, 0.0) > ATTACHMENT and target.tokens[i].pos == "ADP"
    ]


def verb_value(matching: Matching, a: int, verb: Term, b: int) -> float:
    """Strength, 0 to 1, with which a verb is said of both things."""
    said_of = matching.target.said_of
    return max(
        (
            alike * (said_of[other].get(a, 0.0) + said_of[other].get(b, 0.0)) / 2
            for other, alike in matching.words(verb).items()
        ),
        default=0.0,
    )


def verbs_in(reading: Reading, words: Iterable[str]) -> list[Term]:
    """Verbs and adverbs of a relation: its words but for prepositions and function words."""
    return [
        reading.by_word.get(word, (word, "v"))
        for word in words
        if word not in PREPOSITIONS and word not in FUNCTION_WORDS
    ]


def verb_support(matching: Matching, words: list[str], a: int, b: int) -> float:
    """Mean strength with which a relation's verbs are said of either thing; 0 without a verb."""
    verbs = verbs_in(matching.source, words)
    support = [max(matching.support(verb, a), matching.support(verb, b)) for verb in verbs]
    return fsum(support) / len(support) if support else 0.0


def excludes(matching: Matching, a: int, words: list[str], b: int) -> bool:
    """Return True if all prepositions that join the two contradict all of the relation's."""
    theirs = set(matching.target.partners[a].get(b, ())) & PREPOSITIONS
    ours = set(words) & PREPOSITIONS
    return bool(theirs and ours) and not any(agreement(x, y) for x in ours for y in theirs)


def opposes(matching: Matching, a: int, words: list[str], b: int) -> bool:
    """Return True if a verb that joins the two contradicts the relation's: opens, closes."""
    ours = verbs_in(matching.source, words)
    theirs = verbs_in(matching.target, matching.target.partners[a].get(b, ()))
    return any(conflict(x, y) for x in ours for y in theirs)


def say_the_same(words: Iterable[str], others: Iterable[str]) -> bool:
    """Return True if two relations have a pair of words that mean much the same."""
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
    """Share of the things at a place that the target puts there, 0 to 1.

    "The left" says nothing by itself. It is confirmed if the target puts the things that stand
    there on the same side, and contradicted if it puts them on the other.
    """
    against = [other for other in matching.target.places if conflict(term, other)]
    same = [o for o, alike in matching.words(term).items() if alike >= SAME_PLACE]
    said_of = matching.target.said_of
    here = there = 0.0
    for thing, weight in standing_at(matching, entity):
        for other, _ in matching.cast(thing)[:1]:
            sure = weight * (1 - matching.doubt(thing))
            here += sure * max((said_of[o].get(other, 0.0) for o in same), default=0.0)
            there += sure * max((said_of[o].get(other, 0.0) for o in against), default=0.0)
    if not here and not there:
        return OPEN
    return HARDLY + (1 - HARDLY) * here / (here + there)


def standing_at(matching: Matching, place: int) -> list[tuple[int, float]]:
    """Things of the source at a place, with their attachment to it."""
    source = matching.source
    weights: dict[int, float] = {}
    for token in source.mentions[place]:
        for thing, weight in source.holders.get(token, {}).items():
            if thing != place and weight >= max(AT_PLACE, weights.get(thing, 0.0)):
                weights[thing] = weight
    return sorted(weights.items())
