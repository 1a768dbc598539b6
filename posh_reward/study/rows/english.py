"""Does a text read like English? Parser and questions know no other language."""

from __future__ import annotations

import re

WORD = re.compile(r"[^\W\d_]+")
COMMON = frozenset(
    "a an and are as at by for from has have her his in is it its left near no of on or right she "
    "he that the their there they this to two under we which who with".split()
)
FEWEST = 5
"""A text with fewer words says too little about its language."""
SHARE = 0.1
"""Least share of common words: English descriptions have 0.3 or more, other languages few."""


def reads_like_english(text: str) -> bool:
    """Whether a text may be English: false only if that is unlikely."""
    words = WORD.findall(text.lower())
    letters = "".join(words)
    if letters and sum(letter.isascii() for letter in letters) < len(letters) / 2:
        return False
    return len(words) < FEWEST or sum(word in COMMON for word in words) >= SHARE * len(words)
