"""Text -> spaCy ``Doc`` with ClearNLP labels, by the embedded pipeline or an installed one."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Literal, get_args

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.process.child_environment import place_of_card

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


logger = logging.getLogger(__name__)

ParserDevice = Literal["auto", "cpu"]
EMBEDDED = "embedded"
NEEDED_LABELS = frozenset(("nsubj", "dobj", "pobj", "prep", "amod", "compound", "poss"))
"""Labels that identify ClearNLP; Universal Dependencies, for example, lack ``pobj``."""
NEEDED_PIPES = ("parser", "tagger", "lemmatizer")


def load_parser(name: str = EMBEDDED, device: ParserDevice = "auto") -> Language:
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
    return _load_embedded() if name == EMBEDDED else _load_installed(name, device)


def check_device(device: str) -> ParserDevice:
    """Return a ``ParserDevice``; raise ``InputError`` for another text."""
    if device not in get_args(ParserDevice):
        raise InputError(f"parser_device is {device!r}: use {' or '.join(get_args(ParserDevice))}")
    return device  # type: ignore[return-value]


@lru_cache(maxsize=4)
def _load_installed(name: str, device: ParserDevice) -> Language:
    import spacy

    if not spacy.util.is_package(name):
        raise MissingDependencyError(
            f"the spaCy pipeline {name!r} is not installed: run `python -m spacy download {name}`"
            f", or use parser {EMBEDDED!r}, which needs no download"
        )
    # Needs CuPy (posh-reward[gpu]); without it the pipeline runs on the CPU.
    wanted = name.endswith("_trf") and device == "auto"
    on_gpu = wanted and spacy.prefer_gpu(place_of_card(os.environ))
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
def _load_embedded() -> Language:
    import spacy

    # Importing these registers their factories with spaCy.
    from posh_reward.graph.parser import biaffine, lemmas  # noqa: F401

    with as_file(files("posh_reward.graph.parser") / "embedded" / "pipeline") as path:
        return spacy.load(path)


def check(nlp: Language, name: str) -> None:
    """Raise ``InputError`` unless the pipeline has the components and labels that POSH needs."""
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
    from spacy.attrs import NORM
    from spacy.tokens import Doc

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
