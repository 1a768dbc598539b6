"""The text of a completion, made safe for a judge's prompt; and texts that describe nothing.

This belongs to the reward and not to the metric. The metric scores texts as published, whoever
wrote them; a policy is paid for what it writes, and so finds out what scores without describing.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any

THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
END_OF_THOUGHTS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
WORD = re.compile(r"[^\W\d_]+")
INVISIBLE = re.compile("[\u115f\u1160\u3164\uffa0]")
"""Letters by their category, but nothing to be seen: the fillers of Hangul."""
UNSEEN = frozenset(("Cc", "Cf", "Cn", "Co"))
"""Categories of characters that nothing is to be seen of, or that have no meaning. Half a surrogate
pair (Cs) stays: a text with one is not Unicode, and fails with that reason."""
EMPTY = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Those of other categories that nothing is to be seen of: fillers of Hangul, empty Braille."""
CHECKED = re.compile("[^ -~\\s]|_")
"""All that might join words: no printable ASCII but the underscore, and no white space."""
JOINING_QUOTE = re.compile(r'(?<=[^\s"])"(?=[^\s"])')
KNOWN_SHARE = 1 / 3
"""A text with a lower share of known words is gibberish. None of 9,432 descriptions and captions by
people had less than a half, and a sentence that quotes a Latin inscription has 0.4; random strings
of letters had 0.15 at most."""
SHORTEST = 3
"""A shorter word is known only if it is among the commonest: dictionaries list most pairs of
letters."""
GRAM = 4
"""Words whose repetition is counted."""


def completion_text(completion: object) -> Any:
    """The text in a completion: a string, or the assistant's turns of a conversation.

    Turns without text, such as calls of tools, are skipped.

    Returns:
        The text; None if the assistant wrote none; anything that is not a conversation as it is,
        for the metric to fail with its reason.
    """
    if not isinstance(completion, list | tuple):
        return completion
    turns = [turn for turn in completion if isinstance(turn, dict)]
    contents = [turn.get("content") for turn in turns if turn.get("role") == "assistant"]
    texts = [text for content in contents if (text := _content_text(content)) is not None]
    if not texts:
        return None if contents else completion
    return "\n".join(texts)


def _content_text(content: object) -> str | None:
    """Text of a message's content, which is a string or a list of typed parts; None without."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return None
    parts = [p.get("text") for p in content if isinstance(p, dict) and p.get("type") == "text"]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if texts else None


def without_thoughts(text: str) -> str:
    """The answer: ``<think>`` blocks are cut out, also one that is not closed or not opened.

    Templates of some models open the block in the prompt, so that only its end is generated.
    """
    return END_OF_THOUGHTS.split(THOUGHTS.sub("", text))[-1]


def unjoined(text: str) -> str:
    """The text with a blank for each character that joins words so that they pass for one.

    A judge is asked of a thing by its name in quotes. A name that holds characters that look like
    blanks, or quotes, could be a sentence that tells the judge what to answer.

    Returns:
        A text of the same length, so that places in one are places in the other.
    """
    text = CHECKED.sub(lambda found: " " if _joins(found[0]) else found[0], text)
    return JOINING_QUOTE.sub(" ", text)


def _joins(character: str) -> bool:
    unseen = unicodedata.category(character) in UNSEEN
    return unseen or character in EMPTY or character == "_"


def says_nothing(text: str, reference: str) -> bool:
    """Whether a text is blank to the eye, without any letter or digit, or gibberish.

    Gibberish is recognised by its lack of English words, so only where the reference is English.
    """
    if is_blank(text):
        return True
    given = frozenset(words(reference))
    return known_share(INVISIBLE.sub("", text), given) < KNOWN_SHARE <= known_share(reference)


def is_blank(text: str) -> bool:
    """Whether a text is blank to the eye, or without any letter or digit."""
    return not any(character.isalnum() for character in INVISIBLE.sub("", text))


def known_share(text: str, given: frozenset[str] = frozenset()) -> float:
    """The share of words that are in the dictionary or among the ``given``; 1 without any word."""
    found = words(text)
    return sum(word in given or _is_word(word) for word in found) / len(found) if found else 1.0


def repeated_share(text: str) -> float:
    """The share of four-word sequences that occurred before in the text; 0 if it is shorter."""
    found = words(text)
    grams = [tuple(found[i : i + GRAM]) for i in range(len(found) - GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def words(text: str) -> list[str]:
    """Words in lower case, without digits and marks."""
    return [word.lower() for word in WORD.findall(text)]


@lru_cache(maxsize=100_000)
def _is_word(word: str) -> bool:
    from spacy.lang.en.stop_words import STOP_WORDS

    from posh_reward.lexicon.wordnet import wordnet

    return word in STOP_WORDS or (len(word) >= SHORTEST and bool(wordnet().lemmas(word)))
