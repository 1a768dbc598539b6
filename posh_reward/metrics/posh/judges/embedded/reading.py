"""One description as the embedded judge reads it: its things, its words, and what hangs on what.

*Things* are the entities of the scene graph, in its order, and after them every noun that the
graph does not have as an entity (``leather`` of a leather apron). How firmly a word hangs on a
thing is its *attachment*, 0 to 1: see ``attachment.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

from posh_reward.lexicon.function_words import (
    BOTH,
    FUNCTION_WORDS,
    HAVING,
    NOBODY,
    PERSONAL,
    Genders,
    genders,
    plain_tokens,
    term_of,
    words_of,
)
from posh_reward.lexicon.likeness import TermIndex, is_stuff
from posh_reward.lexicon.meaning import Term, is_plural
from posh_reward.types import Description, Span, Token

SKIPPED = frozenset("det punct cc mark expl predet case intj dep".split())
"""Dependency labels of words that join nothing to a thing."""
HALF = frozenset("prep pobj agent pcomp aux auxpass".split())
"""A preposition and its object are one step together."""
LOOSE = frozenset("advcl ccomp xcomp parataxis npadvmod".split())
"""Other clauses: a step and a half."""
NOUNS = frozenset(("NOUN", "PROPN"))
FURTHEST = 8
"""In half steps."""
PER_STEP = 0.17
SAME_SENTENCE = 0.3
"""Attachment of the rest of the sentence, or of ``WINDOW`` tokens of a longer one."""
WINDOW = 60
BESIDE = 0.6
"""At most ``NEAR`` words from a mention, with no punctuation between."""
NEAR = 3
ELSEWHERE = 0.15
"""Attachment of any other word of the text."""

COSTS = 4
Steps = dict[int, list[int]]
"""Token -> neighbours in the dependency tree, each as ``COSTS`` * neighbour + half steps.

Numbers, since pairs by the thousand would keep the garbage collector busy.
"""


def steps_between(tokens: Sequence[Token]) -> Steps:
    """Neighbours in the dependency tree, function words left out."""
    found: Steps = defaultdict(list)
    for index, token in enumerate(tokens):
        if token.head == index or token.dep in SKIPPED:
            continue
        cost = 1 if token.dep in HALF else 3 if token.dep in LOOSE else 2
        found[index].append(COSTS * token.head + cost)
        found[token.head].append(COSTS * index + cost)
    return found


def stretches(tokens: Sequence[Token]) -> list[int]:
    """Per token the first token of its sentence, or of its part of a very long one."""
    found: list[int] = []
    for index, token in enumerate(tokens):
        same = index > 0 and token.sentence == tokens[index - 1].sentence
        found.append(found[-1] if same and index - found[-1] < WINDOW else index)
    return found


def attachments(tokens: Sequence[Token], steps: Steps, mentions: set[int]) -> dict[int, float]:
    """Token -> attachment to the thing that the mentions name, if more than ``SAME_SENTENCE``."""
    found: dict[int, float] = {}
    for token in _beside(tokens, mentions):
        found[token] = BESIDE
    for token, halves in _distances(tokens, steps, mentions).items():
        weight = 1.0 - PER_STEP * max(0.0, halves / 2 - 1.0)
        if weight > found.get(token, SAME_SENTENCE):
            found[token] = weight
    return found


def _beside(tokens: Sequence[Token], mentions: set[int]) -> set[int]:
    found = set()
    for mention in mentions:
        for step in (1, -1):
            for token in range(mention + step, mention + step * (NEAR + 1), step):
                if not 0 <= token < len(tokens) or tokens[token].pos == "PUNCT":
                    break
                found.add(token)
    return found


def _distances(tokens: Sequence[Token], steps: Steps, mentions: set[int]) -> dict[int, int]:
    """Shortest paths, in half steps. Passing through another noun costs one step more."""
    best = dict.fromkeys(mentions, 0)
    waves: list[list[int]] = [[] for _ in range(FURTHEST + 1)]
    waves[0] = list(mentions)
    for distance, wave in enumerate(waves):
        for token in wave:
            if distance > best[token]:
                continue
            toll = 2 if distance and tokens[token].pos in NOUNS else 0
            for step in steps.get(token, ()):
                neighbour, cost = divmod(step, COSTS)
                through = distance + cost + toll
                if through <= FURTHEST and through < best.get(neighbour, FURTHEST + 1):
                    best[neighbour] = through
                    waves[through].append(neighbour)
    return best


NOUNS = frozenset(("NOUN", "PROPN"))
MAKING = frozenset(("of", "in"))
"""Prepositions that join a thing to its stuff or colour."""
WITHOUT = frozenset("without lacking lack lacks".split())
OTHERS = 0.3
"""Attachment to a thing of another's attribute."""
PART_OF_IT = 0.5
"""The same where the thing has or wears the other: the white of a woman's dress."""


class Reading:
    """Indexes over one description. Everything is a function of the description alone."""

    def __init__(self, description: Description) -> None:
        self.graph = description.graph
        self.tokens = description.tokens or plain_tokens(description.text)
        self.terms = [term_of(token) for token in self.tokens]
        """Per token its term; None for function words and punctuation."""
        places: dict[Term, list[int]] = defaultdict(list)
        self.by_word: dict[str, Term] = {}
        """Lower-case word -> its term (that of its first token)."""
        for index, term in enumerate(self.terms):
            if term is not None:
                places[term].append(index)
                self.by_word.setdefault(term[0], term)
        self.places = dict(places)
        """Term -> tokens."""
        self._starts = {token.span[0]: i for i, token in enumerate(self.tokens)}
        entities = [self.within(entity.spans) for entity in self.graph.entities]
        taken = {token for tokens in entities for token in tokens}
        loose = [i for i, t in enumerate(self.tokens) if t.pos in NOUNS and i not in taken]
        self.mentions = entities + [[i] for i in loose]
        """Per thing the tokens of its mentions."""
        self.owned = self._owned(loose)
        """Per thing the tokens of its attributes."""
        self.claims = [self._terms_at(owned) for owned in self.owned]
        """Per thing the terms of its attributes."""
        self.heads = [self._heads(thing) for thing in range(len(self.mentions))]
        """Per thing the last word of each mention: what kind of thing it is."""
        for owner, stuff in self.made_of:
            self.claims[owner] += self.heads[stuff]
        self.genders = [self._genders(thing) for thing in range(len(self.mentions))]
        """Per thing which persons it can be; none for no person."""
        self.plural = [any(map(is_plural, heads)) for heads in self.heads]
        """Per thing whether it is several."""
        self.by_head: dict[Term, list[int]] = defaultdict(list)
        """Last word of a mention -> things."""
        for thing, heads in enumerate(self.heads):
            for head in heads:
                self.by_head[head].append(thing)
        self._steps = steps_between(self.tokens)
        self._stretches = stretches(self.tokens)
        self._near = [{self._stretches[i] for i in tokens} for tokens in self.mentions]
        self._attached: dict[int, dict[int, float]] = {}
        self._firm: dict[int, dict[Term, list[int]]] = {}

    @cached_property
    def index(self) -> TermIndex:
        """The text's terms by meaning."""
        return TermIndex(self.places)

    @cached_property
    def owners(self) -> dict[int, set[int]]:
        """Token -> entities of which it is an attribute."""
        found: dict[int, set[int]] = defaultdict(set)
        for entity in range(len(self.graph.entities)):
            for token in self.owned[entity]:
                found[token].add(entity)
        return found

    @cached_property
    def partners(self) -> list[dict[int, dict[str, None]]]:
        """Per thing: entity that a relation joins it to -> words of the relations, each once."""
        found: list[dict[int, dict[str, None]]] = [{} for _ in self.mentions]
        for relation in self.graph.relations:
            a, b = relation.subject, relation.object
            words = dict.fromkeys(relation.text.lower().split())
            found[a].setdefault(b, {}).update(words)
            found[b].setdefault(a, {}).update(words)
        return found

    @cached_property
    def made_of(self) -> list[tuple[int, int]]:
        """(Thing, its stuff or colour) where the two are joined by "of" or "in": a cup of tin."""
        return [
            (relation.subject, relation.object)
            for relation in self.graph.relations
            if relation.subject != relation.object
            and MAKING & set(relation.text.lower().split()[-1:])
            and any(is_stuff(head) for head in self.heads[relation.object])
        ]

    @cached_property
    def directed(self) -> set[tuple[int, int]]:
        """(Subject, object) of all relations."""
        return {(relation.subject, relation.object) for relation in self.graph.relations}

    @cached_property
    def negated(self) -> set[int]:
        """Things that are said not to be there: no shoes, a cup without a handle."""
        denied = {token.head for token in self.tokens if token.text.lower() == "no"}
        denied |= {
            i for i, t in enumerate(self.tokens) if self.tokens[t.head].text.lower() in WITHOUT
        }
        return {thing for thing, tokens in enumerate(self.mentions) if denied & set(tokens)}

    @cached_property
    def pronouns(self) -> list[int]:
        """Entities that have no name: nobody knows who ``she`` is."""
        return [i for i in range(len(self.graph.entities)) if not self.heads[i]]

    @cached_property
    def profiles(self) -> list[dict[Term, float]]:
        """Per thing: term -> attachment of what is said of it, its own name left out."""
        return [self._profile(thing) for thing in range(len(self.mentions))]

    @cached_property
    def said_of(self) -> dict[Term, dict[int, float]]:
        """Term -> thing -> attachment, in the same sentence or nearer."""
        together: dict[int, dict[int, float]] = defaultdict(dict)
        for thing, near in enumerate(self._near):
            for stretch in near:
                together[stretch][thing] = SAME_SENTENCE
        found: dict[Term, dict[int, float]] = {}
        for term, tokens in self.places.items():
            row = found[term] = {}
            for token in tokens:
                row.update(together.get(self._stretches[token], ()))
            row.update(self.firmly_said_of[term])
        return found

    @cached_property
    def firmly_said_of(self) -> dict[Term, dict[int, float]]:
        """The same without what is only in the same sentence."""
        found: dict[Term, dict[int, float]] = {term: {} for term in self.places}
        for thing in range(len(self.mentions)):
            for token, weight in self.attached(thing).items():
                term = self.terms[token]
                if term is not None and weight > found[term].get(thing, 0.0):
                    found[term][thing] = weight
        return found

    @cached_property
    def sentences(self) -> int:
        """How many sentences the text has."""
        return len({token.sentence for token in self.tokens})

    @cached_property
    def salience(self) -> list[float]:
        """Per thing the share of sentences that mention it."""
        return [
            len({self.tokens[i].sentence for i in tokens}) / max(1, self.sentences)
            for tokens in self.mentions
        ]

    def hold(self, thing: int, token: int) -> float:
        """Attachment of any token to a thing."""
        firm = (self._attached.get(thing) or self.attached(thing)).get(token)
        if firm is not None:
            return firm
        return SAME_SENTENCE if self._stretches[token] in self._near[thing] else ELSEWHERE

    def hold_of_both(self, a: int, b: int, term: Term) -> float:
        """Best mean attachment of one of a term's tokens to two things.

        Looks only where the two are: trying every token would be quadratic in a long text.
        """
        firm = [*self._firm_tokens(a).get(term, ()), *self._firm_tokens(b).get(term, ())]
        best = max((self.hold(a, i) + self.hold(b, i) for i in firm), default=0.0)
        near = [self._stretches_of[term].isdisjoint(self._near[thing]) for thing in (a, b)]
        apart = sum(ELSEWHERE if far else SAME_SENTENCE for far in near)
        if not any(near) and self._near[a].isdisjoint(self._near[b] & self._stretches_of[term]):
            apart = SAME_SENTENCE + ELSEWHERE
        return max(best, apart) / 2

    def _firm_tokens(self, thing: int) -> dict[Term, list[int]]:
        """Term -> its tokens that hang on a thing more firmly than by being in its sentence."""
        found = self._firm.get(thing)
        if found is None:
            found = defaultdict(list)
            for token in self.attached(thing):
                term = self.terms[token]
                if term is not None:
                    found[term].append(token)
            self._firm[thing] = found
        return found

    @cached_property
    def _stretches_of(self) -> dict[Term, set[int]]:
        return {term: {self._stretches[i] for i in at} for term, at in self.places.items()}

    def within(self, spans: tuple[Span, ...]) -> list[int]:
        """Tokens that start inside the spans, in text order."""
        inside = {at for first, end in spans for at in range(first, end) if at in self._starts}
        return [self._starts[at] for at in sorted(inside)]

    def attached(self, thing: int) -> dict[int, float]:
        """Token -> attachment to the thing, where it is more than being in the same sentence."""
        found = self._attached.get(thing)
        if found is None:
            mentions = set(self.mentions[thing])
            found = attachments(self.tokens, self._steps, mentions)
            for token, weight in found.items():
                owners = self.owners.get(token)
                if owners and thing not in owners:
                    found[token] = min(weight, self._share(thing, owners))
            found.update(dict.fromkeys(self.owned[thing] | mentions, 1.0))
            self._attached[thing] = found
        return found

    def _share(self, thing: int, owners: set[int]) -> float:
        """Attachment to a thing of what is an attribute of others: most if it has one of them."""
        partners = self.partners[thing]
        return max(PART_OF_IT if HAVING & set(partners.get(o, ())) else OTHERS for o in owners)

    def _owned(self, loose: list[int]) -> list[set[int]]:
        entities = self.graph.entities
        owned = [{t for a in e.attributes for t in self.within(a.spans)} for e in entities]
        beside: dict[int, set[int]] = defaultdict(set)
        for tokens in owned:
            for token in tokens:
                beside[token] |= tokens
        # Of a noun that is an attribute itself, all is said that is said with it: ivory satin.
        return owned + [beside[token] - {token} for token in loose]

    def _terms_at(self, tokens: set[int]) -> list[Term]:
        return [term for i in sorted(tokens) if (term := self.terms[i]) is not None]

    def _heads(self, thing: int) -> list[Term]:
        if thing >= len(self.graph.entities):
            return self._terms_at(set(self.mentions[thing]))
        lasts = [words_of(text)[-1:] for text in self.graph.entities[thing].heads]
        words = [word for last in lasts for word in last if word not in FUNCTION_WORDS]
        return list(dict.fromkeys(self.by_word.get(word, (word, "n")) for word in words))

    def _genders(self, thing: int) -> Genders:
        named = [genders(head) for head in self.heads[thing]]
        names = {self.tokens[i].pos for i in self.mentions[thing]} == {"PROPN"}
        if names and named == [NOBODY]:
            named = [BOTH]
        words = {self.tokens[i].text.lower() for i in self.mentions[thing]}
        pronouns = [genders((word, "x")) for word in words & PERSONAL]
        return frozenset.intersection(*(named + pronouns or [BOTH]))

    def _profile(self, thing: int) -> dict[Term, float]:
        own = set(self.mentions[thing])
        found: dict[Term, float] = {}
        for token, weight in self.attached(thing).items():
            term = self.terms[token]
            if term is not None and token not in own:
                found[term] = max(found.get(term, 0.0), weight)
        return found
