"""MiniLM as a cross-encoder: pairs of texts -> logits of the three labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from research.reader.examples import LABELS

MAX_TOKENS = 384
TOKENS_A_FORWARD = 2048
FALSEHOOD_FILE = "falsehood.safetensors"
Pair = tuple[str, str]
"""A premise and a hypothesis."""


@dataclass(frozen=True)
class Tokens:
    """A pair of texts as the model reads it."""

    ids: list[int]
    types: list[int]
    """0 of the premise, 1 of the hypothesis."""
    offsets: list[tuple[int, int]]
    """Start and end characters in the text; none of marks between texts."""


class Reader:
    """A cross-encoder in bfloat16, with its tokenizer."""

    def __init__(self, folder: Path) -> None:
        names = dict(enumerate(LABELS))
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModelForSequenceClassification.from_pretrained(
            folder,
            num_labels=len(LABELS),
            id2label=names,
            label2id={name: number for number, name in names.items()},
            attn_implementation="eager",  # on a CPU in bfloat16 twice as fast as the fused one
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        ).to(torch.bfloat16)
        self.falsehood = torch.nn.Linear(self.model.config.hidden_size, 1)
        """A head that says of each token of a hypothesis whether it makes it false."""
        if (folder / FALSEHOOD_FILE).exists():
            self.falsehood.load_state_dict(load_file(folder / FALSEHOOD_FILE))

    def tokenize(self, pairs: Sequence[Pair]) -> list[Tokens]:
        premises, hypotheses = zip(*pairs, strict=True)
        encoded = self.tokenizer(
            list(premises),
            list(hypotheses),
            truncation="only_first",
            max_length=MAX_TOKENS,
            return_offsets_mapping=True,
        )
        columns = (encoded[name] for name in ("input_ids", "token_type_ids", "offset_mapping"))
        return [Tokens(*row) for row in zip(*columns, strict=True)]

    def read(self, pairs: Sequence[Tokens]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return float32 logits of labels, (pairs, labels), and of each token's falsehood.

        They are read in portions of like lengths.
        """
        order = sorted(range(len(pairs)), key=lambda index: len(pairs[index].ids))
        logits, falsehoods = [], []
        for some in portion(order, pairs):
            got, states = self.forward([pairs[index] for index in some])
            logits.append(got)
            falsehoods += list(self.falsehood(states.float()).squeeze(-1))
        back = sorted(range(len(order)), key=order.__getitem__)
        return torch.cat(logits)[back], [falsehoods[index] for index in back]

    def logits(self, pairs: Sequence[Tokens]) -> torch.Tensor:
        return self.read(pairs)[0]

    def forward(self, pairs: Sequence[Tokens]) -> tuple[torch.Tensor, torch.Tensor]:
        longest = max(len(pair.ids) for pair in pairs)
        ids = torch.zeros(len(pairs), longest, dtype=torch.long)
        types, mask = torch.zeros_like(ids), torch.zeros_like(ids)
        for row, pair in enumerate(pairs):
            ids[row, : len(pair.ids)] = torch.tensor(pair.ids)
            types[row, : len(pair.ids)] = torch.tensor(pair.types)
            mask[row, : len(pair.ids)] = 1
        got = self.model(
            input_ids=ids,
            token_type_ids=types,
            attention_mask=mask,
            output_hidden_states=True,
        )
        return got.logits.float(), got.hidden_states[-1]

    def save(self, folder: Path) -> None:
        """Write what a hub's folder of a cross-encoder holds."""
        self.model.to(torch.float32).save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        save_file(self.falsehood.state_dict(), folder / FALSEHOOD_FILE)
        self.model.to(torch.bfloat16)


def portion(order: Sequence[int], pairs: Sequence[Tokens]) -> Iterator[list[int]]:
    """Runs of an order by length whose padded tokens stay within TOKENS_A_FORWARD."""
    some: list[int] = []
    for index in order:
        if some and (len(some) + 1) * len(pairs[index].ids) > TOKENS_A_FORWARD:
            yield some
            some = []
        some.append(index)
    if some:
        yield some
