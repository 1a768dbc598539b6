"""An index of one description: its entities, and what the text says of each.

*Entities* are here those of the scene graph, in its order, followed by every noun within another
element (``leather`` of a leather apron). Only words of elements are evidence: words outside all
entities, attributes and relations say nothing about anything, however many there are. *Attachment*,
0 to 1, is how firmly a word belongs to an entity: 1 for the entity's own words and for those next
to its mentions in the dependency tree, less with each further step, 0 beyond.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from math import inf

from posh_reward.embedded.english.likeness import TermIndex, is_stuff, parse_number
from posh_reward.embedded.english.meaning import Term, is_concrete, is_material, is_plural
from posh_reward.embedded.english.word_classes import (
    BOTH_GENDERS,
    HAVING,
    NO_GENDER,
    PERSONAL,
    PREPOSITIONS,
    Genders,
    find_term,
    genders,
    plain_tokens,
    split_words,
)
from posh_reward.embedded.judge.negation import find_denied_tokens
from posh_reward.embedded.judge.same_sentences import SentenceIndex
from posh_reward.graph.components import NOUN_TAGS, find_children
from posh_reward.types import Description, Relation, Span, Token
from posh_reward.words import FUNCTION_WORDS

ATTACHMENT_LOSS_PER_STEP = 0.17  # attachment lost with each step of the tree beyond the first
MATERIAL_PREPOSITIONS = frozenset(("of", "in"))
"""Those that join an entity to its material or colour."""
MAX_RELATIONS_PER_ENTITY = 40  # bounds work on a text of one repeated word
FOREIGN_ATTACHMENT = 0.3  # of another entity's attribute
PART_ATTACHMENT = 0.5  # if the entity has or wears the other: the white of a woman's dress
MAX_SHARED_ATTRIBUTES = 64
"""Attributes of an entity, before and after a noun among them, that the noun shares. A repeated
word can be thousands of attributes, and each with each is quadratic work."""
MATERIAL_ATTACHMENT = 0.85  # if the entity consists of the other, no person: tufts of white hair

JOINED_CLAUSE_LABELS = ("conj", "parataxis", "ccomp")  # of joined clauses, if they have subjects
UNATTACHED_LABELS = frozenset("det punct cc mark expl predet case intj dep".split())
"""Dependency labels of words that attach nothing to an entity."""
HALF_STEP_LABELS = frozenset("prep pobj agent pcomp aux auxpass".split())
"""Labels that count half a step, so that a preposition and its object together count one."""
CLAUSE_LABELS = frozenset("advcl ccomp xcomp parataxis npadvmod".split())
"""Labels that count a step and a half: other clauses."""
MAX_DISTANCE_IN_HALF_STEPS = 8  # in the tree, of a word that is attached to an entity
BOUNDING_WORDS = frozenset(
    "about almost approximately around least most nearly over roughly some than".split()
)
"""Words after which a number is not exact: at least ten."""
ONE_MORE = frozenset("another third".split())
"""Words for one of the things that a text counts: "two gulls, and another"."""
SOME_MORE = frozenset("more ones other others remainder remaining rest".split())
"""Words for some of them."""
PLAIN_SUFFIXES = frozenset(("coloured", "colored", "hand"))
"""Words before whose hyphen another keeps its meaning: green-coloured, right-hand."""
STEP_COST_BASE = 4  # packs a neighbour and the cost of its step into one number

ClaimKey = tuple[int, str, int | None]
"""Identity of a claim: its entity, its text, and the other entity of a relation."""

TreeSteps = dict[int, list[int]]
"""Token -> neighbours in the dependency tree, each as ``STEP_COST_BASE`` * neighbour + half steps.

Plain numbers, since thousands of tuples would keep the garbage collector busy.
"""


class DescriptionIndex:
    """Indexes over one description, from which alone they are computed."""

    def __init__(self, description: Description) -> None:
        self.graph = description.graph
        self.directions = {(r.subject, r.object) for r in self.graph.relations}
        self.tokens = description.tokens or plain_tokens(description.text)
        self._starts = {token.span[0]: i for i, token in enumerate(self.tokens)}
        # Without a parse there are no elements, so every word has to count.
        everything = set(range(len(self.tokens)))
        element_tokens = self._find_element_tokens() if description.tokens else everything
        # Per token its term; None for function words, punctuation, and words outside elements.
        self.terms: list[Term | None] = [None] * len(self.tokens)
        self.places: dict[Term, list[int]] = {}  # term -> tokens
        self.by_word: dict[str, Term] = {}  # lower-case word -> the term of its first token
        for index, token in enumerate(self.tokens):
            term = find_term(token)
            if term is not None:
                self.by_word.setdefault(term[0], term)
                if index in element_tokens:
                    self.places.setdefault(term, []).append(index)
                    self.terms[index] = term
        self.term_index = TermIndex(self.places)  # the text's terms by meaning
        entities = [self.tokens_in(entity.spans) for entity in self.graph.entities]
        own = set(chain.from_iterable(entities))
        # Parsers often call the satin of a satin dress an adjective.
        nouns = [i for i in sorted(element_tokens - own) if is_noun(self.tokens[i])]
        # From here on lists have one item per entity.
        self.mentions = entities + [[i] for i in nouns]  # tokens of its mentions
        self.attribute_tokens = self._find_attribute_tokens(nouns)
        self.claims = list(map(self._list_claims, self.attribute_tokens))
        """Terms of its attributes but inexact counts."""
        self.heads = list(map(self._find_heads, range(len(self.mentions))))
        """Last word of each mention: the kind of entity it is."""
        for owner, material in self.material_pairs:
            self.claims[owner] += self.heads[material]
        self.genders = list(map(self._find_genders, range(len(self.mentions))))
        self.plural = [any(map(is_plural, heads)) for heads in self.heads]
        # Entities without a name, such as an unresolved "she".
        self.pronouns = [i for i in range(len(entities)) if not self.heads[i]]
        self.by_head: dict[Term, list[int]] = defaultdict(list)  # head -> entities
        for entity, heads in enumerate(self.heads):
            for head in heads:
                self.by_head[head].append(entity)
        self._steps = build_tree_steps(self.tokens)
        self._attached: dict[int, dict[int, float]] = {}

    @cached_property
    def attribute_owners(self) -> dict[int, set[int]]:
        """Token -> entities that it is an attribute of."""
        owners: dict[int, set[int]] = defaultdict(set)
        for entity, tokens in enumerate(self.attribute_tokens[: len(self.graph.entities)]):
            for token in tokens:
                owners[token].add(entity)
        return owners

    @cached_property
    def clauses(self) -> list[int]:
        """Per token the head of its clause: of its sentence, or of a joined one."""
        return find_clause_heads(self.tokens)

    @cached_property
    def terms_by_clause(self) -> dict[int, list[Term]]:
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
        return {term: self._find_sentences(tokens) for term, tokens in self.places.items()}

    @cached_property
    def terms_by_sentence(self) -> dict[int, list[Term]]:
        """Sentence -> content words of its elements, without prepositions."""
        by_sentence: dict[int, list[Term]] = defaultdict(list)
        for term, sentences in self.sentences.items():
            if term[0] not in PREPOSITIONS and term[1] != "x":
                for sentence in sentences:
                    by_sentence[sentence].append(term)
        return by_sentence

    @cached_property
    def relation_words(self) -> list[dict[int, dict[str, None]]]:
        """Per entity: related entity -> words of the relations between the two, each once."""
        related: list[dict[int, dict[str, None]]] = [{} for _ in self.mentions]
        for relation in self.graph.relations:
            a, b = relation.subject, relation.object
            words = dict.fromkeys(relation.text.lower().split())
            related[a].setdefault(b, {}).update(words)
            related[b].setdefault(a, {}).update(words)
        return related

    @cached_property
    def relations_by_entity(self) -> dict[int, list[Relation]]:
        """Entity -> relations that it is an end of."""
        relations: dict[int, list[Relation]] = defaultdict(list)
        for relation in self.graph.relations:
            for end in {relation.subject, relation.object}:
                if len(relations[end]) < MAX_RELATIONS_PER_ENTITY:
                    relations[end].append(relation)
        return relations

    @cached_property
    def statements(self) -> SentenceIndex:
        """What each sentence states, word for word."""
        return SentenceIndex(self)

    @cached_property
    def passive_verbs(self) -> set[str]:
        """Verbs that the text uses in the passive voice, lower-case."""
        passives = set()
        for token in self.tokens:
            if token.dep in ("auxpass", "agent", "nsubjpass"):
                passives.add(self.tokens[token.head])
            elif token.dep in ("acl", "amod") and not token.text.lower().endswith("ing"):
                passives.add(token)
        return {token.text.lower() for token in passives if token.pos == "VERB"}

    @cached_property
    def material_pairs(self) -> list[tuple[int, int]]:
        """(Entity, its material or colour), where "of" or "in" joins the two: a cup of tin."""
        pairs = []
        for relation in self.graph.relations:
            owner, material = relation.subject, relation.object
            last_word = relation.text.lower().split()[-1:]
            if owner == material or MATERIAL_PREPOSITIONS.isdisjoint(last_word):
                continue
            if any(map(is_stuff, self.heads[material])):
                pairs.append((owner, material))
        return pairs

    @cached_property
    def denied_tokens(self) -> frozenset[int]:
        """Tokens under a negation."""
        return find_denied_tokens(self.tokens)

    @cached_property
    def absent_entities(self) -> set[int]:
        """Entities that the text says are missing: no shoes, a cup without a handle."""
        absent = set()
        for entity, tokens in enumerate(self.mentions):
            if tokens and self.denied_tokens.issuperset(tokens):
                absent.add(entity)
        return absent

    @cached_property
    def denied_claims(self) -> set[ClaimKey]:
        """Attributes and relations that the text denies."""
        if not self.denied_tokens:
            return set()
        claims: dict[ClaimKey, tuple[Span, ...]] = {}
        for number, entity in enumerate(self.graph.entities):
            for attribute in entity.attributes:
                claims[number, attribute.text, None] = attribute.spans
        for relation in self.graph.relations:
            claims[relation.subject, relation.text, relation.object] = relation.spans
        denied = self.denied_tokens
        return {key for key, spans in claims.items() if denied.intersection(self.tokens_in(spans))}

    @cached_property
    def inexact_tokens(self) -> set[int]:
        """Words that are not meant exactly: three-cornered, at least ten, half a dozen."""
        words = ["", "", *(token.text.lower() for token in self.tokens), "", ""]
        inexact = set()
        for i, token in enumerate(self.tokens):
            before_last, last, word, mark, suffix = words[i : i + 5]
            is_prefix = mark == "-" and self.tokens[i + 1].span[0] == token.span[1]
            is_bound = last in BOUNDING_WORDS or (before_last, last) == ("half", "a")
            is_inexact_number = is_bound and parse_number(word) is not None
            if is_inexact_number or (is_prefix and suffix not in PLAIN_SUFFIXES):
                inexact.add(i)
        return inexact

    @cached_property
    def children(self) -> Sequence[Sequence[int]]:
        """Token -> the tokens below it in the dependency tree."""
        return find_children([token.head for token in self.tokens])

    @cached_property
    def counts(self) -> dict[Term, list[float]]:
        """Name -> numbers of such things: of the noun that they modify, or the last plural before.

        Infinite for "others", and 0 for some of them that are no more: "one of them". "Five gulls
        on the rail, three on the right, and another" are 5, 3 and 1.
        """
        counts: dict[Term, list[float]] = defaultdict(list)
        last_plural: Term | None = None
        words = ["", *(token.text.lower() for token in self.tokens), ""]
        for i, token in enumerate(self.tokens):
            before, word, after = words[i : i + 3]
            number: float | None = parse_number(word)
            if number is None and parse_number(before) is None:
                number = 1 if word in ONE_MORE else inf if word in SOME_MORE else None
            noun = self.tokens[token.head]
            is_modifier = token.head != i and token.dep in ("nummod", "amod", "det")
            counted = last_plural
            if is_modifier and is_noun(noun) and noun.text.lower() not in SOME_MORE:
                counted = find_term(noun)
            if number is not None and counted is not None:
                counts[counted].append(0 if after == "of" else number)
            term = find_term(token)
            if is_noun(token) and term and is_plural(term):
                last_plural = term
        return counts

    @cached_property
    def inexact_numbers(self) -> set[str]:
        """Numbers, in lower case, that are not exact at one place or more."""
        words = {self.tokens[i].text.lower() for i in self.inexact_tokens}
        return {word for word in words if parse_number(word) is not None}

    @cached_property
    def term_profiles(self) -> list[dict[Term, float]]:
        """Per entity: term -> attachment, without the entity's own name."""
        profiles = []
        for entity, tokens in enumerate(self.mentions):
            profiles.append(self._best_by_term(self.attachments_to(entity), set(tokens)))
        return profiles

    @cached_property
    def attachments_by_term(self) -> dict[Term, dict[int, float]]:
        """Term -> entity -> attachment."""
        attachments: dict[Term, dict[int, float]] = {term: {} for term in self.places}
        for entity in range(len(self.mentions)):
            for term, weight in self._best_by_term(self.attachments_to(entity), set()).items():
                attachments[term][entity] = weight
        return attachments

    @cached_property
    def attachments_by_token(self) -> dict[int, dict[int, float]]:
        """Token -> entity -> attachment."""
        attachments: dict[int, dict[int, float]] = defaultdict(dict)
        for entity in range(len(self.mentions)):
            for token, weight in self.attachments_to(entity).items():
                attachments[token][entity] = weight
        return attachments

    @cached_property
    def salience(self) -> list[float]:
        """Per entity: share of sentences that mention it."""
        sentences = len({token.sentence for token in self.tokens})
        mentioning = map(self._find_sentences, self.mentions)
        return [len(each) / max(1, sentences) for each in mentioning]

    def tokens_in(self, spans: tuple[Span, ...]) -> list[int]:
        """Tokens that start inside the spans, in text order."""
        inside: set[int] = set()
        for start, end in spans:
            inside.update(range(start, end))
        return [self._starts[at] for at in sorted(inside & self._starts.keys())]

    def attachments_to(self, entity: int) -> dict[int, float]:
        """Token -> attachment to the entity, where above 0."""
        attachments = self._attached.get(entity)
        if attachments is None:
            attachments = {}
            mentions = set(self.mentions[entity])
            for token, halves in find_distances(self.tokens, self._steps, mentions).items():
                weight = 1.0 - ATTACHMENT_LOSS_PER_STEP * max(0.0, halves / 2 - 1.0)
                owners = self.attribute_owners.get(token)
                # The tree alone would attach "red" in "a man in a red coat" to the man, too. An
                # attribute belongs to its owner; others get at most a share.
                if owners and entity not in owners:
                    weight = min(weight, self._foreign_attachment(entity, owners))
                attachments[token] = weight
            attachments.update(dict.fromkeys(self.attribute_tokens[entity] | mentions, 1.0))
            self._attached[entity] = attachments
        return attachments

    def _foreign_attachment(self, entity: int, owners: set[int]) -> float:
        """Attachment of other entities' attribute: highest if the entity consists of an owner."""
        best = FOREIGN_ATTACHMENT
        for owner in owners:
            words = self.relation_words[entity].get(owner, {})
            if "of" in words and (entity, owner) in self.directions and not self.genders[owner]:
                return MATERIAL_ATTACHMENT
            if not HAVING.isdisjoint(words):
                best = PART_ATTACHMENT
        return best

    def _find_element_tokens(self) -> set[int]:
        """Find tokens of scored elements; those of the viewer alone would be free evidence."""
        entities = self.graph.entities
        spans: list[Span] = []
        for entity in entities:
            spans += entity.spans
            if not entity.flagged:
                for attribute in entity.attributes:
                    spans += attribute.spans
        for relation in self.graph.relations:
            if not (entities[relation.subject].flagged and entities[relation.object].flagged):
                spans += relation.spans
        return set(self.tokens_in(tuple(spans)))

    def _find_attribute_tokens(self, nouns: list[int]) -> list[set[int]]:
        attribute_tokens: list[set[int]] = []
        for entity in self.graph.entities:
            spans = chain.from_iterable(attribute.spans for attribute in entity.attributes)
            attribute_tokens.append(set(self.tokens_in(tuple(spans))))
        beside: dict[int, set[int]] = defaultdict(set)
        for tokens in attribute_tokens:
            ordered = sorted(tokens)
            for place, token in enumerate(ordered):
                first = max(place - MAX_SHARED_ATTRIBUTES, 0)
                beside[token].update(ordered[first : place + MAX_SHARED_ATTRIBUTES + 1])
        # A noun that is itself an attribute gets the attributes beside it: ivory satin.
        return attribute_tokens + [beside[token] - {token} for token in nouns]

    def _list_claims(self, tokens: set[int]) -> list[Term]:
        terms = self._terms_at(tokens)
        return [t for t in terms if t[0] not in self.inexact_numbers]

    def _terms_at(self, tokens: set[int]) -> list[Term]:
        terms = []
        for token in sorted(tokens):
            term = self.terms[token]
            if term is not None:
                terms.append(term)
        return terms

    def _find_sentences(self, tokens: list[int]) -> set[int]:
        return {self.tokens[token].sentence for token in tokens}

    def _best_by_term(self, attachments: dict[int, float], without: set[int]) -> dict[Term, float]:
        best: dict[Term, float] = {}
        for token, weight in attachments.items():
            term = self.terms[token]
            if term is not None and token not in without and weight > best.get(term, 0.0):
                best[term] = weight
        return best

    def _find_heads(self, entity: int) -> list[Term]:
        if entity >= len(self.graph.entities):
            return self._terms_at(set(self.mentions[entity]))
        heads: dict[Term, None] = {}
        for text in self.graph.entities[entity].heads:
            for word in split_words(text)[-1:]:
                if word not in FUNCTION_WORDS:
                    heads[self.by_word.get(word, (word, "n"))] = None
        return list(heads)

    def _find_genders(self, entity: int) -> Genders:
        """Find genders that the entity can have as a person; none if it is no person."""
        possible = list(map(genders, self.heads[entity]))
        mentions = [self.tokens[i] for i in self.mentions[entity]]
        is_name = {token.pos for token in mentions} == {"PROPN"}
        if is_name and possible == [NO_GENDER]:
            possible = [BOTH_GENDERS]
        for token in mentions:
            word = token.text.lower()
            if word in PERSONAL:
                possible.append(genders((word, "x")))
        return BOTH_GENDERS.intersection(*possible)


def is_noun(token: Token) -> bool:
    """Return True for a noun, or a word that mostly names a material or object: porcelain bowl."""
    if token.pos != "ADJ":
        return token.pos in NOUN_TAGS
    noun = (token.text.lower(), "n")
    return is_material(noun) or is_concrete(noun)


def build_tree_steps(tokens: Sequence[Token]) -> TreeSteps:
    """Find neighbours in the dependency tree, without function words."""
    steps: TreeSteps = defaultdict(list)
    for index, token in enumerate(tokens):
        if token.head == index or token.dep in UNATTACHED_LABELS:
            continue
        cost = 2
        if token.dep in HALF_STEP_LABELS:
            cost = 1
        elif token.dep in CLAUSE_LABELS:
            cost = 3
        steps[index].append(STEP_COST_BASE * token.head + cost)
        steps[token.head].append(STEP_COST_BASE * index + cost)
    return steps


def find_distances(tokens: Sequence[Token], steps: TreeSteps, mentions: set[int]) -> dict[int, int]:
    """Token -> length of the shortest path to a mention, in half steps, as far as that counts."""
    best = dict.fromkeys(mentions, 0)
    # Dijkstra's algorithm with a bucket per distance instead of a heap: there are only nine.
    buckets: list[list[int]] = [[] for _ in range(MAX_DISTANCE_IN_HALF_STEPS + 1)]
    buckets[0] = list(mentions)
    for distance, bucket in enumerate(buckets):
        for token in bucket:
            if distance > best[token]:
                continue
            # Words beyond another noun more likely describe that noun: one step more.
            is_beyond_noun = distance > 0 and tokens[token].pos in NOUN_TAGS
            for step in steps.get(token, ()):
                neighbour, cost = divmod(step, STEP_COST_BASE)
                through = distance + cost + 2 * is_beyond_noun
                if through < best.get(neighbour, MAX_DISTANCE_IN_HALF_STEPS + 1):
                    best[neighbour] = through
                    buckets[through].append(neighbour)
    return best


def find_clause_heads(tokens: Sequence[Token]) -> list[int]:
    """Find per token the head of its clause: of its sentence, or of a joined one."""
    with_subject = {t.head for t in tokens if t.dep in ("nsubj", "nsubjpass", "expl")}
    tops = [-1] * len(tokens)
    for i, token in enumerate(tokens):
        is_joined = token.dep in JOINED_CLAUSE_LABELS and i in with_subject
        if token.head == i or is_joined:
            tops[i] = i
    for start in range(len(tops)):
        path = [start]
        while tops[path[-1]] < 0 and len(path) <= len(tops):
            path.append(tokens[path[-1]].head)
        for i in path:
            tops[i] = tops[path[-1]]
    return tops
