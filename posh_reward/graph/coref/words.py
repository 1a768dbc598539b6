"""A Doc as plain tuples: what the coreference rules read, fetched from spaCy once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import Doc

IRREGULAR = {"women": "woman", "children": "child", "people": "person", "feet": "foot"}


@dataclass(frozen=True, slots=True)
class Words:
    """The tokens of one text; every tuple has one item a token."""

    lower: tuple[str, ...]
    lemma: tuple[str, ...]
    """Lower-cased; of nouns always a usable singular."""
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
    """Reads what the rules need from a Doc; a missing annotation leaves empty strings."""
    lower, lemma, pos, tag, dep, head, starts, capital = [], [], [], [], [], [], [], []
    for token in doc:
        word = token.text.lower()  # a bare Vocab has no lower_
        lower.append(word)
        lemma.append(singular(word, token.lemma_.lower(), token.pos_))
        pos.append(token.pos_)
        tag.append(token.tag_)
        dep.append(token.dep_)
        head.append(token.head.i)
        starts.append(token.is_sent_start)
        capital.append(token.text[:1].isupper())
    children: list[list[int]] = [[] for _ in lower]
    for token_index, parent in enumerate(head):
        if parent != token_index:
            children[parent].append(token_index)
    return Words(
        lower=tuple(lower),
        lemma=tuple(lemma),
        pos=tuple(pos),
        tag=tuple(tag),
        dep=tuple(dep),
        head=tuple(head),
        sentence=sentence_of_tokens(lower, starts),
        children=tuple(map(tuple, children)),
        capital=tuple(capital),
    )


def singular(word: str, lemma: str, pos: str) -> str:
    """The lemma, with common irregular plurals put right: "fishermen" is "fisherman"."""
    if pos not in ("NOUN", "PROPN"):
        return lemma or word
    if word in IRREGULAR:
        return IRREGULAR[word]
    if word.endswith("men"):
        return word[:-2] + "an"
    return lemma or word


def sentence_of_tokens(lower: list[str], starts: list[bool | None]) -> tuple[int, ...]:
    """The sentence index of each token; without boundaries, full stops end sentences."""
    known = any(start for start in starts[1:])
    sentence, indices = 0, []
    for i, start in enumerate(starts):
        if i and (start if known else lower[i - 1] in (".", "!", "?")):
            sentence += 1
        indices.append(sentence)
    return tuple(indices)
