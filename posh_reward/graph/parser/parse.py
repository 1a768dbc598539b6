"""Text to spaCy ``Doc`` with ClearNLP labels, by the embedded pipeline or an installed one."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.process.child_environment import place_of_card

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


EMBEDDED = "embedded"
NEEDED_LABELS = frozenset(("nsubj", "dobj", "pobj", "prep", "amod", "compound", "poss"))
"""Labels by which ClearNLP is recognised; Universal Dependencies, say, lack ``pobj``."""
NEEDED_PIPES = ("parser", "tagger", "lemmatizer")


def load_parser(name: str = EMBEDDED) -> Language:
    """Load the pipeline called ``name``; the same object for the same name.

    Args:
        name: ``"embedded"`` for the one in the package, or the name of an installed spaCy
            package such as ``"en_core_web_trf"`` (the paper's).

    Raises:
        MissingDependencyError: the package is not installed; the message has the command.
        InputError: the package lacks a parser, a tagger, a lemmatizer or ClearNLP labels.
    """
    return _load_embedded() if name == EMBEDDED else _load_installed(name)


@lru_cache(maxsize=4)
def _load_installed(name: str) -> Language:
    import spacy

    if not spacy.util.is_package(name):
        raise MissingDependencyError(
            f"the spaCy pipeline {name!r} is not installed: run `python -m spacy download {name}`"
            f", or use parser {EMBEDDED!r}, which needs no download"
        )
    if name.endswith("_trf"):
        # Needs CuPy (posh-reward[gpu]); without it the pipeline runs on the CPU.
        spacy.prefer_gpu(place_of_card(os.environ))
    nlp = spacy.load(name, exclude=["ner"])
    check(nlp, name)
    return nlp


@lru_cache(maxsize=1)
def _load_embedded() -> Language:
    import spacy

    # Importing these registers their factories with spaCy.
    from posh_reward.graph.parser import biaffine, lemmas  # noqa: F401

    with as_file(files("posh_reward.graph.parser") / "embedded" / "pipeline") as path:
        return spacy.load(path)


def check(nlp: Language, name: str) -> None:
    """Raise InputError unless the pipeline has the components and labels that POSH reads."""
    missing = [pipe for pipe in NEEDED_PIPES if pipe not in nlp.pipe_names]
    if missing:
        raise InputError(
            f"the spaCy pipeline {name!r} has no {', '.join(missing)}: use one that has "
            f"{', '.join(NEEDED_PIPES)}, such as 'en_core_web_trf' or {EMBEDDED!r}"
        )
    labels = set(nlp.get_pipe("parser").labels)
    if not labels >= NEEDED_LABELS:
        raise InputError(
            f"the spaCy pipeline {name!r} does not emit ClearNLP labels (it lacks "
            f"{', '.join(sorted(NEEDED_LABELS - labels))}): use an English one, such as "
            f"'en_core_web_trf' or {EMBEDDED!r}"
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
"""Characters; a longer run without white space is tokenized in pieces. spaCy's tokenizer strips
punctuation from its ends, one sign at a time, and searches the rest each time: a generation of
20,000 exclamation marks took a minute."""

PIECE = re.compile(
    rf"(?=\S{{{LONGEST_RUN + 1}}})"
    rf"(?:\S{{{LONGEST_RUN // 2},{LONGEST_RUN - 1}}}[^\w\s]|\S{{{LONGEST_RUN}}})"
)
"""The first piece of a long run: it ends in punctuation if there is some in its second half."""


def tokenize(nlp: Language, text: str) -> Doc:
    """Tokenize a text by the pipeline's own tokenizer, long runs in pieces.

    A text without runs of more than ``LONGEST_RUN`` characters gets exactly spaCy's tokens.
    """
    ends = [match.end() for match in PIECE.finditer(text)]
    return in_pieces(nlp, text, ends) if ends else nlp.make_doc(text)


def in_pieces(nlp: Language, text: str, ends: list[int]) -> Doc:
    """Tokenize a text that is cut at the offsets ``ends``, as if spaces stood there."""
    from spacy.attrs import NORM
    from spacy.tokens import Doc

    pieces = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    spaced = nlp.make_doc(" ".join(pieces))
    inserted = {end + spaces for spaces, end in enumerate(ends)}
    words = [token.text for token in spaced]
    spaces = [
        bool(token.whitespace_) and token.idx + len(token) not in inserted for token in spaced
    ]
    doc = Doc(nlp.vocab, words=words, spaces=spaces)
    # The splitter reads norms, which special cases such as "ca|n't" set.
    return doc.from_array([NORM], spaced.to_array([NORM]))
