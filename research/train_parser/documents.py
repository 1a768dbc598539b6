"""Trees -> spaCy Docs, and the treebanks and texts for training.

Trees are aligned with the tokens of spaCy's English tokenizer, which the parser will see. The two
agree on most words. Where spaCy has one token for several of the treebank's (*15-year*), these are
merged into their head; where it splits further, the parts depend on the last one. Sentences that
overlap in any other way are dropped.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

from research.train_parser.clearnlp import convert, punctuation
from research.train_parser.conllu import ROOT, Tree, Word, read_conllu


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


def treebank(path: Path, nlp: Language | None = None) -> list[tuple[str, Tree]]:
    """Read the (document, ClearNLP tree) of each sentence; on spaCy's tokens if given ``nlp``."""
    trees = []
    for sentence in read_conllu(path):
        tree: Tree | None = convert(sentence.words)
        if nlp is not None and tree is not None:
            doc = nlp.make_doc(" ".join(sentence.text.split()))
            tokens = [(token.text, bool(token.whitespace_)) for token in doc]
            if len(tokens) != len(tree) or any(
                word.form != text for word, (text, _) in zip(tree, tokens, strict=True)
            ):
                tree = align_tree(tree, tokens)
                if tree is not None:
                    punctuation(tree)
        if tree is not None:
            trees.append((sentence.document, tree))
    return trees


def group_documents(
    sentences: Sequence[tuple[str, Tree]], sizes: Sequence[int]
) -> Iterator[list[Tree]]:
    """Split documents into runs of sentences, of sizes drawn from ``sizes``."""
    rng = random.Random(0)
    for _, document in groupby(sentences, key=lambda pair: pair[0]):
        trees = [tree for _, tree in document]
        while trees:
            size = rng.choice(sizes)
            yield trees[:size]
            trees = trees[size:]


def as_doc(nlp: Language, trees: Sequence[Tree]) -> Doc:
    """Return one gold Doc of several sentences, separated by blanks."""
    words = [word for tree in trees for word in tree]
    heads: list[int] = []
    ends = set()
    for tree in trees:
        start = len(heads)
        ends.add(start - 1)
        heads += [start + (i if w.head == ROOT else w.head) for i, w in enumerate(tree)]
    return Doc(
        nlp.vocab,
        words=[word.form for word in words],
        spaces=[word.space or i in ends for i, word in enumerate(words)],
        heads=heads,
        deps=[word.dep for word in words],
        tags=[word.tag for word in words],
        pos=[word.upos for word in words],
        lemmas=[word.lemma for word in words],
    )


def bare(doc: Doc) -> Doc:
    """Copy the tokens, without annotations."""
    return Doc(
        doc.vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
    )


def museum_texts(data: Path) -> list[str]:
    """Read descriptions of photographs (IIW, CC BY 4.0) and National Gallery art (CC0)."""
    lines = (data / "iiw" / "iiw_400_dev.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    gallery = json.loads((data / "nga" / "nga_descriptions.json").read_text(encoding="utf-8"))
    texts = [row[key] for row in rows for key in ("IIW", "IIW-P5B") if row.get(key)]
    return [" ".join(text.split()) for text in [*texts, *(row["description"] for row in gallery)]]


def prose(data: Path) -> list[str]:
    """Read the Wikipedia snippets of GAP (Apache-2.0), for the vocabulary of base forms."""
    with (data / "gap" / "gap-development.tsv").open(encoding="utf-8", newline="") as file:
        return [row["Text"] for row in csv.DictReader(file, delimiter="\t")]
