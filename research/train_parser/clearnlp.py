"""Universal Dependencies trees -> ClearNLP trees, as in spaCy's ``en_core_web_*``.

``convert`` copies a tree and applies the rules below in order. The rules that swap heads (copula,
prepositions) come first, while the labels are still UD's; the last ones set the labels and attach
the punctuation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from research.train_parser.conllu import ROOT, Tree, Word, base, children, copy_of, having
from research.train_parser.copula import copulas
from research.train_parser.labels import clear_label

SUBORDINATORS = frozenset(
    "that if whether because as while when although though unless until till so once where "
    "whereas lest for in_order how why".split()
)
TIME_SUBORDINATORS = frozenset("before after since than like".split())
SMALL_CLAUSE_VERBS = frozenset(
    "let make see watch hear have help feel want like need expect cause allow enable".split()
)


def convert(words: Sequence[Word]) -> Tree:
    """Return a new tree with ClearNLP heads and labels for a UD tree, on the same tokens."""
    tree = copy_of(tuple(words))
    for rule in (
        proper_adjectives,
        flat_names,
        copulas,
        absolutes,
        gerunds_after_prepositions,
        prepositions,
        fixed_expressions,
        small_clauses,
        extraposed_clauses,
        conjunction_chains,
        labels,
        punctuation,
    ):
        rule(tree)
    return tree


def proper_adjectives(tree: Tree) -> None:
    """*the Superior Court*: a word tagged NNP is PROPN and a compound, not an amod."""
    for word in tree:
        if word.tag in ("NNP", "NNPS"):
            word.upos = "PROPN"
            if word.dep == "amod":
                word.dep = "compound"


def flat_names(tree: Tree) -> None:
    """*Jennifer M. Anderson*: the last name is the head, the others are its compounds.

    Numbers stay below: *March 22* has ``nummod`` 22.
    """
    # UD makes the first word of a name its head, ClearNLP the last: the head's relation and its
    # dependents move over.
    for first in range(len(tree)):
        flats = [i for i in children(tree, first) if base(tree[i]) == "flat" and i > first]
        for i in flats:
            tree[i].dep = "nummod" if tree[i].upos in ("NUM", "SYM") else "compound"
        names = [i for i in flats if tree[i].dep == "compound"]
        if not names or tree[first].upos not in ("PROPN", "NOUN", "X"):
            continue
        last = names[-1]
        tree[last].head, tree[last].dep = tree[first].head, tree[first].dep
        for i in children(tree, first):
            tree[i].head = last
        tree[first].head, tree[first].dep = last, "compound"


def absolutes(tree: Tree) -> None:
    """*with her head covered*: *with* is prep, *head* its pobj, *covered* an acl of *head*."""
    for mark in list(having(tree, "mark")):
        clause = tree[mark].head
        if tree[mark].form.lower() not in ("with", "without") or clause == ROOT:
            continue
        subjects = [i for i in children(tree, clause) if base(tree[i]) == "nsubj"]
        if not subjects:
            continue
        subject = subjects[0]
        for i in children(tree, clause):
            if i < mark and base(tree[i]) != "punct":
                tree[i].head = mark
        tree[mark].head, tree[mark].upos = tree[clause].head, "ADP"
        tree[mark].dep = _adjunct_label(tree[clause].dep)
        tree[subject].head, tree[subject].dep = mark, "pobj"
        has_case = any(tree[i].dep == "case" for i in children(tree, clause))
        kinds = {"VERB": "acl", "AUX": "acl", "ADJ": "amod", "ADV": "advmod"}
        tree[clause].head = subject
        tree[clause].dep = "nmod" if has_case else kinds.get(tree[clause].upos, "appos")


def _adjunct_label(dep: str) -> str:
    """Return the relation of a preposition that has become the head of a phrase with ``dep``."""
    if dep == "obl:agent":
        return "agent"
    if dep.partition(":")[0] in ("nmod", "obl", "advcl", "acl", "xcomp", "ccomp", "amod",
                                 "advmod", "obj", "iobj", "nummod", "compound"):  # fmt: skip
        return "prep"
    return dep


def gerunds_after_prepositions(tree: Tree) -> None:
    """*won by cheating*: *by* is prep of *won*, *cheating* its pcomp."""
    for mark in list(having(tree, "mark")):
        clause, word = tree[mark].head, tree[mark]
        if clause == ROOT or word.tag != "IN" or word.form.lower() in SUBORDINATORS:
            continue
        kids = children(tree, clause)
        gerund = any(tree[i].tag == "VBG" for i in [clause, *kids] if tree[i].upos != "NOUN")
        if word.form.lower() in TIME_SUBORDINATORS and not gerund:
            continue
        if any(tree[i].form.lower() == "to" and base(tree[i]) == "mark" for i in kids):
            continue
        if any(base(tree[i]) == "mark" and i != mark for i in kids):
            continue
        _take_over(tree, mark, clause, "pcomp")


def prepositions(tree: Tree) -> None:
    """*leans over a barrow*: *over* is prep of *leans*, *barrow* its pobj.

    Each of several prepositions heads the next (*out of the window*). A possessive's *'s*
    stays below its noun. *gave it to him* has a ``dative`` *to*, a passive's *by* is ``agent``.
    """
    for noun in range(len(tree)):
        cases = [i for i in children(tree, noun) if tree[i].dep == "case" and tree[i].tag != "POS"]
        cases = [i for i in cases if i < noun]
        if not cases:
            continue
        label = "pcomp" if tree[noun].upos == "ADV" else "pobj"
        _take_over(tree, cases[0], noun, label)
        for previous, i in pairwise(cases):
            tree[i].head, tree[i].dep = previous, "prep"
        if len(cases) > 1:
            tree[noun].head = cases[-1]


def _take_over(tree: Tree, marker: int, phrase: int, label: str) -> None:
    """Make a preposition the head of its phrase."""
    # Words before the marker belong to it ("*right* over a barrow"), and so does a coordinated
    # phrase with its own preposition ("over a barrow and *under* a tree").
    old = tree[phrase].head
    for i in children(tree, phrase):
        coordinated = base(tree[i]) == "conj" and any(
            tree[j].dep == "case" and tree[j].tag != "POS" for j in children(tree, i)
        )
        if i != marker and (i < marker or (coordinated and label == "pobj")):
            tree[i].head = marker
    tree[marker].head, tree[marker].upos = old, "ADP"
    tree[marker].dep = _adjunct_label(tree[phrase].dep)
    if _is_dative(tree, marker, old):
        tree[marker].dep = "dative"
    tree[phrase].dep = label
    tree[phrase].head = _last_of_fixed(tree, marker)


def _is_dative(tree: Tree, marker: int, verb: int) -> bool:
    """*gave it to him*: *to* after a verb of giving that has an object."""
    return (
        verb != ROOT
        and tree[marker].form.lower() == "to"
        and tree[verb].lemma in ("give", "offer", "hand", "show", "send")
        and any(tree[i].dep == "obj" for i in children(tree, verb))
    )


def _last_of_fixed(tree: Tree, marker: int) -> int:
    """Return the governing word of a complex preposition: *of* in *because of*."""
    last = marker
    for i in children(tree, marker):
        if tree[i].dep == "fixed" and tree[i].tag in ("IN", "TO"):
            tree[i].upos = "ADP"
            tree[i].dep = "prep"
            last = i
    if tree[marker].form.lower() == "such" and last != marker:
        tree[last].head, tree[last].dep = tree[marker].head, tree[marker].dep
        tree[marker].head, tree[marker].dep, tree[marker].upos = last, "amod", "ADJ"
    return last


def fixed_expressions(tree: Tree) -> None:
    """*so that it falls*: *that* is a mark of *falls* too; *of course*: *course* is advmod."""
    for i in list(having(tree, "fixed")):
        first = tree[tree[i].head]
        if first.dep == "mark":
            tree[i].head, tree[i].dep = first.head, "mark"
        else:
            tree[i].dep = "advmod"


def small_clauses(tree: Tree) -> None:
    """*let the water run off*: *water* is nsubj of *run*, which is ccomp of *let*."""
    for clause in list(having(tree, "xcomp")):
        verb = tree[clause].head
        if tree[clause].upos != "VERB" or tree[clause].tag == "VBN" or verb == ROOT:
            continue
        objects = [i for i in children(tree, verb) if tree[i].dep == "obj" and verb < i < clause]
        if objects and tree[verb].lemma in SMALL_CLAUSE_VERBS:
            tree[objects[0]].head, tree[objects[0]].dep = clause, "nsubj"
            tree[clause].dep = "ccomp"


def extraposed_clauses(tree: Tree) -> None:
    """*It is clear that he left*: *it* is nsubj and the clause ccomp; *there* stays expl.

    The noun after existential *there* is attr: *There are two women*.
    """
    for i in list(having(tree, "expl")):
        verb = tree[i].head
        if verb == ROOT:
            continue
        if tree[i].tag == "EX":
            for j in children(tree, verb):
                if tree[j].dep == "nsubj" and j > i and tree[verb].lemma == "be":
                    tree[j].dep = "attr"
            continue
        for j in children(tree, verb):
            if base(tree[j]) == "csubj" and j > i:
                infinitive = any(tree[k].form.lower() == "to" for k in children(tree, j))
                tree[j].dep = "xcomp" if infinitive else "ccomp"
                tree[i].dep = "nsubj"


def conjunction_chains(tree: Tree) -> None:
    """*red, white and blue*: *white* depends on *red*, *blue* and *and* depend on *white*."""
    for first in range(len(tree)):
        previous = first
        for i in children(tree, first):
            if tree[i].dep != "conj" or i < first:
                continue
            for j in children(tree, i):
                if tree[j].dep == "cc" and j < i:
                    tree[j].head = previous
            tree[i].head = previous
            previous = i


def labels(tree: Tree) -> None:
    """Set the ClearNLP label of every word; see ``labels.clear_label``."""
    labels_ = [
        clear_label(word, None if word.head == ROOT else tree[word.head], index, tree)
        for index, word in enumerate(tree)
    ]
    for word, label in zip(tree, labels_, strict=True):
        word.dep = label


def punctuation(tree: Tree) -> None:
    """Attach each mark to the head of the smallest arc that spans it, or else to the root."""
    root = next(i for i, word in enumerate(tree) if word.head == ROOT)
    marks = [
        i for i, word in enumerate(tree)
        if word.upos == "PUNCT" and i != root and not children(tree, i)
    ]  # fmt: skip
    arcs = sorted(
        (abs(word.head - i), i)
        for i, word in enumerate(tree)
        if word.head != ROOT and i not in set(marks)
    )
    for mark in marks:
        spanning = (i for _, i in arcs if min(i, tree[i].head) < mark < max(i, tree[i].head))
        arc = next(spanning, None)
        tree[mark].head = root if arc is None else tree[arc].head
        tree[mark].dep = "punct"
