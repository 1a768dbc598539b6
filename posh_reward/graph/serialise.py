"""Descriptions as JSON, and the version of the rules that make them."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import Any

from posh_reward.types import Attribute, Description, Entity, Relation, SceneGraph, Token

READING_VERSION = 3
"""Of what is read from a text. Raise it with any change of the embedded parser, the coreference
rules or the graph rules that changes a description; stored descriptions are kept by it.
``tests/golden/test_readings.py`` fails if that is forgotten."""


def write_description(description: Description) -> str:
    """A description as JSON; ``read_description`` restores an equal one."""
    graph = description.graph
    return json.dumps(
        [
            description.text,
            [astuple(entity) for entity in graph.entities],
            [astuple(relation) for relation in graph.relations],
            [[getattr(token, name) for token in description.tokens] for name in Token.__slots__],
            description.clusters,
        ],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def read_description(written: str) -> Description:
    """The description that ``write_description`` wrote.

    Raises:
        ValueError: ``written`` is not such a description.
    """
    try:
        text, entities, relations, columns, clusters = _frozen(json.loads(written))
        graph = SceneGraph(
            tuple(_entity(*values) for values in entities),
            tuple(Relation(*values) for values in relations),
        )
        tokens = tuple(Token(*values) for values in zip(*columns, strict=True))
    except TypeError as error:  # too few values, or too many
        raise ValueError(f"not a description: {error}") from None
    return Description(text, graph, tokens, clusters)


def _entity(head: str, heads: Any, attributes: Any, *rest: Any) -> Entity:
    return Entity(head, heads, tuple(Attribute(*values) for values in attributes), *rest)


def _frozen(value: Any) -> Any:
    """Lists, at any depth, as tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
