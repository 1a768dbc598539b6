"""Words of a text that stand under a negation: what it says is not there, or not so.

"A man is not holding the red ball" denies *holding*; the ball, being definite, is there. "No man
holds a ball" denies man, holding and ball. "The clock is not on the wall" has nothing but its place
to deny, so the wall is denied there. "A cat and a dog are missing" denies both. What is asked,
imagined, sought in vain, rumoured, or said by someone in the text counts as denied: the text itself
does not say that it is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from posh_reward.embedded.english.word_classes import genders
from posh_reward.types import Token

NOT = frozenset(("not", "n't", "n\u2019t", "never"))
NOT_REALLY = frozenset("only just merely simply necessarily entirely quite fully".split())
"""After "not": the claim is qualified, not denied."""
NOBODY = frozenset("nobody none nothing neither nowhere noone".split())
WITHOUT = frozenset("without lacking lack lacks lacked sans".split())
FAILING = frozenset("fail refuse decline neglect".split())
UNTRUE = frozenset("false untrue incorrect wrong".split())
ABSENT = frozenset("missing absent nonexistent".split())
UNREAL = frozenset("imagine suppose".split())
SEEKING = frozenset("look search seek hunt".split())
SAYING = frozenset(
    "allege assert assume believe claim declare dream expect report rumor rumour say suppose think "
    "write".split()
)
HEARSAY = frozenset("allegedly purportedly reportedly supposedly".split())
NO_SPEAKERS = frozenset("i we it that this these those which what who".split())
"""Subjects after which a claim is the text's own: "I think it rains", "a sign that says ..."."""
WOULD = frozenset(("would", "could", "'d", "\u2019d"))
QUOTES = frozenset("\" \u201c \u201d \u2018 ' `` ''".split())
NO_MORE = frozenset("longer more".split())
NOT_ABSENT = frozenset("doubt less fewer matter".split())  # nouns and the like after "no"
DEFINITE = frozenset("the this that these those its his her their our".split())
OUTSIDE = frozenset(
    "nsubj nsubjpass csubj csubjpass expl advcl parataxis punct mark cc preconj det predet aux "
    "auxpass intj dep".split()
)
"""Labels of words outside the scope of a negation of their head."""
SUBJECTS = ("nsubj", "nsubjpass")


def denied_tokens(tokens: Sequence[Token]) -> frozenset[int]:
    """Indices of the words that the text denies."""
    words = [token.text.lower() for token in tokens]
    if not any(word in CUES or tokens[i].lemma in VERBS for i, word in enumerate(words)):
        return frozenset()
    below: dict[int, list[int]] = defaultdict(list)
    for i, token in enumerate(tokens):
        if token.head != i:
            below[token.head].append(i)
    tree = _Tree(tokens, words, below)
    return frozenset(token for i in range(len(tokens)) for token in tree.denied_by(i))


CUES = NOT | NOBODY | WITHOUT | UNTRUE | ABSENT | UNREAL | HEARSAY
CUES |= {"no", "cannot", "?", "vain", "if", "according"}
VERBS = FAILING | SAYING


class _Tree:
    def __init__(
        self, tokens: Sequence[Token], words: list[str], below: dict[int, list[int]]
    ) -> None:
        self.tokens, self.words, self.below = tokens, words, below

    def denied_by(self, cue: int) -> Iterable[int]:
        """Words in the scope of a negation; none if the word is no negation."""
        word, head = self.words[cue], self.tokens[cue].head
        after = self.words[cue + 1] if cue + 1 < len(self.words) else ""
        if word in NOT:
            return () if after in NOT_REALLY else self._scope(head)
        if word == "no" and self.words[head] in NO_MORE:
            return self._scope(self.tokens[head].head)
        if word == "no" and self.words[head] not in NOT_ABSENT:
            return [*self._scope(head), *self._predicate(head)]
        if word == "neither" and after != "but" and self.tokens[cue].dep not in SUBJECTS:
            # "Neither man rides": there are men. "Neither a cat nor a dog." denies both.
            if self.tokens[head].dep in SUBJECTS or not self._is_thing(head):
                return self._predicate(head)
            return self._scope(head)
        if word in NOBODY and after != "but":
            return self._predicate(cue)
        if word in WITHOUT:
            return [cue, *self._scope(cue, definite=True, lists=True)]
        if word in ABSENT:
            return self._absentees(cue)
        if word in UNREAL and self._opens(cue):
            return self._sentence_after(cue)
        if word == "?":
            return self._sentence_before(cue)
        if self.tokens[cue].lemma in FAILING:
            clauses = [i for i in self.below[cue] if self.tokens[i].dep == "xcomp"]
            return [token for i in clauses for token in self._scope(i, lists=True)]
        if word == "vain" and self.words[head] == "in":
            return self._sought(cue)
        if word == "if" and not (cue and self.words[cue - 1] in ("as", "even")):
            return self._if_it_were(cue)
        if word in HEARSAY or (
            word == "according" and any(map(self._may_speak, self._below(cue, "prep", "pobj")))
        ):
            return self._hearsay(cue)
        if self.tokens[cue].lemma in SAYING and self.tokens[cue].pos == "VERB":
            return self._reported(cue)
        if word in UNTRUE and after == "that":
            return self._sentence_after(cue + 1)
        return ()

    def _predicate(self, noun: int) -> Iterable[int]:
        """Scope of the verb that a noun is the subject of."""
        token = self.tokens[noun]
        return self._scope(token.head) if token.dep in SUBJECTS else ()

    def _absentees(self, predicate: int) -> list[int]:
        """All that is said to be missing: the subject, with all members of a list."""
        verb = self.tokens[predicate].head
        holders = (predicate, verb) if self.tokens[verb].lemma == "be" else (predicate,)
        subjects = [i for each in holders for i in self._subjects(each)]
        return [token for i in subjects for token in self._scope(i, definite=True, lists=True)]

    def _sought(self, vain: int) -> list[int]:
        """Things that are looked for in vain."""
        within = self.tokens[vain].head
        verb = self.tokens[within].head
        if self.tokens[verb].lemma not in SEEKING:
            return []  # "reaches in vain for the ball"
        near = [*self.below[verb], *self.below[within], *self.below[vain]]
        sought = [i for i in near if self.words[i] == "for" or self.tokens[i].dep == "dobj"]
        return [token for i in sought for token in self._scope(i, definite=True, lists=True)]

    def _if_it_were(self, cue: int) -> Iterable[int]:
        """A sentence on what would be, but for definite subjects."""
        main = self.tokens[self.tokens[cue].head].head
        if self.tokens[main].dep != "ROOT" or WOULD.isdisjoint(
            self.words[i] for i in self.below[main]
        ):
            return ()
        return self._sentence_of(cue)

    def _hearsay(self, cue: int) -> Iterable[int]:
        """The sentence that a cue opens or ends; else a claim, as "A dog supposedly sleeps"."""
        if self._opens(cue) or self.words[cue - 1] == ",":
            return self._sentence_of(cue)
        verb = self.tokens[cue].head
        indefinite = [i for i in self._subjects(verb) if not self._is_definite(i)]
        return [token for i in (verb, *indefinite) for token in self._scope(i)]

    def _below(self, top: int, *labels: str) -> list[int]:
        """Words that are reached by these labels, one after the other."""
        words = [top]
        for label in labels:
            words = [i for j in words for i in self.below[j] if self.tokens[i].dep == label]
        return words

    def _reported(self, verb: int) -> Iterable[int]:
        """Claims that a person in the text makes; a quotation only if it is a sentence."""
        subjects = self._subjects(verb)
        is_rumour = any(self.words[i] == "it" for i in subjects) and any(
            self.tokens[i].lemma == "be" for i in self.below[verb]
        )
        if not is_rumour and not any(map(self._may_speak, self._below(verb, "nsubj"))):
            return ()
        end = next(
            (i for i in range(verb + 1, len(self.tokens)) if self._opens(i)), len(self.tokens)
        )
        start = next((i for i in range(verb + 1, end) if self.words[i] in QUOTES), None)
        if start is not None:
            quoted = range(start + 1, len(self.tokens))
            end = next((i for i in quoted if self.words[i] in QUOTES), end)
            said = range(start + 1, end)
            return said if any(self.tokens[i].dep in SUBJECTS for i in said) else ()
        if any(self.tokens[i].dep == "ccomp" and i > verb for i in self.below[verb]):
            return range(verb + 1, end)
        return ()

    def _may_speak(self, subject: int) -> bool:
        if self.tokens[subject].pos == "PRON":
            return self.words[subject] not in NO_SPEAKERS
        return bool(genders((self.tokens[subject].lemma, "n")))

    def _scope(self, top: int, *, definite: bool = False, lists: bool = False) -> Iterator[int]:
        """A word and those below it, but for its subject, other clauses, and definite things."""
        definite = definite or self.tokens[top].lemma == "be"
        yield top
        alternatives = lists or any(self.words[i] in ("or", "nor") for i in self.below[top])
        for i in self.below[top]:
            label = self.tokens[i].dep
            if label in OUTSIDE or (label == "conj" and not alternatives):
                continue
            if definite or not self._is_definite(i):
                yield from self._scope(i, definite=definite, lists=lists)

    def _is_thing(self, token: int) -> bool:
        return self.tokens[token].pos in ("NOUN", "PROPN", "PRON")

    def _is_definite(self, noun: int) -> bool:
        return self._is_thing(noun) and (
            self.tokens[noun].pos != "NOUN"
            or any(self.words[i] in DEFINITE for i in self.below[noun])
        )

    def _opens(self, token: int) -> bool:
        before = token - 1
        return before < 0 or self.tokens[before].sentence != self.tokens[token].sentence

    def _sentence_before(self, end: int) -> list[int]:
        """A question's words; none of a quotation, which is a sign in the image."""
        sentence = self.tokens[end].sentence
        own = [i for i, token in enumerate(self.tokens) if token.sentence == sentence]
        quoted = any(self.words[i] in QUOTES for i in own)
        return own if own[-1] == end and not quoted else []

    def _subjects(self, verb: int) -> list[int]:
        return [i for i in self.below[verb] if self.tokens[i].dep in SUBJECTS]

    def _sentence_of(self, cue: int) -> Iterator[int]:
        sentence = self.tokens[cue].sentence
        start = next(i for i, token in enumerate(self.tokens) if token.sentence == sentence)
        return self._sentence_after(start)

    def _sentence_after(self, start: int) -> Iterator[int]:
        """The rest of a sentence, but for definite subjects."""
        for i in range(start, len(self.tokens)):
            if self.tokens[i].sentence != self.tokens[start].sentence:
                return
            if self.tokens[i].dep not in SUBJECTS or not self._is_definite(i):
                yield i
