"""Components of a sentence, words that name, describe, act or place, and their links (A.1.2).

``read_syntax`` copies a parse. ``find_components``: a token belongs to at most one component, of
the first kind whose rule takes it: nouns, then adjectives, verbs, prepositions and adverbs.
``find_links`` turns dependencies into roles of components for each other, which conjuncts share.
Examples mark the tokens that a rule is about with *stars*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from sys import intern
from typing import TYPE_CHECKING, Literal, NamedTuple

from posh_reward.types import Span

if TYPE_CHECKING:
    from spacy.tokens import Doc

NOUN_TAGS = frozenset({"NOUN", "PROPN"})
SUBJECT_LABELS = ("nsubj", "nsubjpass")


@dataclass(frozen=True, slots=True)
class Syntax:
    """The tokens of one text; every tuple has one item per token."""

    text: tuple[str, ...]
    lemma: tuple[str, ...]
    pos: tuple[str, ...]
    tag: tuple[str, ...]
    dep: tuple[str, ...]
    head: tuple[int, ...]  # a root points at itself
    sentence: tuple[int, ...]
    span: tuple[Span, ...]
    children: tuple[tuple[int, ...], ...]  # in text order; a root is no child of itself

    def __len__(self) -> int:
        return len(self.text)

    def parent_pos(self, token: int) -> str:
        """Return the part of speech of a token's head; empty for a root."""
        head = self.head[token]
        if head == token:
            return ""
        return self.pos[head]

    def join_words(self, tokens: Iterable[int]) -> str:
        """Join the texts of tokens by spaces, in their order here."""
        return " ".join([self.text[token] for token in tokens])


def read_syntax(doc: Doc) -> Syntax:
    """Copy a Doc's annotations; missing ones are empty strings, or one sentence."""
    words = doc.to_array(["ORTH", "LEMMA", "POS", "TAG", "DEP"]).T.tolist()
    places = doc.to_array(["HEAD", "IDX", "SENT_START"]).view("int64").T.tolist()
    # Equal strings share one object, since descriptions are cached by the thousand.
    strings = doc.vocab.strings
    name = {key: intern(strings[key]) for key in set().union(*words)}
    text, lemma, pos, tag, dep = (tuple(map(name.__getitem__, keys)) for keys in words)
    steps, begins, starts = places
    head = tuple([token + step for token, step in enumerate(steps)])
    ends = [begin + len(word) for begin, word in zip(begins, text, strict=True)]
    # The first token always starts a sentence.
    is_later_start = [token > 0 and start == 1 for token, start in enumerate(starts)]
    return Syntax(
        text=text,
        lemma=lemma,
        pos=pos,
        tag=tag,
        dep=dep,
        head=head,
        sentence=tuple(accumulate(map(int, is_later_start))),
        span=tuple(zip(begins, ends, strict=True)),
        children=find_children(head),
    )


def find_children(heads: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the children of each token, in text order."""
    children: list[list[int]] = [[] for _ in heads]
    for token, head in enumerate(heads):
        if head != token:
            children[head].append(token)
    return tuple(map(tuple, children))


ComponentKind = Literal["noun", "adjective", "verb", "preposition", "adverb"]


class Component(NamedTuple):
    """A word and the words that belong to it, e.g. "holds up"."""

    kind: ComponentKind
    root: int  # the token to which the rules of its kind apply
    tokens: tuple[int, ...]  # with the root, in text order


def find_components(syntax: Syntax) -> tuple[Component, ...]:
    """Find all components of a text, in text order of their first tokens."""
    free = dict.fromkeys(range(len(syntax)))  # an ordered set: kinds take tokens in turn
    result: list[Component] = []
    for kind, is_root, companions in COMPONENT_RULES:
        for root in [token for token in free if is_root(syntax, token)]:
            if root not in free:  # an earlier one's companion
                continue
            tokens = tuple(sorted({root, *companions(syntax, root)} & free.keys()))
            for token in tokens:
                del free[token]
            result.append(Component(kind, root, tokens))
    return tuple(sorted(result, key=lambda component: component.tokens[0]))


def is_adjectival_noun(syntax: Syntax, token: int) -> bool:
    """Test for a noun that describes another: "a *market* square", "the *oak* door"."""
    return (
        syntax.dep[token] in ("compound", "amod", "nmod")
        and syntax.pos[token] in NOUN_TAGS
        and syntax.parent_pos(token) in NOUN_TAGS
    )


def is_coordinated_adjective(syntax: Syntax, token: int) -> bool:
    """Test for a conjunct of an adjective: "brown and *carved*", "tall and with a *beard*"."""
    return syntax.dep[token] == "conj" and syntax.parent_pos(token) == "ADJ"


def is_noun(syntax: Syntax, token: int) -> bool:
    """Test for a noun or pronoun that names an entity: "a *woman* whom *we* see"."""
    return (
        syntax.pos[token] in ("NOUN", "PRON", "PROPN")
        and syntax.dep[token] != "poss"
        and not is_coordinated_adjective(syntax, token)
        and not is_adjectival_noun(syntax, token)
    )


def is_adjective(syntax: Syntax, token: int) -> bool:
    """Test for a word that describes or possesses: "*her* *two* *market* stalls *outside*"."""
    pos, dep = syntax.pos[token], syntax.dep[token]
    return (
        pos in ("ADJ", "NUM")
        or dep == "poss"
        or (pos == "VERB" and dep == "amod")
        or (pos == "ADV" and dep == "advmod" and syntax.parent_pos(token) == "NOUN")
        or is_coordinated_adjective(syntax, token)
        or is_adjectival_noun(syntax, token)
    )


def is_verb(syntax: Syntax, token: int) -> bool:
    """Test for a verb that is not an adjective: "a laughing girl *runs*"."""
    return syntax.pos[token] == "VERB" and syntax.dep[token] != "amod"


def is_preposition(syntax: Syntax, token: int) -> bool:
    """Test for a preposition: "*under* a tree", "pushed *by* a boy"."""
    return syntax.pos[token] == "ADP" and syntax.dep[token] in ("prep", "case", "conj", "agent")


def is_adverb(syntax: Syntax, token: int) -> bool:
    """Test for an adverb left over: "seen from *behind*". In no graph, but the place of "from"."""
    return syntax.pos[token] == "ADV"


def find_compounded_nouns(syntax: Syntax, noun: int) -> list[int]:
    """Return nouns compounded into a pronoun; other compounds describe a noun."""
    return [
        child
        for child in syntax.children[noun]
        if syntax.dep[child].startswith("compound")
        and syntax.pos[child] in NOUN_TAGS
        and not is_adjectival_noun(syntax, child)
    ]


def find_compounded_describers(syntax: Syntax, adjective: int) -> list[int]:
    """Return describers of describers: "an *eye* level view", "a *light* blue coat"."""
    return [
        child
        for child in syntax.children[adjective]
        if is_adjectival_noun(syntax, child)
        or (
            syntax.dep[child].startswith("compound")
            and syntax.pos[child] in ("ADJ", "ADV", "NOUN", "PROPN")
        )
    ]


def find_particles_and_adverbs(syntax: Syntax, verb: int) -> list[int]:
    """Return words after a verb that complete it: "holds a lamp *up*", "looks *away*"."""
    return [
        child
        for child in syntax.children[verb]
        if child > verb and syntax.dep[child] in ("prt", "compound:prt", "advmod")
    ]


IsRoot = Callable[[Syntax, int], bool]
FindCompanions = Callable[[Syntax, int], Iterable[int]]

COMPONENT_RULES: tuple[tuple[ComponentKind, IsRoot, FindCompanions], ...] = (
    ("noun", is_noun, find_compounded_nouns),
    ("adjective", is_adjective, find_compounded_describers),
    ("verb", is_verb, find_particles_and_adverbs),
    ("preposition", is_preposition, lambda syntax, token: ()),
    ("adverb", is_adverb, lambda syntax, token: ()),
)
"""Each kind with the test for its roots, and the other tokens of a root's component."""


Role = Literal[
    "describes", "described_by", "subject", "subject_of", "object", "object_of",
    "place_of", "preposition", "place", "placed_by",
]  # fmt: skip
"""Role of one component for another: a verb has a ``subject``, a noun the verb that it is
``subject_of``, a preposition its head (``place_of``) and its object (``place``)."""

INVERSE_ROLES: dict[Role, Role] = {
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

    def link(self, first: int, role: Role, second: int) -> None:
        """Make ``second`` the ``role`` of ``first``."""
        self._ends[first].setdefault(role, []).append(second)
        self._ends[second].setdefault(INVERSE_ROLES[role], []).append(first)

    def link_one_way(self, first: int, role: Role, second: int) -> None:
        """Make ``second`` the ``role`` of ``first``, but without the inverse link."""
        self._ends[first].setdefault(role, []).append(second)

    def unlink(self, first: int, role: Role) -> None:
        """Remove the links of one role, but not the inverse ones."""
        self._ends[first].pop(role, None)

    def find_ends(self, component: int, role: Role) -> Sequence[int]:
        """Return the components with a role for this one, its own before those it shares."""
        return self._ends[component].get(role, ())

    def copy_roles(self, component: int) -> dict[Role, tuple[int, ...]]:
        """Return a copy of all links of a component."""
        return {role: tuple(ends) for role, ends in self._ends[component].items()}


ENTITY_TAGS = (*NOUN_TAGS, "PRON")


def find_links(syntax: Syntax, components: Sequence[Component]) -> Links:
    of_token: dict[int, int] = {}
    for i, component in enumerate(components):
        of_token.update(dict.fromkeys(component.tokens, i))
    links = Links(len(components))
    link_adjectives(syntax, components, of_token, links)
    for i, component in enumerate(components):
        if component.kind in ("verb", "preposition"):
            for role, token in find_attachments(syntax, component):
                if token in of_token:
                    links.link(i, role, of_token[token])
    # Last, since conjuncts share what the first has by then; in text order, along a list.
    for token, head in find_conjuncts(syntax):
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


def link_adjectives(
    syntax: Syntax, components: Sequence[Component], of_token: Mapping[int, int], links: Links
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
        for token in find_described_above(syntax, component):
            links.link(i, "describes", of_token[token])
        for word in component.tokens:
            if not links.copy_roles(i):
                for token in find_described_below(syntax, word):
                    links.link(i, "describes", of_token[token])


def find_attachments(syntax: Syntax, component: Component) -> Iterator[tuple[Role, int]]:
    """Yield the roles of a verb or preposition with the tokens that fill them.

    Every verb of a component contributes: "she runs *waving* flags" is one component, and gives
    (she, runs waving, flags).
    """
    root = component.root
    if component.kind == "verb":
        for verb in component.tokens:
            if syntax.pos[verb] == "VERB":
                for token in find_subjects(syntax, verb):
                    yield "subject", token
                for token in find_children_as(syntax, verb, "dobj", "obj"):
                    yield "object", token
    else:
        yield "place_of", syntax.head[root]
        for token in find_children_as(syntax, root, "pobj", "obj"):
            yield "place", token


def find_children_as(syntax: Syntax, token: int, *labels: str) -> list[int]:
    """Return the children with one of these dependency labels."""
    return [child for child in syntax.children[token] if syntax.dep[child] in labels]


def find_described_above(syntax: Syntax, adjective: Component) -> list[int]:
    """Return the nouns above an adjective that its words describe.

    "A *red* coat": coat. "The coat is *red*": coat. "*Nearest* are two women": women. Each word
    searches, so in "an *off*-*white* wall" both find the wall, which is listed twice. Pronouns are
    not described: "a light *red* one".
    """
    nouns: list[int] = []
    trail: set[int] = set()
    for token in adjective.tokens:
        if syntax.head[token] != token:  # not the root of its sentence
            nouns += [noun for noun in find_nouns_above(syntax, token, trail) if noun != token]
    return nouns


def find_nouns_above(syntax: Syntax, adjective: int, trail: set[int]) -> list[int]:
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
            if syntax.pos[token] in NOUN_TAGS:
                nouns.append(token)
        # Each word is visited once, nouns included: in "a *toned* *close*-up shot", with "close"
        # below "toned", only "toned" finds the shot.
        stack += [each for each in further if each not in trail]
    return nouns


def find_described_below(syntax: Syntax, adjective: int) -> list[int]:
    """Return nouns, last first, below a word that they do not modify: "*bare*, the *face*"."""
    below = reversed(syntax.children[adjective])
    return [each for each in below if syntax.pos[each] in NOUN_TAGS and syntax.dep[each] != "amod"]


def find_subjects(syntax: Syntax, verb: int) -> list[int]:
    """Return the subjects of a verb and its auxiliary: "*she* runs", "the *font* is not carved".

    Its head is one if it is a noun ("a man *holding* a cup"), or is labelled a subject itself,
    whatever its part of speech: "*dancing* holding ropes helps".
    """
    above = syntax.head[verb]
    found: list[int] = []
    if syntax.pos[above] in ENTITY_TAGS or syntax.dep[above] in SUBJECT_LABELS:
        found.append(above)
    found += find_children_as(syntax, verb, *SUBJECT_LABELS)
    if syntax.parent_pos(verb) == "AUX":
        found += find_children_as(syntax, above, *SUBJECT_LABELS)
    return found


SINGLE_ROLES = frozenset(INVERSE_ROLES) - {"place", "placed_by"}
"""Roles that a conjunct does not share if it has its own."""

MAX_CONJUNCT_DISTANCE_TOKENS = 8
"""Beyond it, a parsing error is likelier (the release's limit)."""


def find_conjuncts(syntax: Syntax) -> Iterator[tuple[int, int]]:
    """Yield each token joined by "and", a comma or the like, with the one it is joined to."""
    for token, head in enumerate(syntax.head):
        if syntax.dep[token] == "conj" and abs(token - head) <= MAX_CONJUNCT_DISTANCE_TOKENS:
            yield token, head


def share_place(links: Links, first: int, second: int) -> None:
    """Share the first preposition's head, and the second's object if the first has none.

    "To and from *us*". In the release the second gets only one head (in "boys and girls with hats
    and in boots" only the boys are in boots), and stays linked to the first, so a verb above both
    meets it twice. The first borrows one object without the inverse link: in "the path to and from
    the house and garden" the path is not to the garden.
    """
    for head in links.find_ends(first, "place_of")[:1]:
        links.unlink(second, "place_of")
        links.link(second, "place_of", head)
    if not links.find_ends(first, "place"):
        for place in links.find_ends(second, "place")[:1]:
            links.link_one_way(first, "place", place)


def share_links(links: Links, first: int, second: int) -> None:
    """Share the first conjunct's links: "a red coat and *hat*", unless the hat is blue."""
    own = links.copy_roles(second)
    for role, ends in links.copy_roles(first).items():
        if role in SINGLE_ROLES and role in own:
            continue
        for end in ends:
            links.link(second, role, end)
