"""Hand-written parses, so that tests need no model."""

from __future__ import annotations

from spacy.tokens import Doc
from spacy.vocab import Vocab

VOCAB = Vocab()


def parse(*sentences: str) -> Doc:
    """A Doc of sentences, each written as ``word/POS/label/head`` with spaces between.

    Heads count from 0 within their sentence; a root names itself. Each word but the text's
    last is followed by a space.
    """
    words: list[str] = []
    pos: list[str] = []
    deps: list[str] = []
    heads: list[int] = []
    starts: list[bool] = []
    for sentence in sentences:
        first = len(words)
        for item in sentence.split():
            word, tag, label, head = item.split("/")
            starts.append(len(words) == first)
            words.append(word)
            pos.append(tag)
            deps.append(label)
            heads.append(first + int(head))
    return Doc(
        VOCAB,
        words=words,
        spaces=[i + 1 < len(words) for i in range(len(words))],
        pos=pos,
        tags=["POS" if p == "PART" and d == "case" else "" for p, d in zip(pos, deps, strict=True)],
        lemmas=[word.lower() for word in words],
        heads=heads,
        deps=deps,
        sent_starts=starts,
    )
