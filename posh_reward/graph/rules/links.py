"""Links between the components of a sentence: who is described, acts, suffers and is where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from posh_reward.graph.rules.components import Component
from posh_reward.graph.rules.roles import Links, Role
from posh_reward.graph.rules.sharing import (
    conjuncts,
    has_article,
    share_justly,
    share_links,
    share_place,
    share_place_justly,
)
from posh_reward.graph.rules.syntax import NOMINAL, Syntax

SUBJECT = ("nsubj", "nsubjpass")
THINGS = (*NOMINAL, "PRON")


def find_links(syntax: Syntax, components: Sequence[Component], *, mended: bool = False) -> Links:
    """All links of a text; ``mended``: conjuncts share what is plainly said of both."""
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
    """Links adjectives to what they describe: nouns above them, or else below them.

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
    """Tokens that a verb or preposition is linked to by its dependencies, with their roles.

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
    """Children with one of some dependency labels."""
    return [child for child in syntax.children[token] if syntax.dep[child] in labels]


def described_above(syntax: Syntax, adjective: Component) -> list[int]:
    """What the words of an adjective describe above them: a noun, or the nouns of its clause.

    "A *red* coat": coat. "The coat is *red*": coat. "*Nearest* are two women": women. Each word
    looks, so in "an *off*-*white* wall" both find the wall, and it is told twice. Pronouns are
    not described: "a light *red* one".
    """
    found: list[int] = []
    passed: set[int] = set()
    for token in adjective.tokens:
        if syntax.head[token] != token:  # not the root of its sentence
            found += [noun for noun in nouns_above(syntax, token, passed) if noun != token]
    return found


def nouns_above(syntax: Syntax, adjective: int, passed: set[int]) -> list[int]:
    """The noun that a word modifies, itself or through others, or the nouns of its clause.

    "A *dark* blue coat": dark -> blue -> coat. Below an auxiliary the last noun comes first,
    which shows in the order of possessions: "The *door* is a wall frame", with "door" a
    possessive, gives (frame, part of, door) before (wall, part of, door).

    Words that are passed are added to ``passed``, nouns too, and nobody climbs to them again: in
    "a *toned* *close*-up shot", with "close" below "toned", only "toned" finds the shot.
    """
    nouns: list[int] = []
    todo = [syntax.head[adjective]]
    while todo:
        token = todo.pop()
        passed.add(token)
        if syntax.dep[token] == "amod":
            further: Sequence[int] = [syntax.head[token]]
        elif syntax.pos[token] == "AUX":
            further = syntax.children[token]
        else:
            further = ()
            if syntax.pos[token] in NOMINAL:
                nouns.append(token)
        todo += [each for each in further if each not in passed]
    return nouns


def described_below(syntax: Syntax, adjective: int) -> list[int]:
    """Nouns that hang on a word without modifying it, the last first: "*bare*, the *face* ..."."""
    return [
        child
        for child in reversed(syntax.children[adjective])
        if syntax.pos[child] in NOMINAL and syntax.dep[child] != "amod"
    ]


def subjects(syntax: Syntax, verb: int) -> list[int]:
    """Subjects of a verb, its own and its auxiliary's: "*she* runs", "the *font* is not carved".

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
    """Predicate adjectives describe pronouns too (preset "mended"): "*she* is tall"."""
    for i, component in enumerate(components):
        clause = syntax.head[component.root]
        if component.kind == "adjective" and syntax.pos[clause] == "AUX":
            for child in children_as(syntax, clause, *SUBJECT):
                if syntax.pos[child] == "PRON" and child in of_token:
                    links.join(i, "describes", of_token[child])
