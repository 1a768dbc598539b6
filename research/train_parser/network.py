"""The network of ``posh_reward.graph.parse`` in torch, and its training.

Word dropout, a schedule by data or by time, and averaged weights.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, leaky_relu
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from posh_reward.embedded.parser import LSTM_LAYERS, TABLE_ROWS, Parameters, find_feature_rows
from research.train_parser.conllu import ROOT, Word

WIDTHS = {"word": 100, "prefix": 32, "suffix2": 32, "suffix3": 48, "suffix4": 48, "shape": 24}
HIDDEN_WIDTH, ARC_WIDTH, LABEL_WIDTH = 200, 200, 72
DROPOUT = 0.3


class Network(nn.Module):
    """Hashed features -> BiLSTM -> tags, and biaffine scores of heads and labels."""

    def __init__(self, tags: int, labels: int) -> None:
        super().__init__()
        self.tables = nn.ModuleDict({n: nn.Embedding(TABLE_ROWS[n], WIDTHS[n]) for n in TABLE_ROWS})
        for table in self.tables.values():
            assert isinstance(table, nn.Embedding)
            nn.init.normal_(table.weight, std=0.3)
        self.lstm = nn.LSTM(sum(WIDTHS.values()), HIDDEN_WIDTH, LSTM_LAYERS, bidirectional=True,
                            dropout=DROPOUT)  # fmt: skip
        wide = 2 * HIDDEN_WIDTH
        self.root = nn.Parameter(torch.zeros(1, wide))
        self.tag = nn.Linear(wide, tags)
        self.arc_head, self.arc_dep = nn.Linear(wide, ARC_WIDTH), nn.Linear(wide, ARC_WIDTH)
        self.label_head, self.label_dep = nn.Linear(wide, LABEL_WIDTH), nn.Linear(wide, LABEL_WIDTH)
        # The constant feature of ``_with_one`` adds linear terms to a product, such as how likely a
        # word is a head at all. Labels have it on both sides, arcs on the dependent's side.
        self.arc = nn.Parameter(torch.zeros(ARC_WIDTH + 1, ARC_WIDTH))
        self.label = nn.Parameter(torch.zeros(labels, LABEL_WIDTH + 1, LABEL_WIDTH + 1))
        self.drop = nn.Dropout(DROPOUT)

    def embedded(self, rows: Tensor) -> Tensor:
        """(..., 7) rows -> (..., features)."""
        word = self.tables["word"](rows[..., 0]) + self.tables["word"](rows[..., 1])
        others = [self.tables[name](rows[..., i]) for i, name in enumerate(list(TABLE_ROWS)[1:], 2)]
        return torch.cat([word, *others], dim=-1)

    def forward(self, rows: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(time, batch, 7) -> states with the root first (batch, time + 1, wide), tag scores."""
        packed = pack_padded_sequence(self.drop(self.embedded(rows)), lengths)
        states, _ = pad_packed_sequence(self.lstm(packed)[0])  # (time, batch, wide)
        states = self.drop(states.transpose(0, 1))  # (batch, time, wide)
        root = self.root.expand(len(states), 1, -1)
        return torch.cat([root, states], dim=1), self.tag(states)

    def arcs(self, states: Tensor) -> Tensor:
        """(batch, time, time + 1) scores of each head; the root is column 0."""
        heads = self.drop(leaky_relu(self.arc_head(states), 0.1))
        dependents = self.drop(leaky_relu(self.arc_dep(states[:, 1:]), 0.1))
        scores: Tensor = _with_one(dependents) @ self.arc @ heads.transpose(1, 2)
        return scores

    def labels(self, states: Tensor, heads: Tensor, real: Tensor) -> Tensor:
        """(real words, labels) scores for the given heads."""
        dependents = self.drop(leaky_relu(self.label_dep(states[:, 1:]), 0.1))[real]
        governors = self.drop(leaky_relu(self.label_head(states), 0.1))
        head = governors.gather(1, heads.unsqueeze(-1).expand(-1, -1, LABEL_WIDTH))[real]
        mixed = torch.einsum("nd,ldh->nlh", _with_one(dependents), self.label)
        return torch.einsum("nlh,nh->nl", mixed, _with_one(head))

    def loss(self, rows: Tensor, lengths: Tensor, heads: Tensor, deps: Tensor,
             tags: Tensor) -> Tensor:  # fmt: skip
        """Sum of the three mean cross entropies of a batch; gold is (batch, time), -1 pads."""
        states, tag_scores = self(rows, lengths)
        real = heads >= 0
        scores = self.arcs(states)
        beyond = torch.arange(scores.shape[2]) > lengths[:, None]  # (batch, time + 1): padding
        scores = scores.masked_fill(beyond[:, None, :], -1e9)
        # Labels are trained for the gold heads; at inference they are scored for predicted ones.
        labels = self.labels(states, heads.clamp(min=0), real)
        return (
            cross_entropy(scores[real], heads[real])
            + cross_entropy(labels, deps[real])
            + 0.7 * cross_entropy(tag_scores[real], tags[real])
        )

    def weights(self) -> Parameters:
        """Return the arrays under the names of ``posh_reward.graph.parse``."""
        arrays = {name: value.detach().numpy().copy() for name, value in self.named_parameters()}
        return {_plain(name): value for name, value in arrays.items()}

    def load(self, weights: Parameters) -> None:
        """Load arrays named as by ``weights``."""
        with torch.no_grad():
            for name, value in self.named_parameters():
                value.copy_(torch.from_numpy(weights[_plain(name)]))


def _plain(name: str) -> str:
    if name.startswith("tables."):
        return name.split(".")[1]
    return name.removeprefix("lstm.")


def _with_one(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)


def average_weights(old: Parameters, new: Parameters, step: int) -> Parameters:
    """Update an exponential average of weights, which forgets faster at the start."""
    # A constant 0.998 would keep the random initial weights for hundreds of steps.
    keep = min(0.998, (1 + step) / (10 + step))
    for name, value in new.items():
        old[name] = keep * old[name] + (1 - keep) * value
    return old


def pad(columns: Sequence[Sequence[int]], fill: int) -> Tensor:
    """Pad rows of different lengths to (batch, longest)."""
    result = np.full((len(columns), max(map(len, columns))), fill, dtype=np.int64)
    for i, column in enumerate(columns):
        result[i, : len(column)] = column
    return torch.from_numpy(result)


WORDS_PER_BATCH = 800
RARE_COUNT = 0.4
"""A word seen n times loses its form with probability ``RARE_COUNT / (RARE_COUNT + n)``."""

Sentence = Sequence[Word]


@dataclass(frozen=True)
class TrainingRow:
    """One sentence as indices; heads count from 1, 0 is the root."""

    rows: list[tuple[int, ...]]
    words: list[str]
    heads: list[int]
    deps: list[int]
    tags: list[int]


def outputs(sentences: Sequence[Sentence]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the (part of speech, fine tag) pairs and the labels to predict, sorted."""
    pairs = Counter((word.upos, word.tag) for sentence in sentences for word in sentence)
    labels = {word.dep for sentence in sentences for word in sentence}
    return sorted(pair for pair, count in pairs.items() if count > 2), sorted(labels)


def examples(
    sentences: Sequence[Sentence], tags: Sequence[tuple[str, str]], labels: Sequence[str]
) -> list[TrainingRow]:
    """Convert sentences to indices. A pair that is too rare to learn counts as a noun."""
    tag_index = {pair: i for i, pair in enumerate(tags)}
    label_index = {label: i for i, label in enumerate(labels)}
    noun = tag_index[("NOUN", "NN")]
    return [
        TrainingRow(
            [find_feature_rows(word.form, i == 0) for i, word in enumerate(sentence)],
            [word.form.lower() for word in sentence],
            [0 if word.head == ROOT else word.head + 1 for word in sentence],
            [label_index[word.dep] for word in sentence],
            [tag_index.get((word.upos, word.tag), noun) for word in sentence],
        )
        for sentence in sentences
    ]


def batches(data: Sequence[TrainingRow], rng: random.Random) -> Iterator[list[TrainingRow]]:
    """Yield batches of sentences of similar length, longest first in each, in random order."""
    # With noise of four words on the lengths, batches differ between epochs but need little
    # padding.
    order = sorted(data, key=lambda example: len(example.rows) + rng.random() * 4, reverse=True)
    groups: list[list[TrainingRow]] = []
    current: list[TrainingRow] = []
    for example in order:
        if current and len(current[0].rows) * (len(current) + 1) > WORDS_PER_BATCH:
            groups.append(current)
            current = []
        current.append(example)
    groups.append(current)
    rng.shuffle(groups)
    for batch in groups:
        yield sorted(batch, key=lambda example: -len(example.rows))


def padded_rows(features: Sequence[Sequence[tuple[int, ...]]]) -> torch.Tensor:
    """Pad the feature rows of sentences, the longest first, with 0 to (time, batch, 7)."""
    rows = torch.zeros(len(features[0]), len(features), len(features[0][0]), dtype=torch.long)
    for i, sentence in enumerate(features):
        rows[: len(sentence), i] = torch.tensor(sentence)
    return rows


def tensors(
    batch: Sequence[TrainingRow], counts: Counter[str], rng: random.Random
) -> dict[str, torch.Tensor]:
    """Return the arguments of ``Network.loss``, with rare forms dropped at random."""
    rows = padded_rows([example.rows for example in batch])
    for i, example in enumerate(batch):
        for j, word in enumerate(example.words):
            # Without its form, a word is known by affixes and shape only, as unknown ones will be.
            if rng.random() < RARE_COUNT / (RARE_COUNT + counts[word]) + 0.02:
                rows[j, i, :2] = 0
    return {
        "rows": rows,
        "lengths": torch.tensor([len(example.rows) for example in batch]),
        "heads": pad([example.heads for example in batch], -1),
        "deps": pad([example.deps for example in batch], -1),
        "tags": pad([example.tags for example in batch], -1),
    }


@dataclass(frozen=True)
class Schedule:
    """Training ends after ``epochs`` or, if given, ``minutes``, whichever comes first."""

    epochs: int
    minutes: float | None = None
    rate: float = 2e-3  # highest learning rate; it falls linearly to 0
    seed: int = 0


def fit(
    network: Network,
    data: Sequence[TrainingRow],
    schedule: Schedule,
    report: Callable[[Parameters], str],
) -> Parameters:
    """Train in place; return (and leave in the network) the averaged weights."""
    rng = random.Random(schedule.seed)
    counts = Counter(word for example in data for word in example.words)
    optimizer = torch.optim.Adam(network.parameters(), lr=schedule.rate, betas=(0.9, 0.98))
    average = network.weights()
    start, step, progress = time.monotonic(), 0, 0.0
    for epoch in range(schedule.epochs):
        network.train()
        for batch in batches(data, rng):
            elapsed = time.monotonic() - start
            spent = elapsed / (60 * schedule.minutes) if schedule.minutes else 0.0
            # 200 steps of warm-up, then a linear decay by data or by time, whichever is ahead.
            rate = min(1.0, (step + 1) / 200) * max(0.02, 1 - max(progress, spent))
            for group in optimizer.param_groups:
                group["lr"] = schedule.rate * rate
            loss = network.loss(**tensors(batch, counts, rng))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
            step += 1
            progress += len(batch) / (len(data) * schedule.epochs)
            if step % 5 == 0:
                average = average_weights(average, network.weights(), step // 5)
        minutes = (time.monotonic() - start) / 60
        print(f"epoch {epoch} step {step} {minutes:.1f} min {report(average)}", flush=True)
        if schedule.minutes and minutes >= schedule.minutes:
            break
    network.load(average)
    return average
