"""Words of a text that stand under a negation: what it says is not there, or not so.

"A man is not holding the red ball" denies *holding*; the ball, being definite, is there. "No man
holds a ball" denies man, holding and ball. "The clock is not on the wall" has nothing but its place
to deny, so the wall is denied there. "A cat and a dog are missing" denies both. What is asked,
imagined, sought in vain, rumoured, said by someone in the text, called untrue or unlikely, or seen
in another picture counts as denied: the text itself does not say that it is there. What follows a
contrast is stated: "not at us but at the sea".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from posh_reward.embedded.english.word_classes import genders
from posh_reward.graph.components import SUBJECT_LABELS, find_children
from posh_reward.types import Token

NEGATORS = frozenset(("not", "n't", "n\u2019t", "never", "hardly", "scarcely", "seldom", "rarely"))
QUALIFIERS_AFTER_NOT = frozenset("only just merely simply necessarily entirely quite fully".split())
"""After "not": the claim is qualified, not denied."""
NEGATIVE_PRONOUNS = frozenset("nobody none nothing neither nowhere noone".split())
WITHOUT_WORDS = frozenset("without lacking lack lacks lacked sans".split())
FAILING_VERBS = frozenset("avoid cease decline fail forget neglect refuse".split())
DENYING_VERBS = frozenset("deny disbelieve dispute doubt".split())
UNTRUE_PREDICATES = frozenset(
    "doubtful false impossible incorrect inconceivable lie mistake mistaken myth unlikely untrue "
    "wrong".split()
)
"""Adjectives and nouns that deny the clause they are said of."""
TRUE_PREDICATES = frozenset("case fact true".split())
"""Those that do if they are negated: "It is not the case that"."""
ALTERNATIVES = frozenset((("instead", "of"), ("rather", "than"), ("other", "than")))
"""Words before what is not so: "instead of a hat"."""
OTHER_IMAGES = frozenset("image painting photo photograph picture version".split())
ABSENT_ADJECTIVES = frozenset("missing absent nonexistent".split())
IMAGINING_VERBS = frozenset("imagine suppose".split())
SEEKING_VERBS = frozenset("look search seek hunt".split())
SAYING_VERBS = frozenset(
    "allege assert assume believe claim declare dream expect report rumor rumour say suppose think "
    "write".split()
)
HEARSAY_ADVERBS = frozenset("allegedly purportedly reportedly supposedly".split())
NO_SPEAKER_PRONOUNS = frozenset("i we it that this these those which what who".split())
"""Subjects after which a claim is the text's own: "I think it rains", "a sign that says ..."."""
CONDITIONAL_VERBS = frozenset(("would", "could", "'d", "\u2019d"))
QUOTE_MARKS = frozenset("\" \u201c \u201d \u2018 ' `` ''".split())
WORDS_OF_NO_MORE = frozenset("longer more".split())
WORDS_NOT_DENIED_BY_NO = frozenset("doubt less fewer matter".split())
DEFINITE_DETERMINERS = frozenset("the this that these those its his her their our".split())
PREDICATE_LABELS = ("acomp", "attr")
LABELS_OUTSIDE_SCOPE = frozenset(
    "nsubj nsubjpass csubj csubjpass expl advcl parataxis punct mark cc preconj det predet aux "
    "auxpass intj dep".split()
)
"""Labels of words outside the scope of a negation of their head."""


def find_denied_tokens(tokens: Sequence[Token]) -> frozenset[int]:
    """Indices of the words that the text denies."""
    words = [token.text.lower() for token in tokens]
    if CUE_WORDS.isdisjoint(words) and CUE_VERBS.isdisjoint(token.lemma for token in tokens):
        return frozenset()
    tree = _NegationTree(tokens, words, find_children([token.head for token in tokens]))
    denied: set[int] = set()
    for cue in range(len(tokens)):
        scope = set(tree.denied_by(cue))
        if scope and words[cue] in CORRECTED_WORDS:
            contrast = find_contrast(tokens, cue)
            scope = {i for i in scope if i < contrast}
        denied |= scope
    return frozenset(denied)


def find_contrast(tokens: Sequence[Token], start: int) -> int:
    """Find the next word after which a sentence states what holds instead: "but at the sea".

    The number of tokens if there is none.
    """
    for i in range(start + 1, len(tokens)):
        if tokens[i].sentence != tokens[start].sentence:
            break
        is_only = tokens[i].text.lower() == "only" and tokens[i - 1].pos == "PUNCT"
        if tokens[i].text.lower() == "but" or is_only:
            return i
    return len(tokens)


CUE_WORDS = NEGATORS | NEGATIVE_PRONOUNS | WITHOUT_WORDS | UNTRUE_PREDICATES | ABSENT_ADJECTIVES
CUE_WORDS |= IMAGINING_VERBS | HEARSAY_ADVERBS | OTHER_IMAGES | {first for first, _ in ALTERNATIVES}
CUE_WORDS |= {"no", "cannot", "?", "vain", "if", "according"}
CORRECTED_WORDS = NEGATORS | {"no", "cannot"}
"""Negations that a contrast may follow: "not at us, but at the sea"; "no wine, only water"."""
CUE_VERBS = FAILING_VERBS | SAYING_VERBS | DENYING_VERBS


class _NegationTree:
    def __init__(
        self, tokens: Sequence[Token], words: list[str], children: Sequence[Sequence[int]]
    ) -> None:
        self.tokens, self.words, self.children = tokens, words, children

    def denied_by(self, cue: int) -> Iterable[int]:
        """Words in the scope of a negation; none if the word is no negation."""
        word, head = self.words[cue], self.tokens[cue].head
        after = self.words[cue + 1] if cue + 1 < len(self.words) else ""
        if word in NEGATORS:
            return () if after in QUALIFIERS_AFTER_NOT else self._walk_scope(head)
        if word == "no" and self.words[head] in WORDS_OF_NO_MORE:
            return self._walk_scope(self.tokens[head].head)
        if word == "no" and self.words[head] not in WORDS_NOT_DENIED_BY_NO:
            return [*self._walk_scope(head), *self._deny_predicate(head)]
        if word == "neither" and after != "but" and self.tokens[cue].dep not in SUBJECT_LABELS:
            # "Neither man rides": there are men. "Neither a cat nor a dog." denies both.
            if self.tokens[head].dep in SUBJECT_LABELS or not self._is_nominal(head):
                return self._deny_predicate(head)
            return self._walk_scope(head)
        if word in NEGATIVE_PRONOUNS and after != "but":
            return self._deny_predicate(cue)
        if word in WITHOUT_WORDS:
            return [cue, *self._walk_scope(cue, definite=True, lists=True)]
        if word in ABSENT_ADJECTIVES:
            return self._deny_absentees(cue)
        if word in IMAGINING_VERBS and self._opens_sentence(cue):
            return self._deny_sentence_from(cue)
        if word == "?":
            return self._deny_question(cue)
        if self.tokens[cue].lemma in FAILING_VERBS:
            clauses = self._follow_labels(cue, "xcomp")
            return chain.from_iterable(self._walk_scope(i, lists=True) for i in clauses)
        if word == "vain" and self.words[head] == "in":
            return self._deny_sought(cue)
        if word == "if" and after == "only":
            return self._deny_sentence_around(cue)
        if word == "if" and not (cue and self.words[cue - 1] in ("as", "even")):
            return self._deny_conditional(cue)
        sources = self._follow_labels(cue, "prep", "pobj") if word == "according" else []
        if word in HEARSAY_ADVERBS or any(map(self._may_speak, sources)):
            return self._deny_hearsay(cue)
        if self.tokens[cue].lemma in SAYING_VERBS and self.tokens[cue].pos == "VERB":
            return self._deny_reported_claims(cue)
        if self.tokens[cue].lemma in DENYING_VERBS and self._follow_labels(cue, "ccomp"):
            return self._deny_sentence_from(cue + 1)
        is_untrue = word in UNTRUE_PREDICATES or (
            word in TRUE_PREDICATES and self._is_negated(head)
        )
        if is_untrue and self.tokens[cue].dep in PREDICATE_LABELS:
            return self._deny_untrue_clause(cue)
        if (word, after) in ALTERNATIVES:
            return chain.from_iterable(
                self._walk_scope(i, definite=True, lists=True) for i in self.children[cue + 1]
            )
        if word in OTHER_IMAGES and self._opens_sentence(head) and self.words[cue - 1] == "another":
            return self._deny_sentence_around(cue)
        return ()

    def _deny_untrue_clause(self, predicate: int) -> Iterable[int]:
        """The clause after "It is untrue (to say) that", or around ", which is false"."""
        for i in range(predicate + 1, len(self.tokens)):
            if self.tokens[i].sentence != self.tokens[predicate].sentence:
                break
            is_next = i == predicate + 1  # "the case that" looks like a relative clause
            if self.words[i] == "that" and (is_next or self.tokens[i].dep == "mark"):
                return self._deny_sentence_from(i)
        start = self._find_start(predicate)
        is_clause = self.words[start] == "that" and self.tokens[start].dep == "mark"
        if is_clause or self.words[predicate - 2 : predicate] == ["which", "is"]:
            return self._deny_sentence_around(predicate)
        return ()

    def _deny_predicate(self, noun: int) -> Iterable[int]:
        """Scope of the verb that a noun is the subject of."""
        token = self.tokens[noun]
        if token.dep not in SUBJECT_LABELS:
            return ()
        return self._walk_scope(token.head)

    def _deny_absentees(self, predicate: int) -> list[int]:
        """All that is said to be missing: the subject, with all members of a list."""
        verb = self.tokens[predicate].head
        subjects = self._find_subjects(predicate)
        if self.tokens[verb].lemma == "be":
            subjects += self._find_subjects(verb)
        return self._walk_lists(subjects)

    def _deny_sought(self, vain: int) -> list[int]:
        """All that is looked for in vain."""
        within = self.tokens[vain].head
        verb = self.tokens[within].head
        if self.tokens[verb].lemma not in SEEKING_VERBS:
            return []  # "reaches in vain for the ball"
        near = [*self.children[verb], *self.children[within], *self.children[vain]]
        sought = [i for i in near if self.words[i] == "for" or self.tokens[i].dep == "dobj"]
        return self._walk_lists(sought)

    def _deny_conditional(self, cue: int) -> Iterable[int]:
        """A sentence on what would be, but for definite subjects."""
        main = self.tokens[self.tokens[cue].head].head
        if self.tokens[main].dep != "ROOT":
            return ()
        if CONDITIONAL_VERBS.isdisjoint(self._words_at(self.children[main])):
            return ()
        return self._deny_sentence_around(cue)

    def _deny_hearsay(self, cue: int) -> Iterable[int]:
        """The sentence that a cue opens or ends; else a claim, as "A dog supposedly sleeps"."""
        if self._opens_sentence(cue) or self.words[cue - 1] == ",":
            return self._deny_sentence_around(cue)
        verb = self.tokens[cue].head
        denied = list(self._walk_scope(verb))
        for subject in self._find_subjects(verb):
            if not self._is_definite(subject):
                denied += self._walk_scope(subject)
        return denied

    def _follow_labels(self, top: int, *labels: str) -> list[int]:
        """Find words that are reached by these labels, one after the other."""
        words = [top]
        for label in labels:
            children = chain.from_iterable(self.children[word] for word in words)
            words = [i for i in children if self.tokens[i].dep == label]
        return words

    def _deny_reported_claims(self, verb: int) -> Iterable[int]:
        """Claims that a person in the text makes; a quotation only if it is a sentence."""
        subjects = self._find_subjects(verb)
        auxiliaries = {self.tokens[i].lemma for i in self.children[verb]}
        is_rumour = "it" in self._words_at(subjects) and "be" in auxiliaries
        if not is_rumour and not any(map(self._may_speak, self._follow_labels(verb, "nsubj"))):
            return ()
        end = verb + 1
        while end < len(self.tokens) and not self._opens_sentence(end):
            end += 1
        start = self._find_quote_mark(range(verb + 1, end))
        if start is None:
            has_claim = max(self._follow_labels(verb, "ccomp"), default=verb) > verb
            return range(verb + 1, end) if has_claim else ()
        closing = self._find_quote_mark(range(start + 1, len(self.tokens)))
        if closing is not None:
            end = closing
        quoted = range(start + 1, end)
        has_subject = any(self.tokens[i].dep in SUBJECT_LABELS for i in quoted)
        return quoted if has_subject else ()

    def _find_quote_mark(self, places: range) -> int | None:
        return next((i for i in places if self.words[i] in QUOTE_MARKS), None)

    def _may_speak(self, subject: int) -> bool:
        if self.tokens[subject].pos == "PRON":
            return self.words[subject] not in NO_SPEAKER_PRONOUNS
        return bool(genders((self.tokens[subject].lemma, "n")))

    def _walk_scope(
        self, top: int, *, definite: bool = False, lists: bool = False
    ) -> Iterator[int]:
        """A word and those below it, but for its subject, other clauses, and definite entities."""
        definite = definite or self.tokens[top].lemma == "be"
        yield top
        alternatives = lists or not {"or", "nor"}.isdisjoint(self._words_at(self.children[top]))
        for i in self.children[top]:
            label = self.tokens[i].dep
            if label in LABELS_OUTSIDE_SCOPE or (label == "conj" and not alternatives):
                continue
            if definite or not self._is_definite(i):
                yield from self._walk_scope(i, definite=definite, lists=lists)

    def _walk_lists(self, tops: list[int]) -> list[int]:
        """Walk the scopes of entities, definite ones included, with all members of lists."""
        scope: list[int] = []
        for top in tops:
            scope += self._walk_scope(top, definite=True, lists=True)
        return scope

    def _words_at(self, tokens: Iterable[int]) -> set[str]:
        return {self.words[i] for i in tokens}

    def _is_nominal(self, token: int) -> bool:
        return self.tokens[token].pos in ("NOUN", "PROPN", "PRON")

    def _is_definite(self, token: int) -> bool:
        if self.tokens[token].pos == "NOUN":
            return not DEFINITE_DETERMINERS.isdisjoint(self._words_at(self.children[token]))
        return self._is_nominal(token)

    def _opens_sentence(self, token: int) -> bool:
        before = token - 1
        return before < 0 or self.tokens[before].sentence != self.tokens[token].sentence

    def _deny_question(self, end: int) -> list[int]:
        """A question's words; none of a quotation, which is a sign in the image."""
        sentence = self.tokens[end].sentence
        own = [i for i, token in enumerate(self.tokens) if token.sentence == sentence]
        if own[-1] != end or not QUOTE_MARKS.isdisjoint(self._words_at(own)):
            return []
        return own

    def _find_subjects(self, verb: int) -> list[int]:
        return [i for i in self.children[verb] if self.tokens[i].dep in SUBJECT_LABELS]

    def _is_negated(self, verb: int) -> bool:
        return not NEGATORS.isdisjoint(self._words_at(self.children[verb]))

    def _find_start(self, token: int) -> int:
        sentence = self.tokens[token].sentence
        return next(i for i, other in enumerate(self.tokens) if other.sentence == sentence)

    def _deny_sentence_around(self, cue: int) -> Iterator[int]:
        return self._deny_sentence_from(self._find_start(cue))

    def _deny_sentence_from(self, start: int) -> Iterator[int]:
        """The rest of a sentence, but for definite subjects."""
        for i in range(start, len(self.tokens)):
            if self.tokens[i].sentence != self.tokens[start].sentence:
                return
            if self.tokens[i].dep not in SUBJECT_LABELS or not self._is_definite(i):
                yield i
