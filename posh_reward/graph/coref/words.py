"""A Doc as the coreference rules read it: lower-cased, with a sentence for each token."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from posh_reward.graph.rules.syntax import NOMINAL, read_syntax

if TYPE_CHECKING:
    from spacy.tokens import Doc


@dataclass(frozen=True, slots=True)
class Words:
    """The tokens of one text; every tuple has one item per token."""

    lower: tuple[str, ...]
    lemma: tuple[str, ...]
    """Lower-cased; the word itself where a parse has no lemma."""
    pos: tuple[str, ...]
    tag: tuple[str, ...]
    dep: tuple[str, ...]
    head: tuple[int, ...]
    sentence: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    capital: tuple[bool, ...]
    """Whether it starts with a capital letter."""

    def __len__(self) -> int:
        return len(self.lower)

    def same_sentence(self, first: int, second: int) -> bool:
        """Whether both are tokens of one sentence; False for an index past the ends."""
        inside = 0 <= first < len(self) and 0 <= second < len(self)
        return inside and self.sentence[first] == self.sentence[second]

    def child(self, token: int, *deps: str) -> int | None:
        """The first child of a token that has one of these dependency labels."""
        return next((c for c in self.children[token] if self.dep[c] in deps), None)


def read_words(doc: Doc) -> Words:
    """Reads what the rules need from a Doc; missing annotations are empty strings."""
    syntax = read_syntax(doc)
    lower = tuple(text.lower() for text in syntax.text)
    return Words(
        lower=lower,
        lemma=tuple(map(name_of, lower, map(str.lower, syntax.lemma), syntax.pos)),
        pos=syntax.pos,
        tag=syntax.tag,
        dep=syntax.dep,
        head=syntax.head,
        sentence=syntax.sentence if any(syntax.sentence) else sentences_by_stops(lower),
        children=syntax.children,
        capital=tuple(text[:1].isupper() for text in syntax.text),
    )


def name_of(word: str, lemma: str, pos: str) -> str:
    """What a word is compared by: its lemma. Lemmatizers keep "people", the plural of "person"."""
    if word == "people" and pos in NOMINAL:
        return "person"
    return lemma or word


def sentences_by_stops(lower: tuple[str, ...]) -> tuple[int, ...]:
    """The sentence of each token of a parse without boundaries: full stops end sentences."""
    return tuple(accumulate((word in (".", "!", "?") for word in lower[:-1]), initial=0))[
        : len(lower)
    ]
