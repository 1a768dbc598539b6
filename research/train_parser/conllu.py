"""Words and trees of CoNLL-U files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = -1  # head of the root of a sentence


@dataclass(slots=True)
class Word:
    """One token of a tree. Mutable: the rules of ``clearnlp`` rewrite a copy in place."""

    form: str
    lemma: str
    upos: str
    tag: str
    head: int  # index of the head in the sentence, from 0; ROOT for the root
    dep: str
    space: bool = True  # white space follows


@dataclass(frozen=True, slots=True)
class Sentence:
    """A tree with its text and the document that it is from."""

    words: tuple[Word, ...]
    text: str
    document: str = ""


def copy_of(words: tuple[Word, ...] | list[Word]) -> list[Word]:
    """A copy of the words, to be rewritten."""
    return [replace(word) for word in words]


def text_of(words: tuple[Word, ...] | list[Word]) -> str:
    """The words joined as their ``space`` flags say."""
    return "".join(word.form + " " * word.space for word in words).rstrip()


def read_conllu(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file; empty nodes are left out."""
    document = ""
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.split("\n") if line]
        if not lines:
            continue
        pairs = (line.lstrip("# ").partition(" = ") for line in lines if line.startswith("#"))
        comments = {name: value for name, _, value in pairs}
        document = comments.get("newdoc id", document)
        rows = [line.split("\t") for line in lines if not line.startswith("#")]
        words = tuple(_words(rows))
        yield Sentence(words, comments.get("text", text_of(words)), document)


def _words(rows: list[list[str]]) -> Iterator[Word]:
    """Words of a block; inside a multi-word token only its last word has a space after it."""
    inside, space_after = 0, True
    for row in rows:
        number, misc = row[0], row[9]
        if "." in number:
            continue
        if "-" in number:
            inside = int(number.split("-")[1])
            space_after = "SpaceAfter=No" not in misc
            continue
        index = int(number)
        space = "SpaceAfter=No" not in misc
        if index <= inside:
            space = space_after and index == inside
        yield Word(row[1], row[2], row[3], row[4], int(row[6]) - 1, row[7], space)


Tree = list[Word]


def children(tree: Tree, head: int) -> list[int]:
    """Indices of the words whose head is ``head``, left to right."""
    return [i for i, word in enumerate(tree) if word.head == head]


def base(word: Word) -> str:
    """The UD relation without its subtype: ``nsubj:pass`` -> ``nsubj``."""
    return word.dep.partition(":")[0]


def having(tree: Tree, *deps: str) -> Iterator[int]:
    """Indices of the words whose UD relation, without subtype, is one of ``deps``."""
    return (i for i, word in enumerate(tree) if base(word) in deps)
