"""A call's columns, and its completions' texts: made safe for a judge's prompt, or worth nothing.

Safety belongs to the reward and not to the metric. The metric scores texts as published, whoever
wrote them; a policy is paid for what it writes, and so finds out what scores without describing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from posh_reward.errors import InputError
from posh_reward.lexicon.wordnet import KNOWN_SHARE, is_english, known_share, words

THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
END_OF_THOUGHTS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
INVISIBLE = re.compile("[\u115f\u1160\u3164\uffa0]")
"""Letters by their category, but nothing to be seen: the fillers of Hangul."""
UNSEEN = frozenset(("Cc", "Cf", "Cn", "Co"))
"""Categories of characters that nothing is to be seen of, or that have no meaning. Half a surrogate
pair (Cs) stays: a text with one is not Unicode, and fails with that reason."""
EMPTY = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Those of other categories that nothing is to be seen of: fillers of Hangul, empty Braille."""
SUSPECT = re.compile("[^ -~\\s]")  # all but printable ASCII and white space: what may not be seen
RUN = re.compile(r"(?<=[^\W_])(?:[^\w\s]|_)+(?=[^\W_])")
"""Marks between two letters or digits, without white space."""
DIGITS = re.compile(r"(?<=[^\W\d_]{2})\d+(?=[^\W\d_]{2})")  # digits inside a word
# Both begin only where a word does: tried at each letter, a text without blanks takes seconds.
HUMPS = re.compile(r"(?<!\w)(?=[^\W\d_]*?[a-z][A-Z][a-z]+[A-Z][a-z])[^\W\d_]+(?!\w)")
"""Words in camel case: a capital within the word, twice or more."""
COMPOUND = re.compile(r"(?<![^\W_])[^\W_]+(?:['\u2019\u2010\u2011-][^\W_]+){4,}")
"""Five words or more that hyphens or apostrophes make one; people join four at most."""
APOSTROPHES = ("'", "\u2019")
HYPHENS = ("-", "\u2010")
ABBREVIATING = (".", "&")
JOINING_QUOTE = re.compile(r'(?<=[^\s"])"(?=[^\s"])')
UNCONTRACTED = re.compile(r"[^\W_]{3}")
"""More letters than stand before or behind an apostrophe within a word: "O'Keeffe", "they're"."""
LABEL = re.compile(r"(?P<words>[A-Za-z][A-Za-z ]{0,30}?) *(?P<number>\d*) *:")
FIELD = re.compile(r"\{\w*\}")
END = re.compile(r"(?:<\|[^|<>]*\|>|</s>|<eos>|<end_of_turn>|\s)+\Z")
"""Special tokens that end what a model generated."""
INSTRUCTION = 4  # words of a sentence of instructions, at least
GRAM = 4  # words whose repetition is counted


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


def completion_of(query: object, prompt: object) -> object:
    """The completion in a query of OpenRLHF's, which begins with the prompt as the model saw it.

    Images are many tokens there and one in the prompt, and a long prompt lost its beginning; but
    its last line, such as ``<|im_start|>assistant``, is the same. So the query is cut where that
    line has come as often as in the prompt. None if it does not come.
    """
    if not isinstance(query, str) or not isinstance(prompt, str):
        return None
    line = prompt.strip().rpartition("\n")[2]
    ends = [each.end() for each in re.finditer(re.escape(line), query)] if line else [0]
    if not ends:
        return None
    count = prompt.count(line) if line else 1
    return END.sub("", query[ends[min(count, len(ends)) - 1] :]).strip()


def without_thoughts(text: str) -> str:
    """The answer: ``<think>`` blocks are cut out, also one that is not closed or not opened.

    Templates of some models open the block in the prompt, so that only its end is generated.
    """
    return END_OF_THOUGHTS.split(THOUGHTS.sub("", text))[-1]


def unjoined(text: str) -> str:
    """The text with a blank for each character that joins words so that they pass for one.

    A judge is asked of a thing by its name in quotes. A name that holds characters that look like
    blanks, or quotes, could be a sentence that tells the judge what to answer. Characters are
    judged by what they do to a word, not by a list: whether they are seen, whether a mark composes
    with its letter, and whether the tokenizer makes one word of two with them in between.

    Returns:
        A text of the same length, so that places in one are places in the other.
    """
    text = SUSPECT.sub(_if_seen, text)
    text = JOINING_QUOTE.sub(" ", RUN.sub(_if_parting, text))
    text = DIGITS.sub(_blank, text)
    text = HUMPS.sub(_blank, text)
    return COMPOUND.sub(lambda match: re.sub(r"[^\w]|_", " ", match[0]), text)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _if_seen(match: re.Match[str]) -> str:
    """A character, or a blank if it is not seen, or hides behind a letter that it does not suit."""
    character, at, text = match[0], match.start(), match.string
    category = unicodedata.category(character)
    if category in UNSEEN or character in EMPTY:
        return " "
    before = text[at - 1 : at]
    if not ("a" <= before.lower() <= "z"):
        return character
    if category[0] == "M":  # an accent makes one letter with its own; a joiner does not
        return character if len(unicodedata.normalize("NFC", before + character)) == 1 else " "
    after = text[at + 1 : at + 2].lower()
    # letters without case are of no word in Latin script: clicks and dots that part two words
    return " " if category in ("Lo", "Lm") and "a" <= after <= "z" else character


def _if_parting(match: re.Match[str]) -> str:
    """Marks inside a word as they are, or blanks where they make one word of two."""
    marks, text = match[0], match.string
    if marks in APOSTROPHES:
        return _apostrophe(match)
    if unicodedata.normalize("NFKC", marks) in HYPHENS or (
        marks in ABBREVIATING and _beside_a_letter(match)
    ):
        return marks
    if text[match.start() - 1].isdigit() and text[match.end()].isdigit():
        return marks  # 1,000 and 16:9
    return marks if _parts(marks) else _blank(match)


def _beside_a_letter(match: re.Match[str]) -> bool:
    """True if a single letter stands before or behind: "a.m.", "AT&T"."""
    text, start, end = match.string, match.start(), match.end()
    return not re.match(r"\w", text[max(start - 2, 0) : start - 1]) or not re.match(
        r"\w", text[end + 1 : end + 2]
    )


def _apostrophe(match: re.Match[str]) -> str:
    text, start, end = match.string, match.start(), match.end()
    sides = (text[max(start - 3, 0) : start], text[end : end + 3])
    return " " if all(map(UNCONTRACTED.fullmatch, sides)) else match[0]


@lru_cache(maxsize=4096)
def _parts(marks: str) -> bool:
    """True if the tokenizer has two words with the marks between them, and not one name."""
    words = [token.text for token in _tokenizer()(f"dog{marks}cat")]
    return "dog" in words and "cat" in words


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    from spacy.lang.en import English

    return English().tokenizer


@lru_cache(maxsize=16)
def labels_of(templates: tuple[str, ...]) -> re.Pattern[str] | None:
    """A pattern of the labels and instructions that prompts are made of; None without any.

    A text with such a line in it writes into the judge's prompt, since published wording does not
    delimit texts. Labels are what stands before a colon at the beginning of a template's line, with
    any number; instructions are sentences of four words or more without a field.
    """
    patterns: set[str] = set()
    for line in (line.strip("- ") for template in templates for line in template.splitlines()):
        label = LABEL.match(line)
        if label is not None:
            words = r"\s+".join(map(re.escape, label["words"].split()))
            number = r"\s*\d+" if label["number"] else ""
            patterns |= {rf"{words}\s*(?:\d+\s*)?[:\uff1a]", *([words + number] if number else ())}
        for sentence in re.split(r"(?<=[.;!?])\s", FIELD.sub("\0", line)):
            parts = sentence.strip(" .;").split()
            if len(parts) >= INSTRUCTION and "\0" not in sentence:
                patterns.add(r"\W+".join(map(re.escape, (w.strip(".,;:") for w in parts))))
    longest_first = sorted(patterns, key=lambda each: (-len(each), each))
    return re.compile(rf"(?<!\w)(?:{'|'.join(longest_first)})", re.I) if patterns else None


def unlabelled(text: str, labels: re.Pattern[str] | None) -> str:
    """The text with blanks for what equals a label; of the same length."""
    return text if labels is None else labels.sub(_blank, text)


def says_nothing(text: str, reference: str) -> bool:
    """True if a text is blank to the eye, without any letter or digit, or gibberish.

    Gibberish is recognised by its lack of English words, so only where the reference is English.
    """
    if is_blank(text):
        return True
    reference_words = frozenset(words(reference))
    gibberish = known_share(INVISIBLE.sub("", text), reference_words) < KNOWN_SHARE
    return gibberish and is_english(reference)


def is_blank(text: str) -> bool:
    """True if a text is blank to the eye, or without any letter or digit."""
    return not any(character.isalnum() for character in INVISIBLE.sub("", text))


def repeated_share(text: str) -> float:
    """The share of four-word sequences that occurred before in the text; 0 if it is shorter."""
    parts = words(text)
    grams = [tuple(parts[i : i + GRAM]) for i in range(len(parts) - GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def column_of(columns: Mapping[str, Any], name: str, expected: int, setting: str) -> list[Any]:
    """A column that a reward cannot do without.

    Raises:
        InputError: it is missing or of another length.
    """
    if name not in columns:
        there = ", ".join(sorted(columns)) or "none"
        raise InputError(
            f"no column {name!r} reached the reward (columns: {there}): name it with {setting}, "
            "and keep it in the dataset (remove_unused_columns=False)"
        )
    values = list(columns[name])
    if len(values) != expected:
        raise InputError(
            f"{expected} completions but {len(values)} values in column {name!r}: TRL passes one "
            "for each completion"
        )
    return values


def images_of(
    columns: Mapping[str, Any], expected: int, name: str | None = None
) -> list[Any] | None:
    """The image of each completion; None if the dataset has none.

    TRL takes images from a column ``images``, with a list in each row, or else from ``image``,
    with one (``grpo_trainer.py:2400``), and passes either on as it is.

    Args:
        columns: all that reached the reward.
        expected: the number of completions.
        name: another column, which then has to be there.

    Returns:
        One value a completion, for ``prompt_images.image_of`` to read. A list of one image is
        that image; one of several is left as it is, which ``image_of`` refuses.

    Raises:
        InputError: the column ``name`` is missing, or the column is of another length.
    """
    column = name or next((each for each in ("images", "image") if each in columns), None)
    if column is None:
        return None
    return [_only(each) for each in column_of(columns, column, expected, "image_column")]


def _only(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) < 2:
        return value[0] if value else None
    return value
