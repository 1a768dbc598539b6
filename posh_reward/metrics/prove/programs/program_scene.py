"""The scene graph for programs (paper, Listing 1), and plain data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypedDict

Relations = dict[str, dict[str, list[str]]]
"""The other entity -> kind of relation -> relations of that kind."""
Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]
"""Values that a program may return."""


class Node(TypedDict):
    """One entity of a scene as plain data."""

    attributes: dict[str, str]  # kind -> comma-separated values: {"color": "blue, white"}
    relations_to: Relations


Nodes = dict[str, Node]  # entity -> node, as in the paper's class


class ProgramScene:
    """A scene graph whose methods return copies."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def get_entities(self) -> list[str]:
        return list(self._nodes)

    def get_attributes(self, ent_name: str) -> dict[str, str]:
        """Attributes by kind; empty for an unknown entity."""
        node = self._nodes.get(ent_name)
        return dict(node["attributes"]) if node else {}

    def get_outgoing_relations(self, ent_name: str) -> Relations:
        """Relations with an entity as source, by target."""
        node = self._nodes.get(ent_name)
        return _copy(node["relations_to"].items()) if node else {}

    def get_incoming_relations(self, ent_name: str) -> Relations:
        """Relations with an entity as target, by source."""
        return _copy(
            (source, node["relations_to"][ent_name])
            for source, node in self._nodes.items()
            if ent_name in node["relations_to"]
        )

    def generate_subgraph(self, node_list: Iterable[str]) -> ProgramScene:
        """Subgraph of some entities, with the relations among them."""
        nodes = set(node_list)
        return ProgramScene(
            {
                name: {
                    "attributes": dict(node["attributes"]),
                    "relations_to": _copy(
                        each for each in node["relations_to"].items() if each[0] in nodes
                    ),
                }
                for name, node in self._nodes.items()
                if name in nodes
            }
        )

    # The programs of the paper's Fig. 3 use shorter names than its Listing 1.
    get_attrs = get_attributes
    get_outgoing_rels = get_outgoing_relations
    get_incoming_rels = get_incoming_relations
    subgraph = generate_subgraph

    def describe(self, subgraph: ProgramScene) -> str:
        """A graph in words, such as "boy (state: sits); shirt (color: black); boy in shirt"."""
        entities = [_describe(name, node) for name, node in subgraph._nodes.items()]
        return "; ".join([*entities, *_relate(subgraph._nodes)])

    def __repr__(self) -> str:
        return f"Scene({', '.join(self._nodes)})"


def _copy(relations: Iterable[tuple[str, dict[str, list[str]]]]) -> Relations:
    return {
        other: {kind: list(texts) for kind, texts in kinds.items()} for other, kinds in relations
    }


def _describe(name: str, node: Node) -> str:
    attributes = ", ".join(f"{kind}: {values}" for kind, values in node["attributes"].items())
    return f"{name} ({attributes})" if attributes else name


def _relate(nodes: Nodes) -> list[str]:
    return [
        f"{source} {text} {target}"
        for source, node in nodes.items()
        for target, kinds in node["relations_to"].items()
        for texts in kinds.values()
        for text in texts
    ]


MOST_ITEMS = 200  # values that a program may return, including nested ones
LONGEST_TEXT = 4000  # characters of all returned texts together
DEEPEST = 4  # levels of lists in lists
LARGEST = 10**15
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""Memory address in an object's default text; differs between runs."""


class _Texts(type):
    """Metaclass of ``ProgramText``: ``isinstance`` as for ``str``; calls reject addresses."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, str)

    def __call__(cls, *values: Any, **others: Any) -> Any:
        text = str(*values, **others)
        if not (values and isinstance(values[0], str)) and ADDRESS.search(text):
            raise ValueError("it makes an object a text")
        return text


class ProgramText(str, metaclass=_Texts):
    """``str`` for programs; rejects objects whose text is a memory address, such as lambdas.

    Checking only the program's value is not enough: ``str(lambda: 1)[-10:]`` is a bare address.
    """

    __slots__ = ()


def plain(value: object) -> Value:
    """Convert a program's value to plain data: sets to sorted lists, tuples to lists.

    Raises:
        ValueError: its type is not allowed, or it is too large.
    """
    return _plain(value, [MOST_ITEMS, LONGEST_TEXT], DEEPEST)


def _plain(value: object, budget: list[int], depth: int) -> Value:
    budget[0] -= 1
    budget[1] -= len(value) if isinstance(value, str) else 0
    if min(*budget, depth) < 0:
        raise ValueError("it returned too much")
    if type(value) not in PLAIN:  # a subclass could run code when read
        raise ValueError(f"it returned a value of type {type(value).__name__}")
    if isinstance(value, dict):
        if not all(type(key) is str for key in value):
            raise ValueError("it returned a dictionary whose keys are not texts")
        budget[0] += len(value)  # a key and its value are one item
        return {
            str(_plain(key, budget, depth - 1)): _plain(each, budget, depth - 1)
            for key, each in value.items()
        }
    if isinstance(value, set | frozenset):
        return sorted((_plain(each, budget, depth - 1) for each in value), key=repr)
    if isinstance(value, list | tuple):
        return [_plain(each, budget, depth - 1) for each in value]
    if isinstance(value, int | float) and not abs(value) <= LARGEST:  # also rejects NaN
        raise ValueError("it returned too large a number")
    if isinstance(value, str):
        value.encode("utf-8")  # raises for lone surrogates
        if ADDRESS.search(value):
            raise ValueError("it returned an object as text")
    assert value is None or isinstance(value, str | int | float)
    return value


PLAIN = (type(None), bool, int, float, str, list, tuple, set, frozenset, dict)
