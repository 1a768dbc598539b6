"""What conjuncts share: "a red coat and *hat*", "to and from *us*"."""

from __future__ import annotations

from collections.abc import Iterable

from posh_reward.graph.rules.roles import INVERSE, Links
from posh_reward.graph.rules.syntax import Syntax

SINGLE = frozenset(INVERSE) - {"place", "placed_by"}
"""Roles that a conjunct which has them already does not take over from the first."""

MAX_DISTANCE = 8
"""Tokens between conjuncts; farther ones are likely parsing errors (the release's limit)."""


def conjuncts(syntax: Syntax) -> Iterable[tuple[int, int]]:
    """Each token joined by "and", a comma or the like, with the one that it is joined to."""
    return (
        (token, head)
        for token, head in enumerate(syntax.head)
        if syntax.dep[token] == "conj" and abs(token - head) <= MAX_DISTANCE
    )


def share_place(links: Links, first: int, second: int) -> None:
    """One head for both prepositions, and the second's object if the first has none.

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
    """One place in the sentence for both prepositions (preset "mended"): all heads and objects."""
    heads = links.roles(first).get("place_of", ())
    if heads:
        links.part(second, "place_of")
    for head in heads:
        links.join(second, "place_of", head)
    if not links.ends(first, "place"):
        for place in links.roles(second).get("place", ()):
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
