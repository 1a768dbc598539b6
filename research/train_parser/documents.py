"""Trees -> spaCy Docs, and the treebanks and texts for training."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

from research.train_parser.align import align_tree
from research.train_parser.clearnlp import convert, punctuation
from research.train_parser.conllu import ROOT, Tree, read_conllu


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
