"""The embedded judge: answers from the target's own scene graph and words, on a CPU.

It is the default with nothing downloaded. It looks for the thing that corresponds (head noun,
attributes, neighbours), and then for what the question says *of that thing*, by lemma, synonym,
genus, number, colour and side. It is no language model: its scores are not POSH's published
ones.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from math import comb
from typing import Any

from posh_reward.metrics.posh.judges.embedded.attachment import ELSEWHERE
from posh_reward.metrics.posh.judges.embedded.joining import relation_value
from posh_reward.metrics.posh.judges.embedded.likeness import is_settled
from posh_reward.metrics.posh.judges.embedded.matching import Matching
from posh_reward.metrics.posh.judges.embedded.meaning import Term, is_concrete
from posh_reward.metrics.posh.judges.embedded.places import place_value
from posh_reward.metrics.posh.judges.embedded.reading import Reading
from posh_reward.metrics.posh.judges.embedded.words import (
    FUNCTION_WORDS,
    PLACES,
    stands_in,
    words_of,
)
from posh_reward.types import LABELS, Description, Reply, Request, RewriteRequest, Usage, Verdict

KEPT = 1024
"""Readings and matchings that are kept while awake: enough for 256 pairs at once."""
RESTING = 128
"""The same from one batch to the next."""
CERTAIN = 0.995
"""Most of the way from the worst to the best label that a grade can lie."""
NAMELESS = 0.4
"""Value of a pronoun: something like it is always there."""
BY_CONTEXT = 0.8
"""Value of a thing by another name that fits."""
ELSE = 0.55
"""Value of a name that the target has, but not as a thing."""
ABSTRACT = 0.55
"""Least value of what cannot be seen as such: a way, a gaze; paraphrases leave it out.

Also of a word that is rarely a noun, which the parser may have misread: ``chops at the ropes``.
"""
WITHOUT = 0.7
"""Value of what is said not to be there ("no shoes"), where the target does not have it."""
OF_THING = 0.25
"""Share of an entity's value that rests on what is said of it."""
QUALIFIED = 0.5
"""Share of an entity's value that rests on what its identifier says beside its name."""
SAID = 0.6
"""What is said this well is not denied."""
SURE = 0.8
"""Sureness of a correspondence from which on a denial counts."""
MIXED_UP = 0.2
"""What is left where all else that is said of the thing is said of one that denies the word."""
DENIED = 0.03
"""Value of what the corresponding thing denies, or would have to say if it were so."""
OPEN = 0.38
"""Value of a word that the target has nowhere: a paraphrase may hide from the dictionary."""
VERBATIM = 0.85
"""A word that the target has, like this, of something else only, is not there by paraphrase."""
WORDLESS = 0.5
"""Value of an attribute without a content word."""


class EmbeddedJudge:
    """A judge without a model: no download, no GPU, the same answer every time."""

    def __init__(self) -> None:
        self.usage = Usage()
        self._readings: OrderedDict[str, tuple[Description, Reading]] = OrderedDict()
        self._matchings: OrderedDict[tuple[str, str], Matching] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readings": OrderedDict(), "_matchings": OrderedDict()}

    @property
    def name(self) -> str:
        """Version of the rules and of the word table."""
        return "embedded-3"

    def grade(self, requests: Sequence[Request]) -> list[Verdict]:
        """One verdict per request, in order; it never abstains."""
        start = time.perf_counter()
        verdicts = [
            Verdict(distribution(self._value(request), len(LABELS))) for request in requests
        ]
        self.usage.requests += len(requests)
        self.usage.seconds += time.perf_counter() - start
        return verdicts

    def rewrite(self, requests: Sequence[RewriteRequest]) -> list[Reply]:
        """``small dog`` -> ``the small dog``: the words are in order already."""
        self.usage.rewrites += len(requests)
        return [Reply(f"the {request.text}") for request in requests]

    def sleep(self) -> None:
        """Forget all but the latest readings."""
        self._trim(RESTING)

    def wake(self) -> None:
        """Nothing to get ready."""

    def close(self) -> None:
        """Forget what was read."""
        self._readings.clear()
        self._matchings.clear()

    def _value(self, request: Request) -> float:
        matching = self._matching(request.source, request.target)
        text = request.text or ""
        if request.kind == "entity":
            return entity_value(matching, request.entity, request.identifier)
        if request.kind == "attribute":
            return attribute_value(matching, request.entity, text)
        assert request.other_entity is not None, "a relation has two ends"
        return relation_value(matching, request.entity, text, request.other_entity)

    def _matching(self, source: Description, target: Description) -> Matching:
        a, b = self._reading(source), self._reading(target)
        found = self._matchings.get((source.text, target.text))
        if found is None or found.source is not a or found.target is not b:
            found = self._matchings[source.text, target.text] = Matching(a, b)
            self._trim(KEPT)
        return found

    def _reading(self, description: Description) -> Reading:
        found = self._readings.get(description.text)
        if found is not None and found[0] is description:
            return found[1]
        # An equal description that was read anew is the same one; its text alone is not enough.
        same = found is not None and found[0] == description
        reading = found[1] if found is not None and same else Reading(description)
        self._readings[description.text] = (description, reading)
        self._trim(KEPT)
        return reading

    def _trim(self, most: int) -> None:
        for kept in (self._readings, self._matchings):
            while len(kept) > most:
                kept.popitem(last=False)


@lru_cache(maxsize=10_000)
def distribution(value: float, labels: int) -> tuple[float, ...]:
    """Binomial over the labels, with its mean at ``value`` of the way from worst to best."""
    last = labels - 1
    share = min(CERTAIN, max(1 - CERTAIN, value))
    return tuple(comb(last, k) * share**k * (1 - share) ** (last - k) for k in range(labels))


def terms_in(matching: Matching, text: str) -> list[Term]:
    """Content words of a phrase about the source, with the parts of speech they have there."""
    known = matching.source.by_word
    words = [word for word in words_of(text) if word not in FUNCTION_WORDS]
    return [known.get(word, (word, "a")) for word in words]


def entity_value(matching: Matching, entity: int, identifier: str) -> float:
    """Whether the target has such a thing, with what the identifier says of it."""
    owners = [owner for owner, stuff in matching.source.made_of if stuff == entity]
    if any(is_made_otherwise(matching, owner, entity) for owner in owners):
        return DENIED
    value = likelihood(matching, entity, identifier)
    if entity not in matching.source.negated:
        return value
    like = [thing for thing, _ in matching.cast(entity)[:1]]
    return value if matching.target.negated & set(like) else WITHOUT * (1 - value)


def is_made_otherwise(matching: Matching, owner: int, stuff: int) -> bool:
    """Whether the target has the owner in another stuff or colour: a tin cup, a cup of glass."""
    if matching.doubt(owner):
        return False
    return any(
        all(
            matching.said(term).get(thing, 0.0) < SAID and matching.denied(term, thing)
            for term in matching.source.heads[stuff]
        )
        for thing, _ in matching.cast(owner)[:1]
    )


def likelihood(matching: Matching, entity: int, identifier: str) -> float:
    """How likely the target has a thing that goes by this identifier."""
    heads = matching.source.heads[entity]
    best = max((matching.scores[entity][t] for t, _ in matching.cast(entity)), default=0.0)
    if stands_in(heads):
        return NAMELESS + (1 - NAMELESS) * best
    terms = terms_in(matching, identifier)
    rest = [term for term in terms if term not in heads]
    called = [term for term in heads if term in terms] or heads
    best = max(BY_CONTEXT * best, ELSE * max(map(matching.anywhere, called)))
    if not any(is_concrete(term) or is_settled(term) for term in called):
        best = max(best, ABSTRACT)
    places = [term for term in called if term[0] in PLACES]
    if places and matching.named(tuple(places)):
        return max(place_value(matching, entity, term) for term in places)
    alike = matching.named(tuple(called))
    agreed = matching.context(entity, alike)
    for thing, name in alike.items():
        if name > best:
            said = [matching.support(term, thing) for term in rest]
            share = sum(said) / len(said) if said else 1.0
            fits = 1 - OF_THING + OF_THING * min(1.0, max(0.0, 2 * agreed[thing]))
            best = max(best, name * fits * (1 - QUALIFIED + QUALIFIED * share))
    return best


def attribute_value(matching: Matching, entity: int, text: str) -> float:
    """Whether the target says ``text`` of the corresponding thing."""
    terms = terms_in(matching, text)
    values = [said_of(matching, entity, term) for term in terms]
    return sum(values) / len(values) if values else WORDLESS


def said_of(matching: Matching, entity: int, term: Term) -> float:
    """Whether the target says one word of the corresponding thing; near 0 where it denies it."""
    best, whom, denied = 0.0, None, False
    row = matching.said(term)
    for thing, sureness in matching.cast(entity):
        value = sureness * row.get(thing, 0.0)
        if value < SAID and sureness > SURE and matching.denied(term, thing):
            denied = True
        elif value > best:
            best, whom = value, thing
    likeliest = [thing for thing, _ in matching.cast(entity)[:1]] if whom is None else [whom]
    mixed = any(matching.mixed_up(entity, term, thing) for thing in likeliest)
    if mixed:
        best *= MIXED_UP
    unsaid = DENIED if denied or mixed else unsaid_value(matching, term)
    if is_settled(term) and best < SAID:
        best = 0.0
    return max(best, unsaid + (OPEN - unsaid) * matching.doubt(entity))


def unsaid_value(matching: Matching, term: Term) -> float:
    """Value of a word that the target does not say of the thing, though it does not deny it."""
    if is_settled(term):
        return DENIED
    elsewhere = matching.anywhere(term)
    return ELSEWHERE if elsewhere >= VERBATIM else OPEN
