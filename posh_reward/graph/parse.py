"""Text -> spaCy ``Doc`` with ClearNLP labels, by the embedded pipeline or an installed one."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path

import spacy
from spacy.attrs import NORM
from spacy.language import Language
from spacy.tokens import Doc

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.graph import biaffine  # noqa: F401  # registers its component with spaCy
from posh_reward.process.child import gpu_index

logger = logging.getLogger(__name__)

RULES = {
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
E_ENDINGS = tuple(
    "at it ut av iv ov rv lv iz yz az ac ic uc nc rc is as us os rs ns ir ur ar dg rg ag "
    "bl cl dl fl gl pl tl ak ik ok id ud ap".split()
)
"""Ends of stems that have usually lost an *e*, such as *decorat-ing*."""


def lemma(word: str, pos: str, tag: str, forms: dict[str, str], words: frozenset[str]) -> str:
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
    candidates = [
        low[: len(low) - len(ending)] + new
        for ending, new in RULES.get(tag, ())
        if low.endswith(ending) and len(low) > len(ending) + 1
    ]
    candidates += [stem[:-1] for stem in candidates if is_doubled(stem)]
    known = (candidate for candidate in candidates if candidate in words)
    return next(known, None) or guess(low, tag, candidates)


def is_doubled(stem: str) -> bool:
    """Test for a stem such as "runn", which "running" leaves."""
    return len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] in "bdgklmnprtv"


def guess(low: str, tag: str, candidates: list[str]) -> str:
    """Return the likeliest of the candidates, none of which is a known word."""
    if not candidates:
        return low
    if tag in ("NNS", "VBZ"):
        if low.endswith("ies") and len(low) > 4:
            return low[:-3] + "y"
        sibilant = low.endswith(("sses", "shes", "ches", "xes", "zzes"))
        return low[:-2] if sibilant else low[:-1] if low.endswith("s") else candidates[0]
    stem = candidates[0]
    if is_doubled(stem) and stem[-1] not in "l":
        return stem[:-1]
    return stem + "e" if stem.endswith(E_ENDINGS) else stem


class TableLemmatizer:
    """spaCy component that sets lemmas by fine tag."""

    def __init__(self, forms: dict[str, str], words: frozenset[str]):
        self.forms = forms
        self.words = words

    def __call__(self, doc: Doc) -> Doc:
        for token in doc:
            token.lemma_ = lemma(token.text, token.pos_, token.tag_, self.forms, self.words)
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


EMBEDDED = "embedded"
NEEDED_LABELS = frozenset(("nsubj", "dobj", "pobj", "prep", "amod", "compound", "poss"))
"""Labels that identify ClearNLP; Universal Dependencies, for example, lack ``pobj``."""
NEEDED_PIPES = ("parser", "tagger", "lemmatizer")


def load_parser(name: str = EMBEDDED, device: str = "auto") -> Language:
    """Load ``"embedded"``, or an installed pipeline such as ``"en_core_web_trf"`` (the paper's).

    The same arguments give the same object.

    Args:
        name: of the pipeline.
        device: of a transformer pipeline: "auto" for this rank's GPU, or the CPU if the pipeline
            fails there, with a warning; or "cpu".

    Raises:
        MissingDependencyError: the package is not installed; the message has the command.
        InputError: the package lacks a parser, a tagger, a lemmatizer or ClearNLP labels.
    """
    return load_embedded() if name == EMBEDDED else load_installed(name, device)


@lru_cache(maxsize=4)
def load_installed(name: str, device: str) -> Language:
    if not spacy.util.is_package(name):
        raise MissingDependencyError(
            f"the spaCy pipeline {name!r} is not installed: run `python -m spacy download {name}`"
            f", or use parser {EMBEDDED!r}, which needs no download"
        )
    # Needs CuPy (posh-reward[gpu]); without it the pipeline runs on the CPU.
    wanted = name.endswith("_trf") and device == "auto"
    on_gpu = wanted and spacy.prefer_gpu(gpu_index(os.environ))
    nlp = spacy.load(name, exclude=["ner"])
    check(nlp, name)
    if on_gpu:
        try:
            nlp("A dog sleeps.")
        except Exception as error:  # CuPy compiles its kernels on first use, and raises anything
            logger.warning(
                "%s fails on the GPU and runs on the CPU, which takes seconds per batch (%s: %s). "
                "parser_device: cpu says that this is meant",
                name, type(error).__name__, error,
            )  # fmt: skip
            spacy.require_cpu()
            nlp = spacy.load(name, exclude=["ner"])
    return nlp


@lru_cache(maxsize=1)
def load_embedded() -> Language:
    with as_file(files("posh_reward.graph") / "embedded" / "pipeline") as path:
        return spacy.load(path)


def check(nlp: Language, name: str) -> None:
    """Raise ``InputError`` unless the pipeline has the components and labels that POSH needs."""
    missing = [pipe for pipe in NEEDED_PIPES if pipe not in nlp.pipe_names]
    remedy = f"use an English one, such as 'en_core_web_trf' or {EMBEDDED!r}"
    if missing:
        raise InputError(f"the spaCy pipeline {name!r} has no {', '.join(missing)}: {remedy}")
    labels = set(nlp.get_pipe("parser").labels)
    if not labels >= NEEDED_LABELS:
        raise InputError(
            f"the spaCy pipeline {name!r} does not emit ClearNLP labels (it lacks "
            f"{', '.join(sorted(NEEDED_LABELS - labels))}): {remedy}"
        )


def parser_version(nlp: Language) -> str:
    """Return name and version for a score's signature, e.g. ``"en_core_web_trf-3.8.0"``."""
    name, version = nlp.meta["name"], nlp.meta["version"]
    return f"{name}-{version}" if name == EMBEDDED else f"{nlp.meta['lang']}_{name}-{version}"


def parse(nlp: Language, texts: Sequence[str], batch_size: int = 16) -> list[Doc]:
    """Parse texts, stripped, in order: token offsets refer to the stripped texts."""
    docs = [tokenize(nlp, text.strip()) for text in texts]
    return list(nlp.pipe(docs, batch_size=batch_size))


LONGEST_RUN = 100
"""Characters without white space; a longer run is tokenized in pieces. spaCy's tokenizer strips
punctuation from its ends one character at a time, and searches the rest each time: a generation of
20,000 exclamation marks took a minute."""

PIECE = re.compile(
    rf"(?=\S{{{LONGEST_RUN + 1}}})"
    rf"(?:\S{{{LONGEST_RUN // 2},{LONGEST_RUN - 1}}}[^\w\s]|\S{{{LONGEST_RUN}}})"
)
"""First piece of a long run, up to the last punctuation mark in its second half, if any."""


def tokenize(nlp: Language, text: str) -> Doc:
    """Tokenize a text by the pipeline's own tokenizer, long runs in pieces.

    A text without runs of more than ``LONGEST_RUN`` characters gets exactly spaCy's tokens.
    """
    ends = [match.end() for match in PIECE.finditer(text)]
    if not ends:
        return nlp.make_doc(text)
    # Tokenize with a space inserted at each cut, and leave it out of the result.
    pieces = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    spaced = nlp.make_doc(" ".join(pieces))
    inserted = {end + spaces for spaces, end in enumerate(ends)}
    words = [token.text for token in spaced]
    spaces = [bool(t.whitespace_) and t.idx + len(t) not in inserted for t in spaced]
    doc = Doc(nlp.vocab, words=words, spaces=spaces)
    # The sentence splitter reads norms, which special cases such as "ca|n't" set.
    return doc.from_array([NORM], spaced.to_array([NORM]))
