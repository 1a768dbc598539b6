"""Coreference clusters of mentions -> the cluster of each token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posh_reward.errors import InputError
from posh_reward.graph.rules.syntax import NOMINAL, Syntax
from posh_reward.types import Clusters, Mention

LEFT, RIGHT = -1, -2
"""Names of the clusters "our left" and "our right"; others are named by their index."""

CUTS = frozenset({"\u2019s", "'s", "s", "-"})
"""What the release takes for a possessive marker or a hyphen, whatever its tag."""


@dataclass(frozen=True, slots=True)
class Coreference:
    """Which tokens stand for the same thing."""

    cluster_of: Mapping[int, int]
    """Cluster of a token, if it has one."""
    former: Mapping[int, int]
    """Cluster that a token of "our left" or "our right" has left, but which still lists it."""
    sides: Mapping[int, int]
    """Cluster of each token of "our left" or "our right"."""
    left: int
    right: int
    """Clusters of the viewer's sides; one and the same if the release confuses them."""


def coreference(syntax: Syntax, clusters: Clusters, *, mended: bool = False) -> Coreference:
    """The cluster of each token that a mention is narrowed to.

    When several mentions claim a token, the shortest has it, and of equally short ones the
    first: "the man" before "the man and his dog". "Our left" and "our right" go before all.

    As released, their old cluster goes on listing them: "On our left is a tree. The side glows",
    with "our left" and "the side" in one cluster, makes the side our left. And without any "our
    left" both sides have one name, so two mentions of "our right" are our left, too. Neither if
    ``mended``.

    Raises:
        InputError: a mention reaches outside the text, or ends before it starts. (The release
            ignores those that end before they start.)
    """
    check(clusters, len(syntax))
    mentions = [
        (last - first, cluster, (first, last))
        for cluster, members in enumerate(clusters)
        if len(members) > 1
        for first, last in members
    ]
    narrow = Narrowing(syntax, mended=mended)
    owner: dict[int, int] = {}
    for _, cluster, mention in sorted(mentions, key=lambda row: row[0]):
        for token in narrow(mention):
            owner.setdefault(token, cluster)
    left, right = our_sides(syntax)
    right_cluster = RIGHT if mended or left else LEFT
    sides = {**dict.fromkeys(left, LEFT), **dict.fromkeys(right, right_cluster)}
    return Coreference(
        cluster_of={**owner, **sides},
        former={} if mended else {token: owner[token] for token in sides if token in owner},
        sides=sides,
        left=LEFT,
        right=right_cluster,
    )


def check(clusters: Clusters, tokens: int) -> None:
    """Refuses mentions that are not spans of a text with so many tokens."""
    for cluster in clusters:
        for first, last in cluster:
            if not 0 <= first <= last < tokens:
                raise InputError(
                    f"mention ({first}, {last}) is not a span of a text with {tokens} tokens: "
                    "clusters hold (first, last) token indices, both inclusive"
                )


class Narrowing:
    """A mention -> those of its tokens that stand for the thing, within its first sentence.

    The first run of nouns ("the *market square* of the town"), but not one before a possessive
    marker or a hyphen ("the man's *hat*"); else the first pronoun; else all. What follows each
    run is looked up once a text, so that mentions within mentions cost no more than others.

    A marker is a word of ``CUTS``, so in "the *boys* ' hats" the boys stand for the hats; with
    ``mended`` it is what is tagged as one.
    """

    def __init__(self, syntax: Syntax, *, mended: bool = False) -> None:
        size = len(syntax)
        self._nominal = [pos in NOMINAL for pos in syntax.pos]
        self._run_end = list(range(size))
        self._sentence_end = list(range(size))
        self._noun_from = [size] * (size + 1)
        self._pronoun_from = [size] * (size + 1)
        kept = False  # whether the run of nouns that the token is in is not cut off
        for token in range(size - 1, -1, -1):
            after = token + 1
            if after < size and syntax.sentence[token] == syntax.sentence[after]:
                self._sentence_end[token] = self._sentence_end[after]
            if self._nominal[token]:
                if after < size and self._nominal[after]:
                    self._run_end[token] = self._run_end[after]
                else:
                    kept = after == size or not is_cut(syntax, after, mended)
            self._noun_from[token] = (
                token if kept and self._nominal[token] else self._noun_from[after]
            )
            self._pronoun_from[token] = (
                token if syntax.pos[token] == "PRON" else self._pronoun_from[after]
            )

    def __call__(self, mention: Mention) -> Sequence[int]:
        """The tokens, in text order."""
        first, last = mention
        last = min(last, self._sentence_end[first])
        noun = self._noun_from[first]
        if noun > last and self._nominal[last]:  # what cuts the last run off lies outside
            noun = last
            while noun > first and self._nominal[noun - 1]:
                noun -= 1
        if noun <= last:
            return range(noun, min(last, self._run_end[noun]) + 1)
        pronoun = self._pronoun_from[first]
        return range(pronoun, pronoun + 1) if pronoun <= last else range(first, last + 1)


def is_cut(syntax: Syntax, token: int, mended: bool) -> bool:
    """Whether a token says that the nouns before it are not what a mention is about."""
    if mended:
        return syntax.tag[token] == "POS" or syntax.text[token] == "-"
    return syntax.text[token] in CUTS


def our_sides(syntax: Syntax) -> tuple[list[int], list[int]]:
    """Tokens of "our *left*", and of "our *right*"."""
    words = [text.lower() for text in syntax.text]
    after_our = [token for token in range(1, len(words)) if words[token - 1] == "our"]
    left = [token for token in after_our if words[token] == "left"]
    right = [token for token in after_our if words[token] == "right"]
    return left, right
