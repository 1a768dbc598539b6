"""The protocol of coreference resolvers, and the table of those that come with the package."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from posh_reward.errors import InputError
from posh_reward.types import Clusters

if TYPE_CHECKING:
    from spacy.tokens import Doc

RESOLVERS = {
    "rules": "posh_reward.graph.coref.rule_coref:RuleCoreferencer",
    "maverick": "posh_reward.graph.coref.maverick:MaverickCoref",
    "none": "posh_reward.graph.coref.coreferencer:NoCoref",
}
"""Name -> ``module:class``, imported on demand; the class needs no arguments."""


class Coreferencer(Protocol):
    """Finds which phrases of a text mention the same thing (paper, section 3)."""

    @property
    def name(self) -> str:
        """Name and version, e.g. ``"rules-1"``: part of every score's signature."""
        ...

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """Clusters of each text.

        Args:
            docs: parsed texts, each a whole description.

        Returns:
            One ``Clusters`` per text, in order: clusters of mentions as (first, last) token
            indices into the whole Doc, both inclusive, each cluster with at least two
            mentions. Equal Docs give equal clusters.
        """
        ...


class NoCoref:
    """Links nothing: every mention is an entity of its own."""

    @property
    def name(self) -> str:
        """Always ``"none"``."""
        return "none"

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """No clusters for any text."""
        return [() for _ in docs]


def load_coref(name: str = "rules") -> Coreferencer:
    """The resolver of this name.

    Args:
        name: a key of ``RESOLVERS``.

    Raises:
        InputError: there is no resolver of this name.
    """
    path = RESOLVERS.get(name)
    if path is None:
        names = ", ".join(sorted(RESOLVERS))
        raise InputError(f"no coreference resolver is called {name!r}; use one of: {names}")
    module, _, attribute = path.partition(":")
    resolver: Coreferencer = getattr(import_module(module), attribute)()
    return resolver
