"""Trees of the template grammar: nodes, their order, and inflected forms."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from research.train_parser.clearnlp import punctuation
from research.train_parser.conllu import ROOT, Word

HYPHEN_FREE = ("-", ",", ".", ";", ":", "'s", "\u2019s", ")", "s")


@dataclass
class Node:
    """A word with its dependents before and after it, in order."""

    form: str
    pos: str
    tag: str
    dep: str = "dep"
    left: list[Node] = field(default_factory=list)
    right: list[Node] = field(default_factory=list)

    def as_(self, dep: str) -> Node:
        """Set the node's relation to its head, and return the node."""
        self.dep = dep
        return self

    def linear(self) -> list[Node]:
        """Return the nodes of the subtree in text order."""
        before = [node for child in self.left for node in child.linear()]
        after = [node for child in self.right for node in child.linear()]
        return [*before, self, *after]


def comma(form: str = ",") -> Node:
    """Make a punctuation mark."""
    return Node(form, "PUNCT", form if form in ",." else ":" if form != "-" else "HYPH", "punct")


def words(root: Node) -> list[Word]:
    """Convert a tree to words, with punctuation attached as in the converted treebanks."""
    order = root.linear()
    index = {id(node): i for i, node in enumerate(order)}
    heads = {id(child): index[id(node)] for node in order for child in node.left + node.right}
    tree = [Word(n.form, n.form.lower(), n.pos, n.tag, heads.get(id(n), ROOT), n.dep)
            for n in order]  # fmt: skip
    for word, after in pairwise(tree):
        if word.form == "a" and after.form[0] in "aeiou":
            word.form = "an"
    tree[0].form = tree[0].form[:1].upper() + tree[0].form[1:]
    for before, word in pairwise(tree):
        before.space = not (word.form in HYPHEN_FREE or before.form == "-")
    next(w for w in tree if w.head == ROOT).dep = "ROOT"
    punctuation(tree)
    return tree


def s_form(verb: str) -> str:
    """*carry* -> *carries*."""
    if verb == "have":
        return "has"
    if verb.endswith("y") and verb[-2] not in "aeou":
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")


def ing(verb: str) -> str:
    """*ride* -> *riding*."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    short = (
        len(verb) < 5 and verb[-1] in "bdgmnpt" and verb[-2] in "aeiou" and verb[-3:-2] not in "aeo"
    )
    return verb + (verb[-1] if short else "") + "ing"
