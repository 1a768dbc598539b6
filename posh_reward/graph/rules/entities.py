"""Entities: noun components, merged where they corefer, with the attributes that describe them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from posh_reward.errors import InputError
from posh_reward.graph.rules.components import NOMINAL, SUBJECT, Component, Syntax, find_components
from posh_reward.types import Attribute, Clusters, Entity, Mention, Span

Role = Literal[
    "describes", "described_by", "subject", "subject_of", "object", "object_of",
    "place_of", "preposition", "place", "placed_by",
]  # fmt: skip
"""Role of one component for another: a verb has a ``subject``, a noun the verb that it is
``subject_of``, a preposition its head (``place_of``) and its object (``place``)."""

INVERSE: dict[Role, Role] = {
    "describes": "described_by", "described_by": "describes",
    "subject": "subject_of", "subject_of": "subject",
    "object": "object_of", "object_of": "object",
    "place_of": "preposition", "preposition": "place_of",
    "place": "placed_by", "placed_by": "place",
}  # fmt: skip


class Links:
    """Links by role, from both ends, in the order in which they were made.

    Components are indices. As in the release, a link may exist twice and a component may be linked
    to itself.
    """

    def __init__(self, components: int) -> None:
        self._ends: list[dict[Role, list[int]]] = [{} for _ in range(components)]

    def join(self, first: int, role: Role, second: int) -> None:
        """Make ``second`` the ``role`` of ``first``."""
        self._ends[first].setdefault(role, []).append(second)
        self._ends[second].setdefault(INVERSE[role], []).append(first)

    def borrow(self, first: int, role: Role, second: int) -> None:
        """Make ``second`` the ``role`` of ``first``, but without the inverse link."""
        self._ends[first].setdefault(role, []).append(second)

    def forget(self, first: int, role: Role) -> None:
        """Remove the links of one role, but not the inverse ones."""
        self._ends[first].pop(role, None)

    def ends(self, component: int, role: Role) -> Sequence[int]:
        """Return the components with a role for this one, its own before those it shares."""
        return self._ends[component].get(role, ())

    def roles(self, component: int) -> dict[Role, tuple[int, ...]]:
        """Return a copy of all links of a component."""
        return {role: tuple(ends) for role, ends in self._ends[component].items()}


THINGS = (*NOMINAL, "PRON")


def find_links(syntax: Syntax, components: Sequence[Component]) -> Links:
    of_token = {token: i for i, part in enumerate(components) for token in part.tokens}
    links = Links(len(components))
    describe(syntax, components, of_token, links)
    for i, component in enumerate(components):
        if component.kind in ("verb", "preposition"):
            for role, token in attachments(syntax, component):
                if token in of_token:
                    links.join(i, role, of_token[token])
    # Last, since conjuncts share what the first has by then; in text order, along a list.
    for token, head in conjuncts(syntax):
        first, second = of_token.get(head), of_token.get(token)
        if first is None or second is None or first == second:
            continue
        if components[first].kind != components[second].kind:
            continue
        if components[first].kind == "preposition":
            share_place(links, first, second)
        else:
            share_links(links, first, second)
    return links


def describe(
    syntax: Syntax,
    components: Sequence[Component],
    of_token: Mapping[int, int],
    links: Links,
) -> None:
    """Link adjectives to what they describe: nouns above them, or else below them.

    In the release, an adjective searches below only if it has no link at all, even one from an
    adjective that describes *it*: in "her sash is pink and her ribbon *flies*" (flies joined to
    pink), "her" and "ribbon" describe "flies", so it does not describe "ribbon", and shares the
    sash of "pink". Once one of its words has found a noun, the next ones do not search.
    """
    for i, component in enumerate(components):
        if component.kind != "adjective":
            continue
        for token in described_above(syntax, component):
            links.join(i, "describes", of_token[token])
        for word in component.tokens:
            if not links.roles(i):
                for token in described_below(syntax, word):
                    links.join(i, "describes", of_token[token])


def attachments(syntax: Syntax, component: Component) -> Iterator[tuple[Role, int]]:
    """Yield the roles of a verb or preposition with the tokens that fill them.

    Every verb of a component contributes: "she runs *waving* flags" is one component, and gives
    (she, runs waving, flags).
    """
    root = component.root
    if component.kind == "verb":
        for verb in component.tokens:
            if syntax.pos[verb] == "VERB":
                yield from (("subject", token) for token in subjects(syntax, verb))
                yield from (("object", token) for token in children_as(syntax, verb, "dobj", "obj"))
    else:
        yield "place_of", syntax.head[root]
        yield from (("place", token) for token in children_as(syntax, root, "pobj", "obj"))


def children_as(syntax: Syntax, token: int, *labels: str) -> list[int]:
    """Return the children with one of these dependency labels."""
    return [child for child in syntax.children[token] if syntax.dep[child] in labels]


def described_above(syntax: Syntax, adjective: Component) -> list[int]:
    """Return the nouns above an adjective that its words describe.

    "A *red* coat": coat. "The coat is *red*": coat. "*Nearest* are two women": women. Each word
    searches, so in "an *off*-*white* wall" both find the wall, which is listed twice. Pronouns are
    not described: "a light *red* one".
    """
    nouns: list[int] = []
    trail: set[int] = set()
    for token in adjective.tokens:
        if syntax.head[token] != token:  # not the root of its sentence
            nouns += [noun for noun in nouns_above(syntax, token, trail) if noun != token]
    return nouns


def nouns_above(syntax: Syntax, adjective: int, trail: set[int]) -> list[int]:
    """Return the noun that a word modifies, or the nouns of its clause, last to first.

    "A *dark* blue coat": dark -> blue -> coat. Words on the way are added to ``trail``.
    """
    nouns: list[int] = []
    # The last noun of a clause comes first, as the order of possessions shows: "The *door* is a
    # wall frame", with "door" a possessive, gives (frame, part of, door) before the wall's.
    stack = [syntax.head[adjective]]
    while stack:
        token = stack.pop()
        trail.add(token)
        if syntax.dep[token] == "amod":
            further: Sequence[int] = [syntax.head[token]]
        elif syntax.pos[token] == "AUX":
            further = syntax.children[token]
        else:
            further = ()
            if syntax.pos[token] in NOMINAL:
                nouns.append(token)
        # Each word is visited once, nouns included: in "a *toned* *close*-up shot", with "close"
        # below "toned", only "toned" finds the shot.
        stack += [each for each in further if each not in trail]
    return nouns


def described_below(syntax: Syntax, adjective: int) -> list[int]:
    """Return nouns, last first, below a word that they do not modify: "*bare*, the *face*"."""
    below = reversed(syntax.children[adjective])
    return [each for each in below if syntax.pos[each] in NOMINAL and syntax.dep[each] != "amod"]


def subjects(syntax: Syntax, verb: int) -> list[int]:
    """Return the subjects of a verb and its auxiliary: "*she* runs", "the *font* is not carved".

    Its head is one if it is a noun ("a man *holding* a cup"), or is labelled a subject itself,
    whatever its part of speech: "*dancing* holding ropes helps".
    """
    above = syntax.head[verb]
    heads = [above] if syntax.pos[above] in THINGS or syntax.dep[above] in SUBJECT else []
    clauses = [verb, above] if syntax.parent_pos(verb) == "AUX" else [verb]
    return heads + [child for each in clauses for child in children_as(syntax, each, *SUBJECT)]


SINGLE = frozenset(INVERSE) - {"place", "placed_by"}
"""Roles that a conjunct does not share if it has its own."""

MAX_DISTANCE = 8
"""Tokens between conjuncts; beyond it, a parsing error is likelier (the release's limit)."""


def conjuncts(syntax: Syntax) -> Iterator[tuple[int, int]]:
    """Yield each token joined by "and", a comma or the like, with the one it is joined to."""
    for token, head in enumerate(syntax.head):
        if syntax.dep[token] == "conj" and abs(token - head) <= MAX_DISTANCE:
            yield token, head


def share_place(links: Links, first: int, second: int) -> None:
    """Share the first preposition's head, and the second's object if the first has none.

    "To and from *us*". In the release the second gets only one head (in "boys and girls with hats
    and in boots" only the boys are in boots), and stays linked to the first, so a verb above both
    meets it twice. The first borrows one object without the inverse link: in "the path to and from
    the house and garden" the path is not to the garden.
    """
    for head in links.ends(first, "place_of")[:1]:
        links.forget(second, "place_of")
        links.join(second, "place_of", head)
    if not links.ends(first, "place"):
        for place in links.ends(second, "place")[:1]:
            links.borrow(first, "place", place)


def share_links(links: Links, first: int, second: int) -> None:
    """Share the first conjunct's links: "a red coat and *hat*", unless the hat is blue."""
    own = links.roles(second)
    for role, ends in links.roles(first).items():
        if role in SINGLE and role in own:
            continue
        for end in ends:
            links.join(second, role, end)


LEFT, RIGHT = -1, -2
"""Numbers of the clusters "our left" and "our right"; another cluster's is its index."""

CUTS = frozenset({"\u2019s", "'s", "s", "-"})
"""Possessive markers and hyphens by their text, whatever their tag, as in the release."""
VIEWER = frozenset({"us", "our", "we"})


@dataclass(frozen=True, slots=True)
class Coreference:
    """Clusters by token."""

    cluster_of: Mapping[int, int]
    former: Mapping[int, int]  # cluster that still lists a token of "our left" or "our right"
    sides: Mapping[int, int]  # cluster of each token of "our left" or "our right"
    left: int
    right: int  # clusters of the viewer's sides; the same number where the release confuses them


def coreference(syntax: Syntax, clusters: Clusters) -> Coreference:
    """Find the cluster of each token to which a mention is narrowed.

    "Our left" and "our right" leave their clusters for two of their own. In the release, the old
    cluster still lists them: "On our left is a tree. The side glows", with "our left" and "the
    side" in one cluster, makes the side our left. And without any "our left" both sides have the
    same number, so two mentions of "our right" are our left, too.

    Raises:
        InputError: a mention reaches outside the text, or ends before it starts.
    """
    for first, last in (mention for members in clusters for mention in members):
        if not 0 <= first <= last < len(syntax):
            raise InputError(
                f"mention ({first}, {last}) is not a span of a text with {len(syntax)} tokens: "
                "clusters are (first, last) token indices, both inclusive"
            )
    mentions = [
        (last - first, cluster, (first, last))
        for cluster, members in enumerate(clusters)
        if len(members) > 1
        for first, last in members
    ]
    narrow = Narrowing(syntax)
    owner: dict[int, int] = {}
    # The shortest mention gets a token: "the man" before "the man and his dog". Sorting is stable,
    # so the first of equally short ones wins.
    for _, cluster, mention in sorted(mentions, key=lambda row: row[0]):
        for token in narrow(mention):
            owner.setdefault(token, cluster)
    words = [text.lower() for text in syntax.text]
    after_our = [token for token in range(1, len(words)) if words[token - 1] == "our"]
    left = [token for token in after_our if words[token] == "left"]
    right = [token for token in after_our if words[token] == "right"]
    right_cluster = RIGHT if left else LEFT
    sides = {**dict.fromkeys(left, LEFT), **dict.fromkeys(right, right_cluster)}
    return Coreference(
        cluster_of={**owner, **sides},
        former={token: owner[token] for token in sides if token in owner},
        sides=sides,
        left=LEFT,
        right=right_cluster,
    )


class Narrowing:
    """A mention -> its tokens that name the entity, within its first sentence.

    These are the first run of nouns ("the *market square* of the town"), but not one before a
    possessive marker or a hyphen ("the man's *hat*"); else the first pronoun; else all tokens.
    Scans from the right, once per text, keep the time linear for mentions within mentions.

    A marker is a word in ``CUTS``, so in "the *boys* ' hats" the boys name the hats.
    """

    def __init__(self, syntax: Syntax) -> None:
        size = len(syntax)
        self._nominal = [pos in NOMINAL for pos in syntax.pos]
        self._run_end = list(range(size))
        self._sentence_end = list(range(size))
        self._noun_from = [size] * (size + 1)
        self._pronoun_from = [size] * (size + 1)
        whole = False  # no marker follows the run of nouns that the token is in
        # From right to left: each token inherits the values of the token after it.
        for token in range(size - 1, -1, -1):
            after = token + 1
            if after < size and syntax.sentence[token] == syntax.sentence[after]:
                self._sentence_end[token] = self._sentence_end[after]
            if self._nominal[token]:
                if after < size and self._nominal[after]:
                    self._run_end[token] = self._run_end[after]
                else:
                    whole = after == size or syntax.text[after] not in CUTS
            noun, pronoun = whole and self._nominal[token], syntax.pos[token] == "PRON"
            self._noun_from[token] = token if noun else self._noun_from[after]
            self._pronoun_from[token] = token if pronoun else self._pronoun_from[after]

    def __call__(self, mention: Mention) -> Sequence[int]:
        """Return the tokens in text order."""
        first, last = mention
        last = min(last, self._sentence_end[first])
        noun = self._noun_from[first]
        if noun > last and self._nominal[last]:  # the marker after the last run is outside
            noun = last
            while noun > first and self._nominal[noun - 1]:
                noun -= 1
        if noun <= last:
            return range(noun, min(last, self._run_end[noun]) + 1)
        pronoun = self._pronoun_from[first]
        return range(pronoun, pronoun + 1) if pronoun <= last else range(first, last + 1)


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
        return tuple([token for i in components for token in self.components[i].tokens])

    def sentence(self, component: int) -> int:
        return self.syntax.sentence[self.components[component].tokens[0]]

    def spans(self, tokens: Iterable[int]) -> tuple[Span, ...]:
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
    refers = coreference(syntax, clusters)
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
        if syntax.pos[component.root] == "PRON" and not links.roles(i):
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
        sides=frequent_sides(components, refers),
    )


def frequent_sides(components: Sequence[Component], refers: Coreference) -> frozenset[int]:
    """Return the clusters of "our left" and "our right" with at least two mentions."""
    mentions = Counter(
        cluster
        for component in components
        for cluster in {refers.sides[token] for token in component.tokens if token in refers.sides}
    )
    return frozenset(cluster for cluster, times in mentions.items() if times >= 2)


def is_possessive(parts: Components, component: int) -> bool:
    """Test for an adjective that names an owner: "*her* head", "the *man*'s hat"."""
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

    __slots__ = ("sentences", "spans")

    def __init__(self) -> None:
        self.sentences: list[int] = []
        self.spans: list[Span] = []

    def add(self, parts: Components, component: int, tokens: Iterable[int]) -> None:
        """Add a place; twice if two mentions lead to it."""
        self.sentences.append(parts.sentence(component))
        self.spans.extend(parts.spans(tokens))


def attributes(parts: Components, descriptions: Iterable[Sighting]) -> list[tuple[Attribute, ...]]:
    """Return each entity's attributes, in order of first occurrence; equal texts are merged."""
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

    In the release only the first mention can make an entity the viewer or one of the viewer's
    sides: "The *viewer* stands. A dog faces *us*", as one entity, is not the viewer.
    """
    heads = tuple(parts.syntax.phrase(parts.components[i].tokens) for i in mentions)
    sides = parts.sides & {*parts.clusters(mentions[0])}
    return Entity(
        head=heads[0],
        heads=heads,
        attributes=attributes,
        sentences=tuple(parts.sentence(i) for i in mentions),
        spans=parts.spans(parts.tokens(mentions)),
        us=heads[0].lower() in VIEWER,
        left=parts.coreference.left in sides,
        right=parts.coreference.right in sides,
    )
