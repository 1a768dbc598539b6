"""Universal Dependencies trees -> ClearNLP trees, as in spaCy's ``en_core_web_*``.

``convert`` copies a tree and applies the rules below in order. The rules that swap heads (copula,
prepositions) come first, while the labels are still UD's; the last ones set the labels and attach
the punctuation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from research.train_parser.conllu import ROOT, Tree, Word, base, children, copy_of, having

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
