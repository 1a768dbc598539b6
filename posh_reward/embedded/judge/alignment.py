"""Correspondence of the words and things of two descriptions.

Things correspond by name and by what is said of them; contradicting attributes (the larger dog,
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
from posh_reward.embedded.judge.index import Reading

STAND_IN = 0.45  # similarity of persons with different names, or of a pronoun and a person
ANOTHER = 0.6  # similarity of one, other, second and the like to any name
OTHER_NUMBER = 0.8  # factor if one thing corresponds to several: the dog, two dogs
CONTEXT = 0.5  # share of a correspondence that depends on profiles instead of names
CLASH_FLOOR = 0.4  # minimum factor on a name's similarity: a red dress may be a blue dress
UNSAID = 0.5  # agreement of a thing with an empty profile
STRONG = 0.85  # minimum attachment of a word that is said of the thing itself
CLASH = 0.5  # factor on an agreement for each contradicting attribute
CLASHING = 0.5  # support above which a term does not contradict
SAME_NAME = 0.8  # minimum similarity of names for two things to be mixed up
CLEARLY = 0.1  # share of a profile that decides between two things
PLAIN = 0.5  # minimum similarity for a word of the source to count as in the target's scene
LEAST_SUPPORT = 0.3  # minimum support for an attribute to count
SHARPNESS = 3.0  # exponent that favours the best correspondence over the next
PRONOUN = 0.7  # certainty that an unresolved pronoun means a given person
KIND = 0.7  # similarity of a kind and its genus, above which names raise no doubt
COMMON = 0.3  # weight of the commonest word in a scene; the rarest has 1 more
MOST_PLAYERS = 4  # things of the target that are tried for each end of a relation
MOST_CANDIDATES = 40  # namesakes tried per thing, which bounds work on a text of one repeated word


class Matching:
    """Correspondence of the things and words of ``source`` with those of ``target``."""

    def __init__(self, source: Reading, target: Reading) -> None:
        self.source = source
        self.target = target
        self.words = cache(target.index.like)  # similar terms of the target -> similarity
        self._supports: dict[Term, dict[int, float]] = {}
        self._names: dict[tuple[Term, ...], dict[int, float]] = {}
        self._contexts: dict[int, dict[int, float]] = {}
        # Bounded, as are namesakes: work must not be quadratic in a text that repeats itself.
        nameless = [i for i in range(len(target.graph.entities)) if stands_in(target.heads[i])]
        self._nameless = nameless[:MOST_CANDIDATES]
        self.scores = [self._row(thing) for thing in range(len(source.heads))]
        """Per thing of the source: thing of the target -> correspondence, 0 to 1.

        All rows are made at once, since ``cast`` compares each with its rivals.
        """
        self._best: dict[int, float] = {}
        for row in self.scores:
            for thing, score in row.items():
                self._best[thing] = max(self._best.get(thing, 0.0), score)
        self._cast: dict[int, list[tuple[int, float]]] = {}

    @cached_property
    def scene(self) -> float:
        """Share of the source's words in elements that the target's elements contain, 0 to 1.

        Rare words weigh more. The more the scenes agree, the likelier two things with one name are
        the same.
        """
        total = agreement = 0.0
        for term in self.source.places:
            if term[0] not in PREPOSITIONS and term[1] != "x":
                weight = COMMON + rarity(term[0])
                similarity = self.anywhere(term)
                total += weight
                agreement += weight * similarity if similarity >= PLAIN else 0.0
        return agreement / total if total else UNSAID

    def by_name(self, heads: tuple[Term, ...]) -> dict[int, float]:
        """Things of the target with a similar name -> similarity of the names."""
        alike = self._names.get(heads)
        if alike is None:
            alike = self._names[heads] = dict(islice(self._namesakes(heads), MOST_CANDIDATES))
        return alike

    def _namesakes(self, heads: tuple[Term, ...]) -> Iterator[tuple[int, float]]:
        alike: dict[Term, float] = {}
        for head in heads:
            for other, value in self.words(head).items():
                alike[other] = max(alike.get(other, 0.0), value)
        things = set()
        # Best first, since only the first ones are kept. Among equals by spelling, so that the
        # order does not depend on hashes.
        for other in sorted(alike, key=lambda term: (-alike[term], term)):
            for thing in self.target.by_head.get(other, ()):
                if thing not in things:
                    things.add(thing)
                    yield thing, alike[other]

    def _row(self, thing: int) -> dict[int, float]:
        viewer = self._viewer(thing)
        if viewer is not None:
            return {viewer: 1.0}
        # Candidates by sort (two persons, a pronoun) are weak; similar names replace them.
        alike = {**self._by_sort(thing), **self.by_name(tuple(self.source.heads[thing]))}
        agreement = self.context(thing, alike)
        several = self.source.plural
        return {
            other: value
            * (1 if self.target.plural[other] == several[thing] else OTHER_NUMBER)
            * max(CLASH_FLOOR, 1 - CONTEXT + CONTEXT * agreement[other])
            for other, value in alike.items()
        }

    def _viewer(self, thing: int) -> int | None:
        """Return the target's viewer if the thing is the viewer."""
        mine, theirs = self.source.graph.entities, self.target.graph.entities
        if thing < len(mine) and (mine[thing].us or is_viewer(self.source.heads[thing])):
            return next((i for i, entity in enumerate(theirs) if entity.us), None)
        return None

    def _by_sort(self, thing: int) -> dict[int, float]:
        """Things of the target that may be this one under another name."""
        heads, who = self.source.heads[thing], self.source.genders[thing]
        anaphor = is_anaphor(heads)
        everyone = range(min(len(self.target.graph.entities), MOST_CANDIDATES))
        alike = {}
        for other in everyone if who or stands_in(heads) else self._nameless:
            whom = self.target.genders[other]
            if anaphor or is_anaphor(self.target.heads[other]):
                alike[other] = ANOTHER
            elif who & whom or not (who or whom):
                alike[other] = STAND_IN
        return alike

    def context(self, thing: int, others: Iterable[int]) -> dict[int, float]:
        """Other thing -> share of ``thing``'s profile said of it; below 0 if they contradict."""
        contexts = self._contexts.setdefault(thing, {})
        missing = [other for other in others if other not in contexts]
        profile = self.source.profiles[thing]
        if missing and profile:
            rows = [(weight, self.supports(term)) for term, weight in profile.items()]
            strong = [(term, weight) for term, weight in profile.items() if weight >= STRONG]
            total = fsum(profile.values())
            contexts.update(
                {other: self._agreement(rows, strong, other, total) for other in missing}
            )
        elif missing:
            contexts.update(dict.fromkeys(missing, UNSAID))
        return contexts

    def _agreement(
        self,
        rows: list[tuple[float, dict[int, float]]],
        strong: list[tuple[Term, float]],
        other: int,
        total: float,
    ) -> float:
        agreement = fsum([weight * row.get(other, 0.0) for weight, row in rows])
        if not self.target.claims[other]:
            return agreement / total
        # Support is a mean, in which one contradiction among ten words would drown. So each one
        # scales the agreement down, and the part that is cut off counts against the pair.
        clashes = 0
        for term, weight in strong:
            best = self.support(term, other)
            if best < CLASHING and self.denies(term, other):
                clashes += 1
                agreement -= weight * best
        left: float = CLASH**clashes
        return agreement / total * left - (1 - left)

    def supports(self, term: Term) -> dict[int, float]:
        """Thing of the target -> strength, 0 to 1, with which ``term`` is said of it."""
        support = self._supports.get(term)
        if support is None:
            support = {}
            for other, alike in self.words(term).items():
                for thing, weight in self.target.said_of[other].items():
                    if alike * weight > support.get(thing, 0.0):
                        support[thing] = alike * weight
            self._supports[term] = support
        return support

    def anywhere(self, term: Term) -> float:
        """Similarity of a term to the most similar one of the target, 0 to 1."""
        return max(self.words(term).values(), default=0.0)

    def support(self, term: Term, thing: int) -> float:
        """Strength, 0 to 1, with which ``term`` is said of one of the target's things."""
        return self.supports(term).get(thing, 0.0)

    def denies(self, term: Term, thing: int) -> bool:
        """Return True if an attribute of the target's thing contradicts the term."""
        return any(conflict(term, claim) for claim in self.target.claims[thing])

    def cast(self, thing: int) -> list[tuple[int, float]]:
        """Things of the target that may be this one, with certainty, the likeliest first with 1."""
        cast = self._cast.get(thing)
        if cast is None:
            row = self.scores[thing]
            # Soft assignment, without a search over all pairings: a thing of the target counts
            # less if it fits another thing of the source better.
            fair = {t: s * (s / self._best[t]) for t, s in row.items() if s}
            top = max(fair.values(), default=0.0)
            by_score = sorted(fair.items(), key=lambda item: (-item[1], item[0]))
            cast = [(t, (s / top) ** SHARPNESS) for t, s in by_score if s > top / 3]
            self._cast[thing] = cast
        return cast

    def counterpart(self, other: int) -> int | None:
        """The source's thing that a thing of the target most likely is; None if there is none."""
        return self._counterparts.get(other)

    @cached_property
    def _counterparts(self) -> dict[int, int]:
        best: dict[int, tuple[float, int]] = {}
        for thing in range(len(self.source.graph.entities)):
            for other, certainty in self.cast(thing)[:1]:
                score = certainty * self.scores[thing][other] * (1 - self.doubt(thing))
                if score > best.get(other, (0.0, 0))[0]:
                    best[other] = score, thing
        return {other: thing for other, (_, thing) in best.items()}

    def mixes_up(self, thing: int, term: Term, whom: int) -> bool:
        """Return True if, apart from ``term``, the thing fits one better that lacks the term.

        "The larger dog has a tan patch", where the target gives the patch to the smaller one.
        """
        rest = {t: w for t, w in self.source.profiles[thing].items() if t != term}
        names = self.by_name(tuple(self.source.heads[thing]))
        others = [
            t
            for t in self.scores[thing]
            if t != whom
            and (
                names.get(t, 0.0) >= max(SAME_NAME, names.get(whom, 0.0))
                or is_anaphor(self.target.heads[t])
            )
            and (self.denies(term, t) or self.support(term, t) < LEAST_SUPPORT)
        ]
        if not others or not rest:
            return False

        def fit(other: int) -> float:
            return fsum(w * self.support(t, other) for t, w in rest.items())

        return max(map(fit, others)) > fit(whom) + CLEARLY * fsum(rest.values())

    def best_score(self, thing: int) -> float:
        """Correspondence of the likeliest thing of the target, 0 to 1."""
        cast = self.cast(thing)
        return self.scores[thing][cast[0][0]] if cast else 0.0

    def doubt(self, thing: int) -> float:
        """Doubt, 0 to 1, whether the likeliest thing of the target has the same name."""
        names = self.by_name(tuple(self.source.heads[thing]))
        name = max((sure * names.get(t, 0.0) for t, sure in self.cast(thing)), default=0.0)
        if self._viewer(thing) is not None:
            name = 1.0
        return 1.0 - min(1.0, max(0.0, (name - STAND_IN) / (KIND - STAND_IN)))

    def players(self, thing: int) -> list[tuple[int, float]]:
        """The likeliest of ``cast``, and unresolved pronouns that may be the thing."""
        cast = self.cast(thing)[:MOST_PLAYERS]
        who = self.source.genders[thing]
        members = {other for other, _ in cast}
        pronouns = [p for p in self.target.pronouns if who & self.target.genders[p]]
        return cast + [(p, PRONOUN) for p in pronouns[:MOST_PLAYERS] if p not in members]
