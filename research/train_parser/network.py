"""The network of ``posh_reward.graph.biaffine`` in torch, for training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, leaky_relu
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from posh_reward.graph.biaffine import LAYERS, ROWS, Parameters

WIDTHS = {"word": 100, "prefix": 32, "suffix2": 32, "suffix3": 48, "suffix4": 48, "shape": 24}
HIDDEN, ARC, LABEL = 200, 200, 72
DROPOUT = 0.3


class Network(nn.Module):
    """Hashed features -> BiLSTM -> tags, and biaffine scores of heads and labels."""

    def __init__(self, tags: int, labels: int) -> None:
        super().__init__()
        self.tables = nn.ModuleDict({n: nn.Embedding(ROWS[n], WIDTHS[n]) for n in ROWS})
        for table in self.tables.values():
            assert isinstance(table, nn.Embedding)
            nn.init.normal_(table.weight, std=0.3)
        self.lstm = nn.LSTM(sum(WIDTHS.values()), HIDDEN, LAYERS, bidirectional=True,
                            dropout=DROPOUT)  # fmt: skip
        wide = 2 * HIDDEN
        self.root = nn.Parameter(torch.zeros(1, wide))
        self.tag = nn.Linear(wide, tags)
        self.arc_head, self.arc_dep = nn.Linear(wide, ARC), nn.Linear(wide, ARC)
        self.label_head, self.label_dep = nn.Linear(wide, LABEL), nn.Linear(wide, LABEL)
        # The constant feature of ``_with_one`` adds linear terms to a product, such as how likely a
        # word is a head at all. Labels have it on both sides, arcs on the dependent's side.
        self.arc = nn.Parameter(torch.zeros(ARC + 1, ARC))
        self.label = nn.Parameter(torch.zeros(labels, LABEL + 1, LABEL + 1))
        self.drop = nn.Dropout(DROPOUT)

    def embedded(self, rows: Tensor) -> Tensor:
        """(..., 7) rows -> (..., features)."""
        word = self.tables["word"](rows[..., 0]) + self.tables["word"](rows[..., 1])
        others = [self.tables[name](rows[..., i]) for i, name in enumerate(list(ROWS)[1:], 2)]
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
        head = governors.gather(1, heads.unsqueeze(-1).expand(-1, -1, LABEL))[real]
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
        """Return the arrays under the names of ``posh_reward.graph.biaffine``."""
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
