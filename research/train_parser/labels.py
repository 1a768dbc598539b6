"""The ClearNLP label of a word whose head is already ClearNLP's."""

from __future__ import annotations

from research.train_parser.conllu import Word

SAME = {
    "nsubj": "nsubj", "csubj": "csubj", "obj": "dobj", "iobj": "dative", "ccomp": "ccomp",
    "nummod": "nummod", "appos": "appos", "acl": "acl", "advcl": "advcl", "mark": "mark",
    "det": "det", "case": "prep", "cc": "cc", "conj": "conj", "aux": "aux", "prep": "prep",
    "pobj": "pobj", "pcomp": "pcomp", "agent": "agent", "acomp": "acomp", "attr": "attr",
    "dative": "dative", "compound": "compound", "obl": "npadvmod", "vocative": "npadvmod",
    "parataxis": "parataxis", "punct": "punct", "flat": "compound", "amod": "amod",
    "nmod": "nmod", "advmod": "advmod", "list": "appos", "cop": "aux", "expl": "expl",
}  # fmt: skip
"""UD relation (or a label already set by a rule) -> ClearNLP label."""

SUBTYPES = {
    "nsubj:pass": "nsubjpass", "csubj:pass": "csubjpass", "aux:pass": "auxpass",
    "acl:relcl": "relcl", "advcl:relcl": "advcl", "det:predet": "predet",
    "cc:preconj": "preconj", "compound:prt": "prt", "nmod:poss": "poss", "nmod:desc": "compound",
}  # fmt: skip


def clear_label(word: Word, head: Word | None, index: int, tree: list[Word]) -> str:
    """Return the ClearNLP label of ``word``, ``tree[index]``; ``head`` is None at the root."""
    kind = word.dep.partition(":")[0]
    if head is None:
        return "ROOT"
    if word.upos == "PUNCT":
        return "punct"
    if word.dep in SUBTYPES:
        return SUBTYPES[word.dep]
    special = {
        "advmod": _adverb, "case": _case, "mark": _mark, "xcomp": _open_complement,
        "nmod": _noun_modifier, "obl": _noun_adverb, "compound": _compound, "expl": _expletive,
        "discourse": _discourse,
    }.get(kind)  # fmt: skip
    if special is not None:
        return special(word, head, index, tree)
    return SAME.get(kind, "dep")


def _adverb(word: Word, head: Word, index: int, tree: list[Word]) -> str:
    """*not* is neg; *about* in *about 50* is quantmod."""
    if word.form.lower() in ("not", "n't", "n\u2019t", "never", "nt"):
        return "neg"
    if head.upos == "NUM" and index < word.head and word.upos in ("ADV", "ADP"):
        return "quantmod"
    return "advmod"


def _case(word: Word, head: Word, index: int, tree: list[Word]) -> str:
    """*'s* is case; a preposition with no phrase of its own is prep."""
    return "case" if word.tag == "POS" else "prep"


def _mark(word: Word, head: Word, index: int, tree: list[Word]) -> str:
    """*to* before an infinitive is aux; other subordinators are mark."""
    return "aux" if word.tag == "TO" else "mark"


def _open_complement(word: Word, head: Word, index: int, tree: list[Word]) -> str:
    """*looks happy* acomp, *became king* attr, *named him king* oprd, *wants to go* xcomp."""
    if word.upos in ("VERB", "AUX") and word.tag != "VBN":
        return "xcomp"
    if any(other.head == word.head and other.dep in ("obj", "nsubj:pass") for other in tree):
        return "oprd"
    return "acomp" if word.upos in ("ADJ", "VERB", "DET", "AUX") else "attr"


def _noun_modifier(word: Word, head: Word, index: int, tree: list[Word]) -> str:
    """*five miles away*: npadvmod if unmarked; else nmod."""
    return "npadvmod" if word.dep == "nmod:unmarked" else "nmod"


def _noun_adverb(word: Word, head: Word, index: int, tree: list[Word]) -> str:
    """*plum-coloured*: a noun joined by a hyphen is compound; *that night* is npadvmod."""
    joined = index + 1 < len(tree) and tree[index + 1].form == "-"
    return "compound" if joined and head.upos in ("ADJ", "VERB") else "npadvmod"


def _compound(word: Word, head: Word, index: int, tree: list[Word]) -> str:
    """*apple tree*, *two hundred* and *mustard-yellow* are compound."""
    return "compound"


def _expletive(word: Word, head: Word, index: int, tree: list[Word]) -> str:
    """*there* is expl; *it* is the subject."""
    return "expl" if word.tag == "EX" else "nsubj"


def _discourse(word: Word, head: Word, index: int, tree: list[Word]) -> str:
    """*well* is intj; an emoticon is dep."""
    return "intj" if word.upos == "INTJ" else "dep"
