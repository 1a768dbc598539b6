"""Texts -> vectors whose cosine measures similarity.

``embedded`` needs no download and knows no synonyms. Alternatives: any model of
sentence-transformers, or a function of your own.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from importlib import import_module, metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posh_reward.errors import InputError, MissingDependencyError, install_command
from posh_reward.types import Span

Encoder = Callable[[list[str]], Any]  # texts -> (texts, dimensions) numbers
Floats = NDArray[np.float64]

EMBEDDED = "embedded"
EMBEDDED_NAME = "embedded-words-1"
"""Its name in signatures. Raise the number with any change of its vectors."""
ENCODER_LIBRARY = "sentence-transformers"

VECTOR_DIMENSIONS = 2048
DIMENSIONS_PER_FEATURE = 8
"""Dimensions per feature, each with a random sign; unrelated texts have cosines within 0.05."""
FUNCTION_WORDS = frozenset(
    "a an the of and or to is are was were be been being am do does did it its that this there "
    "in on at by with for from as".split()
)
FUNCTION_WEIGHT = 0.3  # of a function word, relative to any other word
SPELLING_SHARE = 0.4  # share of a word's squared norm on its trigrams, the rest on the whole word
ORDER_WEIGHT = 0.3  # of word bigrams, so that "man, left of, dog" differs from "dog, left of, man"
NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
INFLECTION_ENDINGS = (
    *(("ies", "y"), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x"), ("men", "man")),
    *(("ss", "ss"), ("us", "us"), ("s", ""), ("ing", ""), ("ed", "")),
)
MIN_STEM_CHARACTERS = 3
WORD_PATTERN = re.compile(r"\w+")


def load_encoder(which: str | Encoder) -> Encoder:
    """Return the encoder that was passed in, or load one by name.

    Args:
        which: "embedded"; ``module:function`` for code of your own; a model of
            sentence-transformers; or the function itself.

    Raises:
        InputError: there is no such function or model.
        MissingDependencyError: sentence-transformers is not installed.
    """
    if not isinstance(which, str):
        return which
    if which == EMBEDDED:
        return embedded
    if ":" in which:
        function: Encoder = import_function(which)
        return function
    try:
        sentence_transformers = import_module("sentence_transformers")
    except ImportError:
        raise MissingDependencyError(
            f"the encoder {which!r} needs `pip install sentence-transformers`; or use a function "
            "of your own, module:function"
        ) from None
    try:
        encode: Encoder = sentence_transformers.SentenceTransformer(which).encode
    except (OSError, ValueError) as error:
        why = f"the encoder {which!r} cannot be loaded: {error}; use a folder, or a name on the hub"
        raise InputError(why) from None
    return encode


def import_function(path: str) -> Any:
    """Import ``module:function``, also from the working directory.

    Raises:
        InputError: it cannot be imported, or is no function.
    """
    module, _, name = path.partition(":")
    here = os.getcwd()
    if here not in sys.path:  # last, so that nothing is shadowed
        sys.path.append(here)
    try:
        function = getattr(import_module(module), name)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise InputError(f"{path!r} cannot be imported ({why})") from error
    if not callable(function):
        raise InputError(f"{path!r} is {function!r}: name a function")
    return function


def text_encoder_name(encoder: str | Encoder) -> str:
    """An encoder's name in signatures, with the version of its library."""
    if encoder == EMBEDDED:
        return EMBEDDED_NAME
    if not isinstance(encoder, str):
        return qualified_name(encoder)
    if ":" in encoder:
        return encoder
    return f"{ENCODER_LIBRARY}-{metadata.version(ENCODER_LIBRARY)}:{encoder}"


def qualified_name(function: Callable[..., Any]) -> str:
    """``module:name`` of a function, or of a callable object's class."""
    kind = function if hasattr(function, "__qualname__") else type(function)
    return f"{kind.__module__}:{kind.__qualname__}"


def unit_vectors(encoder: Encoder, texts: Sequence[str]) -> Floats:
    """(texts, dimensions) of length 1, so that a dot product is a cosine; zero stays zero."""
    if not texts:
        return np.zeros((0, 1))
    vectors = np.asarray(encoder(list(texts)), dtype=np.float64)
    if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
        raise ValueError(f"the encoder returned no finite vector for each of {len(texts)} texts")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = vectors / np.where(lengths > 0, lengths, 1)
    return unit


def embedded(texts: Sequence[str]) -> Floats:
    """Hashed vectors (texts, 2048) of uninflected words, their spelling and their order.

    "red dress" and "the dresses are red" share two words. Synonyms (dress, frock), shades (red,
    crimson) and negation ("no hat") are not recognised.
    """
    vectors = np.zeros((len(texts), VECTOR_DIMENSIONS))
    for row, text in zip(vectors, texts, strict=True):
        for feature, weight in weigh_features(text):
            dimensions, components = _hash_feature(feature)
            np.add.at(row, list(dimensions), np.multiply(components, weight))
    return vectors


def weigh_features(text: str) -> Iterator[tuple[str, float]]:
    """Features and weights that sum to a text's embedded vector."""
    words = [strip_inflection(word) for word in WORD_PATTERN.findall(text.casefold())]
    if not words:
        yield f"text:{text.strip()}", 1.0  # "?!" is similar only to itself
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
    """A text's words without function words and inflection, numbers as digits."""
    words = WORD_PATTERN.findall(text.casefold())
    return [strip_inflection(word) for word in words if word not in FUNCTION_WORDS]


@lru_cache(maxsize=50_000)
def strip_inflection(word: str) -> str:
    """Strip a lower-case word's inflection, roughly: "women" -> "woman", "two" -> "2"."""
    if word in NUMBER_WORDS:
        return str(NUMBER_WORDS.index(word))
    for ending, new in INFLECTION_ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) + len(new) >= MIN_STEM_CHARACTERS:
            stem = word.removesuffix(ending) + new
            doubled = ending in ("ing", "ed") and stem[-1] == stem[-2] and stem[-1] not in "ls"
            return stem[:-1] if doubled else stem
    return word


@lru_cache(maxsize=50_000)
def _hash_feature(feature: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Dimensions of a feature's unit vector and its components there.

    Two bytes of a digest give each: the low bits choose the dimension, the top bit the sign.
    """
    text = feature.encode("utf-8", "backslashreplace")
    digest = blake2b(text, digest_size=2 * DIMENSIONS_PER_FEATURE).digest()
    size = DIMENSIONS_PER_FEATURE**-0.5
    dimensions, components = [], []
    for (number,) in struct.iter_unpack("<H", digest):
        dimensions.append(number % VECTOR_DIMENSIONS)
        components.append(size if number >> 15 else -size)
    return tuple(dimensions), tuple(components)


Floats32 = NDArray[np.float32]
ENCODER_FILES = ("model.safetensors", "tokenizer.json", "config.json")
DIGEST_DIGITS = 12  # hexadecimal digits of a digest in names
MAX_PIECES_PER_PASS = 254  # word pieces per forward pass; longer sentences are split


@dataclass(frozen=True)
class TokenVectors:
    """Vectors of one sentence's tokens (word pieces or words), in text order."""

    spans: tuple[Span, ...]  # of each token in the sentence
    vectors: Floats32  # (tokens, dimensions), last layer


EncodeTokens = Callable[[Sequence[str]], Sequence[TokenVectors]]
"""The sentences of one text -> their vectors, in order."""


def load_token_encoder(which: str | EncodeTokens) -> EncodeTokens:
    """Return the encoder that was passed in, or load one by name."""
    if not isinstance(which, str):
        return which
    if ":" not in which or Path(which).exists():
        return TokenEncoder(which)
    function: EncodeTokens = import_function(which)
    return function


def token_encoder_name(encoder: EncodeTokens) -> str:
    """An encoder's name in signatures: the digest of its files, or the function's own name."""
    name = getattr(encoder, "name", None)
    return name if isinstance(name, str) else qualified_name(encoder)


class TokenEncoder:
    """A BERT-like encoder, run by transformers on the CPU in float32."""

    def __init__(self, model: str) -> None:
        try:
            import_module("torch")
            cached_file = import_module("transformers.utils").cached_file
        except ImportError:
            raise MissingDependencyError(
                f"the encoder {model!r} needs {install_command('train')}"
            ) from None
        self._model = model
        digest = hashlib.sha256()
        try:
            for name in ENCODER_FILES:
                digest.update(Path(cached_file(model, name)).read_bytes())
        except (OSError, TypeError, ValueError) as error:
            raise InputError(
                f"the encoder {model!r} cannot be loaded: {error}; use a folder, or a name on "
                f"the hub, with {', '.join(ENCODER_FILES)}"
            ) from None
        self.name = digest.hexdigest()[:DIGEST_DIGITS]
        """Digest of weights, tokenizer and configuration; equal for a folder and its hub model."""

    def __getstate__(self) -> dict[str, Any]:
        return {"_model": self._model, "name": self.name}

    @cached_property
    def _tokenizer_and_model(self) -> tuple[Any, Any]:
        transformers = import_module("transformers")
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            self._model, use_fast=True, trust_remote_code=False
        )
        model = transformers.AutoModel.from_pretrained(
            self._model, dtype="float32", use_safetensors=True, trust_remote_code=False
        )
        return tokenizer, model.eval()

    def __call__(self, sentences: Sequence[str]) -> list[TokenVectors]:
        """Vectors of each sentence's word pieces, without special tokens."""
        if not sentences:
            return []
        tokenizer, model = self._tokenizer_and_model
        torch = import_module("torch")
        parts = tokenizer(
            list(sentences),
            max_length=MAX_PIECES_PER_PASS + 2,
            truncation=True,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
        )
        ids = parts["input_ids"]
        states: dict[int, Floats32] = {}
        for batch in batches_by_length(list(map(len, ids))):
            width = max(len(ids[part]) for part in batch)
            padded, mask = [], []
            for part in batch:
                padding = [0] * (width - len(ids[part]))
                padded.append(ids[part] + padding)
                mask.append([1] * len(ids[part]) + padding)
            with torch.inference_mode():  # (parts, pieces, dimensions)
                layer = model(torch.tensor(padded), torch.tensor(mask)).last_hidden_state
            states.update(zip(batch, layer.numpy(), strict=True))
        spans: list[list[Span]] = [[] for _ in sentences]
        vectors: list[list[Floats32]] = [[] for _ in sentences]
        for part, sentence in enumerate(parts["overflow_to_sample_mapping"]):
            pieces = np.flatnonzero(np.equal(parts["special_tokens_mask"][part], 0)).tolist()
            for piece in pieces:
                first, end = parts["offset_mapping"][part][piece]
                spans[sentence].append((first, end))
            vectors[sentence].append(states[part][pieces])
        return [
            TokenVectors(tuple(own_spans), np.concatenate(own_vectors))
            for own_spans, own_vectors in zip(spans, vectors, strict=True)
        ]


def batches_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Indices in batches of similar length: in each, none is twice as long as another."""
    batches: list[list[int]] = []
    for part in sorted(range(len(lengths)), key=lambda part: lengths[part]):
        if not batches or lengths[part] >= 2 * lengths[batches[-1][0]]:
            batches.append([])
        batches[-1].append(part)
    return batches
