"""Completions -> texts; tests for worthless texts; columns.

This belongs to the reward, not to the metric. The metric scores texts as published, whoever
wrote them; a policy is paid for its texts, and so discovers what scores without describing.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from importlib import resources
from typing import Any

from posh_reward.markup import BULLET, EMPHASIS, HORIZONTAL_RULE, LINK, TABLE_ROW, TAG, WEB_ADDRESS
from posh_reward.text_values import content_text, read_notation, read_texts
from posh_reward.types import Failure
from posh_reward.words import UNSPECIFIC, find_words

THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
END_OF_THOUGHTS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
INVISIBLE = re.compile("[\u115f\u1160\u3164\uffa0]")
"""Letters by category, but invisible: the fillers of Hangul."""
END = re.compile(r"(?:<\|[^|<>]*\|>|</s>|<eos>|<end_of_turn>|\s)+\Z")
"""Special tokens at the end of a generation."""
GRAM = 4  # words in the sequences whose repetition is counted


def completion_text(completion: object) -> Any:
    """Return the text of a completion: a string, or the assistant's turns of a conversation.

    Turns without text, such as tool calls, are skipped. A conversation of those alone is an empty
    description, like one that was thought and never written: silence must not beat a poor answer.
    Any other value is returned as it is, so that the metric fails with a reason.
    """
    if not isinstance(completion, list | tuple):
        return completion
    turns = [turn for turn in completion if isinstance(turn, dict)]
    contents = [turn.get("content") for turn in turns if turn.get("role") == "assistant"]
    if not all(isinstance(content, str | list | tuple | None) for content in contents):
        return completion
    texts = [text for content in contents if (text := content_text(content)) is not None]
    return "\n".join(texts) if contents else completion


def completion_of(query: object, prompt: object) -> object:
    """Cut the completion from an OpenRLHF query, which begins with the prompt as the model saw it.

    There an image is many tokens, not one, and a long prompt lacks its beginning; but the last
    line, such as ``<|im_start|>assistant``, is the same. So the cut is where that line has occurred
    as often as in the prompt; None if it never does.
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
    """Cut out ``<think>`` blocks, even one that is not closed or not opened.

    Some models' templates open the block in the prompt, so that only its end is generated.
    """
    return END_OF_THOUGHTS.split(THOUGHTS.sub("", text))[-1]


def clean_completion(completion: object) -> Any:
    """Return the text of a completion without thoughts and markup; what is no text stays."""
    text = completion_text(completion)
    return _clean_text(text) if isinstance(text, str) else text


def clean_reference(reference: object) -> Any:
    """Return a reference, or a list of several, read as completions are: without markup.

    Otherwise a policy would be paid for the words of tags that only its reference has.
    """
    texts = read_texts(completion_text(reference))
    if isinstance(texts, Failure):
        return reference  # the metric gives the reason
    cleaned = [_clean_text(text) for text in texts]
    return cleaned[0] if len(cleaned) == 1 else cleaned


@lru_cache(maxsize=8192)  # a reference recurs with each of its completions
def _clean_text(text: str) -> str:
    # Thoughts go first: ``clean`` would blank the tags around them.
    return clean(without_thoughts(text))


def says_nothing(text: str, reference: str) -> bool:
    """Return True if a text is blank or gibberish.

    Gibberish is a lack of English words, so it is found only if the reference is English.
    """
    from posh_reward.embedded.english.wordnet import MIN_KNOWN_SHARE, is_english, known_share

    if is_blank(text):
        return True
    reference_words = frozenset(find_words(reference))
    gibberish = known_share(INVISIBLE.sub("", text), reference_words) < MIN_KNOWN_SHARE
    return gibberish and is_english(reference)


def is_blank(text: str) -> bool:
    """Return True if a text renders as blank or has no letter or digit."""
    return not any(character.isalnum() for character in INVISIBLE.sub("", text))


def repeated_share(text: str) -> float:
    """Share of four-word sequences that occurred earlier in the text; 0 if it is shorter."""
    parts = find_words(text)
    grams = [tuple(parts[i : i + GRAM]) for i in range(len(parts) - GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


FRAME = re.compile(r"\A\s*(?:array)?[\s\[{(]+")
"""Beginning of the notation of a list or a mapping."""
SEMICOLON = re.compile(r";(?=\s)")
TITLE = re.compile(
    r"^[ \t]*((?:[A-Za-z][A-Za-z'&/-]{0,20}[ \t]{0,8}){1,5})(?::(?=\s|$)|$)", re.MULTILINE
)
"""A heading on a line of its own, or before a colon at the line's start."""
OF_HEADINGS = UNSPECIFIC.union(
    "area areas caption clothing description details elements figure figures focus key lighting "
    "main note notes objects overall overview people section setting sides subject subjects "
    "summary title visual".split()
)
"""Words of headings ("Foreground", "Key details"), which name nothing in the image."""
OPENING = re.compile(
    r"\A\s*(?:(?:sure|certainly|of course|absolutely)[,.!]?\s+)?here(?:'s|\u2019s| is)\b"
    r"[^.:!?\n]{0,80}:(?=\s)",
    re.IGNORECASE,
)
CLOSING = re.compile(
    r"(?:(?<=[.!?]\s)|(?<=\n)|(?<=[.!?]\s\s))(?:please )?(?:let me know|feel free|would you like|"
    r"do you want|i hope th|if you (?:would like|want|need|have))\b[^.!?\n]{0,120}[.!?]?\s*\Z",
    re.IGNORECASE,
)
"""Words of a chat model to its user, before and after the description."""
UNSEEN = frozenset(("Cc", "Cf", "Cn", "Co", "So"))
"""Categories of characters that are invisible, unassigned, or no writing (emoji).
Half a surrogate pair (Cs) stays: a text with one is not Unicode, and fails for that reason."""
EMPTY = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Invisible characters of other categories: fillers of Hangul, empty Braille."""
SUSPECT = re.compile("[^ -~\\s]")  # may be invisible: all but printable ASCII and white space
RUN = re.compile(r"(?<=[^\W_])(?:[^\w\s]|_)+(?=[^\W_])")  # marks between letters or digits
DIGITS = re.compile(r"(?<=[^\W\d_]{2})\d+(?=[^\W\d_]{2})")  # digits inside a word
# These two match only at the start of a word: at every letter, a text without blanks takes seconds.
HUMPS = re.compile(r"(?<!\w)(?=[^\W\d_]*?[a-z][A-Z][a-z]+[A-Z][a-z])[^\W\d_]+(?!\w)")
"""Words in camel case: two or more capitals within the word."""
COMPOUND = re.compile(r"(?<![^\W_])[^\W_]+(?:['\u2019\u2010\u2011-][^\W_]+){4,}")
"""Five or more words joined by hyphens or apostrophes; people join four at most."""
APOSTROPHES = ("'", "\u2019")
HYPHENS = ("-", "\u2010")
ABBREVIATING = (".", "&")
JOINING_QUOTE = re.compile(r'(?<=[^\s"])"(?=[^\s"])')
UNCONTRACTED = re.compile(r"[^\W_]{3}")
"""More letters than one side of an apostrophe within a word has: "O'Keeffe", "they're"."""

LABEL = re.compile(r"(?P<words>[A-Za-z][A-Za-z ]{0,30}?) *(?P<number>\d*) *[:\u2192]")
FIELD = re.compile(r"\{\w*\}")
INSTRUCTION = 4  # minimum words of a sentence of instructions
ROLES = (
    "answer", "assistant", "grade", "human", "output", "rating", "response", "score", "system",
    "user",
)  # fmt: skip
"""Labels that any judge's template may have, besides those of our prompts."""
NUMBER = r"[\s#(\[]{0,9}(?:\d{1,3}|one|two|three|four|five)?[\s)\]]{0,9}"
UNPRECEDED = r"(?<![A-Za-z,]\s)"
PROMPTS = ("posh/prompts", "other_metrics/harmonic/prompts", "other_metrics/rubric/prompts")
"""Prompts of the metrics with rewards. The labels of all are blanked, since several metrics may
score one text."""
LOOKALIKES = str.maketrans(
    "\u0410\u0412\u0415\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405"
    "\u0430\u0435\u0456\u0458\u043e\u0440\u0441\u0443\u0445\u0455"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf",
    "ABEIJKMHOPCTYXSaeijopcyxsABEZHIKMNOPTYXo",
)
"""Cyrillic and Greek letters that look like Latin ones."""


def clean(text: str) -> str:
    """Return a text without markup, chat frames, joined words and labels of prompts.

    The length stays. ``- **Sky:** [blue](https://a.b); grey`` becomes
    ``      Sky:    blue               . grey``.
    """
    text = TITLE.sub(_if_specific, unjoined(unmarked(text)))
    text = CLOSING.sub(_blank, OPENING.sub(_blank, text))
    folded = fold(text)
    for match in labels().finditer(folded):
        text = text[: match.start()] + _blank(match) + text[match.end() :]
    # A policy writes one text: read as two or none (``text_values``), it would have no reward.
    return text if read_notation(text) is None else FRAME.sub(_blank, text)


def unmarked(text: str) -> str:
    """Blank Markdown, HTML and special tokens; cells of tables become lines."""
    from posh_reward.embedded.english.run_ons import recast_clauses

    text = TAG.sub(_blank, text)
    text = WEB_ADDRESS.sub(_blank, LINK.sub(_keep, text))
    text = TABLE_ROW.sub(
        lambda row: _blank(row) if HORIZONTAL_RULE.match(row[0]) else _cells(row), text
    )
    text = BULLET.sub(_blank, HORIZONTAL_RULE.sub(_blank, text))
    # A semicolon joins sentences, or items that are as long as sentences.
    return recast_clauses(SEMICOLON.sub(".", EMPHASIS.sub(_blank, text)))


def _keep(match: re.Match[str]) -> str:
    before, after = match.start(1) - match.start(), match.end() - match.end(1)
    return " " * before + match[1] + " " * after


def _cells(row: re.Match[str]) -> str:
    return _keep(row).replace("|", "\n")


def _if_specific(title: re.Match[str]) -> str:
    words = re.findall(r"[a-z]+", title[1].lower())
    return _blank(title) if OF_HEADINGS.issuperset(words) else title[0]


def fold(text: str) -> str:
    """Replace characters that look like ASCII ones by those; the length stays."""
    if text.isascii():
        return text
    forms = (unicodedata.normalize("NFKC", each) for each in text.translate(LOOKALIKES))
    return "".join(form if len(form) == 1 else each for form, each in zip(forms, text, strict=True))


def unjoined(text: str) -> str:
    """Replace each character that joins several words into one by a blank.

    Prompts quote the name of an entity. A "word" with characters that look like blanks, or with
    quotes, could be a sentence that tells the judge what to answer. Characters are tested by their
    effect on a word, not by a list: whether they are visible, whether a mark composes with its
    letter, and whether the tokenizer makes one word of two with them in between.
    """
    text = SUSPECT.sub(_if_seen, text)
    text = JOINING_QUOTE.sub(" ", RUN.sub(_if_parting, text))
    text = DIGITS.sub(_blank, text)
    text = HUMPS.sub(_blank, text)
    return COMPOUND.sub(lambda match: re.sub(r"[^\w]|_", " ", match[0]), text)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _if_seen(match: re.Match[str]) -> str:
    # A blank for an invisible character, or for one that hides behind a Latin letter.
    character, at, text = match[0], match.start(), match.string
    category = unicodedata.category(character)
    if category in UNSEEN or character in EMPTY:
        return " "
    before = text[at - 1 : at]
    if not ("a" <= before.lower() <= "z"):
        return character
    if category[0] == "M":  # an accent composes with its letter; a joiner does not
        return character if len(unicodedata.normalize("NFC", before + character)) == 1 else " "
    after = text[at + 1 : at + 2].lower()
    # Letters without case are in no Latin word: clicks and dots that separate two words.
    return " " if category in ("Lo", "Lm") and "a" <= after <= "z" else character


def _if_parting(match: re.Match[str]) -> str:
    # Blanks for marks that make one word of two.
    marks, text, start, end = match[0], match.string, match.start(), match.end()
    if marks in APOSTROPHES:
        sides = (text[max(start - 3, 0) : start], text[end : end + 3])
        return " " if all(map(UNCONTRACTED.fullmatch, sides)) else marks
    # A single letter before or after: "a.m.", "AT&T".
    initial = any(
        not re.match(r"\w", beyond)
        for beyond in (text[max(start - 2, 0) : start - 1], text[end + 1 : end + 2])
    )
    hyphen = unicodedata.normalize("NFKC", marks) in HYPHENS
    number = text[start - 1].isdigit() and text[end].isdigit()  # 1,000 and 16:9
    fine = hyphen or number or (marks in ABBREVIATING and initial)
    return marks if fine or _separates(marks) else _blank(match)


@lru_cache(maxsize=4096)
def _separates(marks: str) -> bool:
    # The tokenizer sees two words around the marks, not one.
    words = [token.text for token in _tokenizer()(f"dog{marks}cat")]
    return "dog" in words and "cat" in words


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    from spacy.lang.en import English

    return English().tokenizer


@lru_cache(maxsize=1)
def labels() -> re.Pattern[str]:
    """Compile a pattern of the labels and instructions in prompts.

    A text with such a line would write into the judge's prompt, since the published wording does
    not delimit texts. A label is the start of a template's line up to a colon or an arrow, with any
    number; an instruction is a sentence of four words or more without a field.
    """
    instructions: set[str] = set()
    patterns = {rf"{UNPRECEDED}{role}{NUMBER}[:\u2192]" for role in ROLES}
    for line in (line.strip("- ") for text in templates() for line in text.splitlines()):
        label = LABEL.match(line)
        if label is not None:
            words = r"\s+".join(map(re.escape, label["words"].split()))
            number = r"\s*\d+" if label["number"] else ""
            anywhere = number or " " in label["words"]
            place = "" if anywhere else UNPRECEDED  # "a jovial expression: two dots" is no label
            patterns |= {
                rf"{place}{words}{NUMBER}[:\u2192]",
                *([words + number] if number else ()),
            }
        for sentence in re.split(r"(?<=[.;!?])\s", FIELD.sub("\0", line)):
            parts = sentence.strip(" .;").split()
            if len(parts) >= INSTRUCTION and "\0" not in sentence:
                instructions.add(r"\W+".join(map(re.escape, (w.strip(".,;:") for w in parts))))
    # An instruction may begin with a label, and a label with a shorter one.
    longest_first = [
        each
        for some in (instructions, patterns)
        for each in sorted(some, key=lambda each: (-len(each), each))
    ]
    return re.compile(rf"(?<!\w)(?:{'|'.join(longest_first)})", re.I)


def templates() -> list[str]:
    """Return the texts of all prompts that ship."""
    package = resources.files("posh_reward")
    return [
        file.read_text(encoding="utf-8")
        for folder in PROMPTS
        for file in sorted((package / folder).iterdir(), key=lambda file: file.name)
    ]
