"""Entities: noun components, merged where they corefer, with what describes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from posh_reward.errors import InputError
from posh_reward.graph.rules.components import Component, find_components
from posh_reward.graph.rules.links import Links, Role, find_links
from posh_reward.graph.rules.syntax import NOMINAL, Syntax
from posh_reward.types import Attribute, Clusters, Entity, Mention, Span

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
    mentions: tuple[tuple[int, ...], ...]
    """Components of each entity, in text order."""
    entity_of: Mapping[int, int]
    """Entity of a noun component, if it is one."""
    owner_of_cluster: Mapping[int, int]
    """Entity of the first mention that a cluster lists: "*men* ... with *their* dogs"."""
    sides: frozenset[int]
    """Clusters of the viewer's sides that the text names often enough."""
    mended: bool = False
    """Whether clear mistakes of the release are left out (preset "mended")."""

    def of_kind(self, *kinds: str) -> list[int]:
        """Components of some kinds, in text order."""
        return [i for i, component in enumerate(self.components) if component.kind in kinds]

    def entities(self, component: int, role: Role) -> list[int]:
        """Entities that have a role for a component, once for each link."""
        ends = self.links.ends(component, role)
        return [self.entity_of[end] for end in ends if end in self.entity_of]

    def clusters(self, component: int) -> list[int]:
        """Clusters of a component's tokens."""
        owner = self.coreference.cluster_of
        return [owner[token] for token in self.components[component].tokens if token in owner]

    def tokens(self, components: Iterable[int]) -> tuple[int, ...]:
        """Tokens of components, one component after the other."""
        return tuple([token for i in components for token in self.components[i].tokens])

    def sentence(self, component: int) -> int:
        """The sentence that a component starts in."""
        return self.syntax.sentence[self.components[component].tokens[0]]

    def spans(self, tokens: Iterable[int]) -> tuple[Span, ...]:
        """Character offsets of tokens, a span for each."""
        return tuple([self.syntax.span[token] for token in tokens])


class Sighting(NamedTuple):
    """One place where the text describes an entity."""

    component: int
    entity: int
    text: str
    tokens: tuple[int, ...]


def read_components(syntax: Syntax, clusters: Clusters, *, mended: bool = False) -> Components:
    """Finds, links and groups the components of a text; ``mended``: as preset "mended" does.

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
        known = [entity_of_cluster[cluster] for cluster in own if cluster in entity_of_cluster]
        entity = min(known, default=len(mentions))
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
        sides=named_sides(components, refers, least=1 if mended else 2),
        mended=mended,
    )


def named_sides(components: Sequence[Component], refers: Coreference, least: int) -> frozenset[int]:
    """Which of "our left" and "our right" the text names that often at least."""
    if not refers.sides:
        return frozenset()
    named = Counter(
        cluster
        for component in components
        for cluster in {refers.sides[token] for token in component.tokens if token in refers.sides}
    )
    return frozenset(cluster for cluster, times in named.items() if times >= least)


def is_empty_pronoun(syntax: Syntax, component: Component, links: Links, index: int) -> bool:
    """A pronoun that nothing is said of: "*There* is a tower", "a picture of *it*" is not."""
    return syntax.pos[component.root] == "PRON" and not links.any(index)


def is_unknown(syntax: Syntax, component: Component, links: Links, index: int) -> bool:
    """A pronoun that is only described, nothing if it refers to nothing: "*it* is clear"."""
    return syntax.pos[component.root] == "PRON" and links.roles(index).keys() == {"described_by"}


def is_possessive(known: Components, component: int) -> bool:
    """Whether an adjective says whose, not how: "*her* head", "the *man*'s hat"."""
    return known.syntax.dep[known.components[component].root] == "poss"


def qualities(known: Components) -> Iterator[Sighting]:
    """What adjectives say: "*red* coat", "*market* square", "the coat is *red*"."""
    for i in known.of_kind("adjective"):
        if not is_possessive(known, i):
            tokens = known.components[i].tokens
            for entity in known.entities(i, "describes"):
                yield Sighting(i, entity, known.syntax.phrase(tokens), tokens)


class Evidence:
    """Where an attribute or a relation was read, place after place."""

    __slots__ = ("_seen", "sentences", "spans")

    def __init__(self) -> None:
        self.sentences: list[int] = []
        self.spans: list[Span] = []
        self._seen: set[Span] = set()

    def add(self, known: Components, component: int, tokens: Iterable[int]) -> None:
        """Adds a place; ``mended``: unless it is known, as what is told of two mentions is."""
        spans = known.spans(tokens)
        if known.mended:
            if self._seen.issuperset(spans):
                return
            self._seen.update(spans)
        self.sentences.append(known.sentence(component))
        self.spans.extend(spans)


def attributes(known: Components, descriptions: Iterable[Sighting]) -> list[tuple[Attribute, ...]]:
    """Attributes of each entity: equal texts are one, in text order of their first."""
    found: list[dict[str, Evidence]] = [{} for _ in known.mentions]
    for component, entity, text, tokens in sorted(descriptions, key=lambda seen: seen.component):
        found[entity].setdefault(text, Evidence()).add(known, component, tokens)
    return [
        tuple(
            Attribute(text, tuple(evidence.sentences), tuple(evidence.spans))
            for text, evidence in texts.items()
        )
        for texts in found
    ]


def entity(known: Components, mentions: Sequence[int], attributes: tuple[Attribute, ...]) -> Entity:
    """The record of one entity.

    As released its first mention alone says whether it is the viewer or one of the viewer's
    sides: "The *viewer* stands. A dog faces *us*", with both one thing, is not the viewer.
    ``mended``: any of its mentions does.
    """
    heads = tuple(known.syntax.phrase(known.components[i].tokens) for i in mentions)
    telling = len(heads) if known.mended else 1
    sides: set[int] = set()
    if known.sides:
        sides = {cluster for i in mentions[:telling] for cluster in known.clusters(i)}
    return Entity(
        head=heads[0],
        heads=heads,
        attributes=attributes,
        sentences=tuple(known.sentence(i) for i in mentions),
        spans=known.spans(known.tokens(mentions)),
        us=any(head.lower() in VIEWER for head in heads[:telling]),
        left=known.coreference.left in known.sides & sides,
        right=known.coreference.right in known.sides & sides,
    )
