"""How firmly words hang on a thing: by steps of the dependency tree, and by nearness.

1 for a word next to the thing's mentions in the tree, less with each further step; parses err,
so that a word beside a mention counts, too; least for the rest of the sentence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from posh_reward.types import Token

SKIPPED = frozenset("det punct cc mark expl predet case intj dep".split())
"""Dependency labels of words that join nothing to a thing."""
HALF = frozenset("prep pobj agent pcomp aux auxpass".split())
"""A preposition and its object are one step together."""
LOOSE = frozenset("advcl ccomp xcomp parataxis npadvmod".split())
"""Other clauses: a step and a half."""
NOUNS = frozenset(("NOUN", "PROPN"))
FURTHEST = 8
"""In half steps."""
PER_STEP = 0.17
SAME_SENTENCE = 0.3
"""Attachment of the rest of the sentence, or of ``WINDOW`` tokens of a longer one."""
WINDOW = 60
BESIDE = 0.6
"""At most ``NEAR`` words from a mention, with no punctuation between."""
NEAR = 3
ELSEWHERE = 0.15
"""Attachment of any other word of the text."""

COSTS = 4
Steps = dict[int, list[int]]
"""Token -> neighbours in the dependency tree, each as ``COSTS`` * neighbour + half steps.

Numbers, since pairs by the thousand would keep the garbage collector busy.
"""


def steps_between(tokens: Sequence[Token]) -> Steps:
    """Neighbours in the dependency tree, function words left out."""
    found: Steps = defaultdict(list)
    for index, token in enumerate(tokens):
        if token.head == index or token.dep in SKIPPED:
            continue
        cost = 1 if token.dep in HALF else 3 if token.dep in LOOSE else 2
        found[index].append(COSTS * token.head + cost)
        found[token.head].append(COSTS * index + cost)
    return found


def stretches(tokens: Sequence[Token]) -> list[int]:
    """Per token the first token of its sentence, or of its part of a very long one."""
    found: list[int] = []
    for index, token in enumerate(tokens):
        same = index > 0 and token.sentence == tokens[index - 1].sentence
        found.append(found[-1] if same and index - found[-1] < WINDOW else index)
    return found


def attachments(tokens: Sequence[Token], steps: Steps, mentions: set[int]) -> dict[int, float]:
    """Token -> attachment to the thing that the mentions name, if more than ``SAME_SENTENCE``."""
    found: dict[int, float] = {}
    for token in _beside(tokens, mentions):
        found[token] = BESIDE
    for token, halves in _distances(tokens, steps, mentions).items():
        weight = 1.0 - PER_STEP * max(0.0, halves / 2 - 1.0)
        if weight > found.get(token, SAME_SENTENCE):
            found[token] = weight
    return found


def _beside(tokens: Sequence[Token], mentions: set[int]) -> set[int]:
    found = set()
    for mention in mentions:
        for step in (1, -1):
            for token in range(mention + step, mention + step * (NEAR + 1), step):
                if not 0 <= token < len(tokens) or tokens[token].pos == "PUNCT":
                    break
                found.add(token)
    return found


def _distances(tokens: Sequence[Token], steps: Steps, mentions: set[int]) -> dict[int, int]:
    """Shortest paths, in half steps. Passing through another noun costs one step more."""
    best = dict.fromkeys(mentions, 0)
    waves: list[list[int]] = [[] for _ in range(FURTHEST + 1)]
    waves[0] = list(mentions)
    for distance, wave in enumerate(waves):
        for token in wave:
            if distance > best[token]:
                continue
            toll = 2 if distance and tokens[token].pos in NOUNS else 0
            for step in steps.get(token, ()):
                neighbour, cost = divmod(step, COSTS)
                through = distance + cost + toll
                if through <= FURTHEST and through < best.get(neighbour, FURTHEST + 1):
                    best[neighbour] = through
                    waves[through].append(neighbour)
    return best
