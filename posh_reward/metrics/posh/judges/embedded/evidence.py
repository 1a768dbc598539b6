"""Facts for and against an answer, and their weights.

A fact is a number, mostly from 0 to 1; one that is left out is 0. A logistic regression for each
kind of question weighs them. Two rules stand above it: for things that are said not to be there,
and for things of another stuff. The weights are fitted by ``research/calibrate_judge.py``, which
prints the table; facts that can only speak for, or only against, have a bound that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import NamedTuple

from posh_reward.lexicon.function_words import (
    DEPICTION,
    FUNCTION_WORDS,
    PLACES,
    stands_in,
    words_of,
)
from posh_reward.lexicon.likeness import is_settled, number
from posh_reward.lexicon.meaning import Term, is_concrete
from posh_reward.metrics.posh.judges.embedded.joining import (
    JOINED,
    excludes,
    has_rival,
    is_turned,
    joint,
    opposes,
    place_value,
    say_the_same,
    says_little,
    verb_support,
)
from posh_reward.metrics.posh.judges.embedded.matching import Matching
from posh_reward.types import Kind, Question

Facts = dict[str, float]
Weights = Mapping[Kind, Mapping[str, float]]  # kind of question -> fact -> weight; bias first

VERBATIM = 0.999  # a likeness from which on two words are one
OF_THING = 0.25  # share of a namesake's fitness that rests on what is said of it
QUALIFIED = 0.5  # share of a namesake's fitness that rests on what the identifier says of it
MENTION = 0.5  # a likeness of names from which on a thing is mentioned
SUPPORT = 0.6  # support from which on a term is not denied
CLEAR = 0.8
"""A likeness of words from which on an attribute of another thing is the one that is asked for."""
SURE = 0.8  # sureness of a correspondence from which on a denial counts
DENIED = 0.03  # value of a thing that the target has of another stuff or colour
WITHOUT = 0.7
"""Value of a thing that is said not to be there ("no shoes"), where the target lacks it."""
WORDLESS = 0.5  # support for an attribute without a content word
PART_OF = "part of"
PICKING = frozenset("own other another same such certain".split())
"""Words that pick a thing out among several, and say nothing of it."""


def terms_in(matching: Matching, text: str) -> list[Term]:
    """Content words of a phrase about the source, with the parts of speech they have there."""
    by_word = matching.source.by_word
    words = [word for word in words_of(text) if word not in FUNCTION_WORDS]
    return [by_word.get(word, (word, "a")) for word in words]


def facts_of(matching: Matching, question: Question) -> Facts:
    """The facts about a question of any kind."""
    text = question.text or ""
    if question.kind == "entity":
        return entity_facts(matching, question.entity, question.identifier)
    if question.kind == "attribute":
        return attribute_facts(matching, question.entity, text)
    assert question.other_entity is not None, "a relation has two ends"
    return relation_facts(matching, question.entity, text, question.other_entity)


def overrule(matching: Matching, question: Question, value: float) -> float:
    """The value of an answer after the rules for stuffs and for "no shoes"."""
    thing = question.entity
    if question.kind != "entity":
        return value
    owners = [owner for owner, stuff in matching.source.made_of if stuff == thing]
    if any(is_made_otherwise(matching, owner, thing) for owner in owners):
        return DENIED
    if thing not in matching.source.absences:
        return value
    like = {other for other, _ in matching.cast(thing)[:1]}
    return value if matching.target.absences & like else WITHOUT * (1 - value)


def is_made_otherwise(matching: Matching, owner: int, stuff: int) -> bool:
    """True if the target has the owner in another stuff or colour: a tin cup, a cup of glass."""
    if matching.doubt(owner):
        return False
    return any(
        all(
            matching.supports(term).get(thing, 0.0) < SUPPORT and matching.denies(term, thing)
            for term in matching.source.heads[stuff]
        )
        for thing, _ in matching.cast(owner)[:1]
    )


class Namesake(NamedTuple):
    """The thing of the target that best goes by a thing's name."""

    name: float  # likeness of the names
    agreement: float  # share of the one's profile that is said of the other; below 0 if they clash
    qualification: float  # support for the identifier's words beside the name
    thing: int


def best_namesake(
    matching: Matching, entity: int, alike: dict[int, float], rest: list[Term]
) -> Namesake | None:
    """The namesake that fits best; None if there is none."""
    agreement = matching.context(entity, alike)
    best, most = None, 0.0
    for thing, name in alike.items():
        support = [matching.support(term, thing) for term in rest]
        share = sum(support) / len(support) if support else 1.0
        # Half of the profile is as good as all of it: two people seldom say the same of a thing.
        fits = 1 - OF_THING + OF_THING * min(1.0, max(0.0, 2 * agreement[thing]))
        value = name * fits * (1 - QUALIFIED + QUALIFIED * share)
        if value > most:
            best, most = Namesake(name, agreement[thing], share, thing), value
    return best


def entity_facts(matching: Matching, entity: int, identifier: str) -> Facts:
    """Facts about a thing under one identifier."""
    heads = matching.source.heads[entity]
    corresponding = max((matching.scores[entity][t] for t, _ in matching.cast(entity)), default=0.0)
    if stands_in(heads):
        return {"nameless": 1.0, "stand_in": corresponding, "scene": matching.scene}
    terms = terms_in(matching, identifier)
    rest = [term for term in terms if term not in heads]
    # Coreference may give a thing several names ("the sitter", "she", "the woman"): the one in the
    # question counts.
    names = [term for term in heads if term in terms] or heads
    places = [term for term in names if term[0] in PLACES]
    # Most descriptions name sides: that the target has one, too, says nothing, only what stands
    # there does.
    if places and matching.by_name(tuple(places)):
        side = max(place_value(matching, entity, term) for term in places)
        return {"place": 1.0, "same_things_there": side, "scene": matching.scene}
    alike = matching.by_name(tuple(names))
    namesake = best_namesake(matching, entity, alike, rest)
    facts = {} if namesake is None else namesake_facts(matching, entity, namesake, alike)
    facts["stuff_unsaid"] = float(is_stuff_unsaid(matching, entity))
    name = namesake.name if namesake else 0.0
    is_vague = not any(is_concrete(term) or is_settled(term) for term in names)
    # What is absent by name may still be in other words; each sort of evidence has a weight of its
    # own, and each is scaled by how much of the name is missing.
    facts.update(
        word_only=max(0.0, max(map(matching.anywhere, names)) - name),
        abstract=(1 - name) * is_vague,
        depiction=(1 - name) * any(word in DEPICTION for word, _ in names),
        unfound_in_scene=(1 - name) * matching.scene,
    )
    # A person under quite another name ("the sitter", "a lady"), if the rest agrees.
    if corresponding > name / 2 and matching.source.genders[entity]:
        facts["other_person"] = (1 - name) * corresponding
    return facts


def namesake_facts(
    matching: Matching, entity: int, namesake: Namesake, alike: dict[int, float]
) -> Facts:
    """Facts about the namesake of a thing."""
    target = matching.target
    salience = sum(target.salience[thing] for thing, name in alike.items() if name >= MENTION)
    other_number = target.plural[namesake.thing] != matching.source.plural[entity]
    return {
        "name": namesake.name,
        "verbatim": float(namesake.name >= VERBATIM),
        "agreement": namesake.name * max(0.0, namesake.agreement),
        "unqualified": namesake.name * (1 - namesake.qualification),
        "other_number": namesake.name * other_number,
        "salience": namesake.name * min(1.0, salience),
        "found_in_scene": namesake.name * matching.scene,
    }


def is_stuff_unsaid(matching: Matching, stuff: int) -> bool:
    """True if the target has what is of this stuff, or colour, and does not say so of it."""
    owners = [owner for owner, other in matching.source.made_of if other == stuff]
    corresponding = [matching.cast(owner)[0][0] for owner in owners if not matching.doubt(owner)]
    return bool(corresponding) and not any(
        matching.support(term, thing) >= SUPPORT
        for term in matching.source.heads[stuff]
        for thing in corresponding
    )


def attribute_facts(matching: Matching, entity: int, text: str) -> Facts:
    """Facts about an attribute of a thing: the means over its words."""
    owner = matching.best_score(entity)
    terms = [term for term in terms_in(matching, text) if term[0] not in PICKING]
    each = [word_facts(matching, entity, term) for term in terms]
    each = each or [{"said": WORDLESS}]
    facts = {
        name: sum(facts.get(name, 0.0) for facts in each) / len(each)
        for name in {name: None for facts in each for name in facts}
    }
    facts["said_of_it"] = facts["said"] * owner
    facts["said_in_scene"] = facts["said"] * matching.scene
    facts["unsaid_in_scene"] = (1 - facts["said"]) * matching.scene
    return facts


def word_facts(matching: Matching, entity: int, term: Term) -> Facts:
    """Facts about one word of an attribute."""
    best, whom, is_denied = 0.0, None, False
    row = matching.supports(term)
    # A word counts by the thing it is said of, times how surely that is the thing that is asked
    # about; so the same word of another thing is no support.
    cast = matching.cast(entity)
    is_one = number(term[0]) == 1
    for thing, sureness in cast:
        # "A hand" says that it is one.
        single = float(is_one and not matching.target.plural[thing])
        value = sureness * max(single, row.get(thing, 0.0))
        # Only the likeliest things may deny: of an unsure correspondence the clash says more about
        # the correspondence than about the word.
        if value < SUPPORT and sureness > SURE and matching.denies(term, thing):
            is_denied = True
        elif value > best:
            best, whom = value, thing
    likeliest = [thing for thing, _ in cast[:1]] if whom is None else [whom]
    is_mixed_up = any(matching.mixes_up(entity, term, thing) for thing in likeliest)
    is_count = number(term[0]) is not None and term[0] not in matching.source.before_hyphens
    unsaid = bool(cast) and best < SUPPORT and is_settled(term)
    unsaid = unsaid and (is_count or number(term[0]) is None)
    best = 0.0 if unsaid or is_mixed_up else best
    elsewhere = matching.anywhere(term)
    return {
        "said": best,
        "verbatim": float(best > 0 and whom is not None and row.get(whom, 0.0) >= VERBATIM),
        "denied": float(is_denied),
        "mixed_up": float(is_mixed_up),
        "unsaid_settled": float(unsaid),
        "of_another": float(best < SUPPORT and is_of_another(matching, term, likeliest)),
        "elsewhere": max(0.0, elsewhere - best),
        "nowhere": float(elsewhere < MENTION),
    }


def is_of_another(matching: Matching, term: Term, likeliest: list[int]) -> bool:
    """True if the target has the word as an attribute, but of another thing."""
    target = matching.target
    return any(
        alike >= CLEAR and any(target.owners.get(i, set()).difference(likeliest) for i in at)
        for other, alike in matching.words(term).items()
        for at in (target.places[other],)
    )


def relation_facts(matching: Matching, subject: int, text: str, other: int) -> Facts:
    """Facts about a relation of two things."""
    words = words_of(text)
    # A few candidates for each end, since the likeliest subject alone may not be in any relation,
    # and pronouns may stand for it.
    firsts, seconds = matching.players(subject), matching.players(other)
    best = joint(matching, firsts, words, seconds)
    entities = matching.source.graph.entities
    both_ends = 1.0
    for end in (subject, other):
        both_ends *= 1.0 if entities[end].us else matching.best_score(end)
    facts = {
        "as_such": best.match,
        "verbless": float(all(map(says_little, words))),
        "both_ends": both_ends,
        "joined": best.link,
        "part_of": float(text == PART_OF),
        "joined_in_scene": best.link * matching.scene,
        "unjoined_in_scene": (1 - best.link) * matching.scene,
    }
    if firsts and seconds:
        facts["verb_said"] = verb_support(matching, words, firsts[0][0], seconds[0][0])
    # Facts against a relation need both ends for sure: who holds what is only contradicted by the
    # same two things.
    if firsts and seconds and not (matching.doubt(subject) or matching.doubt(other)):
        a, b = firsts[0][0], seconds[0][0]
        theirs = matching.target.partners[a].get(b, {})
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


WEIGHTS: dict[Kind, dict[str, float]] = {
    "entity": {
        "bias": -2.49,
        "name": 0.97,
        "verbatim": 1.53,
        "agreement": 2.13,
        "unqualified": -0.71,
        "other_number": -0.64,
        "salience": 2.77,
        "found_in_scene": 1.82,
        "other_person": 0.32,
        "word_only": 1.84,
        "abstract": 0.97,
        "depiction": 1.94,
        "unfound_in_scene": 1.50,
        "nameless": 1.55,
        "stand_in": 1.25,
        "stuff_unsaid": -0.50,
        "place": -2.26,
        "same_things_there": 6.48,
        "scene": 2.25,
    },
    "attribute": {
        "bias": -1.25,
        "said": 0.79,
        "said_of_it": 3.98,
        "verbatim": 0.52,
        "denied": -2.11,
        "mixed_up": -2.50,
        "unsaid_settled": -1.50,
        "of_another": -1.00,
        "elsewhere": 0.89,
        "nowhere": -0.63,
        "said_in_scene": 0.67,
        "unsaid_in_scene": 2.00,
    },
    "relation": {
        "bias": -1.40,
        "as_such": 0.92,
        "verb_said": 0.97,
        "verbless": 0.62,
        "both_ends": 2.55,
        "joined": 0.00,
        "part_of": -0.39,
        "opposed": -6.41,
        "excluded": -4.95,
        "rivalled": -2.50,
        "turned_round": -2.50,
        "joined_in_scene": 2.59,
        "unjoined_in_scene": 1.50,
    },
}


def weigh(weights: Mapping[str, float], facts: Facts) -> float:
    """Probability of yes."""
    total = weights["bias"] + sum([weights[name] * value for name, value in facts.items()])
    return 1 / (1 + exp(-total))
