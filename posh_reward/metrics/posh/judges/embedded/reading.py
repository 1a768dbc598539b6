"""One description as the embedded judge reads it: its things, and what the text says of each.

*Things* are the entities of the scene graph, in its order, and after them every noun that stands
within another element (``leather`` of a leather apron). Only tokens of elements are evidence:
words that no entity, attribute or relation covers were not said of anything, however many there
are. How firmly a word belongs to a thing is its *attachment*, 0 to 1: 1 for the thing's own words
and for those next to its mentions in the dependency tree, less with each further step, 0 beyond.
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
from posh_reward.lexicon.meaning import Term, is_concrete, is_material, is_plural
from posh_reward.types import Description, Span, Token

NO_LINKS = frozenset("det punct cc mark expl predet case intj dep".split())
"""Dependency labels of words that join nothing to a thing."""
HALF = frozenset("prep pobj agent pcomp aux auxpass".split())
"""A preposition and its object are one step together."""
LOOSE = frozenset("advcl ccomp xcomp parataxis npadvmod".split())
"""Other clauses: a step and a half."""
NOUNS = frozenset(("NOUN", "PROPN"))
FURTHEST = 8  # reach of an attachment, in half steps of the tree
PER_STEP = 0.17  # attachment lost with each step of the tree beyond the first
COSTS = 4  # packing of a step and its cost in one number
MAKING = frozenset(("of", "in"))  # prepositions that join a thing to its stuff or colour
WITHOUT = frozenset("without lacking lack lacks".split())
OTHERS = 0.3  # attachment to a thing of another's attribute
PART_OF_IT = 0.5  # the same where the thing has or wears the other: the white of a woman's dress
MADE_UP = 0.85  # the same where the thing is of the other, and that is nobody: tufts of white hair

Steps = dict[int, list[int]]
"""Token -> neighbours in the dependency tree, each as ``COSTS`` * neighbour + half steps.

Numbers, since pairs by the thousand would keep the garbage collector busy.
"""


class Reading:
    """Indexes over one description. Everything is a function of the description alone."""

    def __init__(self, description: Description) -> None:
        self.graph = description.graph
        self.tokens = description.tokens or plain_tokens(description.text)
        self._starts = {token.span[0]: i for i, token in enumerate(self.tokens)}
        # Without a parse there are no elements either, and bare words have to do.
        everything = set(range(len(self.tokens)))
        element_tokens = self._element_tokens() if description.tokens else everything
        self.terms: list[Term | None] = [None] * len(self.tokens)
        """Per token its term; None for function words, punctuation, and outside of elements."""
        places: dict[Term, list[int]] = defaultdict(list)
        self.by_word: dict[str, Term] = {}
        """Lower-case word -> its term (that of its first token)."""
        for index, token in enumerate(self.tokens):
            term = term_of(token)
            if term is not None:
                self.by_word.setdefault(term[0], term)
                if index in element_tokens:
                    places[term].append(index)
                    self.terms[index] = term
        self.places = dict(places)
        """Term -> tokens."""
        entities = [self.tokens_in(entity.spans) for entity in self.graph.entities]
        own = {token for tokens in entities for token in tokens}
        # Parsers call the satin of a satin dress an adjective as often as not.
        loose = [
            i
            for i in sorted(element_tokens - own)
            if self.tokens[i].pos in NOUNS
            or (self.tokens[i].pos == "ADJ" and is_noun(self.tokens[i].text.lower()))
        ]
        self.mentions = entities + [[i] for i in loose]
        """Per thing the tokens of its mentions."""
        self.attribute_tokens = self._attribute_tokens(loose)
        """Per thing the tokens of its attributes."""
        self.claims = [self._terms_at(tokens) for tokens in self.attribute_tokens]
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
        self._attached: dict[int, dict[int, float]] = {}

    @cached_property
    def index(self) -> TermIndex:
        """The text's terms by meaning."""
        return TermIndex(self.places)

    @cached_property
    def owners(self) -> dict[int, set[int]]:
        """Token -> entities of which it is an attribute."""
        owners: dict[int, set[int]] = defaultdict(set)
        for entity in range(len(self.graph.entities)):
            for token in self.attribute_tokens[entity]:
                owners[token].add(entity)
        return owners

    @cached_property
    def partners(self) -> list[dict[int, dict[str, None]]]:
        """Per thing: entity that a relation joins it to -> words of the relations, each once."""
        partners: list[dict[int, dict[str, None]]] = [{} for _ in self.mentions]
        for relation in self.graph.relations:
            a, b = relation.subject, relation.object
            words = dict.fromkeys(relation.text.lower().split())
            partners[a].setdefault(b, {}).update(words)
            partners[b].setdefault(a, {}).update(words)
        return partners

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
    def directions(self) -> set[tuple[int, int]]:
        """(Subject, object) of all relations."""
        return {(relation.subject, relation.object) for relation in self.graph.relations}

    @cached_property
    def absences(self) -> set[int]:
        """Things that are said not to be there: no shoes, a cup without a handle."""
        heads = {token.head for token in self.tokens if token.text.lower() == "no"}
        heads |= {
            i for i, t in enumerate(self.tokens) if self.tokens[t.head].text.lower() in WITHOUT
        }
        return {thing for thing, tokens in enumerate(self.mentions) if heads & set(tokens)}

    @cached_property
    def before_hyphens(self) -> set[str]:
        """Lower-case words before a hyphen: the three of a three-cornered hat is no count."""
        ends = {token.span[0] for token in self.tokens if token.text == "-"}
        return {token.text.lower() for token in self.tokens if token.span[1] in ends}

    @cached_property
    def pronouns(self) -> list[int]:
        """Entities that have no name: nobody knows who ``she`` is."""
        return [i for i in range(len(self.graph.entities)) if not self.heads[i]]

    @cached_property
    def profiles(self) -> list[dict[Term, float]]:
        """Per thing: term -> attachment, the thing's own name left out."""
        return [
            self._best_by_term(self.attachments(thing), set(self.mentions[thing]))
            for thing in range(len(self.mentions))
        ]

    @cached_property
    def said_of(self) -> dict[Term, dict[int, float]]:
        """Term -> thing -> attachment."""
        said_of: dict[Term, dict[int, float]] = {term: {} for term in self.places}
        for thing in range(len(self.mentions)):
            for term, weight in self._best_by_term(self.attachments(thing), set()).items():
                said_of[term][thing] = weight
        return said_of

    @cached_property
    def holders(self) -> dict[int, dict[int, float]]:
        """Token -> thing -> attachment."""
        holders: dict[int, dict[int, float]] = defaultdict(dict)
        for thing in range(len(self.mentions)):
            for token, weight in self.attachments(thing).items():
                holders[token][thing] = weight
        return holders

    @cached_property
    def salience(self) -> list[float]:
        """Per thing the share of sentences that mention it."""
        sentences = len({token.sentence for token in self.tokens})
        return [
            len({self.tokens[i].sentence for i in tokens}) / max(1, sentences)
            for tokens in self.mentions
        ]

    def tokens_in(self, spans: tuple[Span, ...]) -> list[int]:
        """Tokens that start inside the spans, in text order."""
        starts = {at for first, end in spans for at in range(first, end) if at in self._starts}
        return [self._starts[at] for at in sorted(starts)]

    def attachments(self, thing: int) -> dict[int, float]:
        """Token -> attachment to the thing, where there is any."""
        attachments = self._attached.get(thing)
        if attachments is None:
            mentions = set(self.mentions[thing])
            attachments = {
                token: 1.0 - PER_STEP * max(0.0, halves / 2 - 1.0)
                for token, halves in distances(self.tokens, self._steps, mentions).items()
            }
            for token, weight in attachments.items():
                owners = self.owners.get(token)
                # The tree alone would give "red" in "a man in a red coat" to the man, too: an
                # attribute has an owner, and others get a share at most.
                if owners and thing not in owners:
                    attachments[token] = min(weight, self._share(thing, owners))
            attachments.update(dict.fromkeys(self.attribute_tokens[thing] | mentions, 1.0))
            self._attached[thing] = attachments
        return attachments

    def _share(self, thing: int, owners: set[int]) -> float:
        """Attachment to a thing of an attribute of others: most if it is made up of one."""

        def share(owner: int) -> float:
            words = self.partners[thing].get(owner, {})
            if "of" in words and (thing, owner) in self.directions and not self.genders[owner]:
                return MADE_UP
            return PART_OF_IT if HAVING & set(words) else OTHERS

        return max(map(share, owners))

    def _element_tokens(self) -> set[int]:
        """Tokens of the elements that count: those of the viewer alone cost nothing to write."""
        entities = self.graph.entities
        spans = [
            *(entity.spans for entity in entities),
            *(a.spans for entity in entities if not entity.flagged for a in entity.attributes),
            *(
                relation.spans
                for relation in self.graph.relations
                if not (entities[relation.subject].flagged and entities[relation.object].flagged)
            ),
        ]
        return {token for each in spans for token in self.tokens_in(each)}

    def _attribute_tokens(self, loose: list[int]) -> list[set[int]]:
        entities = self.graph.entities
        attribute_tokens = [
            {t for a in e.attributes for t in self.tokens_in(a.spans)} for e in entities
        ]
        beside: dict[int, set[int]] = defaultdict(set)
        for tokens in attribute_tokens:
            for token in tokens:
                beside[token] |= tokens
        # Of a noun that is an attribute itself, all is said that is said with it: ivory satin.
        return attribute_tokens + [beside[token] - {token} for token in loose]

    def _terms_at(self, tokens: set[int]) -> list[Term]:
        return [term for i in sorted(tokens) if (term := self.terms[i]) is not None]

    def _best_by_term(self, attachments: dict[int, float], without: set[int]) -> dict[Term, float]:
        best: dict[Term, float] = {}
        for token, weight in attachments.items():
            term = self.terms[token]
            if term is not None and token not in without and weight > best.get(term, 0.0):
                best[term] = weight
        return best

    def _heads(self, thing: int) -> list[Term]:
        if thing >= len(self.graph.entities):
            return self._terms_at(set(self.mentions[thing]))
        lasts = [words_of(text)[-1:] for text in self.graph.entities[thing].heads]
        words = [word for last in lasts for word in last if word not in FUNCTION_WORDS]
        return list(dict.fromkeys(self.by_word.get(word, (word, "n")) for word in words))

    def _genders(self, thing: int) -> Genders:
        of_heads = [genders(head) for head in self.heads[thing]]
        names = {self.tokens[i].pos for i in self.mentions[thing]} == {"PROPN"}
        if names and of_heads == [NOBODY]:
            of_heads = [BOTH]
        words = {self.tokens[i].text.lower() for i in self.mentions[thing]}
        pronouns = [genders((word, "x")) for word in words & PERSONAL]
        return frozenset.intersection(*(of_heads + pronouns or [BOTH]))


def steps_between(tokens: Sequence[Token]) -> Steps:
    """Neighbours in the dependency tree, function words left out."""
    steps: Steps = defaultdict(list)
    for index, token in enumerate(tokens):
        if token.head == index or token.dep in NO_LINKS:
            continue
        cost = 1 if token.dep in HALF else 3 if token.dep in LOOSE else 2
        steps[index].append(COSTS * token.head + cost)
        steps[token.head].append(COSTS * index + cost)
    return steps


def distances(tokens: Sequence[Token], steps: Steps, mentions: set[int]) -> dict[int, int]:
    """Token -> shortest path to a mention in half steps, up to ``FURTHEST``."""
    best = dict.fromkeys(mentions, 0)
    # A bucket for each distance instead of a heap: there are only nine.
    waves: list[list[int]] = [[] for _ in range(FURTHEST + 1)]
    waves[0] = list(mentions)
    for distance, wave in enumerate(waves):
        for token in wave:
            if distance > best[token]:
                continue
            # Beyond another noun words are likelier said of that: one step more.
            toll = 2 if distance and tokens[token].pos in NOUNS else 0
            for step in steps.get(token, ()):
                neighbour, cost = divmod(step, COSTS)
                through = distance + cost + toll
                if through <= FURTHEST and through < best.get(neighbour, FURTHEST + 1):
                    best[neighbour] = through
                    waves[through].append(neighbour)
    return best


def is_noun(word: str) -> bool:
    """True if a word mostly names a stuff or a thing: the porcelain of a porcelain bowl."""
    noun = (word, "n")
    return is_material(noun) or is_concrete(noun)
