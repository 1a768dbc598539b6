"""Entities with their attributes, from noun components that corefer, and relations between them.

``read_coreference`` narrows mentions to tokens, ``read_components`` groups components by them,
``describe_by_adjectives`` and ``describe_by_verbs`` find attributes, and ``build_entity`` makes the
record. Relations come from possessives, verbs and prepositions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import NamedTuple

from posh_reward.errors import InputError
from posh_reward.graph.components import (
    NOUN_TAGS,
    Component,
    Links,
    Role,
    Syntax,
    find_components,
    find_links,
)
from posh_reward.types import (
    PART_OF,
    Attribute,
    Clusters,
    Entity,
    Mention,
    Relation,
    RelationSource,
    Span,
)

LEFT_CLUSTER, RIGHT_CLUSTER = -1, -2
"""Numbers of the clusters "our left" and "our right"; another cluster's is its index."""

POSSESSIVE_MARKERS = frozenset({"\u2019s", "'s", "s", "-"})
"""Possessive markers and hyphens by their text, whatever their tag, as in the release."""
VIEWER_WORDS = frozenset({"us", "our", "we"})


@dataclass(frozen=True, slots=True)
class Coreference:
    """Clusters by token."""

    cluster_of: Mapping[int, int]
    former: Mapping[int, int]  # cluster that still lists a token of "our left" or "our right"
    sides: Mapping[int, int]  # cluster of each token of "our left" or "our right"
    right: int  # cluster of "our right": ``LEFT_CLUSTER``, too, where the release confuses them


def read_coreference(syntax: Syntax, clusters: Clusters) -> Coreference:
    """Find the cluster of each token to which a mention is narrowed.

    "Our left" and "our right" leave their clusters for two of their own. In the release, the old
    cluster still lists them: "On our left is a tree. The side glows", with "our left" and "the
    side" in one cluster, makes the side our left. And without any "our left" both sides have the
    same number, so two mentions of "our right" are our left, too.

    Raises:
        InputError: a mention reaches outside the text, or ends before it starts.
    """
    for first, last in chain.from_iterable(clusters):
        if not 0 <= first <= last < len(syntax):
            raise InputError(
                f"mention ({first}, {last}) is not a span of a text with {len(syntax)} tokens: "
                "clusters are (first, last) token indices, both inclusive"
            )
    mentions: list[tuple[int, int, Mention]] = []  # length, cluster, tokens
    for cluster, members in enumerate(clusters):
        if len(members) > 1:
            mentions += [(last - first, cluster, (first, last)) for first, last in members]
    owner: dict[int, int] = {}
    # The shortest mention gets a token: "the man" before "the man and his dog". Sorting is stable,
    # so the first of equally short ones wins.
    for _, cluster, mention in sorted(mentions, key=lambda row: row[0]):
        for token in find_naming_tokens(syntax, mention):
            owner.setdefault(token, cluster)
    words = [text.lower() for text in syntax.text]
    after_our = [token for token in range(1, len(words)) if words[token - 1] == "our"]
    left = [token for token in after_our if words[token] == "left"]
    right = [token for token in after_our if words[token] == "right"]
    right_cluster = RIGHT_CLUSTER if left else LEFT_CLUSTER
    sides = {**dict.fromkeys(left, LEFT_CLUSTER), **dict.fromkeys(right, right_cluster)}
    return Coreference(
        cluster_of={**owner, **sides},
        former={token: owner[token] for token in sides if token in owner},
        sides=sides,
        right=right_cluster,
    )


def find_naming_tokens(syntax: Syntax, mention: Mention) -> list[int]:
    """Narrow a mention to the tokens that name its entity, within its first sentence.

    These are the first run of nouns ("the *market square* of the town"), but not one before a
    possessive marker or a hyphen ("the man's *hat*"); else the first pronoun; else all tokens.
    A marker is a word in ``POSSESSIVE_MARKERS``, so in "the *boys* ' hats" the boys name the hats.
    """
    first, last = mention
    sentence = syntax.sentence[first]
    tokens = [i for i in range(first, last + 1) if syntax.sentence[i] == sentence]
    nouns: list[int] = []
    for token in tokens:
        if syntax.pos[token] in NOUN_TAGS:
            nouns.append(token)
        elif nouns and syntax.text[token] not in POSSESSIVE_MARKERS:
            break
        else:
            nouns = []
    return nouns or [i for i in tokens if syntax.pos[i] == "PRON"][:1] or tokens


@dataclass(frozen=True, slots=True)
class Components:
    """The components of a text, linked, and grouped into entities.

    Components are indices in text order; entities are indices in order of first mention.
    """

    syntax: Syntax
    components: tuple[Component, ...]
    links: Links
    coreference: Coreference
    mentions: tuple[tuple[int, ...], ...]  # components of each entity, in text order
    entity_of: Mapping[int, int]  # entity of a noun component
    owner_of_cluster: Mapping[int, int]  # entity of a cluster's first mention
    sides: frozenset[int]  # clusters of the viewer's sides that are mentioned often enough

    def list_kind(self, *kinds: str) -> list[int]:
        """Return the components of some kinds, in text order."""
        return [i for i, component in enumerate(self.components) if component.kind in kinds]

    def find_entities(self, component: int, role: Role) -> list[int]:
        """Return the entities that have a role for a component, once for each link."""
        ends = self.links.find_ends(component, role)
        return [self.entity_of[end] for end in ends if end in self.entity_of]

    def find_clusters(self, component: int) -> list[int]:
        """Return the clusters of a component's tokens."""
        owner = self.coreference.cluster_of
        return [owner[token] for token in self.components[component].tokens if token in owner]

    def list_tokens(self, components: Iterable[int]) -> tuple[int, ...]:
        return tuple([token for i in components for token in self.components[i].tokens])

    def find_sentence(self, component: int) -> int:
        return self.syntax.sentence[self.components[component].tokens[0]]

    def list_spans(self, tokens: Iterable[int]) -> tuple[Span, ...]:
        return tuple([self.syntax.span[token] for token in tokens])


class Sighting(NamedTuple):
    """One place where the text describes an entity."""

    component: int
    entity: int
    text: str
    tokens: tuple[int, ...]


def read_components(syntax: Syntax, clusters: Clusters) -> Components:
    """Find, link and group the components of a text.

    Raises:
        InputError: a mention of a cluster lies outside the text.
    """
    refers = read_coreference(syntax, clusters)
    components = find_components(syntax)
    links = find_links(syntax, components)
    mentions: list[list[int]] = []
    entity_of: dict[int, int] = {}
    entity_of_cluster: dict[int, int] = {}  # that later mentions join
    owner_of_cluster: dict[int, int] = {}  # that possessives belong to
    for i, component in enumerate(components):
        if component.kind != "noun":
            continue
        own = [refers.cluster_of[token] for token in component.tokens if token in refers.cluster_of]
        # A pronoun without links is no entity: "*There* is a tower", but "a picture of *it*" is.
        if syntax.pos[component.root] == "PRON" and not links.copy_roles(i):
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
        sides=find_frequent_sides(components, refers),
    )


def find_frequent_sides(components: Sequence[Component], refers: Coreference) -> frozenset[int]:
    """Return the clusters of "our left" and "our right" with at least two mentions."""
    mentions: Counter[int] = Counter()
    for component in components:
        sides = [refers.sides[token] for token in component.tokens if token in refers.sides]
        mentions.update(set(sides))
    return frozenset(cluster for cluster, times in mentions.items() if times >= 2)


def is_possessive(parts: Components, component: int) -> bool:
    """Test for an adjective that names an owner: "*her* head", "the *man*'s hat"."""
    return parts.syntax.dep[parts.components[component].root] == "poss"


def describe_by_adjectives(parts: Components) -> Iterator[Sighting]:
    """Describe entities by adjectives: "*red* coat", "*market* square", "the coat is *red*"."""
    for i in parts.list_kind("adjective"):
        if not is_possessive(parts, i):
            tokens = parts.components[i].tokens
            for entity in parts.find_entities(i, "describes"):
                yield Sighting(i, entity, parts.syntax.join_words(tokens), tokens)


class Evidence:
    """The places where an attribute or a relation was read, in order."""

    __slots__ = ("sentences", "spans")

    def __init__(self) -> None:
        self.sentences: list[int] = []
        self.spans: list[Span] = []

    def add_place(self, parts: Components, component: int, tokens: Iterable[int]) -> None:
        """Add a place; twice if two mentions lead to it."""
        self.sentences.append(parts.find_sentence(component))
        self.spans.extend(parts.list_spans(tokens))


def merge_attributes(
    parts: Components, descriptions: Iterable[Sighting]
) -> list[tuple[Attribute, ...]]:
    """Return each entity's attributes, in order of first occurrence; equal texts are merged."""
    entities: list[dict[str, Evidence]] = [{} for _ in parts.mentions]
    for component, entity, text, tokens in sorted(descriptions, key=lambda each: each.component):
        entities[entity].setdefault(text, Evidence()).add_place(parts, component, tokens)
    merged: list[tuple[Attribute, ...]] = []
    for texts in entities:
        own: list[Attribute] = []
        for text, evidence in texts.items():
            own.append(Attribute(text, tuple(evidence.sentences), tuple(evidence.spans)))
        merged.append(tuple(own))
    return merged


def build_entity(
    parts: Components, mentions: Sequence[int], attributes: tuple[Attribute, ...]
) -> Entity:
    """Make the record of one entity.

    In the release only the first mention can make an entity the viewer or one of the viewer's
    sides: "The *viewer* stands. A dog faces *us*", as one entity, is not the viewer.
    """
    heads = tuple([parts.syntax.join_words(parts.components[i].tokens) for i in mentions])
    sides = parts.sides & {*parts.find_clusters(mentions[0])}
    return Entity(
        head=heads[0],
        heads=heads,
        attributes=attributes,
        sentences=tuple([parts.find_sentence(i) for i in mentions]),
        spans=parts.list_spans(parts.list_tokens(mentions)),
        us=heads[0].lower() in VIEWER_WORDS,
        left=LEFT_CLUSTER in sides,
        right=parts.coreference.right in sides,
    )


MAX_PREPOSITION_VISITS = 5_000
"""Maximum visits to the prepositions of one verb; the release has no limit. The second of joined
ones is visited twice, the third three times: forty are visited 820 times."""


class Connection(NamedTuple):
    """One place in the text that relates two entities."""

    component: int  # the possessive, verb or preposition
    subject: int
    object: int
    text: str
    source: RelationSource
    tokens: tuple[int, ...]


def relate_possessions(parts: Components) -> Iterator[Connection]:
    """Relate possessions to their owners: "*her* head" is (head, part of, woman)."""
    for i in parts.list_kind("adjective"):
        if not is_possessive(parts, i):
            continue
        owner = find_possessor(parts, i)
        if owner is not None:
            tokens = parts.components[i].tokens
            for possession in parts.find_entities(i, "describes"):
                yield Connection(i, possession, owner, PART_OF, "poss", tokens)


def find_possessor(parts: Components, component: int) -> int | None:
    """Return the entity to which a possessive refers, mentioned before or after it."""
    for cluster in parts.find_clusters(component):
        if cluster in parts.owner_of_cluster:
            return parts.owner_of_cluster[cluster]
    return None


def find_prepositions(parts: Components, verb: int) -> list[int]:
    """Return the prepositions below a verb, or below those: "comes *out* *of*".

    Each has to come after its head ("fly *up* from trees", with "up" below "from", is "fly from"),
    and one with two heads is listed twice.
    """
    if not parts.links.find_ends(verb, "preposition"):
        return []
    meetings: list[int] = []
    stack = [verb]
    # The order is the release's, and shows in the spans of a state: those below the verb come
    # first, in text order, then those below the last of them. "Fly *in* from *behind*", with "from"
    # below "in", is (in, behind, from).
    while stack and len(meetings) < MAX_PREPOSITION_VISITS:
        above = stack.pop()
        below = [i for i in sorted(parts.links.find_ends(above, "preposition")) if i > above]
        meetings += below
        stack += below
    return [i for i in meetings if i > verb]


def find_places(parts: Components, prepositions: Iterable[int]) -> list[int]:
    """Return the objects of prepositions in text order; twice if two prepositions share one."""
    places: list[int] = []
    for preposition in prepositions:
        places += parts.links.find_ends(preposition, "place")
    return sorted(places)


def describe_by_verbs(parts: Components) -> Iterator[Sighting]:
    """Describe subjects by verbs without any object: "the baby *sleeps*", "a man *bends over*".

    In the release, a preposition visited twice is repeated: "fly up and down", with "down"
    joined to "up", is "fly up down down".
    """
    for verb in parts.list_kind("verb"):
        subjects = parts.find_entities(verb, "subject")
        if not subjects or parts.links.find_ends(verb, "object"):
            continue
        prepositions = find_prepositions(parts, verb)
        if not find_places(parts, prepositions):
            text = parts.syntax.join_words(parts.list_tokens([verb, *sorted(prepositions)]))
            tokens = parts.list_tokens([verb, *prepositions])
            for entity in subjects:
                yield Sighting(verb, entity, text, tokens)


def relate_by_verbs(parts: Components, used: set[int]) -> Iterator[Connection]:
    """Relate subjects to objects; the prepositions that a verb uses are added to ``used``.

    "She shields her eyes" is (she, shields, eyes). A verb without an object relates its subject to
    places: "rain falls on roofs by us" is (rain, falls on, roofs) and (rain, falls on by, us).
    """
    for verb in parts.list_kind("verb"):
        subjects = sorted(parts.links.find_ends(verb, "subject"))
        if not subjects:
            continue
        objects = sorted(parts.links.find_ends(verb, "object"))
        prepositions = find_prepositions(parts, verb)
        words = [verb, *sorted(set(prepositions))]
        # Objects come first: in "She puts the cup *in* the box and the plate", "in" places the cup,
        # although it is also between "She" and "plate", which would use it.
        if objects:
            yield from relate_placed_objects(parts, verb, objects, prepositions, used)
        # Places in text order over all prepositions: in "a vest adorned with buckles on one *side*
        # and a *belt*", with "belt" joined to "buckles", the side comes before the belt.
        for subject, target in product(subjects, objects or find_places(parts, prepositions)):
            bridge = pick_between(words, subject, target)
            relation = connect_by_words(parts, verb, subject, target, bridge)
            if relation or objects:
                used.update(bridge)
            yield from relation


def relate_placed_objects(
    parts: Components,
    verb: int,
    objects: Sequence[int],
    prepositions: Sequence[int],
    used: set[int],
) -> list[Connection]:
    """Relate a verb's objects to its places: (eyes, with, hand) of "shields her eyes with a hand".

    A verb after its object stays with the prepositions: "she has no shoes and gazes at us", where
    "gazes" shares the object of "has", gives (shoes, gazes at, us). A preposition places only one
    object.
    """
    words = [verb, *sorted(set(prepositions))]
    connections: list[Connection] = []
    spent: set[int] = set()
    # In text order over all prepositions: "shook hands and went *out of* the hall and *into* the
    # street" is (hands, went out of, hall) before the street uses "into".
    for source, target in product(objects, find_places(parts, prepositions)):
        near = pick_between(words, source, target)
        bridge = [i for i in near if i == verb or not (i in used or i in spent)]
        relation = connect_by_words(parts, verb, source, target, bridge)
        connections += relation
        spent.update(bridge if relation else ())
    used |= spent - {verb}
    return connections


def pick_between(components: Iterable[int], first: int, last: int) -> list[int]:
    """Return the components after one and before another."""
    return [i for i in components if first < i < last]


def connect_by_words(
    parts: Components, verb: int, subject: int, target: int, words: Sequence[int]
) -> list[Connection]:
    """Connect two components by words, if both are entities and there are words."""
    if not words or subject not in parts.entity_of or target not in parts.entity_of:
        return []
    tokens = parts.list_tokens(words)
    first, second = parts.entity_of[subject], parts.entity_of[target]
    return [Connection(verb, first, second, parts.syntax.join_words(tokens), "verb", tokens)]


def relate_by_prepositions(parts: Components, used: set[int]) -> Iterator[Connection]:
    """Relate the heads and objects of prepositions that no verb used: "a cup *on* a table"."""
    for i in parts.list_kind("preposition"):
        if i not in used:
            tokens = parts.components[i].tokens
            text = parts.syntax.join_words(tokens)
            heads, places = parts.find_entities(i, "place_of"), parts.find_entities(i, "place")
            for head, place in product(heads, places):
                yield Connection(i, head, place, text, "prep", tokens)


def merge_relations(parts: Components, connections: Iterable[Connection]) -> tuple[Relation, ...]:
    """Merge equal triples, in order of their first connection."""
    triples: dict[tuple[int, int, str], tuple[RelationSource, Evidence]] = {}
    for component, subject, target, text, source, tokens in connections:
        _, evidence = triples.setdefault((subject, target, text), (source, Evidence()))
        evidence.add_place(parts, component, tokens)
    merged: list[Relation] = []
    for triple, (source, evidence) in triples.items():
        places = tuple(evidence.sentences), tuple(evidence.spans)
        merged.append(Relation(*triple, source, *places))
    return tuple(merged)
