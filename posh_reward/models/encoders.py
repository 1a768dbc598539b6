"""Texts -> vectors, whose cosine says how alike two texts are.

``embedded`` needs no download and knows no synonyms. Any model of sentence-transformers can be
named instead, or a function of one's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module, metadata
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posh_reward.errors import InputError, MissingDependencyError

Encoder = Callable[[list[str]], Any]  # texts -> (texts, dimensions) numbers
Floats = NDArray[np.float64]

EMBEDDED = "embedded"
EMBEDDED_NAME = "embedded-words-1"
"""Its name in signatures. Raise the number with any change of its vectors."""

LIBRARY = "sentence-transformers"

DIMENSIONS = 2048
SPREAD = 8
"""Dimensions that one feature touches, with either sign; unrelated texts are within 0.05 of 0."""
FUNCTION_WORDS = frozenset(
    "a an the of and or to is are was were be been being am do does did it its that this there "
    "in on at by with for from as".split()
)
FUNCTION_WEIGHT = 0.3
SPELLING_SHARE = 0.4  # share of a word's vector that is its spelling; the rest is the word itself
ORDER_WEIGHT = 0.3  # of two words in a row, so that "man, left of, dog" is not "dog, left of, man"
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
ENDINGS = (
    *(("ies", "y"), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x"), ("men", "man")),
    *(("ss", "ss"), ("us", "us"), ("s", ""), ("ing", ""), ("ed", "")),
)
SHORTEST_STEM = 3
WORD = re.compile(r"\w+")


def load_encoder(name: str) -> Encoder:
    """The encoder of a name.

    Args:
        name: "embedded"; ``module:function`` for code of your own; or a model of
            sentence-transformers.

    Raises:
        InputError: there is no such function.
        MissingDependencyError: sentence-transformers is not installed.
    """
    if name == EMBEDDED:
        return embedded
    module, colon, function = name.partition(":")
    if colon:
        try:
            encoder: Encoder = getattr(import_module(module), function)
        except (ImportError, AttributeError) as error:
            raise InputError(f"the encoder {name!r} cannot be loaded: {error}") from None
        return encoder
    try:
        sentence_transformers = import_module("sentence_transformers")
    except ImportError:
        raise MissingDependencyError(
            f"the encoder {name!r} needs `pip install sentence-transformers`; or name a function "
            "of your own as module:function"
        ) from None
    encode: Encoder = sentence_transformers.SentenceTransformer(name).encode
    return encode


def encoder_of(encoder: str | Encoder) -> Encoder:
    """The encoder itself, or the one of that name."""
    return load_encoder(encoder) if isinstance(encoder, str) else encoder


def name_of(encoder: str | Encoder) -> str:
    """An encoder's name in signatures; a library's with its version."""
    if encoder == EMBEDDED:
        return EMBEDDED_NAME
    if isinstance(encoder, str):
        library = "" if ":" in encoder else f"{LIBRARY}-{metadata.version(LIBRARY)}:"
        return f"{library}{encoder}"
    kind = encoder if hasattr(encoder, "__qualname__") else type(encoder)
    return f"{kind.__module__}:{kind.__qualname__}"


def unit_vectors(encoder: Encoder, texts: Sequence[str]) -> Floats:
    """(texts, dimensions) of length 1, so that a product is a cosine; zeros stay zeros.

    Raises:
        ValueError: the encoder gave something other than one finite vector for each text.
    """
    if not texts:
        return np.zeros((0, 1))
    vectors = np.asarray(encoder(list(texts)), dtype=np.float64)
    if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
        raise ValueError(f"the encoder gave no finite vector for each of {len(texts)} texts")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = vectors / np.where(lengths > 0, lengths, 1)
    return unit


def embedded(texts: Sequence[str]) -> Floats:
    """Hashed vectors (texts, 2048) of words without inflection, their spelling and their order.

    It sees that "red dress" and "the dresses are red" share two words. It does not know that a
    frock is a dress, that crimson is a red, or that "no hat" is not a hat.
    """
    vectors = np.zeros((len(texts), DIMENSIONS))
    for row, text in zip(vectors, texts, strict=True):
        for feature, weight in features(text):
            places, signs = _place(feature)
            np.add.at(row, list(places), np.multiply(signs, weight))
    return vectors


def features(text: str) -> Iterator[tuple[str, float]]:
    """Features, each with its weight, that sum to a text's embedded vector."""
    words = [base(word) for word in WORD.findall(text.casefold())]
    if not words:
        yield f"text:{text.strip()}", 1.0  # "?!" is like nothing but itself
    for word in words:
        weight = FUNCTION_WEIGHT if word in FUNCTION_WORDS else 1.0
        yield f"word:{word}", weight * (1 - SPELLING_SHARE) ** 0.5
        padded = f"<{word}>"
        grams = [padded[i : i + 3] for i in range(len(padded) - 2)]
        for gram in grams:
            yield f"gram:{gram}", weight * (SPELLING_SHARE / len(grams)) ** 0.5
    for first, second in pairwise(words):
        yield f"order:{first} {second}", ORDER_WEIGHT


def content_words(text: str) -> list[str]:
    """The words of a text that say something, without inflection, numbers as digits."""
    words = WORD.findall(text.casefold())
    return [base(word) for word in words if word not in FUNCTION_WORDS]


@lru_cache(maxsize=50_000)
def base(word: str) -> str:
    """A lower-case word without its inflection, more or less: "women" -> "woman", "two" -> "2"."""
    if word in NUMBERS:
        return str(NUMBERS.index(word))
    for ending, new in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) + len(new) >= SHORTEST_STEM:
            stem = word.removesuffix(ending) + new
            doubled = ending in ("ing", "ed") and stem[-1] == stem[-2] and stem[-1] not in "ls"
            return stem[:-1] if doubled else stem
    return word


@lru_cache(maxsize=50_000)
def _place(feature: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    digest = blake2b(feature.encode("utf-8", "backslashreplace"), digest_size=2 * SPREAD).digest()
    numbers = [int.from_bytes(digest[i : i + 2], "little") for i in range(0, 2 * SPREAD, 2)]
    size = SPREAD**-0.5
    return (
        tuple(number % DIMENSIONS for number in numbers),
        tuple(size if number >> 15 else -size for number in numbers),
    )
