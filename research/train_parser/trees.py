"""What every rule needs: the children of a word, its relation without subtype."""

from __future__ import annotations

from collections.abc import Iterator

from research.train_parser.conllu import Word

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
