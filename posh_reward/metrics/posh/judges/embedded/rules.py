"""Rules that override the weights: materials, and what one of the texts denies."""

from __future__ import annotations

from posh_reward.lexicon.function_words import PREPOSITIONS, agreement, words_of
from posh_reward.metrics.posh.judges.embedded.evidence import CLEAR, SUPPORT, SURE, Key, terms_in
from posh_reward.metrics.posh.judges.embedded.joining import between
from posh_reward.metrics.posh.judges.embedded.matching import Matching
from posh_reward.types import Question

DENIED = 0.03  # value of a thing that has another material or colour in the target
WITHOUT = 0.7  # value of a missing thing ("no shoes") that the target lacks, too


def overrule(matching: Matching, question: Question, value: float) -> float:
    """Return an answer's value after the rules for materials and for what a text denies."""
    thing = question.entity
    if question.kind == "entity":
        owners = [owner for owner, material in matching.source.made_of if material == thing]
        if any(is_made_otherwise(matching, owner, thing) for owner in owners):
            return DENIED
    if not (matching.source.denied or matching.target.denied):
        return value
    if question.kind == "entity":
        ours = thing in matching.source.absences
        theirs = is_absent(matching, thing)
    else:
        key = thing, question.text or "", question.other_entity
        ours = key in matching.source.denied_claims
        theirs = is_denied(matching, key)
    if ours == theirs:
        return value
    return DENIED if theirs else WITHOUT * (1 - value)


def is_absent(matching: Matching, thing: int) -> bool:
    """Return True if the target says that nothing of this name is there."""
    named = matching.by_name(tuple(matching.source.heads[thing]))
    like = {other for other, alike in named.items() if alike >= SUPPORT}
    return bool(like) and like <= matching.target.absences


def is_denied(matching: Matching, key: Key) -> bool:
    """Return True if the target has a claim's words about its thing under a negation only."""
    entity, text, other = key
    target = matching.target
    things = {
        thing for end in (entity, other) if end is not None for thing in likely(matching, end)
    }
    terms = [term for term in terms_in(matching, text) if term[0] not in PREPOSITIONS]
    said = {
        token
        for term in terms
        for like, alike in matching.words(term).items()
        if alike >= SUPPORT
        for token in target.places[like]
        if any(target.attachments(thing).get(token, 0.0) >= SUPPORT for thing in things)
    }
    if not terms and other is not None:
        words = set(words_of(text))
        said = {
            token
            for a in likely(matching, entity)
            for b in likely(matching, other)
            for token in between(matching, a, b)
            if max(agreement(word, target.tokens[token].text.lower()) for word in words) >= CLEAR
        }
    return bool(said) and said <= target.denied


def likely(matching: Matching, thing: int) -> list[int]:
    """Things of the target that are almost certainly this one."""
    return [other for other, certainty in matching.cast(thing) if certainty > SURE]


def is_made_otherwise(matching: Matching, owner: int, material: int) -> bool:
    """Return True if the owner has another material or colour in the target: a glass cup."""
    if matching.doubt(owner):
        return False
    return any(
        all(
            matching.support(term, thing) < SUPPORT and matching.denies(term, thing)
            for term in matching.source.heads[material]
        )
        for thing, _ in matching.cast(owner)[:1]
    )
