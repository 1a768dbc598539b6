"""A Doc's annotations as plain tuples: spaCy is slow token by token, rule by rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from sys import intern
from typing import TYPE_CHECKING

from posh_reward.types import Span

if TYPE_CHECKING:
    from spacy.tokens import Doc

NOMINAL = frozenset({"NOUN", "PROPN"})


@dataclass(frozen=True, slots=True)
class Syntax:
    """The tokens of one text; every tuple has one item per token."""

    text: tuple[str, ...]
    lemma: tuple[str, ...]
    pos: tuple[str, ...]
    tag: tuple[str, ...]
    dep: tuple[str, ...]
    head: tuple[int, ...]
    """A root points at itself."""
    sentence: tuple[int, ...]
    span: tuple[Span, ...]
    children: tuple[tuple[int, ...], ...]
    """In text order; a root is no child of itself."""

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
    """Copy the annotations of a Doc; a missing one is an empty string, or one sentence."""
    words = doc.to_array(["ORTH", "LEMMA", "POS", "TAG", "DEP"]).T.tolist()
    places = doc.to_array(["HEAD", "IDX", "SENT_START"]).view("int64").T.tolist()
    # One string object for all that are equal: descriptions are kept by the thousand.
    name = {key: intern(doc.vocab.strings[key]) for key in set().union(*words)}
    text, lemma, pos, tag, dep = (tuple([name[key] for key in keys]) for keys in words)
    steps, begin, starts = places
    head = tuple([token + step for token, step in enumerate(steps)])
    return Syntax(
        text=text,
        lemma=lemma,
        pos=pos,
        tag=tag,
        dep=dep,
        head=head,
        sentence=sentences([start == 1 for start in starts]),
        span=tuple([(first, first + len(word)) for first, word in zip(begin, text, strict=True)]),
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
