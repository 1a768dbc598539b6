"""Facts for and against an answer, and their weights.

A fact is a number, mostly from 0 to 1; missing facts are 0. One logistic regression per kind of
question weighs them. Rules override it: for things of another material, and for what a text denies.
``research/calibrate_judge.py`` fits the weights in ``weights.json``; a fact that can only support
an answer, or only contradict it, has a weight bounded to that sign.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from math import exp, fsum
from typing import NamedTuple

from posh_reward.embedded.english.likeness import is_settled, number
from posh_reward.embedded.english.meaning import Term, is_concrete
from posh_reward.embedded.english.word_classes import PREPOSITIONS, agreement, stands_in, words_of
from posh_reward.embedded.judge.alignment import Matching
from posh_reward.embedded.judge.relation_features import (
    Facts,
    between,
    misplaced,
    place_value,
    relation_facts,
)
from posh_reward.types import Kind, Question, Span
from posh_reward.words import DEPICTION, FUNCTION_WORDS, PLACES

Weights = Mapping[Kind, Mapping[str, float]]  # kind of question -> fact -> weight; bias first

FOLDER = files("posh_reward.embedded.judge")
WEIGHTS: Weights = json.loads((FOLDER / "weights.json").read_text(encoding="utf-8"))

VERBATIM = 0.999  # similarity above which two words are the same
OF_THING = 0.25  # share of a namesake's fitness that depends on what is said of it
QUALIFIED = 0.5  # share of a namesake's fitness that depends on the identifier's other words
MENTION = 0.5  # minimum similarity of names for a thing to be mentioned
SUPPORT = 0.6  # minimum support for a term to count as said
CLEAR = 0.8  # word similarity above which another thing's attribute counts as the one asked about
SURE = 0.8  # certainty of a correspondence above which a contradiction counts
WORDLESS = 0.5  # support for an attribute without a content word
EXPECTED = 0.6  # support for a claim, as far as its sentence has no others, and
CUSTOMARY = 2.0  # the weight of that, in claims
SAYING = 0.8  # share of a sentence's coherence that is support, not the nearness of its words
COHERENT = 0.52  # coherence of a sentence below which its claims are doubtful, and
INCOHERENT = 0.4  # below which the doubt is full
BRIEF = 3  # sentences of a text of which two are too much to tell that words stand together
DENIED = 0.03  # value of a thing that has another material or colour in the target
WITHOUT = 0.7  # value of a missing thing ("no shoes") that the target lacks, too
MANY = frozenset("many several multiple numerous various some group bunch".split())
CONTRARY = (
    "denied", "mixed_up", "exchanged", "opposed", "excluded", "turned_round", "other_verb",
    "other_preposition",
)  # fmt: skip
"""Facts that contradict a claim."""
OF_BRIEF = ("exchanged", "other_preposition", "other_verb")
"""Those that a long text contains by chance, since it says more of each thing. There only a place
that excludes another one of the very same two things counts fully."""
SHORT = 20  # different content words of a text up to which these count fully
PICKING = frozenset("own other another same such certain".split())
"""Words that select one thing among several without describing it."""


Key = tuple[int, str, int | None]
"""Identity of a claim: its entity, its text, and the other entity of a relation."""


def terms_in(matching: Matching, text: str) -> list[Term]:
    """Content words of a phrase about the source, with their parts of speech there."""
    by_word = matching.source.by_word
    words = [word for word in words_of(text) if word not in FUNCTION_WORDS]
    return [by_word.get(word, (word, "a")) for word in words]


class Claim(NamedTuple):
    """An attribute or a relation of the source."""

    clauses: tuple[int, ...]
    sentences: frozenset[int]
    support: float  # how far the target says it, or joins its ends, 0 to 1
    weight: float  # how far the target has what it is about, 0 to 1: else it tells nothing


class PairFacts:
    """Facts about the elements of one description, from another.

    A claim is judged with the other claims of its sentence. Each word of "The heavy sky wears the
    quay" may be in the target, so by its words it could be a paraphrase. But if the sentence's
    other claims have no support, and its words come from all over the target, it is doubtful.
    """

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self._facts: dict[Key, Facts] = {}
        self._gatherings: dict[int, float] = {}

    def about(self, question: Question) -> Facts:
        if question.kind == "entity":
            return entity_facts(self.matching, question.entity, question.identifier)
        key = question.entity, question.text or "", question.other_entity
        facts = self._claim_facts(key) | {"incoherent": self._incoherence(key)}
        brevity = min(1.0, SHORT / max(1, len(self.matching.target.places)))
        scaled = {name: brevity * facts[name] for name in OF_BRIEF if name in facts}
        entity, text, other = key
        if other is not None and scaled.get("other_preposition"):
            plain = misplaced(self.matching, entity, text, other)
            scaled["other_preposition"] = max(plain, scaled["other_preposition"])
        return facts | scaled

    def _claim_facts(self, key: Key) -> Facts:
        """Facts about an attribute or a relation by itself."""
        facts = self._facts.get(key)
        if facts is None:
            entity, text, other = key
            facts = self._facts[key] = (
                attribute_facts(self.matching, entity, text)
                if other is None
                else relation_facts(self.matching, entity, text, other)
            )
        return facts

    def _incoherence(self, key: Key) -> float:
        """Incoherence, 0 to 1, of what a claim is said in, leaving out the claim itself."""
        own = self._claims.get(key)
        if own is None or not own.clauses:
            return 0.0
        support, weight = EXPECTED * CUSTOMARY, CUSTOMARY
        for sentence in own.sentences:
            support += self._sums[sentence][0] - own.weight * own.support
            weight += self._sums[sentence][1] - own.weight
        gathered = fsum(map(self._gathered, own.clauses)) / len(own.clauses)
        coherence = SAYING * support / weight + (1 - SAYING) * gathered
        return min(1.0, max(0.0, (COHERENT - coherence) / (COHERENT - INCOHERENT)))

    def _gathered(self, clause: int) -> float:
        """Share of a clause's words that stand together in the target.

        Of those that the target has at all: a paraphrase takes them from one place, be it one long
        sentence or several short ones.
        """
        if clause in self._gatherings:
            return self._gatherings[clause]
        target, terms = self.matching.target, self.matching.source.by_clause.get(clause, ())
        places = {sentence: number for number, sentence in enumerate(sorted(target.by_sentence))}
        sizes = [len(target.by_sentence[sentence]) for sentence in places]
        windows = [0.0] * len(sizes)
        ends = window_ends(sizes, len(terms))
        total = 0.0
        for term in terms:
            row = [0.0] * len(sizes)  # sentence -> similarity of a word there
            for other, alike in self.matching.words(term).items():
                for sentence in target.sentences[other] if alike >= MENTION else ():
                    if sentence in places:
                        row[places[sentence]] = max(alike, row[places[sentence]])
            best = max(row, default=0.0)
            total += best
            for start, end in enumerate(ends) if best else ():
                windows[start] += max(row[start:end])
        # One more, so that a clause of few words is not scattered by one of them.
        gathered = (1 + max(windows, default=0.0)) / (1 + total)
        self._gatherings[clause] = gathered
        return gathered

    @cached_property
    def _claims(self) -> dict[Key, Claim]:
        """All claims of the source except those about the viewer."""
        matching, graph = self.matching, self.matching.source.graph
        claims: dict[Key, Claim] = {}
        for index, entity in enumerate(graph.entities):
            for attribute in () if entity.flagged else entity.attributes:
                terms = terms_in(matching, attribute.text)
                known = fsum(map(matching.anywhere, terms)) / max(1, len(terms))
                said = borne_out(self._claim_facts((index, attribute.text, None)), "said")
                weight = (1 - matching.doubt(index)) * known
                places = self._places(attribute.spans)
                claims[index, attribute.text, None] = Claim(*places, said, weight)
        for relation in graph.relations:
            ends = relation.subject, relation.object
            if not any(graph.entities[end].flagged for end in ends):
                facts = self._claim_facts((ends[0], relation.text, ends[1]))
                joined = borne_out(facts, "as_such")
                weight = (1 - matching.doubt(ends[0])) * (1 - matching.doubt(ends[1]))
                places = self._places(relation.spans)
                claims[ends[0], relation.text, ends[1]] = Claim(*places, joined, weight)
        return claims

    def _places(self, spans: tuple[Span, ...]) -> tuple[tuple[int, ...], frozenset[int]]:
        """Clauses and sentences of some words."""
        source = self.matching.source
        tokens = source.tokens_in(spans)
        clauses = sorted({source.clauses[token] for token in tokens})
        return tuple(clauses), frozenset(source.tokens[token].sentence for token in tokens)

    @cached_property
    def _sums(self) -> dict[int, tuple[float, float]]:
        """Sentence -> weighted support for its claims, and their weight."""
        sums: dict[int, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for claim in self._claims.values():
            for sentence in claim.sentences:
                support, weight = sums[sentence]
                sums[sentence] = support + claim.weight * claim.support, weight + claim.weight
        return sums


def borne_out(facts: Facts, support: str) -> float:
    """Support for a claim by itself, 0 to 1, as far as nothing contradicts it."""
    return facts[support] * (1 - max(facts.get(name, 0.0) for name in CONTRARY))


def window_ends(sizes: list[int], words: int) -> list[int]:
    """End of the run of sentences from each that has so many words: two at least, or one of few."""
    ends, end, total = [], 0, 0
    fewest = 1 if len(sizes) <= BRIEF else 2
    for start, size in enumerate(sizes):
        while end < len(sizes) and (end < start + fewest or total < words):
            total += sizes[end]
            end += 1
        ends.append(end)
        total -= size
    return ends


class Namesake(NamedTuple):
    """The thing of the target that best fits a name."""

    name: float  # similarity of the names
    agreement: float  # share of the one's profile said of the other; below 0 if they contradict
    qualification: float  # support for the identifier's words other than the name
    thing: int


def best_namesake(
    matching: Matching, entity: int, alike: dict[int, float], rest: list[Term]
) -> Namesake | None:
    """Return the best-fitting namesake; None if there is none."""
    agreement = matching.context(entity, alike)
    best, most = None, 0.0
    for thing, name in alike.items():
        support = [matching.support(term, thing) for term in rest]
        share = fsum(support) / len(support) if support else 1.0
        # Half of the profile is as good as all of it: no two people describe a thing alike.
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
    # Coreference may give a thing several names ("the sitter", "she", "the woman"). The one in the
    # question counts.
    names = [term for term in heads if term in terms] or heads
    places = [term for term in names if term[0] in PLACES]
    # Most descriptions mention sides, so a side in the target is no evidence; what stands there is.
    if places and matching.by_name(tuple(places)):
        side = max(place_value(matching, entity, term) for term in places)
        return {"place": 1.0, "same_things_there": side, "scene": matching.scene}
    alike = matching.by_name(tuple(names))
    namesake = best_namesake(matching, entity, alike, rest)
    facts = {} if namesake is None else namesake_facts(matching, entity, namesake, alike)
    facts["stuff_unsaid"] = float(is_material_unsaid(matching, entity))
    name = namesake.name if namesake else 0.0
    is_vague = not any(is_concrete(term) or is_settled(term) for term in names)
    # A thing may be there under other words. Each kind of evidence for that has its own weight, and
    # is scaled by how much of the name is missing.
    facts.update(
        word_only=max(0.0, max(map(matching.anywhere, names)) - name),
        abstract=(1 - name) * is_vague,
        depiction=(1 - name) * any(word in DEPICTION for word, _ in names),
        unfound_in_scene=(1 - name) * matching.scene,
    )
    # A person with a different name ("the sitter", "a lady"), if the rest agrees.
    if corresponding > name / 2 and matching.source.genders[entity]:
        facts["other_person"] = (1 - name) * corresponding
    return facts


def namesake_facts(
    matching: Matching, entity: int, namesake: Namesake, alike: dict[int, float]
) -> Facts:
    """Facts about a thing's namesake."""
    target = matching.target
    salience = fsum(target.salience[thing] for thing, name in alike.items() if name >= MENTION)
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


def is_material_unsaid(matching: Matching, material: int) -> bool:
    """Return True if the target has the thing of this material or colour, but not the material."""
    owners = [owner for owner, other in matching.source.made_of if other == material]
    corresponding = [matching.cast(owner)[0][0] for owner in owners if not matching.doubt(owner)]
    return bool(corresponding) and not any(
        matching.support(term, thing) >= SUPPORT
        for term in matching.source.heads[material]
        for thing in corresponding
    )


def attribute_facts(matching: Matching, entity: int, text: str) -> Facts:
    """Facts about an attribute: the means over its words."""
    terms = [term for term in terms_in(matching, text) if term[0] not in PICKING]
    by_word = [word_facts(matching, entity, term) for term in terms] or [{"said": WORDLESS}]
    facts = {name: fsum(word[name] for word in by_word) / len(by_word) for name in by_word[0]}
    facts["said_of_it"] = facts["said"] * matching.best_score(entity)
    return facts


def word_facts(matching: Matching, entity: int, term: Term) -> Facts:
    """Facts about one word of an attribute."""
    best, best_thing, is_denied = 0.0, None, False
    support = matching.supports(term)
    cast = matching.cast(entity)
    count = number(term[0])
    for thing, certainty in cast:
        several = matching.target.plural[thing]
        # "A hand" is one hand, and hands are several.
        counted = float(not several if count == 1 else several and term[0] in MANY)
        # Scaled by certainty, so that the same word said of another thing is no support.
        value = certainty * max(counted, support.get(thing, 0.0))
        # Only near-certain correspondences may contradict. In others a contradiction says more
        # about the correspondence than about the word.
        too_many = not several and ((count or 0) > 1 or term[0] in MANY)
        if value < SUPPORT and certainty > SURE and (too_many or matching.denies(term, thing)):
            is_denied = True
        elif value > best:
            best, best_thing = value, thing
    likeliest = [thing for thing, _ in cast[:1]] if best_thing is None else [best_thing]
    is_mixed_up = any(matching.mixes_up(entity, term, thing) for thing in likeliest)
    unsaid = bool(cast) and best < SUPPORT and is_settled(term)
    unsaid = unsaid and (count is None or term[0] not in matching.source.before_hyphens)
    best = 0.0 if unsaid or is_mixed_up else best
    elsewhere = matching.anywhere(term)
    return {
        "said": best,
        "denied": float(is_denied),
        "mixed_up": float(is_mixed_up),
        "unsaid_settled": float(unsaid),
        "of_another": float(best < SUPPORT and is_of_another(matching, term, likeliest)),
        "exchanged": float(best < SUPPORT and is_of_known(matching, entity, term, likeliest)),
        "elsewhere": max(0.0, elsewhere - best),
    }


def is_of_another(matching: Matching, term: Term, likeliest: list[int]) -> bool:
    """Return True if the target contains the word as an attribute of another thing."""
    target = matching.target
    return any(
        target.owners.get(token, set()).difference(likeliest)
        for other, similarity in matching.words(term).items()
        if similarity >= CLEAR
        for token in target.places[other]
    )


def is_of_known(matching: Matching, entity: int, term: Term, likeliest: list[int]) -> bool:
    """Return True if the target says the word of another thing, of which the source does not.

    "A red hydrant next to a fire sign" for "a fire hydrant next to a red sign".
    """
    source, target = matching.source, matching.target
    own = [other for other, alike in matching.words(term).items() if alike >= CLEAR]
    places = [token for other in own for token in target.places[other]]
    others = {thing for token in places for thing in target.owners.get(token, ())}
    counterparts = {matching.counterpart(other) for other in others.difference(likeliest)}
    like = source.index.like(term)
    return any(
        thing is not None
        and thing != entity
        and not any(source.said_of[word].get(thing, 0.0) >= SUPPORT for word in like)
        for thing in counterparts
    )


def weigh(weights: Mapping[str, float], facts: Facts) -> float:
    """Probability that the target contains the element."""
    total = weights["bias"] + fsum([weights[name] * value for name, value in facts.items()])
    return 1 / (1 + exp(-total))


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
