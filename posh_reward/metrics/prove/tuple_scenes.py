"""Tuples -> the scene graph that programs see (paper, section 3.1 and Listing 1)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from posh_reward.metrics.prove.programs.program_scene import Node, Nodes

Tuple = tuple[str, ...]
"""(entity), (entity, attribute) or (entity, relation, entity) (paper, section 3.1)."""
KINDS = {
    "color": "red blue green yellow white black brown gray grey orange purple pink gold golden "
    "silver beige tan turquoise teal violet crimson scarlet maroon navy ivory cream olive ochre "
    "mustard azure lavender magenta cyan peach amber bronze copper auburn blond blonde colorful "
    "multicolored reddish bluish greenish yellowish whitish blackish brownish grayish greyish",
    "count": "one two three four five six seven eight nine ten eleven twelve several many few "
    "multiple numerous single both dozen",
    "size": "small large big tiny huge tall short long little wide narrow thick thin massive "
    "enormous giant miniature medium",
    "material": "wooden wood metal metallic stone brick concrete glass plastic leather cotton silk "
    "wool velvet lace fur paper marble ceramic clay straw wicker iron steel brass satin linen",
    "shape": "round square oval rectangular circular triangular curved straight flat pointed "
    "spherical conical cylindrical",
}
"""Kind -> words."""
OTHER = "state"
_KIND_OF = {word: kind for kind, words in KINDS.items() for word in words.split()}


def kind_of(attribute: str) -> str:
    """The kind of an attribute: of its last word that has one, "mustard-yellow" is a color."""
    words = re.findall(r"\w+", attribute.casefold())
    kinds = [_KIND_OF[word] for word in words if word in _KIND_OF]
    if any(word.isdecimal() for word in words):
        kinds.append("count")
    return kinds[-1] if kinds else OTHER


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
            kind, attributes = kind_of(parts[1]), source["attributes"]
            attributes[kind] = f"{attributes[kind]}, {parts[1]}" if kind in attributes else parts[1]
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
