"""Corrections of parses for preset "mended".

Each mend changes parts of speech, labels or heads so that the release's rules do what was meant.
Mends that no parse can express are arguments ``mended`` of the rules themselves.
docs/released_quirks.md has examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from posh_reward.graph.rules.components import (
    NOMINAL,
    SUBJECT,
    Syntax,
    children_of,
    is_adjectival_noun,
)

BE = frozenset({"be", "is", "are", "was", "were", "been", "being"})
RELATIVE = frozenset({"who", "which", "that"})

Change = tuple[int, str, str, int]
"""A token, and its new part of speech, label and head."""


def mended(syntax: Syntax) -> Syntax:
    """Return the parse after all mends; each sees the result of those before it."""
    for mend in MENDS:
        pos, dep, head = list(syntax.pos), list(syntax.dep), list(syntax.head)
        for token, new_pos, new_dep, new_head in mend(syntax):
            pos[token], dep[token], head[token] = new_pos, new_dep, new_head
        syntax = replace(
            syntax, pos=tuple(pos), dep=tuple(dep), head=tuple(head), children=children_of(head)
        )
    return syntax


def white_space(syntax: Syntax) -> Iterator[Change]:
    """White space is not a word, whatever a parser calls it."""
    for token, text in enumerate(syntax.text):
        if text.isspace():
            yield token, "SPACE", syntax.dep[token], syntax.head[token]


def being(syntax: Syntax) -> Iterator[Change]:
    """To be is not an action: "there *are* birds"."""
    for token, pos in enumerate(syntax.pos):
        if pos == "VERB" and syntax.text[token].lower() in BE:
            yield token, "AUX", syntax.dep[token], syntax.head[token]


def relative_clauses(syntax: Syntax) -> Iterator[Change]:
    """A relative pronoun is not an entity: "the boy *who* is tall" is a tall boy."""
    for token, dep in enumerate(syntax.dep):
        clause = syntax.head[token]
        boy = syntax.head[clause]
        relative = dep in SUBJECT and syntax.text[token].lower() in RELATIVE
        if relative and syntax.dep[clause] == "relcl" and syntax.pos[boy] in NOMINAL:
            yield token, "X", dep, clause
            if syntax.pos[clause] == "AUX":
                yield from move(syntax, clause, boy)


def clauses_apart(syntax: Syntax) -> Iterator[Change]:
    """A clause with a subject is separate: "the edges are blurry and the wall *is* white"."""
    for token, pos in enumerate(syntax.pos):
        above = syntax.head[token]
        own = any(syntax.dep[child] in SUBJECT for child in syntax.children[token])
        if own and pos in ("AUX", "VERB") and above != token and syntax.pos[above] == "AUX":
            yield token, pos, "ROOT", token


def joined_predicates(syntax: Syntax) -> Iterator[Change]:
    """A joined clause without a subject shares the first's: "the sky is blue and is *bright*"."""
    for token, dep in enumerate(syntax.dep):
        above = syntax.head[token]
        if dep == "conj" and syntax.pos[token] == syntax.pos[above] == "AUX":
            for child in syntax.children[token]:
                if syntax.pos[child] == "ADJ":
                    yield child, "ADJ", syntax.dep[child], above


def coordinated_colours(syntax: Syntax) -> Iterator[Change]:
    """Colours describe the last noun: "a *rough* grey tree trunk", "a gray and *white* floor"."""
    for token, pos in enumerate(syntax.pos):
        noun = syntax.head[token]
        if pos == "ADJ" and syntax.dep[token] in ("amod", "conj"):
            climbed = {token}
            while is_adjectival_noun(syntax, noun) and noun not in climbed:
                climbed.add(noun)
                noun = syntax.head[noun]
            if noun != syntax.head[token] and noun not in climbed:
                yield token, pos, "amod", noun


def whereabouts(syntax: Syntax) -> Iterator[Change]:
    """Places of subjects: "the cup is *on* the table", "there are women *in* the square"."""
    for token, dep in enumerate(syntax.dep):
        above = syntax.head[token]
        if dep == "prep" and syntax.pos[token] == "ADP" and syntax.pos[above] == "AUX":
            subject = subject_of(syntax, above)
            if subject is not None:
                yield token, "ADP", dep, subject


def fronted_places(syntax: Syntax) -> Iterator[Change]:
    """Fronted places, too: "*on* the grass, cows graze", but not "in his hand, he holds a cup"."""
    for token, dep in enumerate(syntax.dep):
        verb = syntax.head[token]
        if dep == "prep" and syntax.pos[token] == "ADP" and syntax.pos[verb] == "VERB":
            subject = subject_of(syntax, verb)
            below = syntax.children[verb]
            transitive = any(syntax.dep[child] in ("dobj", "obj") for child in below)
            if token < verb and subject is not None and not transitive:
                yield token, "ADP", dep, subject


def subject_of(syntax: Syntax, verb: int) -> int | None:
    """Return the subject of a verb or auxiliary, or "women" in "there are women"."""
    children = syntax.children[verb]
    things = [child for child in children if syntax.pos[child] in (*NOMINAL, "PRON")]
    for labels in (SUBJECT, ("attr",)):
        for child in things:
            if syntax.dep[child] in labels:
                return child
    return None


def move(syntax: Syntax, auxiliary: int, noun: int) -> Iterator[Change]:
    """Attach the adjectives and prepositions of an auxiliary to a noun."""
    for child in syntax.children[auxiliary]:
        if syntax.pos[child] == "ADJ":
            yield child, "ADJ", "amod", noun
        elif syntax.dep[child] == "prep":
            yield child, syntax.pos[child], "prep", noun


MENDS = (
    white_space,
    being,
    relative_clauses,
    clauses_apart,
    joined_predicates,
    coordinated_colours,
    whereabouts,
    fronted_places,
)
