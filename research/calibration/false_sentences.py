"""Sentences of true words that say nothing true.

"The quay carries a bell on the auctioneer": nouns and adjectives of a description trade places, so
its objects are those of the image, and nearly every attribute and relation is untrue.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict

from posh_reward.lexicon.meaning import is_concrete, is_plural
from posh_reward.types import Description, Token

ARTICLE = re.compile(r"\b([Aa])n? (?=([a-z]))")

Sort = tuple[str, bool]
"""Words that can stand for each other: part of speech, and plural or not."""


def falsify(description: Description, seed: str) -> str:
    """Replace each common noun and adjective by one from another sentence of the text.

    A singular noun by a singular one, an adjective by an adjective; equal seeds give equal texts.
    """
    rng = random.Random(seed)
    words: dict[Sort, list[Token]] = defaultdict(list)
    for token in description.tokens:
        sort = sort_of(token)
        if sort:
            words[sort].append(token)
    text, end = "", 0
    for token in description.tokens:
        sort = sort_of(token)
        others = (
            [word.text for word in words[sort] if word.sentence != token.sentence] if sort else []
        )
        text += description.text[end : token.span[0]]
        text += rng.choice(others) if others else token.text
        end = token.span[1]
    return ARTICLE.sub(lambda m: f"{m[1]}{'n' * (m[2] in 'aeiou')} ", text)


def sort_of(token: Token) -> Sort | None:
    """Return the words that a token can be replaced by; None: it stays."""
    if token.text.isalpha() and token.text.islower():
        if token.pos == "NOUN" and is_concrete((token.text, "n")):
            return "noun", is_plural((token.text, "n"))
        if token.pos == "ADJ" and token.dep == "amod":
            return "adjective", False
    return None
