"""Completions -> clean texts, and tests for worthless ones.

This belongs to the reward, not to the metric. The metric scores texts as published, whoever
wrote them; a policy is paid for its texts, and so discovers what scores without describing.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from itertools import chain
from typing import Any

from posh_reward.markup import (
    BULLET,
    EMPHASIS,
    HORIZONTAL_RULE,
    HTML_ENTITY,
    INLINE_TAG,
    INVISIBLE,
    LINK,
    TABLE_ROW,
    TAG,
    WEB_ADDRESS,
)
from posh_reward.text_values import content_text, read_notation, read_texts
from posh_reward.types import Failure
from posh_reward.words import UNSPECIFIC, find_words

THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
END_OF_THOUGHTS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
HANGUL_FILLERS = re.compile("[\u115f\u1160\u3164\uffa0]")
"""Letters by category, but invisible: the fillers of Hangul."""
END_TOKENS = re.compile(r"(?:<\|[^|<>]*\|>|</s>|<eos>|<end_of_turn>|\s)+\Z")
"""Special tokens at the end of a generation."""
CLOSING_PUNCTUATION = re.compile(r"[,;:!?)\]]|\.(?!\w)")
SENTENCE_MARKS = (".", "!", "?", "\u2026")
CLOSING_MARKS = "\"')]"  # after the mark that ends a sentence
WORDS_PER_SEQUENCE = 4  # in the sequences whose repetition is counted


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
    if not contents:
        return completion
    return "\n".join(texts)


def cut_completion(query: object, prompt: object) -> object:
    """Cut the completion from an OpenRLHF query, which begins with the prompt as the model saw it.

    There an image is many tokens, not one, and a long prompt lacks its beginning; but the last
    line, such as ``<|im_start|>assistant``, is the same. So the cut is where that line has occurred
    as often as in the prompt; None if it never does.
    """
    if not isinstance(query, str) or not isinstance(prompt, str):
        return None
    line = prompt.strip().rpartition("\n")[2]
    start = 0
    if line:
        ends = [each.end() for each in re.finditer(re.escape(line), query)]
        if not ends:
            return None
        start = ends[min(prompt.count(line), len(ends)) - 1]
    return END_TOKENS.sub("", query[start:]).strip()


def without_thoughts(text: str) -> str:
    """Cut out ``<think>`` blocks, even one that is not closed or not opened.

    Some models' templates open the block in the prompt, so that only its end is generated.
    """
    return END_OF_THOUGHTS.split(THOUGHTS.sub("", text))[-1]


def clean_completion(completion: object) -> Any:
    """Return the text of a completion without thoughts and markup; what is no text stays."""
    text = completion_text(completion)
    if not isinstance(text, str):
        return text
    return _clean_output(text)


def clean_reference(reference: object) -> Any:
    """Return a reference, or a list of several, read as completions are: without markup.

    Otherwise a policy would be paid for the words of tags that only its reference has.
    """
    texts = read_texts(completion_text(reference))
    if isinstance(texts, Failure):
        return reference  # the metric gives the reason
    cleaned = [_clean_output(text) for text in texts]
    return cleaned[0] if len(cleaned) == 1 else cleaned


@lru_cache(maxsize=8192)  # a reference recurs with each of its completions
def _clean_output(text: str) -> str:
    return clean_output(without_thoughts(text))[0]


def clean_output(text: str) -> tuple[str, Sequence[int]]:
    """Clean a text without thoughts, without gaps; return the places where its characters stood."""
    from posh_reward.embedded.english.run_ons import recast_clauses

    closed, places = _close_gaps(_blank_all(text))
    recast, within = _close_gaps(recast_clauses(closed))
    return _blank_notation(recast), [places[place] for place in within]


def _close_gaps(text: str) -> tuple[str, list[int]]:
    """Leave one blank between words, none before a comma or full stop; return places, too.

    To a parser, a second blank is a word. A line break counts only between lines that are not
    sentences, such as the items of a list.
    """
    closed: list[str] = []
    places: list[int] = []
    before = ""
    for word in re.finditer(r"\S+", text):
        gap = text[places[-1] + 1 : word.start()] if places else ""
        # "Hand-" at the end of a line, "lettered" on the next.
        is_wrapped = "\n" in gap and before.endswith("-") and word[0][0].islower()
        if gap and not (is_wrapped or CLOSING_PUNCTUATION.match(word[0])):
            is_break = "\n" in gap and not (_ends_sentence(before) or word[0][0].islower())
            closed.append("\n" if is_break else " ")
            places.append(places[-1] + 1)
        before = word[0]
        closed.append(before)
        places += range(*word.span())
    return "".join(closed), places


def _ends_sentence(word: str) -> bool:
    return word.rstrip(CLOSING_MARKS).endswith(SENTENCE_MARKS)


def says_nothing(text: str, reference: str) -> bool:
    """Return True if a text is blank or gibberish.

    Gibberish is a lack of English words, so it is found only if the reference is English.
    """
    from posh_reward.embedded.english.wordnet import MIN_KNOWN_SHARE, is_english, known_share

    if is_blank(text):
        return True
    reference_words = frozenset(find_words(reference))
    gibberish = known_share(HANGUL_FILLERS.sub("", text), reference_words) < MIN_KNOWN_SHARE
    return gibberish and is_english(reference)


def is_blank(text: str) -> bool:
    """Return True if a text renders as blank or has no letter or digit."""
    return not any(character.isalnum() for character in HANGUL_FILLERS.sub("", text))


def repeated_share(text: str) -> float:
    """Share of four-word sequences that occurred earlier in the text; 0 if it is shorter."""
    words = find_words(text)
    starts = range(len(words) - WORDS_PER_SEQUENCE + 1)
    sequences = [tuple(words[start : start + WORDS_PER_SEQUENCE]) for start in starts]
    if not sequences:
        return 0.0
    return 1 - len(set(sequences)) / len(sequences)


NOTATION_FRAME = re.compile(r"\A\s*(?:array)?[\s\[{(]+")
"""Beginning of the notation of a list or a mapping."""
SEMICOLON = re.compile(r";(?=\s)")
HEADING = re.compile(
    r"^[ \t]*((?:[A-Za-z][A-Za-z'&/-]{0,20}[ \t]{0,8}){1,5})(?::(?=\s|$)|$)", re.MULTILINE
)
"""A heading on a line of its own, or before a colon at the line's start."""
HEADING_WORDS = UNSPECIFIC.union(
    "area areas caption clothing description details elements figure figures focus key lighting "
    "main note notes objects overall overview people section setting sides subject subjects "
    "summary title visual".split()
)
"""Words of headings ("Foreground", "Key details"), which name nothing in the image."""
CHAT_OPENING = re.compile(
    r"\A\s*(?:(?:sure|certainly|of course|absolutely)[,.!]?\s+)?here(?:'s|\u2019s| is)\b"
    r"[^.:!?\n]{0,80}:(?=\s)",
    re.IGNORECASE,
)
CHAT_CLOSING = re.compile(
    r"(?:(?<=[.!?]\s)|(?<=\n)|(?<=[.!?]\s\s))(?:please )?(?:let me know|feel free|would you like|"
    r"do you want|i hope th|if you (?:would like|want|need|have))\b[^.!?\n]{0,120}[.!?]?\s*\Z",
    re.IGNORECASE,
)
"""Words of a chat model to its user, before and after the description."""
INVISIBLE_CATEGORIES = frozenset(("Cc", "Cf", "Cn", "Co", "So"))
"""Categories of characters that are invisible, unassigned, or no writing (emoji).
Half a surrogate pair (Cs) stays: a text with one is not Unicode, and fails for that reason."""
INVISIBLE_CHARACTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Invisible characters of other categories: fillers of Hangul, empty Braille."""
MAYBE_INVISIBLE = re.compile("[^ -~\\n\\r\\t]")  # all but printable ASCII, tabs and line breaks
SOFT_HYPHEN = "\u00ad"
SPLIT_WORD = re.compile(rf"(?<![^\W_])[^\W_]+(?:{INVISIBLE.pattern}+[^\W_]+)+")
"""Letters with invisible characters between them, such as soft hyphens."""
ANY_MARK = rf"(?:(?i:{INLINE_TAG.pattern})|{EMPHASIS.pattern})"
WORD_MARK = re.compile(rf"(?<![^\W_]){ANY_MARK}|{ANY_MARK}(?![^\W_])")
"""Inline tags and marks of emphasis, but not between two letters, where they might join words."""
MARKED_WORDS = re.compile(rf"({ANY_MARK}*)((?:{WORD_MARK.pattern}|\S)+)")
WHOLE_QUOTE = re.compile(r'\A\s*"[^"]*"\s*\Z')
PLAIN_QUOTES = str.maketrans(dict.fromkeys("\u2018\u2019\u201b\u2032", "'") |
                             dict.fromkeys("\u201c\u201d\u201f\u2033", '"'))  # fmt: skip
MARKS_IN_WORD = re.compile(r"(?<=[^\W_])(?:[^\w\s]|_)+(?=[^\W_])")  # also between digits
DIGITS_IN_WORD = re.compile(r"(?<=[^\W\d_]{2})\d+(?=[^\W\d_]{2})")
# These two match only at the start of a word: at every letter, a text without blanks takes seconds.
CAMEL_CASE = re.compile(r"(?<!\w)(?=[^\W\d_]*?[a-z][A-Z][a-z]+[A-Z][a-z])[^\W\d_]+(?!\w)")
"""Words in camel case: two or more capitals within the word."""
LONG_COMPOUND = re.compile(r"(?<![^\W_])[^\W_]+(?:['\u2019\u2010\u2011-][^\W_]+){4,}")
"""Five or more words joined by hyphens or apostrophes; people join four at most."""
APOSTROPHES = ("'", "\u2019")
HYPHENS = ("-", "\u2010")
ABBREVIATION_MARKS = (".", "&")
JOINING_QUOTE = re.compile(r'(?<=[^\s"])"(?=[^\s"])')
MORE_THAN_CONTRACTED = re.compile(r"[^\W_]{3}")
"""More letters than one side of an apostrophe within a word has: "O'Keeffe", "they're"."""

PROMPT_LABEL = re.compile(r"(?P<words>[A-Za-z][A-Za-z ]{0,30}?) *(?P<number>\d*) *[:\u2192]")
PROMPT_FIELD = re.compile(r"\{\w*\}")
MIN_INSTRUCTION_WORDS = 4  # of a sentence of instructions
LABEL_ROLES = (
    "answer", "assistant", "grade", "human", "output", "rating", "response", "score", "system",
    "user",
)  # fmt: skip
"""Labels that any judge's template may have, besides those of our prompts."""
LABEL_NUMBER = r"[\s#(\[]{0,9}(?:\d{1,3}|one|two|three|four|five)?[\s)\]]{0,9}"
NOT_AFTER_WORD = r"(?<![A-Za-z,]\s)"
PROMPT_FOLDERS = ("posh/prompts", "other_metrics/harmonic/prompts", "other_metrics/rubric/prompts")
"""Prompts of the metrics with rewards. The labels of all are blanked, since several metrics may
score one text."""
LOOKALIKES = str.maketrans(
    "\u0410\u0412\u0415\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405"
    "\u0430\u0435\u0456\u0458\u043e\u0440\u0441\u0443\u0445\u0455"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf",
    "ABEIJKMHOPCTYXSaeijopcyxsABEZHIKMNOPTYXo",
)
"""Cyrillic and Greek letters that look like Latin ones."""


def clean_text(text: str) -> str:
    """Return a text without markup, chat frames, joined words and labels of prompts.

    The length stays. ``- **Sky:** [blue](https://a.b); grey`` becomes
    ``      Sky:    blue               . grey``.
    """
    from posh_reward.embedded.english.run_ons import recast_clauses

    return _blank_notation(recast_clauses(_blank_all(text)))


def _blank_all(text: str) -> str:
    text = split_joined_words(blank_markup(write_plainly(text)))
    if WHOLE_QUOTE.match(text):
        text = text.replace('"', " ")
    text = HEADING.sub(_if_specific, text)
    text = CHAT_CLOSING.sub(_blank_match, CHAT_OPENING.sub(_blank_match, text))
    folded = fold_lookalikes(text)
    for match in compile_labels().finditer(folded):
        text = text[: match.start()] + _blank_match(match) + text[match.end() :]
    return text


def _blank_notation(text: str) -> str:
    # A policy writes one text: read as two or none (``text_values``), it would have no reward.
    if read_notation(text) is None:
        return text
    return NOTATION_FRAME.sub(_blank_match, text)


def write_plainly(text: str) -> str:
    """Write characters in one form: composed, with plain quotes, without entities.

    The length stays: what a word loses is added after it.
    """
    if "&" in text:
        text = HTML_ENTITY.sub(_read_blank, text)
    elif text.isascii():
        return text
    return re.sub(r"\S+", _write_word, text)


def _read_blank(entity: re.Match[str]) -> str:
    character = html.unescape(entity[0])
    return character.ljust(len(entity[0])) if character.isspace() else entity[0]


def _write_word(word: re.Match[str]) -> str:
    written = HTML_ENTITY.sub(lambda entity: html.unescape(entity[0]), word[0])
    written = unicodedata.normalize("NFC", written.translate(PLAIN_QUOTES))
    written = SPLIT_WORD.sub(_join_parts, written)
    return written.ljust(len(word[0])) if len(written) <= len(word[0]) else word[0]


def _join_parts(word: re.Match[str]) -> str:
    """Join the parts of a word, but not whole words that make none together.

    Soft hyphens stand within words by definition.
    """
    from posh_reward.embedded.english.wordnet import known_share

    parts = INVISIBLE.sub(" ", word[0]).split()
    joined = "".join(parts)
    if SOFT_HYPHEN in word[0] or known_share(joined) == 1:
        return joined
    return word[0] if all(known_share(part) == 1 for part in parts) else joined


def blank_markup(text: str) -> str:
    """Blank Markdown, HTML and special tokens; cells of tables become lines."""
    text = TAG.sub(_blank_match, MARKED_WORDS.sub(_drop_marks, text))
    text = WEB_ADDRESS.sub(_blank_match, LINK.sub(_keep_group, text))
    text = TABLE_ROW.sub(_split_cells, text)
    text = BULLET.sub(_blank_match, HORIZONTAL_RULE.sub(_blank_match, text))
    # A semicolon joins sentences, or items that are as long as sentences.
    return SEMICOLON.sub(".", EMPHASIS.sub(_blank_match, text))


def _drop_marks(words: re.Match[str]) -> str:
    # "A <b>sail</b>-like" is "A    sail-like    ".
    return " " * len(words[1]) + WORD_MARK.sub("", words[2]).ljust(len(words[2]))


def _keep_group(match: re.Match[str]) -> str:
    before, after = match.start(1) - match.start(), match.end() - match.end(1)
    return " " * before + match[1] + " " * after


def _split_cells(row: re.Match[str]) -> str:
    if HORIZONTAL_RULE.match(row[0]):
        return _blank_match(row)
    return _keep_group(row).replace("|", "\n")


def _if_specific(title: re.Match[str]) -> str:
    words = re.findall(r"[a-z]+", title[1].lower())
    if HEADING_WORDS.issuperset(words):
        return _blank_match(title)
    return title[0]


def fold_lookalikes(text: str) -> str:
    """Replace characters that look like ASCII ones by those; the length stays."""
    if text.isascii():
        return text
    folded: list[str] = []
    for character, alike in zip(text, text.translate(LOOKALIKES), strict=True):
        form = unicodedata.normalize("NFKC", alike)
        folded.append(form if len(form) == 1 else character)
    return "".join(folded)


def split_joined_words(text: str) -> str:
    """Replace each character that joins several words into one by a blank.

    Prompts quote the name of an entity. A "word" with characters that look like blanks, or with
    quotes, could be a sentence that tells the judge what to answer. Characters are tested by their
    effect on a word, not by a list: whether they are visible, whether a mark composes with its
    letter, and whether the tokenizer makes one word of two with them in between.
    """
    text = MAYBE_INVISIBLE.sub(_if_seen, text)
    text = JOINING_QUOTE.sub(" ", MARKS_IN_WORD.sub(_if_parting, text))
    text = DIGITS_IN_WORD.sub(_blank_match, text)
    text = CAMEL_CASE.sub(_blank_match, text)
    return LONG_COMPOUND.sub(lambda match: re.sub(r"[^\w]|_", " ", match[0]), text)


def _blank_match(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _if_seen(match: re.Match[str]) -> str:
    # A blank for an invisible character, or for one that hides behind a Latin letter.
    character, at, text = match[0], match.start(), match.string
    category = unicodedata.category(character)
    if category == "Zs" or category in INVISIBLE_CATEGORIES or character in INVISIBLE_CHARACTERS:
        return " "
    before = text[at - 1 : at]
    if not ("a" <= before.lower() <= "z"):
        return character
    if category[0] == "M":  # an accent composes with its letter; a joiner does not
        composed = unicodedata.normalize("NFC", before + character)
        return character if len(composed) == 1 else " "
    after = text[at + 1 : at + 2].lower()
    # Letters without case are in no Latin word: clicks and dots that separate two words.
    if category in ("Lo", "Lm") and "a" <= after <= "z":
        return " "
    return character


def _if_parting(match: re.Match[str]) -> str:
    # Blanks for marks that make one word of two.
    marks, text, start, end = match[0], match.string, match.start(), match.end()
    if marks in APOSTROPHES:
        sides = (text[max(start - 3, 0) : start], text[end : end + 3])
        return " " if all(map(MORE_THAN_CONTRACTED.fullmatch, sides)) else marks
    # A single letter before or after: "a.m.", "AT&T".
    beyond = (text[max(start - 2, 0) : start - 1], text[end + 1 : end + 2])
    initial = not all(re.match(r"\w", each) for each in beyond)
    hyphen = unicodedata.normalize("NFKC", marks) in HYPHENS
    number = text[start - 1].isdigit() and text[end].isdigit()  # 1,000 and 16:9
    abbreviates = marks in ABBREVIATION_MARKS and initial
    if hyphen or number or abbreviates or _separates_words(marks):
        return marks
    return _blank_match(match)


@lru_cache(maxsize=4096)
def _separates_words(marks: str) -> bool:
    # The tokenizer sees two words around the marks, not one.
    words = [token.text for token in _load_tokenizer()(f"dog{marks}cat")]
    return "dog" in words and "cat" in words


@lru_cache(maxsize=1)
def _load_tokenizer() -> Any:
    from spacy.lang.en import English

    return English().tokenizer


@lru_cache(maxsize=1)
def compile_labels() -> re.Pattern[str]:
    """Compile a pattern of the labels and instructions in prompts.

    A text with such a line would write into the judge's prompt, since the published wording does
    not delimit texts. A label is the start of a template's line up to a colon or an arrow, with any
    number; an instruction is a sentence of four words or more without a field.
    """
    instructions: set[str] = set()
    patterns = {rf"{NOT_AFTER_WORD}{role}{LABEL_NUMBER}[:\u2192]" for role in LABEL_ROLES}
    lines = chain.from_iterable(text.splitlines() for text in read_templates())
    for line in (line.strip("- ") for line in lines):
        label = PROMPT_LABEL.match(line)
        if label is not None:
            words = r"\s+".join(map(re.escape, label["words"].split()))
            place = ""
            if label["number"]:
                patterns.add(rf"{words}\s*\d+")
            elif " " not in label["words"]:  # "a jovial expression: two dots" is no label
                place = NOT_AFTER_WORD
            patterns.add(rf"{place}{words}{LABEL_NUMBER}[:\u2192]")
        for sentence in re.split(r"(?<=[.;!?])\s", PROMPT_FIELD.sub("\0", line)):
            parts = sentence.strip(" .;").split()
            if len(parts) >= MIN_INSTRUCTION_WORDS and "\0" not in sentence:
                bare = [re.escape(word.strip(".,;:")) for word in parts]
                instructions.add(r"\W+".join(bare))
    # An instruction may begin with a label, and a label with a shorter one.
    longest_first: list[str] = []
    for some in (instructions, patterns):
        longest_first += sorted(some, key=lambda each: (-len(each), each))
    return re.compile(rf"(?<!\w)(?:{'|'.join(longest_first)})", re.I)


def read_templates() -> list[str]:
    """Return the texts of all prompts that ship."""
    package = resources.files("posh_reward")
    texts: list[str] = []
    for folder in PROMPT_FOLDERS:
        files = sorted((package / folder).iterdir(), key=lambda file: file.name)
        texts += [file.read_text(encoding="utf-8") for file in files]
    return texts
