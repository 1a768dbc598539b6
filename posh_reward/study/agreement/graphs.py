"""Scene graphs against graphs that people drew (paper, A.4.2; Table 8).

Elements match by the words that they stand on. Entities are counted by mention: *coref* asks
whether the first mention of a matched mention's entity is the right one. *head* and *tail* ask of a
matched attribute or relation whether its entities are the right ones: those that share a matched
mention. All figures are means over descriptions, as in the paper, and None where a description has
nothing to measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from scipy.optimize import linear_sum_assignment

from posh_reward.errors import InputError
from posh_reward.study.agreement.spans import token_spans, tokens_in
from posh_reward.types import SceneGraph, Span

Words = frozenset[int]
"""Indices of tokens."""
KINDS = {
    "entities": ("precision", "recall", "f1", "coref"),
    "attributes": ("precision", "recall", "f1", "head"),
    "relations": ("precision", "recall", "f1", "head", "tail"),
}
"""Kind -> figures of the paper's Table 8."""


@dataclass(frozen=True)
class Placed:
    """A scene graph by the words that its elements stand on."""

    mentions: Sequence[tuple[Words, int]]
    """(Words, entity) of every mention, in text order within an entity."""
    attributes: Sequence[tuple[Words, int]]
    """(Words, entity)."""
    relations: Sequence[tuple[Words, int, int]]
    """(Words, subject, object)."""


def placed_graph(graph: SceneGraph, text: str) -> Placed:
    """Our graph of a stripped text."""
    tokens = token_spans(text)
    entities = graph.entities
    return Placed(
        [(_words([s], tokens), i) for i, entity in enumerate(entities) for s in entity.spans],
        [(_words(a.spans, tokens), i) for i, e in enumerate(entities) for a in e.attributes],
        [(_words(r.spans, tokens), r.subject, r.object) for r in graph.relations],
    )


def placed_gold(gold: Mapping[str, object], text: str, where: str) -> Placed:
    """A graph that people drew.

    Args:
        gold: ``entities``: ``[{"mentions": [[start, end], ...]}, ...]``; ``attributes``:
            ``[{"spans": [[start, end], ...], "entity": 0}, ...]``; ``relations``:
            ``[{"spans": ..., "subject": 0, "object": 1}, ...]``.
        text: the stripped text that the offsets point into.
        where: what messages call it.

    Raises:
        InputError: something is missing, or not as above.
    """
    tokens = token_spans(text)
    try:
        entities, attributes, relations = (_list(gold[kind]) for kind in KINDS)
        count = len(entities)
        return Placed(
            [
                (_words([s], tokens), i)
                for i, e in enumerate(entities)
                for s in _spans(e["mentions"])
            ],
            [(_words(_spans(a["spans"]), tokens), _entity(a["entity"], count)) for a in attributes],
            [
                (
                    _words(_spans(r["spans"]), tokens),
                    _entity(r["subject"], count),
                    _entity(r["object"], count),
                )
                for r in relations
            ],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{where}: not a scene graph ({type(error).__name__}: {error}): give entities with "
            "mentions, attributes with spans and entity, relations with spans, subject and object"
        ) from None


def _list(value: object) -> list[dict[str, object]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise TypeError(f"{str(value)[:40]} is not a list of objects")
    return value


def _spans(value: object) -> list[Span]:
    if not isinstance(value, list) or not value:
        raise TypeError(f"{str(value)[:40]} is not a list of spans")
    return [(int(start), int(end)) for start, end in value]


def _entity(value: object, count: int) -> int:
    if not isinstance(value, int) or not 0 <= value < count:
        raise ValueError(f"{value!r} is not the number of an entity, 0 to {count - 1}")
    return value


def _words(spans: Sequence[Span], tokens: Sequence[Span]) -> Words:
    return frozenset(word for span in spans for word in tokens_in(span, tokens))


def graph_figures(ours: Placed, gold: Placed) -> dict[str, float]:
    """The figures of one description, such as ``"entities f1"``; nan where there is nothing."""
    found: dict[str, float] = {}
    mentions = _matches([w for w, _ in ours.mentions], [w for w, _ in gold.mentions])
    same = {(ours.mentions[i][1], gold.mentions[j][1]) for i, j in mentions}
    attributes = _matches([w for w, _ in ours.attributes], [w for w, _ in gold.attributes])
    relations = _matches([w for w, _, _ in ours.relations], [w for w, _, _ in gold.relations])
    found |= _prf("entities", mentions, len(ours.mentions), len(gold.mentions))
    first, right = _firsts(ours), _firsts(gold)
    found["entities coref"] = _mean(
        [bool(first[ours.mentions[i][1]] & right[gold.mentions[j][1]]) for i, j in mentions]
    )
    found |= _prf("attributes", attributes, len(ours.attributes), len(gold.attributes))
    found["attributes head"] = _mean(
        [(ours.attributes[i][1], gold.attributes[j][1]) in same for i, j in attributes]
    )
    found |= _prf("relations", relations, len(ours.relations), len(gold.relations))
    for place, name in ((1, "head"), (2, "tail")):
        found[f"relations {name}"] = _mean(
            [(ours.relations[i][place], gold.relations[j][place]) in same for i, j in relations]
        )
    return found


def _firsts(graph: Placed) -> dict[int, Words]:
    firsts: dict[int, Words] = {}
    for words, entity in graph.mentions:
        firsts.setdefault(entity, words)
    return firsts


def _matches(ours: Sequence[Words], gold: Sequence[Words]) -> list[tuple[int, int]]:
    """Which elements are the same, one to one, so that they share as many words as possible."""
    if not ours or not gold:
        return []
    shared = np.array([[len(a & b) / len(a | b or {0}) for b in gold] for a in ours])
    pairs = zip(*linear_sum_assignment(shared, maximize=True), strict=True)
    return [(int(i), int(j)) for i, j in pairs if shared[i, j] > 0]


def _prf(kind: str, pairs: Sequence[object], given: int, sought: int) -> dict[str, float]:
    return {
        f"{kind} precision": len(pairs) / given if given else nan,
        f"{kind} recall": len(pairs) / sought if sought else nan,
        f"{kind} f1": 2 * len(pairs) / (given + sought) if given + sought else nan,
    }


def _mean(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else nan
