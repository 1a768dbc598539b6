"""Features of a question, and the logistic regression that predicts its answer.

A feature is a number, mostly from 0 to 1; missing features are 0. There is one regression per kind
of question. Rules override it: for entities of another material, and for what a text denies.
``research/calibrate_judge.py`` fits the weights in ``weights.json``; a feature that can only
support an answer, or only contradict it, has a weight bounded to that sign.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from itertools import product
from math import exp, fsum
from typing import NamedTuple

from posh_reward.embedded.english.likeness import is_settled, parse_number
from posh_reward.embedded.english.meaning import Term, is_concrete
from posh_reward.embedded.english.word_classes import (
    PREPOSITIONS,
    preposition_agreement,
    split_words,
    stands_in,
)
from posh_reward.embedded.judge.alignment import Alignment
from posh_reward.embedded.judge.index import ClaimKey
from posh_reward.embedded.judge.relation_features import (
    Features,
    compute_relation_features,
    find_joining_prepositions,
    mean_or,
    place_value,
    strict_place_disagreement,
)
from posh_reward.types import Kind, Question, Span
from posh_reward.words import DEPICTION, FUNCTION_WORDS, PLACES

Weights = Mapping[Kind, Mapping[str, float]]  # kind of question -> feature -> weight; bias first

FOLDER = files("posh_reward.embedded.judge")
WEIGHTS: Weights = json.loads((FOLDER / "weights.json").read_text(encoding="utf-8"))

MIN_VERBATIM_SIMILARITY = 0.999  # from which on two words are the same
PROFILE_SHARE = 0.25  # of a name match's fitness that depends on what is said of it
QUALIFIER_SHARE = 0.5  # of a name match's fitness that depends on the identifier's other words
MIN_MENTION_SIMILARITY = 0.5  # of names, for an entity to be mentioned
MIN_SUPPORT = 0.6  # for a term to count as stated
MIN_CLEAR_SIMILARITY = 0.8  # for another entity's attribute to count as the one asked about
MIN_SURE_CERTAINTY = 0.8  # of a correspondence, above which a contradiction counts
WORDLESS_SUPPORT = 0.5  # for an attribute without a content word
PRIOR_SUPPORT = 0.6  # for a claim, as far as its sentence has no others, and
PRIOR_CLAIMS = 2.0  # the weight of that, in claims
COHERENCE_BY_SUPPORT = 0.8  # share of coherence that is support, not the nearness of words
MIN_FULL_COHERENCE = 0.52  # of a sentence; below it the claims are doubtful, and
MAX_NO_COHERENCE = 0.4  # below this one the doubt is full
MAX_SENTENCES_OF_BRIEF_TEXT = 3  # of which two are too much to tell that words stand together
DENIED_VALUE = 0.03  # of an entity that has another material or colour in the target
ABSENCE_VALUE = 0.7  # of a missing entity ("no shoes") that the target lacks, too
WORDS_FOR_MANY = frozenset("many several multiple numerous various some group bunch".split())
CONTRADICTING_FEATURES = (
    "denied", "mixed_up", "exchanged", "opposed", "excluded", "turned_round", "other_verb",
    "other_preposition",
)  # fmt: skip
"""Features that contradict a claim."""
CHANCE_CONTRADICTIONS = ("exchanged", "other_preposition", "other_verb")
"""Those that a long text contains by chance, since it says more of each entity. There only a
place that excludes another one of the very same two entities counts fully."""
MAX_WORDS_OF_SHORT_TEXT = 20  # different content words up to which these count fully
SELECTING_WORDS = frozenset("own other another same such certain".split())
"""Words that select one entity among several without describing it."""


def find_terms(alignment: Alignment, text: str) -> list[Term]:
    """Content words of a phrase about the source, with their parts of speech there."""
    by_word = alignment.source.by_word
    words = [word for word in split_words(text) if word not in FUNCTION_WORDS]
    return [by_word.get(word, (word, "a")) for word in words]


class Claim(NamedTuple):
    """An attribute or a relation of the source."""

    clauses: tuple[int, ...]
    sentences: frozenset[int]
    support: float  # how far the target says it, or joins its ends, 0 to 1
    weight: float  # how far the target has what it is about, 0 to 1: else it tells nothing


class PairFeatures:
    """Features of the elements of one description, from another.

    A claim is judged with the other claims of its sentence. Each word of "The heavy sky wears the
    quay" may be in the target, so by its words it could be a paraphrase. But if the sentence's
    other claims have no support, and its words come from all over the target, it is doubtful.
    """

    def __init__(self, alignment: Alignment) -> None:
        self.alignment = alignment
        self._features: dict[ClaimKey, Features] = {}
        self._entity_features: dict[tuple[int, str], Features] = {}
        self._compactness: dict[int, float] = {}

    def compute_features(self, question: Question) -> Features:
        if question.kind == "entity":
            return self._compute_entity_features(question.entity, question.identifier)
        key = question.entity, question.text or "", question.other_entity
        features = dict(self._compute_claim_features(key))
        features["incoherent"] = self._compute_incoherence(key)
        brevity = min(1.0, MAX_WORDS_OF_SHORT_TEXT / max(1, len(self.alignment.target.places)))
        for name in CHANCE_CONTRADICTIONS:
            if name in features:
                features[name] *= brevity
        entity, text, other = key
        if other is not None and features.get("other_preposition"):
            strict = strict_place_disagreement(self.alignment, entity, text, other)
            features["other_preposition"] = max(strict, features["other_preposition"])
        return features

    def _compute_entity_features(self, entity: int, identifier: str) -> Features:
        features = self._entity_features.get((entity, identifier))
        if features is None:
            features = compute_entity_features(self.alignment, entity, identifier)
            self._entity_features[entity, identifier] = features
        return features

    def _compute_claim_features(self, key: ClaimKey) -> Features:
        """Compute features of an attribute or a relation by itself."""
        features = self._features.get(key)
        if features is None:
            entity, text, other = key
            if other is None:
                features = compute_attribute_features(self.alignment, entity, text)
            else:
                features = compute_relation_features(self.alignment, entity, text, other)
            self._features[key] = features
        return features

    def _compute_incoherence(self, key: ClaimKey) -> float:
        """Compute the incoherence, 0 to 1, of what a claim is said in, without the claim itself.

        The sentence's other claims have a weighted mean support. It is shrunk towards the prior, as
        if there were ``PRIOR_CLAIMS`` more claims, so that a sentence of few claims tells little.
        """
        own = self._claims.get(key)
        if own is None or not own.clauses:
            return 0.0
        support, weight = PRIOR_SUPPORT * PRIOR_CLAIMS, PRIOR_CLAIMS
        for sentence in own.sentences:
            support += self._support_by_sentence[sentence][0] - own.weight * own.support
            weight += self._support_by_sentence[sentence][1] - own.weight
        compactness = fsum(map(self._measure_compactness, own.clauses)) / len(own.clauses)
        coherence = COHERENCE_BY_SUPPORT * support / weight
        coherence += (1 - COHERENCE_BY_SUPPORT) * compactness
        missing = MIN_FULL_COHERENCE - coherence
        return min(1.0, max(0.0, missing / (MIN_FULL_COHERENCE - MAX_NO_COHERENCE)))

    def _measure_compactness(self, clause: int) -> float:
        """Compute the share of a clause's words that stand together in the target.

        Of those that the target has at all: a paraphrase takes them from one place, be it one long
        sentence or several short ones.
        """
        if clause in self._compactness:
            return self._compactness[clause]
        target, terms = self.alignment.target, self.alignment.source.terms_by_clause.get(clause, ())
        sentences = sorted(target.terms_by_sentence)
        sizes = [len(target.terms_by_sentence[sentence]) for sentence in sentences]
        windows = [0.0] * len(sizes)
        ends = find_window_ends(sizes, len(terms))
        total = 0.0
        for term in terms:
            row = self._similarity_by_sentence(term, sentences)
            best = max(row, default=0.0)
            if not best:
                continue
            total += best
            for start, end in enumerate(ends):
                windows[start] += max(row[start:end])
        # One more, so that a clause of few words is not scattered by one of them.
        compactness = (1 + max(windows, default=0.0)) / (1 + total)
        self._compactness[clause] = compactness
        return compactness

    def _similarity_by_sentence(self, term: Term, sentences: list[int]) -> list[float]:
        """Per sentence of the target: similarity of the word there that is most like a term."""
        best = dict.fromkeys(sentences, 0.0)
        for other, alike in self.alignment.words(term).items():
            if alike >= MIN_MENTION_SIMILARITY:
                for sentence in best.keys() & self.alignment.target.sentences[other]:
                    best[sentence] = max(alike, best[sentence])
        return list(best.values())

    @cached_property
    def _claims(self) -> dict[ClaimKey, Claim]:
        """All claims of the source except those about the viewer."""
        alignment, graph = self.alignment, self.alignment.source.graph
        claims: dict[ClaimKey, Claim] = {}
        for index, entity in enumerate(graph.entities):
            if entity.flagged:
                continue
            for attribute in entity.attributes:
                terms = find_terms(alignment, attribute.text)
                known = fsum(map(alignment.best_similarity, terms)) / max(1, len(terms))
                key = index, attribute.text, None
                support = uncontradicted_support(self._compute_claim_features(key), "said")
                weight = (1 - alignment.uncertainty(index)) * known
                claims[key] = Claim(*self._locate_spans(attribute.spans), support, weight)
        for relation in graph.relations:
            first, second = relation.subject, relation.object
            if not (graph.entities[first].flagged or graph.entities[second].flagged):
                features = self._compute_claim_features((first, relation.text, second))
                support = uncontradicted_support(features, "as_such")
                weight = (1 - alignment.uncertainty(first)) * (1 - alignment.uncertainty(second))
                places = self._locate_spans(relation.spans)
                claims[first, relation.text, second] = Claim(*places, support, weight)
        return claims

    def _locate_spans(self, spans: tuple[Span, ...]) -> tuple[tuple[int, ...], frozenset[int]]:
        """Find the clauses and sentences of some words."""
        source = self.alignment.source
        clauses, sentences = set(), set()
        for token in source.tokens_in(spans):
            clauses.add(source.clauses[token])
            sentences.add(source.tokens[token].sentence)
        return tuple(sorted(clauses)), frozenset(sentences)

    @cached_property
    def _support_by_sentence(self) -> dict[int, tuple[float, float]]:
        """Sentence -> weighted support for its claims, and their weight."""
        sums: dict[int, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for claim in self._claims.values():
            for sentence in claim.sentences:
                support, weight = sums[sentence]
                sums[sentence] = support + claim.weight * claim.support, weight + claim.weight
        return sums


def uncontradicted_support(features: Features, support: str) -> float:
    """Support for a claim by itself, 0 to 1, as far as nothing contradicts it."""
    contradiction = max(features.get(name, 0.0) for name in CONTRADICTING_FEATURES)
    return features[support] * (1 - contradiction)


def find_window_ends(sizes: list[int], words: int) -> list[int]:
    """Find per sentence the end of the run from it that has so many words.

    A run has at least two sentences, or one of a brief text.
    """
    ends, end, total = [], 0, 0
    fewest = 1 if len(sizes) <= MAX_SENTENCES_OF_BRIEF_TEXT else 2
    for start, size in enumerate(sizes):
        while end < len(sizes) and (end < start + fewest or total < words):
            total += sizes[end]
            end += 1
        ends.append(end)
        total -= size
    return ends


class NameMatch(NamedTuple):
    """The entity of the target that best fits a name."""

    name: float  # similarity of the names
    agreement: float  # share of the one's profile said of the other; below 0 if they contradict
    qualification: float  # support for the identifier's words other than the name
    entity: int


def find_best_name_match(
    alignment: Alignment, entity: int, alike: dict[int, float], rest: list[Term]
) -> NameMatch | None:
    """Return the entity with a similar name that fits best; None if there is none."""
    agreement = alignment.context_agreement(entity, alike)
    best, most = None, 0.0
    for other, name in alike.items():
        support = [alignment.term_support(term, other) for term in rest]
        share = mean_or(1.0, support)
        # Half of the profile is as good as all of it: no two people describe an entity alike.
        fits = 1 - PROFILE_SHARE + PROFILE_SHARE * min(1.0, max(0.0, 2 * agreement[other]))
        value = name * fits * (1 - QUALIFIER_SHARE + QUALIFIER_SHARE * share)
        if value > most:
            best, most = NameMatch(name, agreement[other], share, other), value
    return best


def compute_entity_features(alignment: Alignment, entity: int, identifier: str) -> Features:
    """Compute features of an entity under one identifier."""
    heads = alignment.source.heads[entity]
    scores = [alignment.scores[entity][other] for other, _ in alignment.candidates(entity)]
    corresponding = max(scores, default=0.0)
    if stands_in(heads):
        return {"nameless": 1.0, "stand_in": corresponding, "scene": alignment.scene_overlap}
    terms = find_terms(alignment, identifier)
    rest = [term for term in terms if term not in heads]
    # Coreference may give an entity several names ("the sitter", "she", "the woman"). The one in
    # the question counts.
    names = [term for term in heads if term in terms] or heads
    places = [term for term in names if term[0] in PLACES]
    # Most descriptions mention sides, so a side in the target is no evidence; what stands there is.
    if places and alignment.by_name(tuple(places)):
        side = max(place_value(alignment, entity, term) for term in places)
        return {"place": 1.0, "same_things_there": side, "scene": alignment.scene_overlap}
    alike = alignment.by_name(tuple(names))
    match = find_best_name_match(alignment, entity, alike, rest)
    name = 0.0
    features: Features = {}
    if match is not None:
        name, features = match.name, compute_name_features(alignment, entity, match, alike)
    features["stuff_unsaid"] = float(is_material_unsaid(alignment, entity))
    is_vague = not any(is_concrete(term) or is_settled(term) for term in names)
    # An entity may be there under other words. Each kind of evidence for that has its own weight,
    # and is scaled by how much of the name is missing.
    features.update(
        word_only=max(0.0, max(map(alignment.best_similarity, names)) - name),
        abstract=(1 - name) * is_vague,
        depiction=(1 - name) * any(word in DEPICTION for word, _ in names),
        unfound_in_scene=(1 - name) * alignment.scene_overlap,
    )
    # A person with a different name ("the sitter", "a lady"), if the rest agrees.
    if corresponding > name / 2 and alignment.source.genders[entity]:
        features["other_person"] = (1 - name) * corresponding
    return features


def compute_name_features(
    alignment: Alignment, entity: int, match: NameMatch, alike: dict[int, float]
) -> Features:
    """Compute features of an entity's name match."""
    target = alignment.target
    mentioned = [other for other, name in alike.items() if name >= MIN_MENTION_SIMILARITY]
    salience = fsum(target.salience[other] for other in mentioned)
    other_number = target.plural[match.entity] != alignment.source.plural[entity]
    return {
        "name": match.name,
        "verbatim": float(match.name >= MIN_VERBATIM_SIMILARITY),
        "agreement": match.name * max(0.0, match.agreement),
        "unqualified": match.name * (1 - match.qualification),
        "other_number": match.name * other_number,
        "salience": match.name * min(1.0, salience),
        "found_in_scene": match.name * alignment.scene_overlap,
    }


def is_material_unsaid(alignment: Alignment, material: int) -> bool:
    """Return True if the target has the owner of a material or colour, but not the material."""
    is_owner_known = False
    for owner, other in alignment.source.material_pairs:
        if other != material or alignment.uncertainty(owner):
            continue
        is_owner_known = True
        likeliest = alignment.candidates(owner)[0][0]
        for term in alignment.source.heads[material]:
            if alignment.term_support(term, likeliest) >= MIN_SUPPORT:
                return False
    return is_owner_known


def compute_attribute_features(alignment: Alignment, entity: int, text: str) -> Features:
    """Compute features of an attribute: the means over its words."""
    terms = [term for term in find_terms(alignment, text) if term[0] not in SELECTING_WORDS]
    by_word = [compute_word_features(alignment, entity, term) for term in terms]
    if not by_word:
        by_word = [{"said": WORDLESS_SUPPORT}]
    features = {}
    for name in by_word[0]:
        features[name] = fsum(word[name] for word in by_word) / len(by_word)
    features["said_of_it"] = features["said"] * alignment.best_score(entity)
    return features


def compute_word_features(alignment: Alignment, entity: int, term: Term) -> Features:
    """Compute features of one word of an attribute."""
    best, is_denied = 0.0, False
    support = alignment.support_by_entity(term)
    candidates = alignment.candidates(entity)
    likeliest = [other for other, _ in candidates[:1]]
    count = parse_number(term[0])
    is_inexact = term[0] in alignment.source.inexact_numbers
    for other, certainty in candidates:
        several = alignment.target.plural[other]
        # "A hand" is one hand, and hands are several.
        is_counted = not several if count == 1 else several and term[0] in WORDS_FOR_MANY
        # Scaled by certainty, so that the same word said of another entity is no support.
        value = certainty * max(float(is_counted), support.get(other, 0.0))
        # Only near-certain correspondences may contradict. In others a contradiction says more
        # about the correspondence than about the word.
        may_deny = not is_inexact and value < MIN_SUPPORT and certainty > MIN_SURE_CERTAINTY
        too_many = not several and ((count or 0) > 1 or term[0] in WORDS_FOR_MANY)
        if may_deny and (too_many or alignment.contradicts(term, other)):
            is_denied = True
        elif value > best:
            best, likeliest = value, [other]
    is_mixed_up = any(alignment.mixes_up(entity, term, other) for other in likeliest)
    unsaid = bool(candidates) and best < MIN_SUPPORT and is_settled(term)
    unsaid = unsaid and not is_inexact
    if unsaid or is_mixed_up:
        best = 0.0
    elsewhere = alignment.best_similarity(term)
    return {
        "said": best,
        "denied": float(is_denied),
        "mixed_up": float(is_mixed_up),
        "unsaid_settled": float(unsaid),
        "of_another": float(best < MIN_SUPPORT and is_of_another(alignment, term, likeliest)),
        "exchanged": float(best < MIN_SUPPORT and is_of_known(alignment, entity, term, likeliest)),
        "elsewhere": max(0.0, elsewhere - best),
    }


def is_of_another(alignment: Alignment, term: Term, likeliest: list[int]) -> bool:
    """Return True if the target contains the word as an attribute of another entity."""
    owners = find_attribute_owners(alignment, term)
    return bool(owners.difference(likeliest))


def is_of_known(alignment: Alignment, entity: int, term: Term, likeliest: list[int]) -> bool:
    """Return True if the target says the word of another entity, of which the source does not.

    "A red hydrant next to a fire sign" for "a fire hydrant next to a red sign".
    """
    source = alignment.source
    others = find_attribute_owners(alignment, term).difference(likeliest)
    like = source.term_index.find_similar(term)
    for other in others:
        counterpart = alignment.find_counterpart(other)
        if counterpart is None or counterpart == entity:
            continue
        attachments = [source.attachments_by_term[word].get(counterpart, 0.0) for word in like]
        if max(attachments, default=0.0) < MIN_SUPPORT:
            return True
    return False


def find_attribute_owners(alignment: Alignment, term: Term) -> set[int]:
    """Find the entities of the target that have an attribute with this word, or one much alike."""
    target = alignment.target
    owners: set[int] = set()
    for other, alike in alignment.words(term).items():
        if alike >= MIN_CLEAR_SIMILARITY:
            for token in target.places[other]:
                owners.update(target.attribute_owners.get(token, ()))
    return owners


def predict(weights: Mapping[str, float], features: Features) -> float:
    """Predict the probability that the target contains the element, by logistic regression."""
    total = weights["bias"] + fsum([weights[name] * value for name, value in features.items()])
    return 1 / (1 + exp(-total))


def apply_overrides(alignment: Alignment, question: Question, value: float) -> float:
    """Return an answer's value after the rules for materials and for what a text denies."""
    entity = question.entity
    if question.kind == "entity":
        for owner, material in alignment.source.material_pairs:
            if material == entity and is_made_otherwise(alignment, owner, material):
                return DENIED_VALUE
    if not (alignment.source.denied_tokens or alignment.target.denied_tokens):
        return value
    if question.kind == "entity":
        ours = entity in alignment.source.absent_entities
        theirs = is_absent(alignment, entity)
    else:
        key = entity, question.text or "", question.other_entity
        ours = key in alignment.source.denied_claims
        theirs = is_denied(alignment, key)
    if ours == theirs:
        return value
    return DENIED_VALUE if theirs else ABSENCE_VALUE * (1 - value)


def is_absent(alignment: Alignment, entity: int) -> bool:
    """Return True if the target says that nothing of this name is there."""
    named = alignment.by_name(tuple(alignment.source.heads[entity]))
    like = {other for other, alike in named.items() if alike >= MIN_SUPPORT}
    return bool(like) and like <= alignment.target.absent_entities


def is_denied(alignment: Alignment, key: ClaimKey) -> bool:
    """Return True if the target has a claim's words about its entity under a negation only."""
    entity, text, other = key
    terms = [term for term in find_terms(alignment, text) if term[0] not in PREPOSITIONS]
    firsts = find_sure_candidates(alignment, entity)
    seconds = [] if other is None else find_sure_candidates(alignment, other)
    stated: set[int] = set()
    for term in terms:
        stated.update(find_stated_tokens(alignment, term, firsts + seconds))
    if not terms:
        words = set(split_words(text))
        for a, b in product(firsts, seconds):
            stated.update(find_like_prepositions(alignment, a, words, b))
    return bool(stated) and stated <= alignment.target.denied_tokens


def find_stated_tokens(alignment: Alignment, term: Term, entities: list[int]) -> list[int]:
    """Find the tokens by which the target says a term of one of its entities."""
    target = alignment.target
    stated = []
    for like, alike in alignment.words(term).items():
        if alike < MIN_SUPPORT:
            continue
        for token in target.places[like]:
            attachments = [target.attachments_to(entity).get(token, 0.0) for entity in entities]
            if max(attachments, default=0.0) >= MIN_SUPPORT:
                stated.append(token)
    return stated


def find_like_prepositions(alignment: Alignment, a: int, words: set[str], b: int) -> list[int]:
    """Find the target's prepositions between two entities that are much like one of the words."""
    like = []
    for token in find_joining_prepositions(alignment, a, b):
        preposition = alignment.target.tokens[token].text.lower()
        if max(preposition_agreement(word, preposition) for word in words) >= MIN_CLEAR_SIMILARITY:
            like.append(token)
    return like


def find_sure_candidates(alignment: Alignment, entity: int) -> list[int]:
    """Find the entities of the target that are almost certainly this one."""
    candidates = alignment.candidates(entity)
    return [other for other, certainty in candidates if certainty > MIN_SURE_CERTAINTY]


def is_made_otherwise(alignment: Alignment, owner: int, material: int) -> bool:
    """Return True if the owner has another material or colour in the target: a glass cup."""
    if alignment.uncertainty(owner):
        return False
    likeliest = alignment.candidates(owner)[0][0]
    for term in alignment.source.heads[material]:
        is_supported = alignment.term_support(term, likeliest) >= MIN_SUPPORT
        if is_supported or not alignment.contradicts(term, likeliest):
            return False
    return True
