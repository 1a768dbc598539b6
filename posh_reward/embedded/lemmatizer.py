"""The embedded lemmatizer: a table of exceptions, and rules of English endings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

ENDING_RULES = {
    "NNS": (("ies", "y"), ("ves", "f"), ("ves", "fe"), ("es", ""), ("men", "man"), ("s", "")),
    "VBZ": (("ies", "y"), ("es", ""), ("s", "")),
    "VBD": (("ied", "y"), ("ed", ""), ("ed", "e"), ("d", "")),
    "VBN": (("ied", "y"), ("ed", ""), ("ed", "e"), ("d", "")),
    "VBG": (("ing", ""), ("ing", "e"), ("ying", "ie")),
    "JJR": (("ier", "y"), ("er", ""), ("er", "e")),
    "JJS": (("iest", "y"), ("est", ""), ("est", "e")),
    "RBR": (("ier", "y"), ("er", ""), ("er", "e")),
    "RBS": (("iest", "y"), ("est", ""), ("est", "e")),
}
"""Fine tag -> (ending, replacement), tried in order."""
STEMS_WITH_LOST_E = tuple(
    "at it ut av iv ov rv lv iz yz az ac ic uc nc rc is as us os rs ns ir ur ar dg rg ag "
    "bl cl dl fl gl pl tl ak ik ok id ud ap".split()
)
"""Ends of stems that have usually lost an *e*, such as *decorat-ing*."""


def find_lemma(word: str, pos: str, tag: str, forms: dict[str, str], words: frozenset[str]) -> str:
    """Return the lemma of a word, e.g. *women* NNS -> *woman*, *slanting* VBG -> *slant*.

    ``forms`` are irregular ones, keyed ``"tag form"``; ``words`` are known base forms, to choose
    among the candidates of the rules.
    """
    if pos == "PROPN":
        return word
    low = word.lower().replace("\u2019", "'")
    irregular = forms.get(f"{tag} {low}")
    if irregular is not None:
        return irregular
    candidates = []
    for ending, new in ENDING_RULES.get(tag, ()):
        if low.endswith(ending) and len(low) > len(ending) + 1:
            candidates.append(low[: len(low) - len(ending)] + new)
    candidates += [stem[:-1] for stem in candidates if is_doubled(stem)]
    known = next((candidate for candidate in candidates if candidate in words), None)
    return known or guess_lemma(low, tag, candidates)


def is_doubled(stem: str) -> bool:
    """Test for a stem such as "runn", which "running" leaves."""
    return len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] in "bdgklmnprtv"


def guess_lemma(low: str, tag: str, candidates: list[str]) -> str:
    """Return the likeliest of the candidates, none of which is a known word."""
    if not candidates:
        return low
    if tag in ("NNS", "VBZ"):
        if low.endswith("ies") and len(low) > 4:
            return low[:-3] + "y"
        if low.endswith(("sses", "shes", "ches", "xes", "zzes")):
            return low[:-2]
        return low[:-1] if low.endswith("s") else candidates[0]
    stem = candidates[0]
    if is_doubled(stem) and stem[-1] not in "l":
        return stem[:-1]
    return stem + "e" if stem.endswith(STEMS_WITH_LOST_E) else stem


class TableLemmatizer:
    """spaCy component that sets lemmas by fine tag."""

    def __init__(self, forms: dict[str, str], words: frozenset[str]):
        self.forms = forms
        self.words = words

    def __call__(self, doc: Doc) -> Doc:
        for token in doc:
            token.lemma_ = find_lemma(token.text, token.pos_, token.tag_, self.forms, self.words)
        return doc

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write both tables as JSON."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        tables = {"forms": self.forms, "words": " ".join(sorted(self.words))}
        text = json.dumps(tables, indent=0, ensure_ascii=False)
        (folder / "tables.json").write_text(text, encoding="utf-8")

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> TableLemmatizer:
        """Read the file of ``to_disk``."""
        tables = json.loads((Path(path) / "tables.json").read_text(encoding="utf-8"))
        self.forms, self.words = tables["forms"], frozenset(tables["words"].split())
        return self


@Language.factory(  # type: ignore[untyped-decorator]
    "table_lemmatizer", requires=["token.tag"], assigns=["token.lemma"]
)
def make_lemmatizer(nlp: Language, name: str) -> TableLemmatizer:
    """An empty component, filled by ``from_disk``."""
    return TableLemmatizer({}, frozenset())
