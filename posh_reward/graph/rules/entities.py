"""Entities: noun components, merged where they corefer, with what describes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from posh_reward.errors import InputError
from posh_reward.graph.rules.components import NOMINAL, Component, Syntax, find_components
from posh_reward.graph.rules.links import Links, Role, find_links
from posh_reward.types import Attribute, Clusters, Entity, Mention, Span

LEFT, RIGHT = -1, -2
"""Numbers of the clusters "our left" and "our right"; those of others are their index."""

CUTS = frozenset({"\u2019s", "'s", "s", "-"})
"""Possessive markers and hyphens by their text, whatever their tag, as the release has them."""


@dataclass(frozen=True, slots=True)
class Coreference:
    """The cluster of each token that stands for something."""

    cluster_of: Mapping[int, int]  # cluster of a token, if it has one
    former: Mapping[int, int]  # cluster that still lists a token of "our left" or "right"
    sides: Mapping[int, int]  # cluster of each token of "our left" or "our right"
    left: int
    right: int  # clusters of the viewer's sides; one and the same if the release confuses them


def coreference(syntax: Syntax, clusters: Clusters, *, mended: bool = False) -> Coreference:
    """Find the cluster of each token that a mention is narrowed to.

    "Our left" and "our right" leave their clusters for two of their own. As released, the old
    cluster goes on listing them: "On our left is a tree. The side glows", with "our left" and "the
    side" in one cluster, makes the side our left. And without any "our left" both sides have one
    number, so two mentions of "our right" are our left, too. Neither if ``mended``.

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
    narrow = Narrowing(syntax, mended=mended)
    owner: dict[int, int] = {}
    # The shortest mention has a token that several claim, the first of equally short ones: "the
    # man" before "the man and his dog". Sorting is stable, so clusters decide in their order.
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
    """Refuse mentions that are not spans of a text with so many tokens."""
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
    run is computed once a text, so that mentions within mentions cost no more than others.

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
        whole = False  # no marker follows the run of nouns that the token is in
        # From right to left: each token takes over the answers of the token after it.
        for token in range(size - 1, -1, -1):
            after = token + 1
            if after < size and syntax.sentence[token] == syntax.sentence[after]:
                self._sentence_end[token] = self._sentence_end[after]
            if self._nominal[token]:
                if after < size and self._nominal[after]:
                    self._run_end[token] = self._run_end[after]
                else:
                    whole = after == size or not is_cut(syntax, after, mended)
            self._noun_from[token] = (
                token if whole and self._nominal[token] else self._noun_from[after]
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
    """Test for a marker after nouns that a mention is not about: "the man*'s* hat"."""
    if mended:
        return syntax.tag[token] == "POS" or syntax.text[token] == "-"
    return syntax.text[token] in CUTS


def our_sides(syntax: Syntax) -> tuple[list[int], list[int]]:
    """Return the tokens of "our *left*", and of "our *right*"."""
    words = [text.lower() for text in syntax.text]
    after_our = [token for token in range(1, len(words)) if words[token - 1] == "our"]
    left = [token for token in after_our if words[token] == "left"]
    right = [token for token in after_our if words[token] == "right"]
    return left, right


VIEWER = frozenset({"us", "our", "we"})


@dataclass(frozen=True, slots=True)
class Components:
    """The components of a text, linked, and grouped into entities.

    Components are named by index, in text order; entities too, by first mention.
    """

    syntax: Syntax
    components: tuple[Component, ...]
    links: Links
    coreference: Coreference
    mentions: tuple[tuple[int, ...], ...]  # components of each entity, in text order
    entity_of: Mapping[int, int]  # entity of a noun component, if it is one
    owner_of_cluster: Mapping[int, int]  # entity of the first mention in the cluster
    sides: frozenset[int]  # clusters of the viewer's sides that the text names often enough
    mended: bool = False  # preset "mended": clear mistakes of the release are left out

    def of_kind(self, *kinds: str) -> list[int]:
        """Return the components of some kinds, in text order."""
        return [i for i, component in enumerate(self.components) if component.kind in kinds]

    def entities(self, component: int, role: Role) -> list[int]:
        """Return the entities that have a role for a component, once for each link."""
        ends = self.links.ends(component, role)
        return [self.entity_of[end] for end in ends if end in self.entity_of]

    def clusters(self, component: int) -> list[int]:
        """Return the clusters of a component's tokens."""
        owner = self.coreference.cluster_of
        return [owner[token] for token in self.components[component].tokens if token in owner]

    def tokens(self, components: Iterable[int]) -> tuple[int, ...]:
        """Return the tokens of components, one component after the other."""
        return tuple([token for i in components for token in self.components[i].tokens])

    def sentence(self, component: int) -> int:
        """Return the sentence that a component starts in."""
        return self.syntax.sentence[self.components[component].tokens[0]]

    def spans(self, tokens: Iterable[int]) -> tuple[Span, ...]:
        """Return the character offsets of tokens, a span for each."""
        return tuple([self.syntax.span[token] for token in tokens])


class Sighting(NamedTuple):
    """One place where the text describes an entity."""

    component: int
    entity: int
    text: str
    tokens: tuple[int, ...]


def read_components(syntax: Syntax, clusters: Clusters, *, mended: bool = False) -> Components:
    """Find, link and group the components of a text; ``mended``: as preset "mended" does.

    Raises:
        InputError: a mention of a cluster lies outside the text.
    """
    refers = coreference(syntax, clusters, mended=mended)
    components = find_components(syntax)
    links = find_links(syntax, components, mended=mended)
    mentions: list[list[int]] = []
    entity_of: dict[int, int] = {}
    entity_of_cluster: dict[int, int] = {}  # that later mentions join
    owner_of_cluster: dict[int, int] = {}  # that possessives belong to
    for i, component in enumerate(components):
        if component.kind != "noun" or is_empty_pronoun(syntax, component, links, i):
            continue
        own = [refers.cluster_of[token] for token in component.tokens if token in refers.cluster_of]
        if mended and not own and is_unknown(syntax, component, links, i):
            continue
        # A component of several clusters joins the entity that was mentioned first.
        earlier = [entity_of_cluster[cluster] for cluster in own if cluster in entity_of_cluster]
        entity = min(earlier, default=len(mentions))
        if entity == len(mentions):
            mentions.append([])
        mentions[entity].append(i)
        entity_of[i] = entity
        former = [refers.former[token] for token in component.tokens if token in refers.former]
        for cluster in own + former:
            entity_of_cluster[cluster] = min(entity, entity_of_cluster.get(cluster, entity))
            owner_of_cluster.setdefault(cluster, entity)
    return Components(
        syntax=syntax,
        components=components,
        links=links,
        coreference=refers,
        mentions=tuple(map(tuple, mentions)),
        entity_of=entity_of,
        owner_of_cluster=owner_of_cluster,
        sides=frequent_sides(components, refers, least=1 if mended else 2),
        mended=mended,
    )


def frequent_sides(
    components: Sequence[Component], refers: Coreference, least: int
) -> frozenset[int]:
    """Return the clusters of "our left" and "our right" that so many components mention."""
    if not refers.sides:
        return frozenset()
    mentions = Counter(
        cluster
        for component in components
        for cluster in {refers.sides[token] for token in component.tokens if token in refers.sides}
    )
    return frozenset(cluster for cluster, times in mentions.items() if times >= least)


def is_empty_pronoun(syntax: Syntax, component: Component, links: Links, index: int) -> bool:
    """Test for a pronoun without links: "*There* is a tower", "a picture of *it*" is not."""
    return syntax.pos[component.root] == "PRON" and not links.any(index)


def is_unknown(syntax: Syntax, component: Component, links: Links, index: int) -> bool:
    """Test for a pronoun that is only described: no thing, if without cluster: "*it* is clear"."""
    return syntax.pos[component.root] == "PRON" and links.roles(index).keys() == {"described_by"}


def is_possessive(parts: Components, component: int) -> bool:
    """Test whether an adjective says whose, not how: "*her* head", "the *man*'s hat"."""
    return parts.syntax.dep[parts.components[component].root] == "poss"


def qualities(parts: Components) -> Iterator[Sighting]:
    """Describe entities by adjectives: "*red* coat", "*market* square", "the coat is *red*"."""
    for i in parts.of_kind("adjective"):
        if not is_possessive(parts, i):
            tokens = parts.components[i].tokens
            for entity in parts.entities(i, "describes"):
                yield Sighting(i, entity, parts.syntax.phrase(tokens), tokens)


class Evidence:
    """The places where an attribute or a relation was read, in order."""

    __slots__ = ("_places", "sentences", "spans")

    def __init__(self) -> None:
        self.sentences: list[int] = []
        self.spans: list[Span] = []
        self._places: set[Span] = set()

    def add(self, parts: Components, component: int, tokens: Iterable[int]) -> None:
        """Add a place; ``mended``: once, even if it is told of two mentions."""
        spans = parts.spans(tokens)
        if parts.mended:
            if self._places.issuperset(spans):
                return
            self._places.update(spans)
        self.sentences.append(parts.sentence(component))
        self.spans.extend(spans)


def attributes(parts: Components, descriptions: Iterable[Sighting]) -> list[tuple[Attribute, ...]]:
    """Return each entity's attributes: equal texts are one, in text order of their first."""
    entities: list[dict[str, Evidence]] = [{} for _ in parts.mentions]
    for component, entity, text, tokens in sorted(descriptions, key=lambda each: each.component):
        entities[entity].setdefault(text, Evidence()).add(parts, component, tokens)
    return [
        tuple(
            Attribute(text, tuple(evidence.sentences), tuple(evidence.spans))
            for text, evidence in texts.items()
        )
        for texts in entities
    ]


def entity(parts: Components, mentions: Sequence[int], attributes: tuple[Attribute, ...]) -> Entity:
    """Make the record of one entity.

    As released its first mention alone says whether it is the viewer or one of the viewer's
    sides: "The *viewer* stands. A dog faces *us*", with both one thing, is not the viewer.
    ``mended``: any of its mentions does.
    """
    heads = tuple(parts.syntax.phrase(parts.components[i].tokens) for i in mentions)
    deciding = len(heads) if parts.mended else 1
    sides: set[int] = set()
    if parts.sides:
        sides = {cluster for i in mentions[:deciding] for cluster in parts.clusters(i)}
    return Entity(
        head=heads[0],
        heads=heads,
        attributes=attributes,
        sentences=tuple(parts.sentence(i) for i in mentions),
        spans=parts.spans(parts.tokens(mentions)),
        us=any(head.lower() in VIEWER for head in heads[:deciding]),
        left=parts.coreference.left in parts.sides & sides,
        right=parts.coreference.right in parts.sides & sides,
    )
