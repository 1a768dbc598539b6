"""Descriptions as JSON, and the version of the code and the data that make them."""

from __future__ import annotations

import json
from dataclasses import astuple
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from posh_reward import types
from posh_reward.types import Attribute, Description, Entity, Relation, SceneGraph, Token


def write_description(description: Description) -> str:
    """A description as JSON; ``read_description`` gives back an equal one."""
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
    """Undoes ``write_description``.

    Raises:
        ValueError: it was not written by it.
    """
    try:
        text, entities, relations, columns, clusters = _frozen(json.loads(written))
        graph = SceneGraph(
            tuple(_entity(*values) for values in entities),
            tuple(Relation(*values) for values in relations),
        )
        tokens = tuple(Token(*values) for values in zip(*columns, strict=True))
    except TypeError as error:  # too few values, or too many
        raise ValueError(f"no description: {error}") from None
    return Description(text, graph, tokens, clusters)


@cache
def reading_version() -> str:
    """A digest of this stage, its parser included: what another one has read may differ."""
    digest = blake2b(digest_size=8)
    here = Path(__file__).parent
    files = [path for path in here.rglob("*") if path.suffix not in (".pyc", ".pyo")]
    for path in sorted(path for path in (*files, Path(types.__file__)) if path.is_file()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _entity(head: str, heads: Any, attributes: Any, *rest: Any) -> Entity:
    return Entity(head, heads, tuple(Attribute(*values) for values in attributes), *rest)


def _frozen(value: Any) -> Any:
    """JSON's lists as the tuples that they were."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
