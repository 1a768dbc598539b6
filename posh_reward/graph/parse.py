"""Text -> spaCy ``Doc`` with ClearNLP labels, by the embedded pipeline or an installed one."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path

import spacy
from spacy.attrs import NORM
from spacy.language import Language
from spacy.tokens import Doc

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.settings import shorten

logger = logging.getLogger(__name__)


EMBEDDED = "embedded"
NEEDED_LABELS = frozenset(("nsubj", "dobj", "pobj", "prep", "amod", "compound", "poss"))
"""Labels that identify ClearNLP; Universal Dependencies, for example, lack ``pobj``."""
NEEDED_PIPES = ("parser", "tagger", "lemmatizer")
COMPONENT_MODULES = ("posh_reward.embedded.parser", "posh_reward.embedded.lemmatizer")
"""Modules that define the components of the embedded pipeline."""


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


def is_pipeline(name: str) -> bool:
    """Return True for an installed package of a spaCy pipeline; imports nothing of it.

    ``spacy.load`` would import any installed package, whose name a stranger's settings may give.
    """
    # find_spec imports the package before a dot.
    spec = find_spec(name) if name.isidentifier() else None
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        with suppress(OSError, ValueError, KeyError, TypeError):
            meta = json.loads(Path(folder, "meta.json").read_text(encoding="utf-8"))
            if f"{meta['lang']}_{meta['name']}" == name and meta["spacy_version"]:
                return True
    return False


def require_pipeline_name(name: str) -> None:
    """Raise ``InputError`` for another package, or a name that no pipeline has."""
    is_name = re.fullmatch(r"[a-z]{2,3}_\w+", name)  # language and name
    if not is_name or find_spec(name) is not None:
        raise InputError(
            f"the parser {shorten(name)} is no spaCy pipeline: use {EMBEDDED!r}, or the name of an "
            "installed one, such as en_core_web_trf"
        )


@lru_cache(maxsize=4)
def load_installed(name: str, device: str) -> Language:
    if not is_pipeline(name):
        require_pipeline_name(name)
        raise MissingDependencyError(
            f"the spaCy pipeline {name!r} is not installed: run `python -m spacy download {name}`"
            f", or use parser {EMBEDDED!r}, which needs no download"
        )
    # Needs CuPy (posh-reward[gpu]); without it the pipeline runs on the CPU.
    on_gpu = name.endswith("_trf") and device == "auto" and prefer_own_gpu()
    nlp = spacy.load(name, exclude=["ner"])
    check_pipeline(nlp, name)
    if on_gpu:
        try:
            nlp("A dog sleeps.")
        except Exception as error:  # CuPy compiles its kernels on first use, and raises anything
            logger.warning(
                "%s fails on the GPU and runs on the CPU, which takes seconds per batch (%s: %s). "
                "Set parser_device: cpu to use the CPU without this warning",
                name, type(error).__name__, error,
            )  # fmt: skip
            spacy.require_cpu()
            nlp = spacy.load(name, exclude=["ner"])
    return nlp


@lru_cache(maxsize=1)
def load_embedded() -> Language:
    for module in COMPONENT_MODULES:  # importing them tells spaCy how to build the pipeline's parts
        import_module(module)
    with as_file(files("posh_reward.embedded") / "pipeline") as path:
        return spacy.load(path)


def prefer_own_gpu() -> bool:
    """Let spaCy use this rank's GPU; False without one."""
    from posh_reward.process.child import gpu_index

    return bool(spacy.prefer_gpu(gpu_index(os.environ)))


def check_pipeline(nlp: Language, name: str) -> None:
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


def is_on_gpu(nlp: Language) -> bool:
    """Return True if a part of the pipeline computes on a GPU."""
    models = [getattr(pipe, "model", None) for _, pipe in nlp.pipeline]
    return any(getattr(getattr(model, "ops", None), "name", "") == "cupy" for model in models)


def parser_version(nlp: Language) -> str:
    """Return name and version for a score's signature, e.g. ``"en_core_web_trf-3.8.0"``."""
    name, version = nlp.meta["name"], nlp.meta["version"]
    return f"{name}-{version}" if name == EMBEDDED else f"{nlp.meta['lang']}_{name}-{version}"


def parse_texts(nlp: Language, texts: Sequence[str], batch_size: int = 16) -> list[Doc]:
    """Parse texts, stripped, in order: token offsets refer to the stripped texts."""
    docs = [tokenize(nlp, text.strip()) for text in texts]
    return list(nlp.pipe(docs, batch_size=batch_size))


MAX_UNBROKEN_CHARACTERS = 100
"""Characters without white space; a longer run is tokenized in pieces. spaCy's tokenizer strips
punctuation from its ends one character at a time, and searches the rest each time: a generation of
20,000 exclamation marks took a minute."""

UNBROKEN_PIECE = re.compile(
    rf"(?=\S{{{MAX_UNBROKEN_CHARACTERS + 1}}})(?:"
    rf"\S{{{MAX_UNBROKEN_CHARACTERS // 2},{MAX_UNBROKEN_CHARACTERS - 1}}}[^\w\s]|"
    rf"\S{{{MAX_UNBROKEN_CHARACTERS}}})"
)
"""First piece of a long run, up to the last punctuation mark in its second half, if any."""


def tokenize(nlp: Language, text: str) -> Doc:
    """Tokenize a text by the pipeline's own tokenizer, long runs in pieces.

    A text without runs of more than ``MAX_UNBROKEN_CHARACTERS`` gets exactly spaCy's tokens.
    """
    ends = [match.end() for match in UNBROKEN_PIECE.finditer(text)]
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
