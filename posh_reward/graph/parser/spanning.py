"""Decoding: the best tree under scores of heads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ROOTS = 3
"""Words that are tried as the root where the best heads alone are not a tree."""


def tree(scores: Array) -> Array:
    """Return the heads of the best tree with one root.

    Args:
        scores: (words, 1 + words), of each word with each head; column 0 is the root's.

    Returns:
        (words,), the column of each word's head.
    """
    size = len(scores)
    scores = scores.astype(np.float64)
    scores[np.arange(size), np.arange(1, size + 1)] = -np.inf
    heads: Array = scores.argmax(axis=1)
    # Each word's best head alone nearly always makes a tree.
    if (heads == 0).sum() == 1 and is_tree(np.concatenate([[0], heads])):
        return heads
    square = np.full((size + 1, size + 1), -np.inf)
    square[1:] = scores
    best, best_score = heads, -np.inf
    # Chu-Liu-Edmonds allows any number of roots: run it with each likely word as the only one.
    for root in np.argsort(-scores[:, 0])[:ROOTS]:
        rooted = square.copy()
        rooted[:, 0] = -np.inf
        rooted[root + 1] = -np.inf
        rooted[root + 1, 0] = scores[root, 0]
        heads_of_root = maximum_spanning(rooted)[1:]
        total = scores[np.arange(size), heads_of_root].sum()
        if total > best_score:
            best, best_score = heads_of_root, total
    return best


def is_tree(heads: Array) -> bool:
    """Test whether all nodes lead to node 0, the root."""
    leads = np.zeros(len(heads), dtype=bool)
    leads[0] = True
    for start in range(1, len(heads)):
        path: list[int] = []
        node = start
        while not leads[node]:
            if len(path) == len(heads):
                return False
            path.append(node)
            node = int(heads[node])
        leads[path] = True
    return True


def maximum_spanning(scores: Array) -> Array:
    """Return the best head of each node, ``scores[dependent, head]``, root at node 0.

    Chu-Liu-Edmonds as Tarjan (1977) does it, in time quadratic in the nodes: follow best heads
    until the root, or a node from which the root was reached, and contract each cycle met.
    """
    arcs = Arcs(scores)
    finished = {0}
    for start in range(1, len(scores)):
        path: list[int] = []
        node = int(arcs.outermost[start])
        while node not in finished:
            # A cycle becomes one node, whose arcs are worth what they gain over the arc of the
            # cycle that they replace; the search goes on from it.
            if node in path:
                cycle = path[path.index(node) :]
                del path[-len(cycle) :]
                node = arcs.contract(cycle)
            path.append(node)
            node = arcs.follow(node)
        finished.update(path)
    return arcs.heads()


class Arcs:
    """The best arc into each node, where a node may be a contracted cycle of others."""

    def __init__(self, scores: Array) -> None:
        self.size = len(scores)
        self.scores = list(scores)
        """Per node the score of the best arc into it from each word."""
        self.entries = list(np.indices(scores.shape)[0])
        """Per node the word inside it at which that arc ends."""
        self.best_arc = [(0, node) for node in range(self.size)]
        """Per node the (head, dependent) of the arc into it, both words."""
        self.outer = list(range(self.size))
        """Per node the cycle that it was contracted into; itself if none."""
        self.words = list(np.arange(self.size)[:, None])
        """Per node the words inside it."""
        self.outermost = np.arange(self.size)
        """Per word the largest node that it is in."""

    def follow(self, node: int) -> int:
        """Choose the best arc into a node; returns the node that it comes from."""
        head = int(self.scores[node].argmax())
        self.best_arc[node] = (head, int(self.entries[node][head]))
        return int(self.outermost[head])

    def contract(self, cycle: list[int]) -> int:
        """Make one node of a cycle: an arc into it replaces the chosen one of its dependent."""
        new = len(self.scores)
        gains = np.stack([self.scores[n] - self.scores[n][self.best_arc[n][0]] for n in cycle])
        best = gains.argmax(axis=0), np.arange(self.size)
        inside = np.concatenate([self.words[n] for n in cycle])
        self.scores.append(gains[best])
        self.scores[new][inside] = -np.inf
        self.entries.append(np.stack([self.entries[n] for n in cycle])[best])
        self.best_arc.append((0, 0))
        self.outer.append(new)
        self.words.append(inside)
        self.outermost[inside] = new
        for node in cycle:
            self.outer[node] = new
        return new

    def heads(self) -> Array:
        """Return the head of each word, once all arcs are chosen."""
        # From the outermost cycle inwards: the arc into a cycle breaks it where it ends.
        for cycle in range(len(self.scores) - 1, self.size - 1, -1):
            node = self.best_arc[cycle][1]
            while self.outer[node] != cycle:
                node = self.outer[node]
            self.best_arc[node] = self.best_arc[cycle]
        return np.array([head for head, _ in self.best_arc[: self.size]])
