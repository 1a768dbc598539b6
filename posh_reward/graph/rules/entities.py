"""Entities: noun components, merged where they corefer, with what describes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from posh_reward.graph.rules.components import Component, find_components
from posh_reward.graph.rules.links import find_links
from posh_reward.graph.rules.mentions import Coreference, coreference
from posh_reward.graph.rules.roles import Links, Role
from posh_reward.graph.rules.syntax import Syntax
from posh_reward.types import Attribute, Clusters, Entity, Span

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
