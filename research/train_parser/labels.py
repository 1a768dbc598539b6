"""The ClearNLP label of a word whose head is already ClearNLP's."""

from __future__ import annotations

from research.train_parser.conllu import Word

SAME = {
    "nsubj": "nsubj", "csubj": "csubj", "obj": "dobj", "iobj": "dative", "ccomp": "ccomp",
    "nummod": "nummod", "appos": "appos", "acl": "acl", "advcl": "advcl", "det": "det",
    "cc": "cc", "conj": "conj", "aux": "aux", "prep": "prep", "pobj": "pobj", "pcomp": "pcomp",
    "agent": "agent", "acomp": "acomp", "attr": "attr", "dative": "dative", "compound": "compound",
    "vocative": "npadvmod", "parataxis": "parataxis", "punct": "punct", "flat": "compound",
    "amod": "amod", "list": "appos", "cop": "aux",
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
    by_word = {
        "case": "case" if word.tag == "POS" else "prep",  # 's; a preposition without a phrase
        "mark": "aux" if word.tag == "TO" else "mark",  # *to* before an infinitive
        "nmod": "npadvmod" if word.dep == "nmod:unmarked" else "nmod",  # *five miles away*
        "expl": "expl" if word.tag == "EX" else "nsubj",  # *there*; *it*
        "discourse": "intj" if word.upos == "INTJ" else "dep",  # *well*; an emoticon
    }
    by_context = {"advmod": _adverb, "xcomp": _open_complement, "obl": _noun_adverb}
    if kind in by_context:
        return by_context[kind](word, head, index, tree)
    return by_word.get(kind) or SAME.get(kind, "dep")


def _adverb(word: Word, head: Word, index: int, tree: list[Word]) -> str:
    """*not* is neg; *about* in *about 50* is quantmod."""
    if word.form.lower() in ("not", "n't", "n\u2019t", "never", "nt"):
        return "neg"
    if head.upos == "NUM" and index < word.head and word.upos in ("ADV", "ADP"):
        return "quantmod"
    return "advmod"


def _open_complement(word: Word, head: Word, index: int, tree: list[Word]) -> str:
    """*looks happy* acomp, *became king* attr, *named him king* oprd, *wants to go* xcomp."""
    if word.upos in ("VERB", "AUX") and word.tag != "VBN":
        return "xcomp"
    if any(other.head == word.head and other.dep in ("obj", "nsubj:pass") for other in tree):
        return "oprd"
    return "acomp" if word.upos in ("ADJ", "VERB", "DET", "AUX") else "attr"


def _noun_adverb(word: Word, head: Word, index: int, tree: list[Word]) -> str:
    """*plum-coloured*: a noun joined by a hyphen is compound; *that night* is npadvmod."""
    joined = index + 1 < len(tree) and tree[index + 1].form == "-"
    return "compound" if joined and head.upos in ("ADJ", "VERB") else "npadvmod"
