"""Entities: noun components, merged where they corefer, with what describes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from posh_reward.graph.rules.components import Component, find_components
from posh_reward.graph.rules.links import Links, Role, find_links
from posh_reward.graph.rules.mentions import LEFT, RIGHT, cluster_of_tokens
from posh_reward.graph.rules.syntax import Syntax
from posh_reward.types import Attribute, Clusters, Entity, Span

VIEWER = frozenset({"us", "our", "we"})


@dataclass(frozen=True, slots=True)
class Reading:
    """A text whose components are known, linked, and grouped into entities.

    Components are named by index, in text order; entities too, by first mention.
    """

    syntax: Syntax
    components: tuple[Component, ...]
    links: Links
    cluster_of: Mapping[int, int]
    """Coreference cluster of a token, if it has one."""
    mentions: tuple[tuple[int, ...], ...]
    """Components of each entity, in text order."""
    entity_of: Mapping[int, int]
    """Entity of a noun component, if it is one."""
    entity_of_cluster: Mapping[int, int]
    mended: bool = False
    """Whether clear mistakes of the release are mended (preset "mended")."""

    def of_kind(self, *kinds: str) -> list[int]:
        """Components of some kinds, in text order."""
        return [i for i, component in enumerate(self.components) if component.kind in kinds]

    def entities(self, component: int, role: Role) -> list[int]:
        """Entities that have a role for a component, one for each of their mentions."""
        ends = self.links.ends(component, role)
        return [self.entity_of[end] for end in ends if end in self.entity_of]

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
    tokens: tuple[int, ...]


def read_components(syntax: Syntax, clusters: Clusters, *, mended: bool = False) -> Reading:
    """Finds, links and groups the components of a text; ``mended``: as preset "mended" does.

    Raises:
        InputError: a mention of a cluster lies outside the text.
    """
    cluster_of = cluster_of_tokens(syntax, clusters, mended=mended)
    components = find_components(syntax)
    links = find_links(syntax, components, mended=mended)
    mentions: list[list[int]] = []
    entity_of: dict[int, int] = {}
    entity_of_cluster: dict[int, int] = {}
    for i, component in enumerate(components):
        if component.kind != "noun" or is_empty_pronoun(syntax, component, links, i):
            continue
        if mended and is_unknown(syntax, component, links, i) and component.root not in cluster_of:
            continue
        own = [cluster_of[token] for token in component.tokens if token in cluster_of]
        known = [entity_of_cluster[cluster] for cluster in own if cluster in entity_of_cluster]
        entity = min(known, default=len(mentions))
        if entity == len(mentions):
            mentions.append([])
        mentions[entity].append(i)
        entity_of[i] = entity
        for cluster in own:
            entity_of_cluster.setdefault(cluster, entity)
    return Reading(
        syntax=syntax,
        components=components,
        links=links,
        cluster_of=cluster_of,
        mentions=tuple(map(tuple, mentions)),
        entity_of=entity_of,
        entity_of_cluster=entity_of_cluster,
        mended=mended,
    )


def is_empty_pronoun(syntax: Syntax, component: Component, links: Links, index: int) -> bool:
    """A pronoun that nothing is said of: "*There* is a tower", "a picture of *it*" is not."""
    return (
        len(component.tokens) == 1
        and syntax.pos[component.root] == "PRON"
        and not links.roles(index)
    )


def is_unknown(syntax: Syntax, component: Component, links: Links, index: int) -> bool:
    """A pronoun that is only described, nothing if it refers to nothing: "*it* is clear"."""
    return syntax.pos[component.root] == "PRON" and links.roles(index).keys() == {"described_by"}


def is_possessive(reading: Reading, component: int) -> bool:
    """Whether an adjective says whose, not how: "*her* head", "the *man*'s hat"."""
    return reading.syntax.dep[reading.components[component].root] == "poss"


def qualities(reading: Reading) -> Iterator[Sighting]:
    """What adjectives say: "*red* coat", "*market* square", "the coat is *red*"."""
    for i in reading.of_kind("adjective"):
        if not is_possessive(reading, i):
            for entity in reading.entities(i, "describes"):
                yield Sighting(i, entity, reading.components[i].tokens)


def attributes(reading: Reading, descriptions: Iterable[Sighting]) -> list[tuple[Attribute, ...]]:
    """Attributes of each entity: equal texts are one, in text order of their first."""
    found: list[dict[str, tuple[list[int], list[Span]]]] = [{} for _ in reading.mentions]
    for component, entity, tokens in sorted(descriptions, key=lambda seen: seen.component):
        text = reading.syntax.phrase(tokens)
        sentences, spans = found[entity].setdefault(text, ([], []))
        if reading.mended and set(reading.spans(tokens)) <= set(spans):
            continue  # said of two mentions of one thing
        sentences.append(reading.sentence(component))
        spans.extend(reading.spans(tokens))
    return [
        tuple(
            Attribute(text, tuple(sentences), tuple(spans))
            for text, (sentences, spans) in texts.items()
        )
        for texts in found
    ]


def entity(reading: Reading, mentions: Sequence[int], attributes: tuple[Attribute, ...]) -> Entity:
    """The record of one entity."""
    tokens = reading.tokens(mentions)
    heads = tuple(reading.syntax.phrase(reading.components[i].tokens) for i in mentions)
    clusters = {reading.cluster_of.get(token) for token in tokens}
    return Entity(
        head=heads[0],
        heads=heads,
        attributes=attributes,
        sentences=tuple(reading.sentence(i) for i in mentions),
        spans=reading.spans(tokens),
        us=any(head.lower() in VIEWER for head in heads),
        left=LEFT in clusters,
        right=RIGHT in clusters,
    )
