"""Prompts and answers of a question set -> token ids, exactly as the judge will read them.

Questions about one pair begin alike, mostly with both descriptions. So a few of them are one row, a
*tree*: what they share once, and after it a slot for each, whose tokens see the beginning and their
own slot alone. That is a fourth of the tokens of one row each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset

from posh_reward.errors import ConfigError
from posh_reward.models.chat import Chat
from posh_reward.models.model import Prompt
from posh_reward.types import LABELS

IGNORED = -100  # transformers' label for a place without loss
NO_ANSWER = (float("nan"),) * len(LABELS)
TOGETHER = 8  # most prompts in a tree: more would share more, and make a batch of fewer pairs


class AnswerTokens(NamedTuple):
    """A prompt with its answer."""

    ids: list[int]
    """Of the prompt, and of the rewrite but for its last token: the model's input."""
    reply: list[int]
    """Of the rewrite and the end of the turn, which the last inputs predict; empty for a
    question."""
    probabilities: tuple[float, ...]
    """Of the labels, which the last input predicts; NaN for a rewrite."""


class AnswerTree(NamedTuple):
    """Prompts with a common beginning."""

    shared: int  # tokens that all begin with
    answers: tuple[AnswerTokens, ...]

    @property
    def tokens(self) -> int:
        """Tokens of the row, without padding."""
        return self.shared + sum(len(answer.ids) - self.shared for answer in self.answers)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Counts of a split's prompts and of their tokens."""

    prompts: int
    longest: int  # tokens of the longest prompt, also if it is left out
    left_out: int  # prompts that are longer than the bound
    tokens: int  # of all prompts, each by itself
    computed: int  # of all trees

    def __str__(self) -> str:
        return (
            f"{self.prompts:,} prompts of up to {self.longest:,} tokens, {self.left_out:,} too "
            f"long and left out; {self.tokens:,} tokens, {self.computed:,} to compute"
        )


class AnswerTrees(Dataset[dict[str, Any]]):
    """The prompts of one split that are short enough, in trees.

    Args:
        rows: of a question set.
        chat: the student's template and tokenizer, by which its judge will ask it.
        max_tokens: bound of a prompt with its answer.
        seed: draws which questions about a pair stand together.

    Raises:
        ConfigError: every prompt is too long.
    """

    def __init__(
        self, rows: Sequence[dict[str, Any]], chat: Chat, max_tokens: int, seed: int = 0
    ) -> None:
        by_prefix: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in rows:
            by_prefix.setdefault((row["task"], row["prefix"]), []).append(row)
        rng = random.Random(seed)
        self.trees: list[AnswerTree] = []
        longest = left_out = tokens = 0
        for alike in by_prefix.values():
            rng.shuffle(alike)
            prompts = chat.encode([Prompt(row["prefix"], row["suffix"]) for row in alike])
            answers = [
                answer_tokens(row, ids, chat) for row, ids in zip(alike, prompts, strict=True)
            ]
            longest = max(longest, *(len(answer.ids) for answer in answers))
            short = [answer for answer in answers if len(answer.ids) <= max_tokens]
            left_out += len(answers) - len(short)
            tokens += sum(len(answer.ids) for answer in short)
            self.trees += trees(short)
        self.lengths = Lengths(
            len(rows) - left_out, longest, left_out, tokens, sum(t.tokens for t in self.trees)
        )
        if not self.trees:
            raise ConfigError(f"every prompt is longer than {max_tokens}: raise max_prompt_tokens")

    def __len__(self) -> int:
        return len(self.trees)

    def __getitem__(self, index: int) -> dict[str, Any]:
        tree = self.trees[index]
        return {"tree": tree, "input_ids": range(tree.tokens)}  # whose length samplers sort by


def answer_tokens(row: dict[str, Any], prompt: Sequence[int], chat: Chat) -> AnswerTokens:
    """A row of the file in tokens; ``prompt`` are its prompt's."""
    if row["probabilities"] is not None:
        return AnswerTokens(list(prompt), [], tuple(row["probabilities"]))
    reply: list[int] = chat.tokenizer(row["reply"], add_special_tokens=False)["input_ids"]
    ended = reply if chat.turn_end is None else [*reply, chat.turn_end]
    return AnswerTokens([*prompt, *ended[:-1]], ended, NO_ANSWER)


def trees(answers: Sequence[AnswerTokens]) -> Iterator[AnswerTree]:
    """Trees of ``TOGETHER`` prompts; each keeps its last tokens, which predict, for itself."""
    for start in range(0, len(answers), TOGETHER):
        some = answers[start : start + TOGETHER]
        # Logits are kept for the last ``own`` places of each slot: shared tokens must not be among
        # them.
        own = max(max(len(answer.reply), 1) for answer in some)
        columns = zip(*(answer.ids for answer in some), strict=False)
        alike = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
        shortest = min(len(answer.ids) for answer in some)
        yield AnswerTree(max(0, min(alike, shortest - own)), tuple(some))


def read_rows(folder: Path, split: str, most: int | None = None) -> list[dict[str, Any]]:
    """The rows of one split of a question set's folder, or an even selection of ``most``.

    Raises:
        ConfigError: there is no such file.
    """
    import pyarrow.parquet as pq

    path = folder / f"{split}.parquet"
    if not path.is_file():
        raise ConfigError(f"there is no {path}: make it with posh-reward judges collect")
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    if most is None or most >= len(rows):
        return rows
    return [rows[place * len(rows) // most] for place in range(most)]


def collate(rows: Sequence[dict[str, Any]], pad: int) -> dict[str, torch.Tensor]:
    """Trees as tensors, in which the answers of all rows stand at the same places.

    A row is ``[padding, shared][padding, slot][padding, slot]...``: slots are equally long and end
    with what predicts the answer.

    Returns:
        ``input_ids`` and ``position_ids`` (rows, tokens); ``attention_mask`` (rows, 1, tokens,
        tokens), true where one token sees another; ``logits_to_keep`` (slots x replies) the places
        that predict; ``labels`` (rows, slots, longest rewrite), the rewrites' tokens, else
        ``IGNORED``; ``probabilities`` (rows, slots, labels), NaN for rewrites and empty slots, and
        ``weights`` (rows, slots), 0 for empty slots.
    """
    batch: list[AnswerTree] = [row["tree"] for row in rows]
    shared = max(tree.shared for tree in batch)
    slots = max(len(tree.answers) for tree in batch)
    size = max(len(answer.ids) - tree.shared for tree in batch for answer in tree.answers)
    room = max(1, *(len(answer.reply) for tree in batch for answer in tree.answers))
    length = shared + slots * size
    # Padding on the left of each part, so that all answers end in the same columns, and one
    # ``logits_to_keep`` serves all rows: the head is the largest layer of a small model.
    ids = np.full((len(batch), length), pad, np.int64)
    positions = np.zeros((len(batch), length), np.int64)
    part = np.full((len(batch), length), -1, np.int64)  # 0 what is shared, then by slot; -1 padding
    labels = np.full((len(batch), slots, room), IGNORED, np.int64)
    targets = np.full((len(batch), slots, len(LABELS)), np.nan, np.float32)
    weights = np.zeros((len(batch), slots), np.float32)
    for row, tree in enumerate(batch):
        if tree.shared:
            ids[row, shared - tree.shared : shared] = tree.answers[0].ids[: tree.shared]
            positions[row, shared - tree.shared : shared] = range(tree.shared)
            part[row, shared - tree.shared : shared] = 0
        for slot, answer in enumerate(tree.answers):
            end = shared + (slot + 1) * size
            start = end - (len(answer.ids) - tree.shared)
            ids[row, start:end] = answer.ids[tree.shared :]
            # Each slot counts on from the shared tokens, as if it were alone with them.
            positions[row, start:end] = range(tree.shared, len(answer.ids))
            part[row, start:end] = slot + 1
            if answer.reply:
                labels[row, slot, room - len(answer.reply) :] = answer.reply
            targets[row, slot], weights[row, slot] = answer.probabilities, 1.0
    # (rows, query, key): a token sees its own part and what is shared, and nothing after itself.
    alike = (part[:, :, None] == part[:, None, :]) | (part[:, None, :] == 0)
    sees = alike & (part[:, None, :] >= 0) & np.tri(length, dtype=bool)
    sees |= np.eye(length, dtype=bool)  # padding sees itself: a softmax over nothing is NaN
    ends = shared + size * np.arange(1, slots + 1)
    places = (ends[:, None] - np.arange(room, 0, -1)).ravel()
    arrays = {
        "input_ids": ids, "position_ids": positions, "attention_mask": sees[:, None],
        "logits_to_keep": places, "labels": labels, "probabilities": targets, "weights": weights,
    }  # fmt: skip
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
