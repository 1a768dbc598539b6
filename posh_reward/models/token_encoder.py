"""Sentences -> contextual token vectors, by a small encoder such as all-MiniLM-L6-v2.

The sentences of one text are encoded together, and never with those of another: padding changes
vectors by 1e-6, and a score must not depend on which texts are scored with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posh_reward.errors import InputError, MissingDependencyError, install
from posh_reward.models.encoders import import_function, qualified_name
from posh_reward.types import Span

Floats = NDArray[np.float32]
FILES = ("model.safetensors", "tokenizer.json", "config.json")
DIGITS = 12  # hexadecimal digits of a digest in names
MOST_PIECES = 254  # word pieces per forward pass; longer sentences are split


@dataclass(frozen=True)
class TokenVectors:
    """Vectors of one sentence's tokens (word pieces or words), in text order."""

    spans: tuple[Span, ...]  # of each token in the sentence
    vectors: Floats  # (tokens, dimensions), last layer


EncodeTokens = Callable[[Sequence[str]], Sequence[TokenVectors]]
"""The sentences of one text -> their vectors, in order."""


def load_token_encoder(which: str | EncodeTokens) -> EncodeTokens:
    """Return the encoder that was passed in, or load one by name.

    Args:
        which: a model of sentence-transformers, as a folder or its name on the hub;
            ``module:function`` for code of your own; or the function itself.

    Raises:
        InputError: there is none, or it has no weights in safetensors.
        MissingDependencyError: transformers is not installed.
    """
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
    """A BERT-like encoder, run by transformers on the CPU in float32.

    Args:
        model: folder or name on the hub, with weights in safetensors and a fast tokenizer.

    Raises:
        InputError: it cannot be loaded.
        MissingDependencyError: transformers or torch is not installed.
    """

    def __init__(self, model: str) -> None:
        try:
            import_module("torch")
            cached_file = import_module("transformers.utils").cached_file
        except ImportError:
            raise MissingDependencyError(
                f"the encoder {model!r} needs {install('train')}"
            ) from None
        self._model = model
        digest = hashlib.sha256()
        try:
            for name in FILES:
                digest.update(Path(cached_file(model, name)).read_bytes())
        except (OSError, TypeError, ValueError) as error:
            raise InputError(
                f"the encoder {model!r} cannot be loaded: {error}; use a folder, or a name on "
                f"the hub, with {', '.join(FILES)}"
            ) from None
        self.name = digest.hexdigest()[:DIGITS]
        """Digest of weights, tokenizer and configuration; equal for a folder and its hub model."""

    def __getstate__(self) -> dict[str, Any]:
        return {"_model": self._model, "name": self.name}

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
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
        tokenizer, model = self._loaded
        torch = import_module("torch")
        parts = tokenizer(
            list(sentences),
            max_length=MOST_PIECES + 2,
            truncation=True,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
        )
        ids = parts["input_ids"]
        states: dict[int, Floats] = {}
        for batch in batches_by_length([len(each) for each in ids]):
            width = max(len(ids[part]) for part in batch)
            padded = [ids[part] + [0] * (width - len(ids[part])) for part in batch]
            mask = [[1] * len(ids[part]) + [0] * (width - len(ids[part])) for part in batch]
            with torch.inference_mode():  # (parts, pieces, dimensions)
                layer = model(torch.tensor(padded), torch.tensor(mask)).last_hidden_state
            states.update(zip(batch, layer.numpy(), strict=True))
        spans: list[list[Span]] = [[] for _ in sentences]
        vectors: list[list[Floats]] = [[] for _ in sentences]
        for part, sentence in enumerate(parts["overflow_to_sample_mapping"]):
            text = [i for i, added in enumerate(parts["special_tokens_mask"][part]) if not added]
            offsets = parts["offset_mapping"][part]
            spans[sentence] += [(offsets[i][0], offsets[i][1]) for i in text]
            vectors[sentence].append(states[part][text])
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
