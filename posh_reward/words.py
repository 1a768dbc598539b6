"""Words of a text, and English words that make no claim of their own."""

from __future__ import annotations

import re

LETTERS = re.compile(r"[^\W\d_]+")
CONTENT_WORD = re.compile(r"[^\W_]{2,}")
"""A word that may say something: two letters or digits, or more."""

FUNCTION_WORDS = frozenset(
    "a an the of and or to s be is are was were been being am do does did as if that which "
    "who whom whose this these those it its he his him she her hers they their them we our us i "
    "my me mine you your yours there here not than then so with name relation himself herself "
    "itself themselves ours theirs".split()
)
"""Words without a meaning of their own, pronouns included."""
LIGHT = FUNCTION_WORDS | frozenset(
    "about above across after against all along also although among any are around at away back "
    "because before behind below beneath beside between beyond both but by can could down during "
    "each either else even ever every few for from further had has have having how if in inside "
    "into just like many may might more most much near neither no nor off on once only onto other "
    "out outside over own per rather same several should since so some still such than these "
    "those though through throughout toward towards under until up upon very via was well were "
    "what when where while whole will within without would yet".split()
)
"""Words that make no claim by themselves: function words, prepositions, quantifiers."""
PLACES = frozenset(
    "left right centre center middle side top bottom front back foreground background corner "
    "edge distance end part half".split()
)
"""Nouns for places, which mean nothing without the things there."""
DEPICTION = frozenset(
    "hue hues tint tints tone tones shade shades colour colours color colors palette image picture "
    "photo photograph painting scene view depiction composition stroke strokes brushstroke "
    "brushstrokes brushwork style atmosphere mood sense feeling contrast".split()
)
"""Nouns for the image rather than its contents: hues of gold."""
UNSPECIFIC = LIGHT | PLACES | DEPICTION
"""Words that name nothing in the image."""


def find_words(text: str) -> list[str]:
    """Lower-case words, without digits and punctuation."""
    return [word.lower() for word in LETTERS.findall(text)]
