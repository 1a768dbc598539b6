"""A parsed text and its coreference clusters -> scene graph (paper, A.1.2).

Pure and deterministic: nothing counts but the parser's and the coreference model's output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posh_reward.graph.rules.entities import attributes, entity, qualities, read_components
from posh_reward.graph.rules.mended import mended as mended_parse
from posh_reward.graph.rules.relations import actions, positions, possessions, relations, states
from posh_reward.graph.rules.syntax import read_syntax
from posh_reward.types import Clusters, Description, SceneGraph, Token

if TYPE_CHECKING:
    from spacy.tokens import Doc


def describe(doc: Doc, clusters: Clusters, *, mended: bool = False) -> Description:
    """Return a text with its tokens, its clusters and its scene graph.

    Args:
        doc: a stripped text with parts of speech, ClearNLP dependency labels and sentence
            boundaries; where annotations are missing, less is found.
        clusters: mentions of the same thing, as (first, last) token indices, inclusive.
        mended: clear mistakes of the release are mended (docs/released_quirks.md).

    Raises:
        InputError: a mention lies outside the text.
    """
    syntax = read_syntax(doc)
    columns = syntax.text, syntax.lemma, syntax.pos, syntax.dep, syntax.head
    tokens = tuple(map(Token, *columns, syntax.sentence, syntax.span))
    parse = mended_parse(syntax) if mended else syntax
    parts = read_components(parse, clusters, mended=mended)
    descriptions = attributes(parts, [*qualities(parts), *states(parts)])
    entities = tuple(
        entity(parts, mentions, own)
        for mentions, own in zip(parts.mentions, descriptions, strict=True)
    )
    # Possessions and actions in text order, then the positions that no action has used.
    used: set[int] = set()
    connections = [*possessions(parts), *actions(parts, used)]
    connections.sort(key=lambda connection: connection.component)
    graph = SceneGraph(entities, relations(parts, [*connections, *positions(parts, used)]))
    return Description(doc.text.rstrip(), graph, tokens, clusters)


def build(doc: Doc, clusters: Clusters, *, mended: bool = False) -> SceneGraph:
    """Return the scene graph of a text; arguments and errors as for ``describe``."""
    return describe(doc, clusters, mended=mended).graph
