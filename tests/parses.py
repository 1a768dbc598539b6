"""Hand-written parses, so that tests need no model."""

from spacy.tokens import Doc
from spacy.vocab import Vocab

from posh_reward.graph.reader import describe_doc
from posh_reward.types import Clusters, SceneGraph

VOCAB = Vocab()


def build(doc: Doc, clusters: Clusters) -> SceneGraph:
    return describe_doc(doc, clusters).graph


def parse(*sentences: str) -> Doc:
    """A Doc of sentences, each written as ``word/POS/label/head`` with spaces between.

    Heads count from 0 within their sentence; a root names itself. Each word but the text's
    last is followed by a space.
    """
    words, pos, deps, heads, starts = columns(*sentences)
    tags = ["POS" if p == "PART" and d == "case" else "" for p, d in zip(pos, deps, strict=True)]
    return Doc(
        VOCAB, words=words, spaces=[i + 1 < len(words) for i in range(len(words))], pos=pos,
        tags=tags, lemmas=[word.lower() for word in words], heads=heads, deps=deps,
        sent_starts=starts,
    )  # fmt: skip


def columns(*sentences: str) -> tuple[list[str], list[str], list[str], list[int], list[bool]]:
    """Words, tags, labels, heads within the text, and sentence starts of written-out sentences."""
    words: list[str] = []
    tags: list[str] = []
    deps: list[str] = []
    heads: list[int] = []
    starts: list[bool] = []
    for sentence in sentences:
        first = len(words)
        for item in sentence.split():
            word, tag, label, head = item.split("/")
            starts.append(len(words) == first)
            words.append(word)
            tags.append(tag)
            deps.append(label)
            heads.append(first + int(head))
    return words, tags, deps, heads, starts
