"""Alignment of the words and entities of two descriptions.

Entities correspond by name and by what is said of them; contradicting attributes (the larger dog,
the smaller one) count against it. The result depends only on the two descriptions, not on the
order of questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from itertools import islice
from math import fsum

from posh_reward.embedded.english.likeness import conflict
from posh_reward.embedded.english.meaning import Term, rarity
from posh_reward.embedded.english.word_classes import PREPOSITIONS, is_anaphor, is_viewer, stands_in
from posh_reward.embedded.judge.index import DescriptionIndex

STAND_IN_SIMILARITY = 0.45  # of persons with different names, or of a pronoun and a person
ANAPHOR_SIMILARITY = 0.6  # of one, other, second and the like to any name
OTHER_NUMBER_FACTOR = 0.8  # if one entity corresponds to several: the dog, two dogs
CONTEXT_SHARE = 0.5  # of a correspondence that depends on profiles instead of names
MIN_CONTEXT_FACTOR = 0.4  # on a name's similarity: a red dress may be a blue dress
EMPTY_PROFILE_AGREEMENT = 0.5  # of an entity with an empty profile
MIN_OWN_ATTACHMENT = 0.85  # of a word that is said of the entity itself
CONTRADICTION_FACTOR = 0.5  # on an agreement for each contradicting attribute
MIN_COMPATIBLE_SUPPORT = 0.5  # support above which a term does not contradict
MIN_SAME_NAME_SIMILARITY = 0.8  # for two entities to be mixed up
MIN_PROFILE_MARGIN = 0.1  # share of a profile that decides between two entities
MIN_SCENE_SIMILARITY = 0.5  # for a word of the source to count as in the target's scene
MIN_ATTRIBUTE_SUPPORT = 0.3  # for an attribute to count
CERTAINTY_EXPONENT = 3.0  # favours the best correspondence over the next
PRONOUN_CERTAINTY = 0.7  # that an unresolved pronoun means a given person
CERTAIN_NAME_SIMILARITY = 0.7  # of a kind and its genus, above which names are certain
COMMONEST_WORD_WEIGHT = 0.3  # in a scene; the rarest has 1 more
MAX_RELATION_CANDIDATES = 4  # of the target, tried for each end of a relation
MAX_CANDIDATES = 40  # by name, which bounds work on a text of one repeated word


class Alignment:
    """Correspondence of the entities and words of ``source`` with those of ``target``.

    ``source`` is the text that a question is about, ``target`` the one that it is looked for in.
    """

    def __init__(self, source: DescriptionIndex, target: DescriptionIndex) -> None:
        self.source = source
        self.target = target
        # Term -> similar terms of the target, with their similarity.
        self.words = cache(target.term_index.find_similar)
        self._supports: dict[Term, dict[int, float]] = {}
        self._names: dict[tuple[Term, ...], dict[int, float]] = {}
        self._contexts: dict[int, dict[int, float]] = {}
        # Bounded, as are similar names: work must not be quadratic in a text that repeats itself.
        nameless = [i for i in range(len(target.graph.entities)) if stands_in(target.heads[i])]
        self._nameless = nameless[:MAX_CANDIDATES]
        self.scores = [self._align_entity(entity) for entity in range(len(source.heads))]
        """Per entity of the source: entity of the target -> correspondence, 0 to 1.

        All rows are made at once, since ``candidates`` compares each with its rivals.
        """
        self._best: dict[int, float] = {}
        for row in self.scores:
            for entity, score in row.items():
                self._best[entity] = max(self._best.get(entity, 0.0), score)
        self._candidates: dict[int, list[tuple[int, float]]] = {}

    @cached_property
    def scene_overlap(self) -> float:
        """Share of the source's words in elements that the target's elements contain, 0 to 1.

        Rare words weigh more. The more the scenes agree, the likelier two entities with one name
        are the same.
        """
        total = agreement = 0.0
        for term in self.source.places:
            if term[0] not in PREPOSITIONS and term[1] != "x":
                weight = COMMONEST_WORD_WEIGHT + rarity(term[0])
                similarity = self.best_similarity(term)
                total += weight
                if similarity >= MIN_SCENE_SIMILARITY:
                    agreement += weight * similarity
        return agreement / total if total else EMPTY_PROFILE_AGREEMENT

    def by_name(self, heads: tuple[Term, ...]) -> dict[int, float]:
        """Entities of the target with a similar name -> similarity of the names."""
        alike = self._names.get(heads)
        if alike is None:
            alike = dict(islice(self._find_similar_names(heads), MAX_CANDIDATES))
            self._names[heads] = alike
        return alike

    def _find_similar_names(self, heads: tuple[Term, ...]) -> Iterator[tuple[int, float]]:
        alike: dict[Term, float] = {}
        for head in heads:
            for other, value in self.words(head).items():
                alike[other] = max(alike.get(other, 0.0), value)
        entities = set()
        # Best first, since only the first ones are kept. Among equals by spelling, so that the
        # order does not depend on hashes.
        for other in sorted(alike, key=lambda term: (-alike[term], term)):
            for entity in self.target.by_head.get(other, ()):
                if entity not in entities:
                    entities.add(entity)
                    yield entity, alike[other]

    def _align_entity(self, entity: int) -> dict[int, float]:
        viewer = self._find_viewer(entity)
        if viewer is not None:
            return {viewer: 1.0}
        # Candidates by sort (two persons, a pronoun) are weak; similar names replace them.
        alike = {**self._by_sort(entity), **self.by_name(tuple(self.source.heads[entity]))}
        agreement = self.context_agreement(entity, alike)
        row = {}
        for other, value in alike.items():
            if self.target.plural[other] != self.source.plural[entity]:
                value *= OTHER_NUMBER_FACTOR
            context = 1 - CONTEXT_SHARE + CONTEXT_SHARE * agreement[other]
            row[other] = value * max(MIN_CONTEXT_FACTOR, context)
        return row

    def _find_viewer(self, entity: int) -> int | None:
        """Return the target's viewer if the entity is the viewer."""
        mine = self.source.graph.entities
        if entity < len(mine) and (mine[entity].us or is_viewer(self.source.heads[entity])):
            for index, other in enumerate(self.target.graph.entities):
                if other.us:
                    return index
        return None

    def _by_sort(self, entity: int) -> dict[int, float]:
        """Entities of the target that may be this one under another name."""
        heads, who = self.source.heads[entity], self.source.genders[entity]
        anaphor = is_anaphor(heads)
        others: Iterable[int] = self._nameless
        if who or stands_in(heads):
            others = range(min(len(self.target.graph.entities), MAX_CANDIDATES))
        alike = {}
        for other in others:
            whom = self.target.genders[other]
            if anaphor or is_anaphor(self.target.heads[other]):
                alike[other] = ANAPHOR_SIMILARITY
            elif who & whom or not (who or whom):
                alike[other] = STAND_IN_SIMILARITY
        return alike

    def context_agreement(self, entity: int, others: Iterable[int]) -> dict[int, float]:
        """Other entity -> share of ``entity``'s profile said of it; below 0 if they contradict."""
        contexts = self._contexts.setdefault(entity, {})
        missing = [other for other in others if other not in contexts]
        profile = self.source.term_profiles[entity]
        if missing and profile:
            rows = [(weight, self.support_by_entity(term)) for term, weight in profile.items()]
            total = fsum(profile.values())
            for other in missing:
                contexts[other] = self._profile_agreement(profile, rows, other, total)
        elif missing:
            contexts.update(dict.fromkeys(missing, EMPTY_PROFILE_AGREEMENT))
        return contexts

    def _profile_agreement(
        self,
        profile: dict[Term, float],
        rows: list[tuple[float, dict[int, float]]],
        other: int,
        total: float,
    ) -> float:
        agreement = fsum([weight * row.get(other, 0.0) for weight, row in rows])
        if not self.target.claims[other]:
            return agreement / total
        # Support is a mean, in which one contradiction among ten words would drown. So each one
        # scales the agreement down, and the part that is cut off counts against the pair.
        clashes = 0
        for term, weight in profile.items():
            if weight < MIN_OWN_ATTACHMENT:
                continue
            best = self.term_support(term, other)
            if best < MIN_COMPATIBLE_SUPPORT and self.contradicts(term, other):
                clashes += 1
                agreement -= weight * best
        left: float = CONTRADICTION_FACTOR**clashes
        return agreement / total * left - (1 - left)

    def support_by_entity(self, term: Term) -> dict[int, float]:
        """Entity of the target -> strength, 0 to 1, with which ``term`` is said of it."""
        support = self._supports.get(term)
        if support is None:
            support = {}
            for other, alike in self.words(term).items():
                for entity, weight in self.target.attachments_by_term[other].items():
                    if alike * weight > support.get(entity, 0.0):
                        support[entity] = alike * weight
            self._supports[term] = support
        return support

    def best_similarity(self, term: Term) -> float:
        """Similarity of a term to the most similar one of the target, 0 to 1."""
        return max(self.words(term).values(), default=0.0)

    def term_support(self, term: Term, entity: int) -> float:
        """Strength, 0 to 1, with which ``term`` is said of one of the target's entities."""
        return self.support_by_entity(term).get(entity, 0.0)

    def contradicts(self, term: Term, entity: int) -> bool:
        """Return True if an attribute of the target's entity contradicts the term."""
        return any(conflict(term, claim) for claim in self.target.claims[entity])

    def candidates(self, entity: int) -> list[tuple[int, float]]:
        """Entities of the target that may be this one, with certainty; the first has 1."""
        candidates = self._candidates.get(entity)
        if candidates is None:
            # Soft assignment, without a search over all pairings: an entity of the target counts
            # less if it fits another entity of the source better.
            fair = {}
            for other, score in self.scores[entity].items():
                if score:
                    fair[other] = score * (score / self._best[other])
            top = max(fair.values(), default=0.0)
            candidates = []
            for other, score in sorted(fair.items(), key=lambda item: (-item[1], item[0])):
                if score > top / 3:
                    candidates.append((other, (score / top) ** CERTAINTY_EXPONENT))
            self._candidates[entity] = candidates
        return candidates

    def find_counterpart(self, other: int) -> int | None:
        """Find the source's entity that one of the target most likely is, if there is any."""
        return self._source_counterparts.get(other)

    @cached_property
    def _source_counterparts(self) -> dict[int, int]:
        best: dict[int, tuple[float, int]] = {}
        for entity in range(len(self.source.graph.entities)):
            for other, certainty in self.candidates(entity)[:1]:
                score = certainty * self.scores[entity][other] * (1 - self.uncertainty(entity))
                if score > best.get(other, (0.0, 0))[0]:
                    best[other] = score, entity
        return {other: entity for other, (_, entity) in best.items()}

    def mixes_up(self, entity: int, term: Term, whom: int) -> bool:
        """Return True if, apart from ``term``, the entity fits one better that lacks the term.

        "The larger dog has a tan patch", where the target gives the patch to the smaller one.
        """
        rest = dict(self.source.term_profiles[entity])
        rest.pop(term, None)
        names = self.by_name(tuple(self.source.heads[entity]))
        least = max(MIN_SAME_NAME_SIMILARITY, names.get(whom, 0.0))
        others = []
        for other in self.scores[entity]:
            if other == whom:
                continue
            may_be = names.get(other, 0.0) >= least or is_anaphor(self.target.heads[other])
            if may_be and self._lacks(term, other):
                others.append(other)
        if not others or not rest:
            return False

        def profile_support(other: int) -> float:
            return fsum(weight * self.term_support(each, other) for each, weight in rest.items())

        margin = MIN_PROFILE_MARGIN * fsum(rest.values())
        return max(map(profile_support, others)) > profile_support(whom) + margin

    def _lacks(self, term: Term, entity: int) -> bool:
        """Return True if the target does not say the term of its entity."""
        if self.contradicts(term, entity):
            return True
        return self.term_support(term, entity) < MIN_ATTRIBUTE_SUPPORT

    def best_score(self, entity: int) -> float:
        """Correspondence of the likeliest entity of the target, 0 to 1."""
        candidates = self.candidates(entity)
        return self.scores[entity][candidates[0][0]] if candidates else 0.0

    def uncertainty(self, entity: int) -> float:
        """Uncertainty, 0 to 1, whether the likeliest entity of the target has the same name."""
        names = self.by_name(tuple(self.source.heads[entity]))
        name = 0.0
        for other, certainty in self.candidates(entity):
            name = max(name, certainty * names.get(other, 0.0))
        if self._find_viewer(entity) is not None:
            name = 1.0
        confidence = (name - STAND_IN_SIMILARITY) / (CERTAIN_NAME_SIMILARITY - STAND_IN_SIMILARITY)
        return 1.0 - min(1.0, max(0.0, confidence))

    def relation_candidates(self, entity: int) -> list[tuple[int, float]]:
        """The likeliest of ``candidates``, and unresolved pronouns that may be the entity."""
        candidates = dict(self.candidates(entity)[:MAX_RELATION_CANDIDATES])
        who = self.source.genders[entity]
        pronouns = [p for p in self.target.pronouns if who & self.target.genders[p]]
        for pronoun in pronouns[:MAX_RELATION_CANDIDATES]:
            candidates.setdefault(pronoun, PRONOUN_CERTAINTY)
        return list(candidates.items())
