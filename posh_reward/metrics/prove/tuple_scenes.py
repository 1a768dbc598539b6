"""Tuples -> scene graph for programs (paper, section 3.1 and Listing 1)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, StrictStr, TypeAdapter, ValidationError

from posh_reward.metrics.prove.programs.program_scene import Node, Nodes
from posh_reward.types import Failure

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
    """Kind of an attribute, by its last known word: "mustard-yellow" is a color."""
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
"""First words of relations of place or belonging."""


def nodes_of(tuples: Iterable[Tuple]) -> Nodes:
    """Group tuples into a graph: attributes by kind, relations by target and kind."""
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
    """Kind of a relation: "spatial" for "in front of", "action" for "holds"."""
    words = relation.casefold().split()
    return "spatial" if words and words[0] in SPATIAL else "action"


def _node(nodes: Nodes, name: str) -> Node:
    return nodes.setdefault(name, {"attributes": {}, "relations_to": {}})


def _join(values: object) -> object:
    return ", ".join(values) if isinstance(values, list) and all(map(_is_text, values)) else values


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


class GraphNode(BaseModel):
    """An entity of a graph from a file, as in the paper's Listing 1."""

    attributes: dict[str, Annotated[StrictStr, BeforeValidator(_join)]] = {}
    """Kind -> values, comma-separated or as a list."""
    relations_to: dict[str, dict[str, list[StrictStr]]] = {}


_GRAPH = TypeAdapter(dict[str, GraphNode])
NO_GRAPH = "is neither entities with attributes and relations_to nor a list of tuples"


def read_graph(cell: object) -> Nodes | Failure:
    """Read a graph from a file, such as the authors' own.

    Args:
        cell: entity -> ``attributes`` and ``relations_to``, as in the paper's Listing 1; or a list
            of tuples, each a list of one to three texts; or JSON of either.

    Returns:
        The graph, or a failure whose detail continues "a graph that".
    """
    try:
        content = json.loads(cell) if isinstance(cell, str) else cell
        if isinstance(content, list) and all(map(_is_tuple, content)):
            return nodes_of(map(tuple, content))
        graph = _GRAPH.validate_python(content)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        return Failure("text", f"{NO_GRAPH}{place and f' (at {place[:60]})'}")
    except (ValueError, RecursionError):
        return Failure("text", "is not JSON")
    nodes: Nodes = {
        name: {"attributes": node.attributes, "relations_to": node.relations_to}
        for name, node in graph.items()
    }
    for node in list(nodes.values()):
        for target in node["relations_to"]:
            _node(nodes, target)  # as in a directed graph, each target is a node
    return nodes


def _is_tuple(row: object) -> bool:
    return isinstance(row, list | tuple) and 1 <= len(row) <= 3 and all(map(_is_text, row))


def tuples_in(nodes: Nodes) -> tuple[Tuple, ...]:
    """Entities, attributes and relations of a graph; inverse of ``nodes_of`` except for order."""
    attributes = [
        (name, value.strip())
        for name, node in nodes.items()
        for values in node["attributes"].values()
        for value in values.split(",")
        if value.strip()
    ]
    relations = [
        (name, relation, target)
        for name, node in nodes.items()
        for target, kinds in node["relations_to"].items()
        for texts in kinds.values()
        for relation in texts
    ]
    return (*((name,) for name in nodes), *attributes, *relations)
