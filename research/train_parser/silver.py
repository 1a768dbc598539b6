"""Sentences of raw text as training examples: what the first network is sure of.

Words whose head, label and tag together have a probability over ``SURE`` count in the loss; the
others are only context. Word dropout makes the second network find from the context what the first
found from the word.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from posh_reward.graph.parser.biaffine import feature_rows
from research.train_parser.fit import Example, padded_rows
from research.train_parser.network import Network

SURE = 0.9
LONGEST = 60


def confident(network: Network, sentences: Sequence[Sequence[str]]) -> list[Example]:
    """Examples of the sentences of 4 to ``LONGEST`` words, unsure words masked with -1."""
    network.eval()
    kept = sorted((s for s in sentences if 4 <= len(s) <= LONGEST), key=len, reverse=True)
    found: list[Example] = []
    with torch.no_grad():
        for start in range(0, len(kept), 32):
            found += _batch(network, kept[start : start + 32])
    return found


def _batch(network: Network, sentences: Sequence[Sequence[str]]) -> list[Example]:
    features = [[feature_rows(w, i == 0) for i, w in enumerate(s)] for s in sentences]
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    states, tag_scores = network(padded_rows(features), lengths)
    arcs = network.arcs(states)
    beyond = torch.arange(arcs.shape[2]) > lengths[:, None]
    arcs = arcs.masked_fill(beyond[:, None, :], -1e9).softmax(-1)
    arc_sure, heads = arcs.max(-1)
    real = torch.arange(arcs.shape[1]) < lengths[:, None]
    label_sure, labels = network.labels(states, heads, real).softmax(-1).max(-1)
    tag_sure, tags = tag_scores[real].softmax(-1).max(-1)
    sure = arc_sure[real] * label_sure * tag_sure > SURE
    heads_sure = torch.where(sure, heads[real], -1)
    columns = [part.split(lengths.tolist()) for part in (heads_sure, labels, tags)]
    return [
        Example(features[i], [w.lower() for w in sentence], *(c[i].tolist() for c in columns))
        for i, sentence in enumerate(sentences)
    ]
