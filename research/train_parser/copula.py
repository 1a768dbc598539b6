"""Make the copula the head of its clause, as in ClearNLP."""

from __future__ import annotations

from research.train_parser.conllu import ROOT, Tree, base, children, having

OWN_PHRASE = ("det", "amod", "nummod", "compound", "nmod", "acl", "appos", "case", "flat",
              "fixed", "goeswith", "obj", "iobj", "orphan")  # fmt: skip
CLAUSAL = ("nsubj", "csubj", "aux", "expl", "mark", "vocative", "parataxis", "dislocated",
           "discourse", "reparandum", "cop")  # fmt: skip
CLAUSE_ADVERBS = frozenset(
    "not n't never also still now then always already probably perhaps maybe actually really "
    "often usually sometimes currently here there however therefore thus once only just".split()
)


def copulas(tree: Tree) -> None:
    """*The boy is barefoot*: *is* heads the clause; *boy* is its nsubj, *barefoot* its acomp.

    A nominal predicate is ``attr``, one with a preposition becomes ``prep`` (*is in the
    garden*), an adverb ``advmod``, a clause ``ccomp``.
    """
    for cop in list(having(tree, "cop")):
        predicate = tree[cop].head
        if predicate == ROOT or tree[cop].dep != "cop":
            continue
        moved = [
            i for i in children(tree, predicate) if i != cop and _of_clause(tree, i, cop, predicate)
        ]
        tree[cop].head, tree[cop].dep = tree[predicate].head, tree[predicate].dep
        tree[predicate].dep = _predicate_label(tree, predicate)
        tree[predicate].head = cop
        for i in moved:
            tree[i].head = cop


def _predicate_label(tree: Tree, predicate: int) -> str:
    kids = [tree[i] for i in children(tree, predicate)]
    upos = tree[predicate].upos
    if any(kid.dep in ("nsubj", "nsubj:pass") for kid in kids) and upos == "VERB":
        return "ccomp"
    if any(kid.dep == "case" and kid.tag != "POS" for kid in kids):
        return "obl"
    if upos in ("ADJ", "DET"):
        return "acomp"
    if upos in ("ADV", "ADP", "PART", "INTJ"):
        return "advmod"
    if upos in ("VERB", "AUX"):
        return "xcomp" if any(kid.form.lower() == "to" for kid in kids) else "ccomp"
    return "attr"


def _of_clause(tree: Tree, i: int, cop: int, predicate: int) -> bool:
    """Return True if a dependent of the predicate belongs to the clause, so to the copula."""
    word, kind, upos = tree[i], base(tree[i]), tree[predicate].upos
    if any(tree[j].dep.endswith(":outer") for j in children(tree, predicate)):
        return word.dep.endswith(":outer") or i < cop
    if kind in OWN_PHRASE:
        return False
    if kind in CLAUSAL:
        return True
    between = min(cop, predicate) < i < max(cop, predicate)
    if kind == "conj":
        return word.upos in ("VERB", "AUX") or _has_subject(tree, i)
    if kind == "advmod":
        keeps = upos in ("ADJ", "ADV", "NUM") and word.lemma.lower() not in CLAUSE_ADVERBS
        return not (between and keeps)
    if predicate < cop:
        return i > cop
    if kind in ("obl", "advcl"):
        return i < cop or upos not in ("ADJ", "ADV") or _after_adjunct(tree, i, predicate)
    if kind in ("ccomp", "xcomp"):
        return upos not in ("ADJ", "ADV", "NOUN", "VERB")
    return i < cop


def _has_subject(tree: Tree, head: int) -> bool:
    return any(base(tree[i]) in ("nsubj", "csubj", "cop") for i in children(tree, head))


def _after_adjunct(tree: Tree, i: int, predicate: int) -> bool:
    """Return True if an adjunct stands between an adjective and its complement."""
    kinds = {base(tree[j]) for j in children(tree, predicate) if predicate < j < i}
    return bool(kinds - {"conj", "cc", "punct", "fixed"})
