"""Facts about relations and places: does the target join two things, and in the same way?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum
from typing import NamedTuple

from posh_reward.lexicon.function_words import (
    FUNCTION_WORDS,
    HAVING,
    PREPOSITIONS,
    agreement,
    converse,
    stands_in,
    words_of,
)
from posh_reward.lexicon.likeness import conflict, likeness
from posh_reward.lexicon.meaning import Term, dictionary_forms
from posh_reward.metrics.posh.judges.embedded.matching import Matching
from posh_reward.metrics.posh.judges.embedded.negation import WITHOUT
from posh_reward.metrics.posh.judges.embedded.reading import Reading
from posh_reward.types import PART_OF

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
LIGHT_VERBS = frozenset("have use do make get be show include contain display depict".split())
"""Verbs that say so little that no text need repeat them."""
SAME_VERB = 0.5  # minimum similarity of verbs that say the same
SAME_PREPOSITION = 0.8  # minimum agreement of prepositions that say the same
OPEN = 0.5  # value of a place if none of the things there is found
SAME_PLACE = 0.7  # minimum similarity of words for the same place
AT_PLACE = 0.6  # minimum attachment to a place of a thing that stands there
HARDLY = 0.27  # value of a place if the target puts its things on the other side

Facts = dict[str, float]
"""Names and values of what is known about an element; missing facts are 0."""
Players = Sequence[tuple[int, float]]  # (thing of the target, certainty), the likeliest first


class Joint(NamedTuple):
    """Connection of two things in the target, compared with a relation."""

    link: float  # attachment of the two, whatever joins them, 0 to 1
    match: float  # agreement with the relation's words, 0 to 1


def relation_facts(matching: Matching, subject: int, text: str, other: int) -> Facts:
    """Facts about a relation of two things."""
    words = ["with" if word in WITHOUT else word for word in words_of(text)]
    # A few candidates for each end: the likeliest thing may not be in any relation, and pronouns
    # may stand for it.
    firsts, seconds = matching.players(subject), matching.players(other)
    best = joint(matching, firsts, words, seconds)
    known = (1 - matching.doubt(subject)) * (1 - matching.doubt(other))
    facts = {
        "as_such": best.match,
        "verbless": float(not verbs_in(matching.source, words)),
        "part_of": float(text == PART_OF),
    }
    if not (firsts and seconds):
        return facts
    a, b = firsts[0][0], seconds[0][0]
    facts["verb_said"] = verb_support(matching, words, a, b)
    facts.update(role_facts(matching, subject, text, other, known))
    theirs = matching.target.partners[a].get(b, {})
    facts["other_preposition"] = known * other_place(matching, a, words, b)
    if best.match < SAID:
        facts["exchanged"] = known * is_exchanged(matching, a, words, b)
    # Facts against a relation need certainty about both ends: only the same two things can
    # contradict who holds what.
    if not (matching.doubt(subject) or matching.doubt(other)):
        turned = is_turned(matching, a, words, b) and say_the_same(words, theirs)
        facts["turned_round"] = float(turned)
        facts["opposed"] = float(opposes(matching, a, words, b))
        if best.match < JOINED:
            facts["excluded"] = float(excludes(matching, a, words, b))
            facts["rivalled"] = float(
                has_rival(matching, firsts, words, seconds)
                or has_rival(matching, seconds, words, firsts)
            )
    return facts


def role_facts(
    matching: Matching, subject: int, text: str, other: int | None, known: float = 1.0
) -> Facts:
    """Facts about who does what to whom; none without a verb.

    Each is the mean over the verbs. ``known`` scales what is doubtful only if the target has both
    ends.
    """
    source, target = matching.source, matching.target
    verbs = [verb for verb in verbs_in(source, words_of(text)) if verb[1] == "v"]
    facts = dict.fromkeys(ROLES, 0.0)
    for verb in verbs:
        doer, done_to = source.roles(verb[0], subject, other, text)
        doers = dict(matching.players(doer)) if doer is not None else {}
        done = dict(matching.players(done_to)) if done_to is not None else {}
        alike = matching.words(verb)
        held = crossed = said = taken = 0.0
        for like, deed in (
            (like, deed)
            for other, like in alike.items()
            if like >= SAME_VERB
            for deed in target.deeds.get(other, ())
        ):
            said = max(said, like)
            fits = [
                ends.get(end, 0.0)
                for ends, end in ((doers, deed.doer), (done, deed.done_to))
                if ends and end is not None
            ]
            held = max(held, like * sum(fits) / len(fits) if fits else 0.0)
            taken = max(taken, like * (1 - min(fits)) if fits else 0.0)
            swapped = max(
                done.get(deed.doer, 0.0) if deed.doer is not None else 0.0,
                doers.get(deed.done_to, 0.0) if deed.done_to is not None else 0.0,
            )
            crossed = max(crossed, like * swapped)
        for name, value in (
            ("role_held", held),
            ("role_crossed", max(0.0, crossed - held)),
            ("role_taken", known * max(0.0, taken - held)),
            ("verb_unsaid", known * (1 - said) * (not is_light(verb))),
        ):
            facts[name] += value / len(verbs)
    return facts


def is_light(verb: Term) -> bool:
    """Return True for a verb that hardly says anything: has, uses."""
    return not LIGHT_VERBS.isdisjoint(dictionary_forms(verb[0]))


ROLES = ("role_held", "role_crossed", "role_taken", "verb_unsaid")


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


def related(matching: Matching, a: int, b: int) -> list[str]:
    """Words that relate two things of the target: of their relations, or else prepositions."""
    target = matching.target
    return list(target.partners[a].get(b, ())) or [
        target.tokens[i].text.lower() for i in between(matching, a, b)
    ]


def is_exchanged(matching: Matching, a: int, words: list[str], b: int) -> bool:
    """Return True if the target says this of another pair, of which the source does not say it.

    "A sunflower in a vase on a table" for "a vase on a table with a sunflower": the target has the
    vase on the table, and the source knows the vase, too.
    """
    for relation in matching.target.relations_at(a, b):
        ends = relation.subject, relation.object
        first, second = (matching.counterpart(end) for end in ends)
        if first is None or second is None or ends == (a, b):
            continue
        if say_the_same(words, words_of(relation.text)) and not any(
            (r.subject, r.object) == (first, second) and say_the_same(words, words_of(r.text))
            for r in matching.source.relations_at(first, second)
        ):
            return True
    return False


def joint(matching: Matching, firsts: Players, words: list[str], seconds: Players) -> Joint:
    """Link and match of a relation's ends, each the highest over all pairs of players."""
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
    verbs = verbs_in(matching.source, words)
    values = prepositions + [
        verb_value(matching, a, verb, b) * (CONVERSE if reverse else 1.0) for verb in verbs
    ]
    match = fsum(values) / len(values) if values else BARE
    # Half for being joined at all, half for the words, which count less between unlinked things.
    return Joint(link, 0.5 * link + 0.5 * match * (0.4 + 0.6 * link))


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


def has_rival(matching: Matching, ends: Players, words: list[str], others: Players) -> bool:
    """Return True if the target relates ``others`` to a rival: Mary's shoulders, the angel's."""
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
    """Return True if two things are persons, or have the same or excluding names: left, right."""
    heads = matching.target.heads
    if stands_in(heads[a]) or stands_in(heads[b]):
        return False
    persons = matching.target.genders[a] and matching.target.genders[b]
    alike = any(x[0] == y[0] or conflict(x, y) for x in heads[a] for y in heads[b])
    return alike or bool(persons)


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
