"""Links between the components of a sentence: who is described, acts, suffers and is where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from posh_reward.graph.rules.components import Component
from posh_reward.graph.rules.syntax import NOMINAL, Syntax

Role = Literal[
    "describes", "described_by", "subject", "subject_of", "object", "object_of",
    "place_of", "preposition", "place", "placed_by",
]  # fmt: skip
"""What one component is to another. Read "verb: subject noun", "noun: subject_of verb"; a
preposition is the ``place_of`` its head and has its ``place``: *a cup* (place_of) on *a table*."""

INVERSE: dict[Role, Role] = {
    "describes": "described_by", "described_by": "describes",
    "subject": "subject_of", "subject_of": "subject",
    "object": "object_of", "object_of": "object",
    "place_of": "preposition", "preposition": "place_of",
    "place": "placed_by", "placed_by": "place",
}  # fmt: skip

SINGLE = frozenset(INVERSE) - {"place", "placed_by"}
"""Roles that a conjunct which has them already does not take over from the first."""

MAX_DISTANCE = 8
"""Tokens between conjuncts; farther ones are likely parsing errors (the release's limit)."""


class Links:
    """Links by role, each known from both of its ends. Components are named by index."""

    def __init__(self, components: int) -> None:
        self._ends: list[dict[Role, set[int]]] = [{} for _ in range(components)]

    def join(self, first: int, role: Role, second: int) -> None:
        """States that ``second`` is the ``role`` of ``first``; nothing is linked to itself."""
        if first != second:
            self._ends[first].setdefault(role, set()).add(second)
            self._ends[second].setdefault(INVERSE[role], set()).add(first)

    def part(self, first: int, role: Role) -> None:
        """Removes all links of one role."""
        for second in self._ends[first].pop(role, ()):
            others = self._ends[second][INVERSE[role]]
            others.discard(first)
            if not others:
                del self._ends[second][INVERSE[role]]

    def ends(self, component: int, role: Role) -> list[int]:
        """Components that have a role for this one, in text order."""
        return sorted(self._ends[component].get(role, ()))

    def roles(self, component: int) -> dict[Role, tuple[int, ...]]:
        """All links of a component, as they are now."""
        return {role: tuple(ends) for role, ends in self._ends[component].items()}


def find_links(syntax: Syntax, components: Sequence[Component], *, mended: bool = False) -> Links:
    """All links of a text; ``mended``: conjuncts share what is plainly said of both."""
    of_token = {token: i for i, part in enumerate(components) for token in part.tokens}
    links = Links(len(components))
    for i, component in enumerate(components):
        for role, token in attachments(syntax, component):
            if token in of_token:
                links.join(i, role, of_token[token])
        if component.kind == "verb":
            head = of_token.get(syntax.head[component.root], i)
            if components[head].kind == "noun":  # "a man *holding* a cup"
                links.join(i, "subject", head)
    if mended:
        describe_pronouns(syntax, components, of_token, links)
    for token, head in conjuncts(syntax):
        first, second = of_token.get(head), of_token.get(token)
        if first is None or second is None or first == second:
            continue
        if components[first].kind == components[second].kind == "preposition":
            share_place(links, first, second)
        elif components[first].kind == components[second].kind and mended:
            share_justly(links, first, second, own_article=has_article(syntax, token))
        elif components[first].kind == components[second].kind:
            share_links(links, first, second)
    return links


def attachments(syntax: Syntax, component: Component) -> Iterator[tuple[Role, int]]:
    """Tokens that a component is linked to by its own dependencies, with their roles."""
    root = component.root
    if component.kind == "adjective":
        yield from (("describes", token) for token in described(syntax, root))
    elif component.kind == "verb":
        yield from (("subject", token) for token in subjects(syntax, root))
        yield from (("object", token) for token in children_as(syntax, root, "dobj", "obj"))
    elif component.kind == "preposition":
        yield "place_of", syntax.head[root]
        yield from (("place", token) for token in children_as(syntax, root, "pobj", "obj"))


def children_as(syntax: Syntax, token: int, *labels: str) -> list[int]:
    """Children with one of some dependency labels."""
    return [child for child in syntax.children[token] if syntax.dep[child] in labels]


def described(syntax: Syntax, adjective: int) -> list[int]:
    """What an adjective describes: its noun, or its clause's nouns, or those below it.

    "A *red* coat": coat. "The coat is *red*": coat. "*Nearest* are two women": women.
    "Her face *bare*, she smiles", with "bare" the root: face.
    """
    head = modified_head(syntax, adjective)
    if head == adjective:
        return nouns_below(syntax, adjective)
    if syntax.pos[head] == "AUX":
        others = [noun for noun in nouns_of_clause(syntax, head) if noun != adjective]
        return others or nouns_below(syntax, adjective)
    if syntax.pos[head] in NOMINAL or head != syntax.head[adjective]:
        return [head]
    return nouns_below(syntax, adjective)


def modified_head(syntax: Syntax, adjective: int) -> int:
    """The head, or what it modifies in turn: "a *dark* blue coat", dark -> blue -> coat."""
    head = syntax.head[adjective]
    climbed = {adjective}
    while syntax.dep[head] == "amod" and head not in climbed:
        climbed.add(head)
        head = syntax.head[head]
    return head


def nouns_of_clause(syntax: Syntax, auxiliary: int) -> list[int]:
    """Nouns (no pronouns) right below an auxiliary, or below auxiliaries that hang on it."""
    nouns: list[int] = []
    seen = {auxiliary}
    below = [auxiliary]
    while below:
        for child in syntax.children[below.pop()]:
            if syntax.pos[child] in NOMINAL:
                nouns.append(child)
            elif syntax.pos[child] == "AUX" and child not in seen:
                seen.add(child)
                below.append(child)
    return nouns


def nouns_below(syntax: Syntax, adjective: int) -> list[int]:
    """Nouns that hang on an adjective without modifying it: "*bare*, the *face* ..."."""
    return [
        child
        for child in syntax.children[adjective]
        if syntax.pos[child] in NOMINAL and syntax.dep[child] != "amod"
    ]


def subjects(syntax: Syntax, verb: int) -> list[int]:
    """Subjects of a verb, or of its auxiliary: "*she* runs", "the *font* is not carved"."""
    own = children_as(syntax, verb, "nsubj", "nsubjpass")
    if syntax.parent_pos(verb) != "AUX":
        return own
    return own + children_as(syntax, syntax.head[verb], "nsubj", "nsubjpass")


def conjuncts(syntax: Syntax) -> Iterable[tuple[int, int]]:
    """Each token joined by "and", a comma or the like, with the one that it is joined to."""
    return (
        (token, head)
        for token, head in enumerate(syntax.head)
        if syntax.dep[token] == "conj" and abs(token - head) <= MAX_DISTANCE
    )


def share_place(links: Links, first: int, second: int) -> None:
    """One head for both, and the second's object if the first has none: "to and from *us*"."""
    heads = links.ends(first, "place_of")
    if heads:
        links.part(second, "place_of")
    for head in heads:
        links.join(second, "place_of", head)
    if not links.ends(first, "place"):
        for place in links.ends(second, "place"):
            links.join(first, "place", place)


def share_links(links: Links, first: int, second: int) -> None:
    """What holds of one holds of both: "a red coat and *hat*", unless the hat is blue."""
    held = links.roles(second)
    for role, ends in links.roles(first).items():
        if role in SINGLE and role in held:
            continue
        for end in ends:
            links.join(second, role, end)


def share_justly(links: Links, first: int, second: int, *, own_article: bool) -> None:
    """As ``share_links``, but by where things stand (preset "mended").

    What follows both describes or is done by both: "an old man and a bearded woman *read*".
    What stands between them belongs to the first: "a man *with a hat* and a woman". What
    describes the first from before ends at an article: "an *old* man and a woman". A joined
    verb has no object from before: "the child has *shoes* and gazes at us".
    """
    held = links.roles(second)
    for role, ends in links.roles(first).items():
        free = role not in SINGLE or role not in held
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
    """Whether a noun has an article of its own: "an old man and *a* woman"."""
    return any(syntax.dep[child] == "det" and child < noun for child in syntax.children[noun])


def describe_pronouns(
    syntax: Syntax, components: Sequence[Component], of_token: Mapping[int, int], links: Links
) -> None:
    """Predicate adjectives describe pronouns too (preset "mended"): "*she* is tall"."""
    for i, component in enumerate(components):
        clause = syntax.head[component.root]
        if component.kind == "adjective" and syntax.pos[clause] == "AUX":
            for child in children_as(syntax, clause, "nsubj", "nsubjpass"):
                if syntax.pos[child] == "PRON" and child in of_token:
                    links.join(i, "describes", of_token[child])
