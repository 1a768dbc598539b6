"""Words that the embedded judge treats by what they do, not by what they mean."""

from __future__ import annotations

import re
from functools import lru_cache

from posh_reward.metrics.posh.judges.embedded.meaning import Term, coarse_pos
from posh_reward.types import Token

FUNCTION_WORDS = frozenset(
    "a an the of and or to s be is are was were been being am do does did as if that which "
    "who whom whose this these those it its he his him she her hers they their them we our us i "
    "my me mine you your yours there here not than then so with name relation himself herself "
    "itself themselves ours theirs".split()
)
"""Words that say nothing by themselves; pronouns among them."""
PERSONAL = frozenset(
    "he him his himself she her hers herself it its itself they them their themselves who whom "
    "which".split()
)
ANAPHORS = frozenset(
    "one ones other others another first second third last former latter thing object item pair "
    "group rest".split()
)
"""Heads that take up anything: the other, the second."""
SOMEONE = frozenset("figure figures person persons people someone individual elder younger".split())
"""Heads that can stand for any person."""
VIEWERS = frozenset("viewer viewers beholder onlooker onlookers spectator spectators".split())
"""Who looks at the image, beside "we" and "us"."""
PLACES = frozenset(
    "left right centre center middle side top bottom front back foreground background corner "
    "edge distance end part half".split()
)
"""Nouns for places, which say nothing without what is there."""
DEPICTION = frozenset(
    "hue hues tint tints tone tones shade shades colour colours color colors palette image image "
    "photo photograph painting scene view depiction composition stroke strokes brushstroke "
    "brushstrokes brushwork style atmosphere mood sense feeling contrast".split()
)
"""Nouns for the image rather than for what is in it: hues of gold."""
HAVING = frozenset("of with in part has have having wears wear wearing holds holding".split())
"""Words of relations by which one thing has, wears or holds another."""
WORD = re.compile(r"\w+")


def term_of(token: Token) -> Term | None:
    """A content word's term; None for function words and punctuation."""
    return None if token.dep == "aux" else _content(token.text, token.pos)


@lru_cache(maxsize=50_000)
def _content(text: str, pos: str) -> Term | None:
    word = text.lower()
    if word in FUNCTION_WORDS or not any(map(str.isalnum, word)):
        return None
    return word, coarse_pos(pos)


def plain_tokens(text: str) -> tuple[Token, ...]:
    """Bare words, for a description that comes without its parse."""
    return tuple(
        Token(m.group(), m.group().lower(), "X", "", i, 0, m.span())
        for i, m in enumerate(WORD.finditer(text))
    )


def words_of(text: str) -> list[str]:
    """Lower-case words of a phrase."""
    return [word.lower() for word in WORD.findall(text)]


def stands_in(heads: list[Term]) -> bool:
    """Whether a thing has no name of its own: ``she``, ``the other``, ``a figure``."""
    return all(word in ANAPHORS or word in SOMEONE for word, _ in heads)


def is_anaphor(heads: list[Term]) -> bool:
    """Whether a thing goes by ``the one``, ``the other``, ``the second``."""
    return bool(heads) and all(word in ANAPHORS for word, _ in heads)


def is_viewer(heads: list[Term]) -> bool:
    """Whether a thing is who looks at the image."""
    return bool(heads) and all(word in VIEWERS for word, _ in heads)
