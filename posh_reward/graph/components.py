"""Components of a sentence: words that name, describe, act or place (paper, A.1.2).

A token belongs to one component, of the first kind whose rule takes it: nouns, then adjectives,
verbs, prepositions and adverbs. Examples mark the tokens that a rule is about with *stars*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from sys import intern
from typing import TYPE_CHECKING, Literal

from posh_reward.types import Span

if TYPE_CHECKING:
    from spacy.tokens import Doc

NOMINAL = frozenset({"NOUN", "PROPN"})
SUBJECT = ("nsubj", "nsubjpass")


@dataclass(frozen=True, slots=True)
class Syntax:
    """The tokens of one text; every tuple has one item per token."""

    text: tuple[str, ...]
    lemma: tuple[str, ...]
    pos: tuple[str, ...]
    tag: tuple[str, ...]
    dep: tuple[str, ...]
    head: tuple[int, ...]  # a root points at itself
    sentence: tuple[int, ...]
    span: tuple[Span, ...]
    children: tuple[tuple[int, ...], ...]  # in text order; a root is no child of itself

    def __len__(self) -> int:
        return len(self.text)

    def parent_pos(self, token: int) -> str:
        """Return the part of speech of a token's head; empty for a root."""
        head = self.head[token]
        return "" if head == token else self.pos[head]

    def phrase(self, tokens: Iterable[int]) -> str:
        """Join the texts of tokens by spaces, in their order here."""
        return " ".join([self.text[token] for token in tokens])


def read_syntax(doc: Doc) -> Syntax:
    """Copy a Doc's annotations; missing ones are empty strings, or one sentence."""
    words = doc.to_array(["ORTH", "LEMMA", "POS", "TAG", "DEP"]).T.tolist()
    places = doc.to_array(["HEAD", "IDX", "SENT_START"]).view("int64").T.tolist()
    # Equal strings share one object, since descriptions are cached by the thousand.
    name = {key: intern(doc.vocab.strings[key]) for key in set().union(*words)}
    text, lemma, pos, tag, dep = (tuple([name[key] for key in keys]) for keys in words)
    steps, begins, starts = places
    head = tuple([token + step for token, step in enumerate(steps)])
    return Syntax(
        text=text,
        lemma=lemma,
        pos=pos,
        tag=tag,
        dep=dep,
        head=head,
        sentence=sentences([start == 1 for start in starts]),
        span=tuple([(first, first + len(word)) for first, word in zip(begins, text, strict=True)]),
        children=children_of(head),
    )


def children_of(heads: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the children of each token, in text order."""
    children: list[list[int]] = [[] for _ in heads]
    for token, head in enumerate(heads):
        if head != token:
            children[head].append(token)
    return tuple(map(tuple, children))


def sentences(starts: Sequence[bool | None]) -> tuple[int, ...]:
    """Number the sentence of each token; the first token always starts one."""
    return tuple(accumulate(int(i > 0 and bool(start)) for i, start in enumerate(starts)))


ComponentKind = Literal["noun", "adjective", "verb", "preposition", "adverb"]


@dataclass(frozen=True, slots=True)
class Component:
    """A word and the words that belong to it, e.g. "holds up"."""

    kind: ComponentKind
    root: int  # the token to which the rules of its kind apply
    tokens: tuple[int, ...]  # with the root, in text order


def find_components(syntax: Syntax) -> tuple[Component, ...]:
    """Find all components of a text, in text order of their first tokens."""
    free = dict.fromkeys(range(len(syntax)))  # an ordered set: kinds take tokens in turn
    result: list[Component] = []
    for kind, is_root, companions in RULES:
        for root in list(free):
            if root not in free or not is_root(syntax, root):
                continue
            tokens = tuple(sorted({root, *companions(syntax, root)} & free.keys()))
            for token in tokens:
                del free[token]
            result.append(Component(kind, root, tokens))
    return tuple(sorted(result, key=lambda component: component.tokens[0]))


def is_adjectival_noun(syntax: Syntax, token: int) -> bool:
    """Test for a noun that describes another: "a *market* square", "the *oak* door"."""
    return (
        syntax.dep[token] in ("compound", "amod", "nmod")
        and syntax.pos[token] in NOMINAL
        and syntax.parent_pos(token) in NOMINAL
    )


def is_coordinated_adjective(syntax: Syntax, token: int) -> bool:
    """Test for a conjunct of an adjective: "brown and *carved*", "tall and with a *beard*"."""
    return syntax.dep[token] == "conj" and syntax.parent_pos(token) == "ADJ"


def is_noun(syntax: Syntax, token: int) -> bool:
    """Test for a noun or pronoun that names an entity: "a *woman* whom *we* see"."""
    return (
        syntax.pos[token] in ("NOUN", "PRON", "PROPN")
        and syntax.dep[token] != "poss"
        and not is_coordinated_adjective(syntax, token)
        and not is_adjectival_noun(syntax, token)
    )


def is_adjective(syntax: Syntax, token: int) -> bool:
    """Test for a word that describes or possesses: "*her* *two* *market* stalls *outside*"."""
    pos, dep = syntax.pos[token], syntax.dep[token]
    return (
        pos in ("ADJ", "NUM")
        or dep == "poss"
        or (pos == "VERB" and dep == "amod")
        or (pos == "ADV" and dep == "advmod" and syntax.parent_pos(token) == "NOUN")
        or is_coordinated_adjective(syntax, token)
        or is_adjectival_noun(syntax, token)
    )


def is_verb(syntax: Syntax, token: int) -> bool:
    """Test for a verb that is not an adjective: "a laughing girl *runs*"."""
    return syntax.pos[token] == "VERB" and syntax.dep[token] != "amod"


def is_preposition(syntax: Syntax, token: int) -> bool:
    """Test for a preposition: "*under* a tree", "pushed *by* a boy"."""
    return syntax.pos[token] == "ADP" and syntax.dep[token] in ("prep", "case", "conj", "agent")


def is_adverb(syntax: Syntax, token: int) -> bool:
    """Test for an adverb left over: "seen from *behind*". In no graph, but the place of "from"."""
    return syntax.pos[token] == "ADV"


def compounded_nouns(syntax: Syntax, noun: int) -> Iterable[int]:
    """Return nouns compounded into a pronoun; other compounds describe a noun."""
    return (
        child
        for child in syntax.children[noun]
        if syntax.dep[child].startswith("compound")
        and syntax.pos[child] in NOMINAL
        and not is_adjectival_noun(syntax, child)
    )


def compounded_describers(syntax: Syntax, adjective: int) -> Iterable[int]:
    """Return describers of describers: "an *eye* level view", "a *light* blue coat"."""
    return (
        child
        for child in syntax.children[adjective]
        if is_adjectival_noun(syntax, child)
        or (
            syntax.dep[child].startswith("compound")
            and syntax.pos[child] in ("ADJ", "ADV", "NOUN", "PROPN")
        )
    )


def particles_and_adverbs(syntax: Syntax, verb: int) -> Iterable[int]:
    """Return words after a verb that complete it: "holds a lamp *up*", "looks *away*"."""
    return (
        child
        for child in syntax.children[verb]
        if child > verb and syntax.dep[child] in ("prt", "compound:prt", "advmod")
    )


Test = Callable[[Syntax, int], bool]
Companions = Callable[[Syntax, int], Iterable[int]]

RULES: tuple[tuple[ComponentKind, Test, Companions], ...] = (
    ("noun", is_noun, compounded_nouns),
    ("adjective", is_adjective, compounded_describers),
    ("verb", is_verb, particles_and_adverbs),
    ("preposition", is_preposition, lambda syntax, token: ()),
    ("adverb", is_adverb, lambda syntax, token: ()),
)
"""Each kind with the test for its roots, and the other tokens of a root's component."""
