"""UD trees turn into the trees of ``en_core_web_*``, construction by construction."""

import pytest

from research.train_parser.clearnlp import convert
from research.train_parser.conllu import Word
from research.train_parser.documents import align_tree


def ud(*rows: str) -> list[Word]:
    """Words from ``form UPOS tag head relation`` rows; heads count from 1, 0 is the root."""
    cells = [row.split() for row in rows]
    lemmas = {"is": "be", "are": "be"}
    return [Word(f, lemmas.get(f, f.lower()), u, t, int(h) - 1, d) for f, u, t, h, d in cells]


def arcs(words: list[Word]) -> str:
    """``form/label>head`` of every word but punctuation."""
    return " ".join(
        f"{w.form}/{w.dep}>{words[w.head].form if w.head >= 0 else 'ROOT'}"
        for w in words
        if w.dep != "punct"
    )


CASES = {
    "copula with an adjective": (
        ["The DET DT 2 det", "boy NOUN NN 4 nsubj", "is AUX VBZ 4 cop", "barefoot ADJ JJ 0 root",
         ". PUNCT . 4 punct"],
        "The/det>boy boy/nsubj>is is/ROOT>ROOT barefoot/acomp>is",
    ),
    "copula with a noun": (
        ["She PRON PRP 4 nsubj", "is AUX VBZ 4 cop", "a DET DT 4 det", "nun NOUN NN 0 root"],
        "She/nsubj>is is/ROOT>ROOT a/det>nun nun/attr>is",
    ),
    "copula with a place": (
        ["It PRON PRP 5 nsubj", "is AUX VBZ 5 cop", "in ADP IN 5 case", "the DET DT 5 det",
         "garden NOUN NN 0 root"],
        "It/nsubj>is is/ROOT>ROOT in/prep>is the/det>garden garden/pobj>in",
    ),
    "inverted copula": (
        ["Behind ADP IN 2 case", "them PRON PRP 0 root", "are AUX VBP 2 cop",
         "stalls NOUN NNS 2 nsubj"],
        "Behind/prep>are them/pobj>Behind are/ROOT>ROOT stalls/nsubj>are",
    ),
    "adverb of an adjective stays with it": (
        ["It PRON PRP 4 nsubj", "is AUX VBZ 4 cop", "very ADV RB 4 advmod", "old ADJ JJ 0 root"],
        "It/nsubj>is is/ROOT>ROOT very/advmod>old old/acomp>is",
    ),
    "object and preposition": (
        ["He PRON PRP 2 nsubj", "pulls VERB VBZ 0 root", "sheets NOUN NNS 2 obj",
         "out ADP IN 6 case", "of ADP IN 6 case", "boxes NOUN NNS 2 obl"],
        "He/nsubj>pulls pulls/ROOT>ROOT sheets/dobj>pulls out/prep>pulls of/prep>out boxes/pobj>of",
    ),
    "passive with an agent": (
        ["It PRON PRP 3 nsubj:pass", "is AUX VBZ 3 aux:pass", "held VERB VBN 0 root",
         "by ADP IN 5 case", "men NOUN NNS 3 obl:agent"],
        "It/nsubjpass>held is/auxpass>held held/ROOT>ROOT by/agent>held men/pobj>by",
    ),
    "gerund after a preposition": (
        ["He PRON PRP 2 nsubj", "won VERB VBD 0 root", "by SCONJ IN 4 mark",
         "cheating VERB VBG 2 advcl"],
        "He/nsubj>won won/ROOT>ROOT by/prep>won cheating/pcomp>by",
    ),
    "conjunction chain": (
        ["red ADJ JJ 0 root", ", PUNCT , 3 punct", "white ADJ JJ 1 conj", "and CCONJ CC 5 cc",
         "blue ADJ JJ 1 conj"],
        "red/ROOT>ROOT white/conj>red and/cc>white blue/conj>white",
    ),
    "coordinated prepositional phrases": (
        ["sits VERB VBZ 0 root", "in ADP IN 3 case", "rooms NOUN NNS 1 obl", "and CCONJ CC 6 cc",
         "on ADP IN 6 case", "lawns NOUN NNS 3 conj"],
        "sits/ROOT>ROOT in/prep>sits rooms/pobj>in and/cc>in on/conj>in lawns/pobj>on",
    ),
    "names": (
        ["Winslow PROPN NNP 3 nsubj", "Homer PROPN NNP 1 flat", "painted VERB VBD 0 root"],
        "Winslow/compound>Homer Homer/nsubj>painted painted/ROOT>ROOT",
    ),
    "possessive": (
        ["man NOUN NN 3 nmod:poss", "'s PART POS 1 case", "hat NOUN NN 0 root"],
        "man/poss>hat 's/case>man hat/ROOT>ROOT",
    ),
    "relative clause and particle": (
        ["man NOUN NN 0 root", "who PRON WP 3 nsubj", "pushes VERB VBZ 1 acl:relcl",
         "up ADP RP 3 compound:prt", "awnings NOUN NNS 3 obj"],
        "man/ROOT>ROOT who/nsubj>pushes pushes/relcl>man up/prt>pushes awnings/dobj>pushes",
    ),
    "existential": (
        ["There PRON EX 2 expl", "are VERB VBP 0 root", "two NUM CD 4 nummod",
         "boats NOUN NNS 2 nsubj"],
        "There/expl>are are/ROOT>ROOT two/nummod>boats boats/attr>are",
    ),
    "absolute with with": (
        ["sits VERB VBZ 0 root", "with SCONJ IN 5 mark", "her PRON PRP$ 4 nmod:poss",
         "head NOUN NN 5 nsubj", "covered VERB VBN 1 advcl"],
        "sits/ROOT>ROOT with/prep>sits her/poss>head head/pobj>with covered/acl>head",
    ),
    "small clause": (
        ["let VERB VB 0 root", "water NOUN NN 1 obj", "run VERB VB 1 xcomp"],
        "let/ROOT>ROOT water/nsubj>run run/ccomp>let",
    ),
    "infinitive and negation": (
        ["does AUX VBZ 3 aux", "not PART RB 3 advmod", "want VERB VB 0 root", "to PART TO 5 mark",
         "go VERB VB 3 xcomp"],
        "does/aux>want not/neg>want want/ROOT>ROOT to/aux>go go/xcomp>want",
    ),
    "compound colour": (
        ["mustard NOUN NN 3 obl:unmarked", "- PUNCT HYPH 3 punct", "yellow ADJ JJ 4 amod",
         "shawl NOUN NN 0 root"],
        "mustard/compound>yellow yellow/amod>shawl shawl/ROOT>ROOT",
    ),
    "predicate after a verb of seeming": (
        ["It PRON PRP 2 nsubj", "looks VERB VBZ 0 root", "old ADJ JJ 2 xcomp"],
        "It/nsubj>looks looks/ROOT>ROOT old/acomp>looks",
    ),
    "complex preposition": (
        ["wet ADJ JJ 0 root", "because ADP IN 4 case", "of ADP IN 2 fixed", "rain NOUN NN 1 obl"],
        "wet/ROOT>ROOT because/prep>wet of/prep>because rain/pobj>of",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_conversion(name: str) -> None:
    rows, expected = CASES[name]
    assert arcs(convert(ud(*rows))) == expected


def test_alignment_merges_what_spacy_keeps_together() -> None:
    words = convert(ud("a DET DT 5 det", "15 NUM CD 4 nummod", "- PUNCT HYPH 4 punct",
                       "year NOUN NN 5 compound", "term NOUN NN 0 root"))  # fmt: skip
    tree = align_tree(words, [("a", True), ("15-year", True), ("term", False)])
    assert tree is not None
    assert arcs(tree) == "a/det>term 15-year/compound>term term/ROOT>ROOT"


def test_alignment_splits_what_spacy_splits() -> None:
    tree = align_tree(ud("old-fashioned ADJ JJ 2 amod", "hat NOUN NN 0 root"),
                   [("old", False), ("-", False), ("fashioned", True), ("hat", False)])  # fmt: skip
    assert tree is not None
    assert arcs(tree) == "old/compound>fashioned fashioned/amod>hat hat/root>ROOT"
