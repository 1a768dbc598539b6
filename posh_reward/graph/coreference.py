"""Coreference: the mentions of one entity. The protocol, and resolvers by name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from posh_reward.errors import InputError
from posh_reward.types import Clusters

if TYPE_CHECKING:
    from spacy.tokens import Doc


RESOLVERS = {
    "rules": "posh_reward.embedded.coref.resolver:RuleCoreferencer",
    "maverick": "posh_reward.graph.maverick:MaverickCoref",
    "none": "posh_reward.graph.coreference:NoCoref",
}
"""Name -> ``module:class``, imported on demand; the class needs no arguments."""


class Coreferencer(Protocol):
    """Finder of the phrases of a text that mention the same entity (paper, section 3)."""

    @property
    def name(self) -> str:
        """Name and version, e.g. ``"rules-2"``: part of every score's signature."""

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """Return the clusters of each text, which is a whole description.

        A cluster has two or more mentions, as (first, last) token indices into the Doc, both
        inclusive. Equal Docs give equal clusters.
        """


class NoCoref:
    """No links: every mention is an entity of its own."""

    name = "none"

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """No clusters for any text."""
        return [() for _ in docs]


def load_coref(name: str = "rules") -> Coreferencer:
    """Make the resolver called ``name``.

    Raises:
        InputError: the name is unknown.
    """
    if name not in RESOLVERS:
        names = ", ".join(sorted(RESOLVERS))
        raise InputError(f"unknown coreference resolver {name!r}: use one of {names}")
    module, _, attribute = RESOLVERS[name].partition(":")
    resolver: Coreferencer = getattr(import_module(module), attribute)()
    return resolver
