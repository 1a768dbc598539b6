"""Tuples -> the scene graph that programs see (paper, section 3.1 and Listing 1)."""

from __future__ import annotations

from collections.abc import Iterable

from posh_reward.metrics.prove.kinds import kind_of
from posh_reward.metrics.prove.programs.scene import Node, Nodes
from posh_reward.metrics.prove.records import Tuple

SPATIAL = frozenset(
    "in on at by near next beside behind before above below under over inside outside around "
    "between among against along across through to toward towards with from of off left right "
    "front part".split()
)
"""First words of relations that say where something is, or what it belongs to."""


def nodes_of(tuples: Iterable[Tuple]) -> Nodes:
    """The graph of some tuples: attributes by kind, relations by target and kind.

    Args:
        tuples: entities by names that tell them apart.
    """
    nodes: Nodes = {}
    for parts in tuples:
        source = _node(nodes, parts[0])
        if len(parts) == 2:
            kind, known = kind_of(parts[1]), source["attributes"]
            known[kind] = f"{known[kind]}, {parts[1]}" if kind in known else parts[1]
        elif len(parts) == 3:
            _node(nodes, parts[2])
            kinds = source["relations_to"].setdefault(parts[2], {})
            kinds.setdefault(relation_kind(parts[1]), []).append(parts[1])
    return nodes


def relation_kind(relation: str) -> str:
    """The kind "spatial" for "in front of", "action" for "holds"."""
    words = relation.casefold().split()
    return "spatial" if words and words[0] in SPATIAL else "action"


def _node(nodes: Nodes, name: str) -> Node:
    return nodes.setdefault(name, {"attributes": {}, "relations_to": {}})
