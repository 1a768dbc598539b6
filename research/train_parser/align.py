"""Align treebank trees with the tokens of spaCy's English tokenizer, which the parser will see.

The two agree on most words. Where spaCy has one token for several of the treebank's (*15-year*),
these are merged into their head; where it splits further, the parts depend on the last one.
Sentences that overlap in any other way are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from research.train_parser.conllu import ROOT, Word


def align_tree(words: Sequence[Word], tokens: Sequence[tuple[str, bool]]) -> list[Word] | None:
    """Return the tree over ``tokens`` (text, space after); None if words and tokens overlap."""
    groups = _groups([word.form for word in words], [text for text, _ in tokens])
    if groups is None:
        return None
    new_of = {old: new[-1] for olds, new in groups for old in olds}
    result: list[Word] = []
    for olds, news in groups:
        head = next(i for i in olds if not _above(words, i) & set(olds))
        target = ROOT if words[head].head == ROOT else new_of[words[head].head]
        lemma = words[head].lemma if len(olds) == 1 else tokens[news[0]][0].lower()
        last = replace(words[head], form=tokens[news[-1]][0], lemma=lemma, head=target)
        for i in news[:-1]:
            result.append(_part(tokens[i], last, news[-1]))
        result.append(replace(last, space=tokens[news[-1]][1]))
    return result


def _above(words: Sequence[Word], index: int) -> set[int]:
    """Return a word's ancestors up to the root."""
    above: set[int] = set()
    while (index := words[index].head) != ROOT:
        above.add(index)
    return above


def _part(token: tuple[str, bool], whole: Word, head: int) -> Word:
    """Make a part of a word that spaCy splits: punctuation, or a compound of the last part."""
    text, space = token
    if any(character.isalnum() for character in text):
        return Word(text, text.lower(), whole.upos, whole.tag, head, "compound", space)
    return Word(text, text, "PUNCT", "HYPH" if text == "-" else ":", head, "punct", space)


def _groups(
    words: Sequence[str], tokens: Sequence[str]
) -> list[tuple[list[int], list[int]]] | None:
    """Pair the smallest runs of words and tokens that cover the same characters, blanks aside."""
    groups, i, j = [], 0, 0
    while i < len(words) and j < len(tokens):
        olds, news = [i], [j]
        left, right = _bare(words[i]), _bare(tokens[j])
        while left != right:
            if len(left) < len(right):
                olds.append(olds[-1] + 1)
                if olds[-1] >= len(words):
                    return None
                left += _bare(words[olds[-1]])
            else:
                news.append(news[-1] + 1)
                if news[-1] >= len(tokens):
                    return None
                right += _bare(tokens[news[-1]])
        if len(olds) > 1 and len(news) > 1:
            return None
        groups.append((olds, news))
        i, j = olds[-1] + 1, news[-1] + 1
    return groups if i == len(words) and j == len(tokens) else None


def _bare(text: str) -> str:
    return "".join(text.split())
