"""Which questions are dropped (paper, section 3.1): what can be said of texts without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from posh_reward.metrics.prove.kinds import KINDS, OTHER
from posh_reward.metrics.prove.programs.scene import Value
from posh_reward.models.encoders import content_words

AGREEING = 0.8
"""Share of the words of a program's answer that question and answer have to hold."""
NEGATIONS = frozenset("no not never none nothing nobody without t".split())
"""``t``: the end of "isn't"."""
KIND_NAMES = frozenset([*KINDS, OTHER, "spatial", "action"])
"""What graphs call kinds of attributes and relations: no part of what a program found."""


def agrees(value: Value, question: str, answer: str) -> bool:
    """Whether a program's answer is the one that the writer stated.

    The paper compares sentence embeddings, by a threshold that it does not give. Embeddings find
    "red" and "black" alike, so here words decide: nearly all that the program found is said, every
    number among them, and some of it only in the answer.
    """
    if isinstance(value, bool):
        return value == says_yes(answer)
    asked, said = set(content_words(question)), set(content_words(answer))
    known = asked | said
    found = [w for w in content_words(as_text(value)) if w in known or w not in KIND_NAMES]
    if not found or any(word.isdecimal() and word not in known for word in found):
        return False
    share = sum(word in known for word in found) / len(found)
    return share >= AGREEING and any(word in said - asked for word in found)


def says_yes(answer: str) -> bool:
    """Whether an answer affirms: it begins with "yes", or has no negation."""
    words = re.findall(r"\w+", answer.casefold())
    return bool(words) and (words[0] == "yes" or not NEGATIONS.intersection(words))


def as_text(value: Value) -> str:
    """A program's answer in words."""
    return " ".join(_texts(value))


def _texts(value: Value) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif value is not None:
        yield str(value)


def is_trivial(question: str, answer: str) -> bool:
    """Whether the answer adds no word to the question: what the bar of concrete is made of."""
    return not set(content_words(answer)) - set(content_words(question))


def taboo_word(question: str, answer: str, taboo: frozenset[str]) -> str | None:
    """A word of the pair that is not wanted; None if there is none."""
    words = re.findall(r"\w+", f"{question} {answer}".casefold())
    return next((word for word in words if word in taboo), None)
