"""A parsed text and its coreference clusters -> scene graph (paper, A.1.2).

Pure and deterministic: what the parser and the coreference model said is all that counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posh_reward.graph.rules.entities import attributes, entity, qualities, read_components
from posh_reward.graph.rules.mended import mended as mended_parse
from posh_reward.graph.rules.relations import actions, positions, possessions, relations, states
from posh_reward.graph.rules.syntax import Syntax, read_syntax
from posh_reward.types import Clusters, Description, SceneGraph, Token

if TYPE_CHECKING:
    from spacy.tokens import Doc


def build(doc: Doc, clusters: Clusters, *, mended: bool = False) -> SceneGraph:
    """Reads the scene graph of a text.

    Args:
        doc: a stripped text with parts of speech, ClearNLP dependency labels and sentence
            boundaries; where annotations are missing, less is found.
        clusters: mentions of the same thing, as (first, last) token indices.
        mended: clear mistakes of the release are mended (docs/released_quirks.md).

    Raises:
        InputError: a mention lies outside the text.
    """
    return graph_of(read_syntax(doc), clusters, mended=mended)


def describe(doc: Doc, clusters: Clusters, *, mended: bool = False) -> Description:
    """A text with its tokens, its clusters and its scene graph.

    Args:
        doc: as for ``build``.
        clusters: as for ``build``.
        mended: as for ``build``.

    Raises:
        InputError: a mention lies outside the text.
    """
    syntax = read_syntax(doc)
    return Description(
        text=doc.text.rstrip(),
        graph=graph_of(syntax, clusters, mended=mended),
        tokens=tokens_of(syntax),
        clusters=clusters,
    )


def graph_of(syntax: Syntax, clusters: Clusters, *, mended: bool = False) -> SceneGraph:
    """The scene graph of a text: possessions and actions in text order, then positions."""
    if mended:
        syntax = mended_parse(syntax)
    known = read_components(syntax, clusters, mended=mended)
    described = attributes(known, [*qualities(known), *states(known)])
    used: set[int] = set()
    told = [*possessions(known), *actions(known, used)]
    told.sort(key=lambda connection: connection.component)
    return SceneGraph(
        entities=tuple(
            entity(known, mentions, its)
            for mentions, its in zip(known.mentions, described, strict=True)
        ),
        relations=relations(known, [*told, *positions(known, used)]),
    )


def tokens_of(syntax: Syntax) -> tuple[Token, ...]:
    """The words of a text as records."""
    return tuple(
        map(
            Token,
            syntax.text,
            syntax.lemma,
            syntax.pos,
            syntax.dep,
            syntax.head,
            syntax.sentence,
            syntax.span,
        )
    )
