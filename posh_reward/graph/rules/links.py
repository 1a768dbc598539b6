"""Links between the components of a sentence: who is described, acts, suffers and is where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from posh_reward.graph.rules.components import NOMINAL, Component, Syntax

Role = Literal[
    "describes", "described_by", "subject", "subject_of", "object", "object_of",
    "place_of", "preposition", "place", "placed_by",
]  # fmt: skip
"""Role of one component for another: "verb: subject noun", "noun: subject_of verb"; a
preposition is the ``place_of`` its head and has its ``place``: *a cup* (place_of) on *a table*."""

INVERSE: dict[Role, Role] = {
    "describes": "described_by", "described_by": "describes",
    "subject": "subject_of", "subject_of": "subject",
    "object": "object_of", "object_of": "object",
    "place_of": "preposition", "preposition": "place_of",
    "place": "placed_by", "placed_by": "place",
}  # fmt: skip


class Links:
    """Links by role, each known from both of its ends, in the order in which they were made.

    Components are named by index. As in the release a link may be there twice, and a component
    may be linked to itself; neither if ``mended``.
    """

    def __init__(self, components: int, *, mended: bool = False) -> None:
        self._ends: list[dict[Role, list[int]]] = [{} for _ in range(components)]
        self._once: set[tuple[int, Role, int]] | None = set() if mended else None

    def join(self, first: int, role: Role, second: int) -> None:
        """State that ``second`` is the ``role`` of ``first``."""
        if self._once is not None:
            link = (first, role, second)
            if first == second or link in self._once:
                return
            self._once |= {link, (second, INVERSE[role], first)}
        self._ends[first].setdefault(role, []).append(second)
        self._ends[second].setdefault(INVERSE[role], []).append(first)

    def borrow(self, first: int, role: Role, second: int) -> None:
        """As ``join``, but ``second`` does not know of it."""
        self._ends[first].setdefault(role, []).append(second)

    def forget(self, first: int, role: Role) -> None:
        """Remove the links of one role; their other ends keep theirs."""
        self._ends[first].pop(role, None)

    def part(self, first: int, role: Role) -> None:
        """Remove the links of one role, from both ends."""
        for second in self._ends[first].pop(role, ()):
            if self._once is not None:
                self._once -= {(first, role, second), (second, INVERSE[role], first)}
            others = self._ends[second][INVERSE[role]]
            others.remove(first)
            if not others:
                del self._ends[second][INVERSE[role]]

    def ends(self, component: int, role: Role) -> Sequence[int]:
        """Return the components that have a role for this one, its own before those taken over."""
        return self._ends[component].get(role, ())

    def any(self, component: int) -> bool:
        """Test whether a component has any link."""
        return bool(self._ends[component])

    def roles(self, component: int) -> dict[Role, tuple[int, ...]]:
        """Return all links of a component, as they are now."""
        return {role: tuple(ends) for role, ends in self._ends[component].items()}


SUBJECT = ("nsubj", "nsubjpass")
THINGS = (*NOMINAL, "PRON")


def find_links(syntax: Syntax, components: Sequence[Component], *, mended: bool = False) -> Links:
    """Find all links of a text; ``mended``: conjuncts share what is plainly said of both."""
    of_token = {token: i for i, part in enumerate(components) for token in part.tokens}
    links = Links(len(components), mended=mended)
    describe(syntax, components, of_token, links, mended=mended)
    for i, component in enumerate(components):
        if component.kind in ("verb", "preposition"):
            for role, token in attachments(syntax, component):
                if token in of_token:
                    links.join(i, role, of_token[token])
    if mended:
        describe_pronouns(syntax, components, of_token, links)
    for token, head in conjuncts(syntax):
        first, second = of_token.get(head), of_token.get(token)
        if first is None or second is None or first == second:
            continue
        if components[first].kind != components[second].kind:
            continue
        if components[first].kind == "preposition":
            (share_place_justly if mended else share_place)(links, first, second)
        elif mended:
            share_justly(links, first, second, own_article=has_article(syntax, token))
        else:
            share_links(links, first, second)
    return links


def describe(
    syntax: Syntax,
    components: Sequence[Component],
    of_token: Mapping[int, int],
    links: Links,
    *,
    mended: bool,
) -> None:
    """Link adjectives to what they describe: nouns above them, or else below them.

    As released, an adjective looks below only if it has no link at all, and what an adjective
    before it says *of it* is a link, too: in "her sash is pink and her ribbon *flies*" (flies
    joined to pink) it is described by "her" and "ribbon", so it does not describe "ribbon", and
    takes over the sash from "pink". Once one word of it has found a noun, the next ones do not
    look. ``mended``: all its words look below whenever nothing is found above.
    """
    for i, component in enumerate(components):
        if component.kind != "adjective":
            continue
        above = described_above(syntax, component)
        for token in above:
            links.join(i, "describes", of_token[token])
        for word in component.tokens:
            if not (above if mended else links.any(i)):
                for token in described_below(syntax, word):
                    links.join(i, "describes", of_token[token])


def attachments(syntax: Syntax, component: Component) -> Iterator[tuple[Role, int]]:
    """Return the tokens that a verb or preposition is linked to by its dependencies, with roles.

    Every verb of a component brings its own: "she runs *waving* flags" is one component, and
    gives (she, runs waving, flags).
    """
    root = component.root
    if component.kind == "verb":
        for verb in component.tokens:
            if syntax.pos[verb] == "VERB":
                yield from (("subject", token) for token in subjects(syntax, verb))
                yield from (("object", token) for token in children_as(syntax, verb, "dobj", "obj"))
    elif component.kind == "preposition":
        yield "place_of", syntax.head[root]
        yield from (("place", token) for token in children_as(syntax, root, "pobj", "obj"))


def children_as(syntax: Syntax, token: int, *labels: str) -> list[int]:
    """Return the children with one of some dependency labels."""
    return [child for child in syntax.children[token] if syntax.dep[child] in labels]


def described_above(syntax: Syntax, adjective: Component) -> list[int]:
    """Return the nouns that the words of an adjective describe above them.

    "A *red* coat": coat. "The coat is *red*": coat. "*Nearest* are two women": women. Each word
    looks, so in "an *off*-*white* wall" both find the wall, and it is told twice. Pronouns are
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
    # The last noun of a clause comes first, which shows in the order of possessions: "The *door* is
    # a wall frame", with "door" a possessive, gives (frame, part of, door) before the wall's.
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
        # Nobody climbs twice to a word, nouns included: in "a *toned* *close*-up shot", with
        # "close" below "toned", "toned" alone finds the shot.
        stack += [each for each in further if each not in trail]
    return nouns


def described_below(syntax: Syntax, adjective: int) -> list[int]:
    """Return nouns, last first, that hang on a word but do not modify it: "*bare*, the *face*"."""
    return [
        child
        for child in reversed(syntax.children[adjective])
        if syntax.pos[child] in NOMINAL and syntax.dep[child] != "amod"
    ]


def subjects(syntax: Syntax, verb: int) -> list[int]:
    """Return the subjects of a verb and its auxiliary: "*she* runs", "the *font* is not carved".

    Its head is one if it is a noun ("a man *holding* a cup"), or is itself labelled a subject,
    whatever it is: "*dancing* holding ropes helps".
    """
    above = syntax.head[verb]
    heads: list[int] = []
    if syntax.pos[above] in THINGS or syntax.dep[above] in SUBJECT:
        heads.append(above)
    own = children_as(syntax, verb, *SUBJECT)
    if syntax.parent_pos(verb) != "AUX":
        return heads + own
    return heads + own + children_as(syntax, above, *SUBJECT)


def describe_pronouns(
    syntax: Syntax, components: Sequence[Component], of_token: Mapping[int, int], links: Links
) -> None:
    """Link predicate adjectives to pronouns, too (preset "mended"): "*she* is tall"."""
    for i, component in enumerate(components):
        clause = syntax.head[component.root]
        if component.kind == "adjective" and syntax.pos[clause] == "AUX":
            for child in children_as(syntax, clause, *SUBJECT):
                if syntax.pos[child] == "PRON" and child in of_token:
                    links.join(i, "describes", of_token[child])


SINGLE = frozenset(INVERSE) - {"place", "placed_by"}
"""Roles that a conjunct which has them already does not take over from the first."""

MAX_DISTANCE = 8
"""Tokens between conjuncts; farther ones are likely parsing errors (the release's limit)."""


def conjuncts(syntax: Syntax) -> Iterable[tuple[int, int]]:
    """Return each token joined by "and", a comma or the like, with the one it is joined to."""
    return (
        (token, head)
        for token, head in enumerate(syntax.head)
        if syntax.dep[token] == "conj" and abs(token - head) <= MAX_DISTANCE
    )


def share_place(links: Links, first: int, second: int) -> None:
    """Give both prepositions one head, and the first the second's object if it has none.

    "To and from *us*". As released: the second gets only the first's own head (in "boys and
    girls with hats and in boots" only the boys are in boots), and hangs on the first still, so
    a verb that both hang on meets it twice. The first gets one object, which does not know: in
    "the path to and from the house and garden" the path is not to the garden.
    """
    heads = links.ends(first, "place_of")[:1]
    if heads:
        links.forget(second, "place_of")
    for head in heads:
        links.join(second, "place_of", head)
    if not links.ends(first, "place"):
        for place in links.ends(second, "place")[:1]:
            links.borrow(first, "place", place)


def share_place_justly(links: Links, first: int, second: int) -> None:
    """Give both prepositions one place in the sentence (preset "mended"): all heads and objects."""
    heads = links.roles(first).get("place_of", ())
    if heads:
        links.part(second, "place_of")
    for head in heads:
        links.join(second, "place_of", head)
    if not links.ends(first, "place"):
        for place in links.roles(second).get("place", ()):
            links.join(first, "place", place)


def share_links(links: Links, first: int, second: int) -> None:
    """Let hold of both what holds of one: "a red coat and *hat*", unless the hat is blue."""
    own = links.roles(second)
    for role, ends in links.roles(first).items():
        if role in SINGLE and role in own:
            continue
        for end in ends:
            links.join(second, role, end)


def share_justly(links: Links, first: int, second: int, *, own_article: bool) -> None:
    """Share links by where things stand (preset "mended").

    What follows both describes or is done by both: "an old man and a bearded woman *read*".
    What stands between them belongs to the first: "a man *with a hat* and a woman". What
    describes the first from before ends at an article: "an *old* man and a woman". A joined
    verb has no object from before: "the child has *shoes* and gazes at us".
    """
    own = links.roles(second)
    for role, ends in links.roles(first).items():
        free = role not in SINGLE or role not in own
        for end in ends:
            between, after = first < end < second, first < second < end
            shared = free
            if role == "object":
                shared &= second < end
            elif role in ("described_by", "subject_of", "preposition"):
                shared &= not between
            if role == "described_by":
                shared &= not own_article
            if shared or (after and role in ("described_by", "subject_of")):
                links.join(second, role, end)


def has_article(syntax: Syntax, noun: int) -> bool:
    """Test whether a noun has an article of its own: "an old man and *a* woman"."""
    return any(syntax.dep[child] == "det" and child < noun for child in syntax.children[noun])
