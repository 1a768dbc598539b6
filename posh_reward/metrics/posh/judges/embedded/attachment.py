"""Distances and clauses in a text's dependency trees."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from posh_reward.types import Token

JOINED = ("conj", "parataxis", "ccomp")  # labels of joined clauses, if they have subjects
NOUNS = frozenset(("NOUN", "PROPN"))
NO_LINKS = frozenset("det punct cc mark expl predet case intj dep".split())
"""Dependency labels of words that attach nothing to a thing."""
HALF = frozenset("prep pobj agent pcomp aux auxpass".split())
"""Labels that count half a step, so that a preposition and its object together count one."""
LOOSE = frozenset("advcl ccomp xcomp parataxis npadvmod".split())
"""Labels that count a step and a half: other clauses."""
FURTHEST = 8  # reach of an attachment, in half steps of the tree
COSTS = 4  # base that packs a neighbour and the cost of its step into one number

Steps = dict[int, list[int]]
"""Token -> neighbours in the dependency tree, each as ``COSTS`` * neighbour + half steps.

Plain numbers, since thousands of tuples would keep the garbage collector busy.
"""


def steps_between(tokens: Sequence[Token]) -> Steps:
    """Neighbours in the dependency tree, without function words."""
    steps: Steps = defaultdict(list)
    for index, token in enumerate(tokens):
        if token.head == index or token.dep in NO_LINKS:
            continue
        cost = 1 if token.dep in HALF else 3 if token.dep in LOOSE else 2
        steps[index].append(COSTS * token.head + cost)
        steps[token.head].append(COSTS * index + cost)
    return steps


def distances(tokens: Sequence[Token], steps: Steps, mentions: set[int]) -> dict[int, int]:
    """Token -> length of the shortest path to a mention, in half steps, up to ``FURTHEST``."""
    best = dict.fromkeys(mentions, 0)
    # Dijkstra's algorithm with a bucket per distance instead of a heap: there are only nine.
    buckets: list[list[int]] = [[] for _ in range(FURTHEST + 1)]
    buckets[0] = list(mentions)
    for distance, bucket in enumerate(buckets):
        for token in bucket:
            if distance > best[token]:
                continue
            # Words beyond another noun more likely describe that noun: one step more.
            toll = 2 if distance and tokens[token].pos in NOUNS else 0
            for step in steps.get(token, ()):
                neighbour, cost = divmod(step, COSTS)
                through = distance + cost + toll
                if through <= FURTHEST and through < best.get(neighbour, FURTHEST + 1):
                    best[neighbour] = through
                    buckets[through].append(neighbour)
    return best


def clause_tops(tokens: Sequence[Token]) -> list[int]:
    """Per token the first word of its clause: of its sentence, or of a joined one."""
    with_subject = {t.head for t in tokens if t.dep in ("nsubj", "nsubjpass", "expl")}
    tops = [
        i if t.head == i or (t.dep in JOINED and i in with_subject) else -1
        for i, t in enumerate(tokens)
    ]
    for start in range(len(tops)):
        path = [start]
        while tops[path[-1]] < 0 and len(path) <= len(tops):
            path.append(tokens[path[-1]].head)
        for i in path:
            tops[i] = tops[path[-1]]
    return tops
