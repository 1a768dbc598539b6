"""Coreference clusters of mentions -> the cluster of each token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from posh_reward.errors import InputError
from posh_reward.graph.rules.syntax import NOMINAL, Syntax
from posh_reward.types import Clusters, Mention

LEFT, RIGHT = -1, -2
"""Names of the clusters "our left" and "our right"; others are named by their index."""


def cluster_of_tokens(
    syntax: Syntax, clusters: Clusters, *, mended: bool = False
) -> dict[int, int]:
    """The cluster of each token that a mention is narrowed to.

    When several mentions claim a token, the shortest has it, and of equally short ones the
    first: "the man" before "the man and his dog". "Our left" and "our right" go before all,
    if named twice or more; ``mended``: once is enough.

    Raises:
        InputError: a mention reaches outside the text, or ends before it starts.
    """
    check(clusters, len(syntax))
    mentions = [
        (last - first, cluster, (first, last))
        for cluster, members in enumerate(clusters)
        if len(members) > 1
        for first, last in members
    ]
    owner: dict[int, int] = {}
    for token, side in our_sides(syntax, least=1 if mended else 2):
        owner[token] = side
    for _, cluster, mention in sorted(mentions, key=lambda row: row[0]):
        for token in narrowed(syntax, mention):
            owner.setdefault(token, cluster)
    return owner


def check(clusters: Clusters, tokens: int) -> None:
    """Refuses mentions that are no spans of a text with so many tokens."""
    for cluster in clusters:
        for first, last in cluster:
            if not 0 <= first <= last < tokens:
                raise InputError(
                    f"mention ({first}, {last}) is no span of a text with {tokens} tokens: "
                    "clusters hold (first, last) token indices, both inclusive"
                )


def narrowed(syntax: Syntax, mention: Mention) -> Sequence[int]:
    """The tokens of a mention that stand for the thing, within its first sentence.

    The first run of nouns ("the *market square* of the town"), but not one before a
    possessive marker or a hyphen ("the man's *hat*"); else the first pronoun; else all.
    """
    first, last = mention
    tokens = range(first, last + 1)
    if syntax.sentence[first] != syntax.sentence[last]:
        tokens = range(first, syntax.sentence.index(syntax.sentence[first] + 1, first))
    nouns = first_noun_run(syntax, tokens)
    if nouns:
        return nouns
    return [token for token in tokens if syntax.pos[token] == "PRON"][:1] or tokens


def first_noun_run(syntax: Syntax, tokens: Sequence[int]) -> list[int]:
    """The first run of nouns that is not cut off by a possessive marker or a hyphen."""
    run: list[int] = []
    for token in tokens:
        if syntax.pos[token] in NOMINAL:
            run.append(token)
        elif run and (syntax.tag[token] == "POS" or syntax.text[token] == "-"):
            run = []
        elif run:
            break
    return run


def our_sides(syntax: Syntax, least: int) -> Iterator[tuple[int, int]]:
    """Tokens of "our *left*" and of "our *right*", for each side named that often at least."""
    lower = [text.lower() for text in syntax.text]
    for word, side in (("left", LEFT), ("right", RIGHT)):
        tokens = [i for i in range(1, len(lower)) if lower[i] == word and lower[i - 1] == "our"]
        if len(tokens) >= least:
            yield from ((token, side) for token in tokens)
