"""Decoding: the best tree under scores of heads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def tree(scores: Array) -> Array:
    """Heads of the best tree with one root; column 0 of ``scores`` is the root's.

    The best heads alone are a tree nearly always; if not, Chu-Liu-Edmonds for each root.
    """
    size = len(scores)
    scores = scores.astype(np.float64)
    scores[np.arange(size), np.arange(1, size + 1)] = -np.inf
    heads: Array = scores.argmax(axis=1)
    if (heads == 0).sum() == 1 and not _cycle(np.concatenate([[0], heads])):
        return heads
    square = np.full((size + 1, size + 1), -np.inf)
    square[1:] = scores
    best, best_score = heads, -np.inf
    for root in np.argsort(-scores[:, 0])[:3]:
        rooted = square.copy()
        rooted[:, 0] = -np.inf
        rooted[root + 1] = -np.inf
        rooted[root + 1, 0] = scores[root, 0]
        found = maximum_spanning(rooted)[1:]
        total = scores[np.arange(size), found].sum()
        if total > best_score:
            best, best_score = found, total
    return best


def _cycle(heads: Array) -> list[int]:
    """Nodes of a cycle among ``heads`` (node 0 is the root), or an empty list."""
    state = [0] * len(heads)
    state[0] = 2
    for start in range(1, len(heads)):
        path, node = [], start
        while state[node] == 0:
            state[node] = 1
            path.append(node)
            node = int(heads[node])
        if state[node] == 1:
            return path[path.index(node) :]
        for seen in path:
            state[seen] = 2
    return []


def maximum_spanning(scores: Array) -> Array:
    """Chu-Liu-Edmonds: best head of each node, ``scores[dependent, head]``, root at node 0."""
    heads: Array = scores.argmax(axis=1)
    heads[0] = 0
    cycle = _cycle(heads)
    if not cycle:
        return heads
    inside = np.array(cycle)
    rest = np.array([i for i in range(len(scores)) if i not in set(cycle)])
    into = scores[inside[:, None], rest] - scores[inside, heads[inside]][:, None]
    out = scores[rest[:, None], inside]
    size = len(rest)
    smaller = np.full((size + 1, size + 1), -np.inf)
    smaller[:size, :size] = scores[rest[:, None], rest]
    smaller[size, :size] = into.max(axis=0)
    smaller[:size, size] = out.max(axis=1)
    found = maximum_spanning(smaller)
    entry = rest[found[size]]
    heads[inside[into[:, found[size]].argmax()]] = entry
    for i, node in enumerate(rest):
        if i:
            heads[node] = inside[out[i].argmax()] if found[i] == size else rest[found[i]]
    return heads
