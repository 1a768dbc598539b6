"""One description as the embedded judge reads it: its things, and what the text says of each.

*Things* are the entities of the scene graph, in its order, followed by every noun within another
element (``leather`` of a leather apron). Only words of elements are evidence: words outside all
entities, attributes and relations say nothing about anything, however many there are. *Attachment*,
0 to 1, is how firmly a word belongs to a thing: 1 for the thing's own words and for those next to
its mentions in the dependency tree, less with each further step, 0 beyond.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

from posh_reward.embedded.english.likeness import TermIndex, is_stuff
from posh_reward.embedded.english.meaning import Term, is_concrete, is_material, is_plural
from posh_reward.embedded.english.word_classes import (
    BOTH,
    HAVING,
    NOBODY,
    PERSONAL,
    PREPOSITIONS,
    Genders,
    genders,
    plain_tokens,
    term_of,
    words_of,
)
from posh_reward.embedded.judge.negation import denied_tokens
from posh_reward.types import Description, Relation, Span, Token
from posh_reward.words import FUNCTION_WORDS

PER_STEP = 0.17  # attachment lost with each step of the tree beyond the first
MAKING = frozenset(("of", "in"))  # prepositions that join a thing to its material or colour
MOST_RELATIONS = 40  # of one thing, which bounds work on a text of one repeated word
OTHERS = 0.3  # attachment of another thing's attribute
PART_OF_IT = 0.5  # the same if the thing has or wears the other: the white of a woman's dress
MOST_BESIDE = 64
"""Attributes of a thing, before and after a noun among them, that the noun shares. A repeated word
can be thousands of attributes, and each with each is quadratic work."""
MADE_UP = 0.85  # the same if the thing consists of the other, no person: tufts of white hair

JOINED = ("conj", "parataxis", "ccomp")  # labels of joined clauses, if they have subjects
NOUNS = frozenset(("NOUN", "PROPN"))
NO_LINKS = frozenset("det punct cc mark expl predet case intj dep".split())
"""Dependency labels of words that attach nothing to a thing."""
HALF = frozenset("prep pobj agent pcomp aux auxpass".split())
"""Labels that count half a step, so that a preposition and its object together count one."""
LOOSE = frozenset("advcl ccomp xcomp parataxis npadvmod".split())
"""Labels that count a step and a half: other clauses."""
FURTHEST = 8  # reach of an attachment, in half steps of the tree
COSTS = 4  # base that packs a neighbour and the cost of its step into one number

Steps = dict[int, list[int]]
"""Token -> neighbours in the dependency tree, each as ``COSTS`` * neighbour + half steps.

Plain numbers, since thousands of tuples would keep the garbage collector busy.
"""


class Reading:
    """Indexes over one description, from which alone they are computed."""

    def __init__(self, description: Description) -> None:
        self.graph = description.graph
        self.directions = {(r.subject, r.object) for r in self.graph.relations}
        self.tokens = description.tokens or plain_tokens(description.text)
        self._starts = {token.span[0]: i for i, token in enumerate(self.tokens)}
        # Without a parse there are no elements, so every word has to count.
        everything = set(range(len(self.tokens)))
        element_tokens = self._element_tokens() if description.tokens else everything
        # Per token its term; None for function words, punctuation, and words outside elements.
        self.terms: list[Term | None] = [None] * len(self.tokens)
        self.places: dict[Term, list[int]] = {}  # term -> tokens
        self.by_word: dict[str, Term] = {}  # lower-case word -> the term of its first token
        for index, token in enumerate(self.tokens):
            term = term_of(token)
            if term is not None:
                self.by_word.setdefault(term[0], term)
                if index in element_tokens:
                    self.places.setdefault(term, []).append(index)
                    self.terms[index] = term
        self.index = TermIndex(self.places)  # the text's terms by meaning
        entities = [self.tokens_in(entity.spans) for entity in self.graph.entities]
        own = {token for tokens in entities for token in tokens}
        # Parsers often call the satin of a satin dress an adjective.
        nouns = [
            i
            for i in sorted(element_tokens - own)
            if self.tokens[i].pos in NOUNS
            or (self.tokens[i].pos == "ADJ" and is_noun(self.tokens[i].text.lower()))
        ]
        # From here on lists have one item per thing.
        self.mentions = entities + [[i] for i in nouns]  # tokens of its mentions
        self.attribute_tokens = self._attribute_tokens(nouns)
        self.claims = [self._terms_at(tokens) for tokens in self.attribute_tokens]
        """Terms of its attributes."""
        self.heads = [self._heads(thing) for thing in range(len(self.mentions))]
        """Last word of each mention: the kind of thing it is."""
        for owner, material in self.made_of:
            self.claims[owner] += self.heads[material]
        self.genders = [self._genders(thing) for thing in range(len(self.mentions))]
        self.plural = [any(map(is_plural, heads)) for heads in self.heads]
        # Entities without a name, such as an unresolved "she".
        self.pronouns = [i for i in range(len(entities)) if not self.heads[i]]
        self.by_head: dict[Term, list[int]] = defaultdict(list)  # head -> things
        for thing, heads in enumerate(self.heads):
            for head in heads:
                self.by_head[head].append(thing)
        self._steps = steps_between(self.tokens)
        self._attached: dict[int, dict[int, float]] = {}

    @cached_property
    def owners(self) -> dict[int, set[int]]:
        """Token -> entities that it is an attribute of."""
        owners: dict[int, set[int]] = defaultdict(set)
        for entity, tokens in enumerate(self.attribute_tokens[: len(self.graph.entities)]):
            for token in tokens:
                owners[token].add(entity)
        return owners

    @cached_property
    def clauses(self) -> list[int]:
        """Per token the first word of its clause: of its sentence, or of a joined one."""
        return clause_tops(self.tokens)

    @cached_property
    def by_clause(self) -> dict[int, list[Term]]:
        """Clause -> content words of its elements, without prepositions."""
        by_clause: dict[int, dict[Term, None]] = defaultdict(dict)
        for term, tokens in self.places.items():
            if term[0] not in PREPOSITIONS and term[1] != "x":
                for token in tokens:
                    by_clause[self.clauses[token]][term] = None
        return {clause: list(terms) for clause, terms in by_clause.items()}

    @cached_property
    def sentences(self) -> dict[Term, set[int]]:
        """Term -> sentences that have it in an element."""
        return {
            term: {self.tokens[token].sentence for token in tokens}
            for term, tokens in self.places.items()
        }

    @cached_property
    def by_sentence(self) -> dict[int, list[Term]]:
        """Sentence -> content words of its elements, without prepositions."""
        by_sentence: dict[int, list[Term]] = defaultdict(list)
        for term, sentences in self.sentences.items():
            if term[0] not in PREPOSITIONS and term[1] != "x":
                for sentence in sentences:
                    by_sentence[sentence].append(term)
        return by_sentence

    @cached_property
    def partners(self) -> list[dict[int, dict[str, None]]]:
        """Per thing: related entity -> words of the relations between the two, each once."""
        partners: list[dict[int, dict[str, None]]] = [{} for _ in self.mentions]
        for relation in self.graph.relations:
            a, b = relation.subject, relation.object
            words = dict.fromkeys(relation.text.lower().split())
            partners[a].setdefault(b, {}).update(words)
            partners[b].setdefault(a, {}).update(words)
        return partners

    @cached_property
    def relations_of(self) -> dict[int, list[Relation]]:
        """Thing -> relations that it is an end of."""
        relations: dict[int, list[Relation]] = defaultdict(list)
        for relation in self.graph.relations:
            for end in {relation.subject, relation.object}:
                if len(relations[end]) < MOST_RELATIONS:
                    relations[end].append(relation)
        return relations

    @cached_property
    def passives(self) -> set[str]:
        """Verbs that the text uses in the passive voice, lower-case."""
        helped = {t.head for t in self.tokens if t.dep in ("auxpass", "agent", "nsubjpass")}
        helped |= {
            i
            for i, t in enumerate(self.tokens)
            if t.dep in ("acl", "amod") and not t.text.lower().endswith("ing")
        }
        return {self.tokens[i].text.lower() for i in helped if self.tokens[i].pos == "VERB"}

    @cached_property
    def made_of(self) -> list[tuple[int, int]]:
        """(Thing, its material or colour), where "of" or "in" joins the two: a cup of tin."""
        return [
            (relation.subject, relation.object)
            for relation in self.graph.relations
            if relation.subject != relation.object
            and MAKING & set(relation.text.lower().split()[-1:])
            and any(is_stuff(head) for head in self.heads[relation.object])
        ]

    @cached_property
    def denied(self) -> frozenset[int]:
        """Tokens under a negation."""
        return denied_tokens(self.tokens)

    @cached_property
    def absences(self) -> set[int]:
        """Things that the text says are missing: no shoes, a cup without a handle."""
        return {
            thing
            for thing, tokens in enumerate(self.mentions)
            if tokens and self.denied.issuperset(tokens)
        }

    @cached_property
    def denied_claims(self) -> set[tuple[int, str, int | None]]:
        """Attributes and relations that the text denies: (entity, text, other entity)."""
        if not self.denied:
            return set()
        spans_of: dict[tuple[int, str, int | None], tuple[Span, ...]] = {
            (number, each.text, None): each.spans
            for number, entity in enumerate(self.graph.entities)
            for each in entity.attributes
        }
        spans_of |= {(r.subject, r.text, r.object): r.spans for r in self.graph.relations}
        return {
            key
            for key, spans in spans_of.items()
            if self.denied.intersection(self.tokens_in(spans))
        }

    @cached_property
    def before_hyphens(self) -> set[str]:
        """Lower-case words before a hyphen: the three of a three-cornered hat is no count."""
        ends = {token.span[0] for token in self.tokens if token.text == "-"}
        return {token.text.lower() for token in self.tokens if token.span[1] in ends}

    @cached_property
    def profiles(self) -> list[dict[Term, float]]:
        """Per thing: term -> attachment, without the thing's own name."""
        return [
            self._best_by_term(self.attachments(thing), set(tokens))
            for thing, tokens in enumerate(self.mentions)
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
        """Per thing: share of sentences that mention it."""
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
        """Token -> attachment to the thing, where above 0."""
        attachments = self._attached.get(thing)
        if attachments is None:
            mentions = set(self.mentions[thing])
            attachments = {
                token: 1.0 - PER_STEP * max(0.0, halves / 2 - 1.0)
                for token, halves in distances(self.tokens, self._steps, mentions).items()
            }
            for token, weight in attachments.items():
                owners = self.owners.get(token)
                # The tree alone would attach "red" in "a man in a red coat" to the man, too. An
                # attribute belongs to its owner; others get at most a share.
                if owners and thing not in owners:
                    attachments[token] = min(weight, self._share(thing, owners))
            attachments.update(dict.fromkeys(self.attribute_tokens[thing] | mentions, 1.0))
            self._attached[thing] = attachments
        return attachments

    def _share(self, thing: int, owners: set[int]) -> float:
        """Attachment of other things' attribute: highest if the thing consists of an owner."""

        def share(owner: int) -> float:
            words = self.partners[thing].get(owner, {})
            if "of" in words and (thing, owner) in self.directions and not self.genders[owner]:
                return MADE_UP
            return PART_OF_IT if HAVING & set(words) else OTHERS

        return max(map(share, owners))

    def _element_tokens(self) -> set[int]:
        """Tokens of scored elements; those of the viewer alone would be free evidence."""
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

    def _attribute_tokens(self, nouns: list[int]) -> list[set[int]]:
        entities = self.graph.entities
        attribute_tokens = [
            {t for a in e.attributes for t in self.tokens_in(a.spans)} for e in entities
        ]
        beside: dict[int, set[int]] = defaultdict(set)
        for tokens in attribute_tokens:
            ordered = sorted(tokens)
            for place, token in enumerate(ordered):
                beside[token].update(ordered[max(place - MOST_BESIDE, 0) : place + MOST_BESIDE + 1])
        # A noun that is itself an attribute gets the attributes beside it: ivory satin.
        return attribute_tokens + [beside[token] - {token} for token in nouns]

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
        """Genders that the thing can have as a person; none if it is no person."""
        of_heads = [genders(head) for head in self.heads[thing]]
        is_name = {self.tokens[i].pos for i in self.mentions[thing]} == {"PROPN"}
        if is_name and of_heads == [NOBODY]:
            of_heads = [BOTH]
        words = {self.tokens[i].text.lower() for i in self.mentions[thing]}
        pronouns = [genders((word, "x")) for word in words & PERSONAL]
        return frozenset.intersection(*(of_heads + pronouns or [BOTH]))


def is_noun(word: str) -> bool:
    """Return True for a word that mostly names a material or object: porcelain bowl."""
    noun = (word, "n")
    return is_material(noun) or is_concrete(noun)


def steps_between(tokens: Sequence[Token]) -> Steps:
    """Neighbours in the dependency tree, without function words."""
    steps: Steps = defaultdict(list)
    for index, token in enumerate(tokens):
        if token.head == index or token.dep in NO_LINKS:
            continue
        cost = 1 if token.dep in HALF else 3 if token.dep in LOOSE else 2
        steps[index].append(COSTS * token.head + cost)
        steps[token.head].append(COSTS * index + cost)
    return steps


def distances(tokens: Sequence[Token], steps: Steps, mentions: set[int]) -> dict[int, int]:
    """Token -> length of the shortest path to a mention, in half steps, up to ``FURTHEST``."""
    best = dict.fromkeys(mentions, 0)
    # Dijkstra's algorithm with a bucket per distance instead of a heap: there are only nine.
    buckets: list[list[int]] = [[] for _ in range(FURTHEST + 1)]
    buckets[0] = list(mentions)
    for distance, bucket in enumerate(buckets):
        for token in bucket:
            if distance > best[token]:
                continue
            # Words beyond another noun more likely describe that noun: one step more.
            toll = 2 if distance and tokens[token].pos in NOUNS else 0
            for step in steps.get(token, ()):
                neighbour, cost = divmod(step, COSTS)
                through = distance + cost + toll
                if through <= FURTHEST and through < best.get(neighbour, FURTHEST + 1):
                    best[neighbour] = through
                    buckets[through].append(neighbour)
    return best


def clause_tops(tokens: Sequence[Token]) -> list[int]:
    """Per token the first word of its clause: of its sentence, or of a joined one."""
    with_subject = {t.head for t in tokens if t.dep in ("nsubj", "nsubjpass", "expl")}
    tops = [
        i if t.head == i or (t.dep in JOINED and i in with_subject) else -1
        for i, t in enumerate(tokens)
    ]
    for start in range(len(tops)):
        path = [start]
        while tops[path[-1]] < 0 and len(path) <= len(tops):
            path.append(tokens[path[-1]].head)
        for i in path:
            tops[i] = tops[path[-1]]
    return tops
