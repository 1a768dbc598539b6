"""Families of hostile texts: a collapsed policy writes "!!!!" up to the length limit."""

import json
import random
import string
from collections.abc import Callable
from pathlib import Path

ARTWORKS = Path(__file__).resolve().parents[2] / "research" / "calibration" / "artworks.json"


def repeat(unit: str) -> Callable[[int], str]:
    """Make a family that repeats one string."""
    return lambda length: (unit * (length // len(unit) + 1))[:length]


def random_text(alphabet: str, seed: int = 0) -> Callable[[int], str]:
    """Make a family of random characters, so that no cache of equal words helps."""
    return lambda length: "".join(random.Random(seed).choices(alphabet, k=length))


def ordinary(length: int) -> str:
    """Join museum descriptions, to compare the other families with."""
    texts = [item["reference"] for item in json.loads(ARTWORKS.read_text(encoding="utf-8"))]
    return repeat(" ".join(texts) + " ")(length)


def namesakes(length: int) -> str:
    """Name many entities by one noun, each with its own adjective."""
    qualities = (f"{first}{second}ish" for first in CONSONANTS for second in CONSONANTS)
    return repeat("".join(f"A {quality} man holds a cup. " for quality in qualities))(length)


CONSONANTS = "bcdfghjklmnpqrstvwxyz"
FAMILIES: dict[str, Callable[[int], str]] = {
    "ordinary": ordinary,
    "bangs": repeat("!"),
    "brackets": repeat("("),
    "pairs": repeat("[]"),
    "stars": repeat("*"),
    "dots": repeat(". . "),
    "quotes": repeat("\"'"),
    "emoji": repeat("\U0001f600"),
    "smileys": repeat(":)"),
    "joined": repeat("\u200b"),
    "digits": repeat("1234567890"),
    "newlines": repeat("\n"),
    "lines": repeat("a\n\n"),
    "word": repeat("a"),
    "hyphens": repeat("a-"),
    "address": repeat("www.a.com/"),
    "mixed": random_text(string.punctuation),
    "mixed words": random_text(string.ascii_letters + string.punctuation + string.digits),
    "bang words": repeat("! "),
    "very": repeat("very "),
    "man": repeat("man "),
    "and": repeat("a man and "),
    "of": repeat("a man of "),
    "sons": repeat("the king's son's "),
    "story": lambda length: "A man met a woman. " + repeat("He liked her. ")(length - 19),
    "namesakes": namesakes,
}
"""Name -> a text of as many characters as asked for."""
