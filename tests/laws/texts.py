"""Texts to test laws on: sentences written for that, and people's descriptions in ``../shared``."""

from __future__ import annotations

import html
import json
import random
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

SENTENCES = Path(__file__).with_name("sentences.txt")
"""Texts, one a line, in sections by kind: full of what makes a text contradict itself to a judge
(denials, twins, comparisons, parts), and of words that tokenizers and readers may cut."""
PEOPLES_TEXTS = {
    "nga/nga_descriptions.json": ("description",),
    "iiw/iiw_400_dev.jsonl": ("IIW",),
    "two_describers/docci_iiw_dev.jsonl": ("DOCCI",),
    "known_truth/long_truth_dev.jsonl": ("reference", "honest"),
    "known_truth/snli_dev.jsonl": ("premise",),
    "human/flickr8k_expert_dev.jsonl": ("references",),
}

WRAPPED_BEFORE_CAPITAL = re.compile(r"(?<![.!?])\n(?=\W*[A-Z\d])")
"""Where a line break might part items of a list."""
SENTENCE_END = re.compile(r"(?<=[a-z]{4}[.!?])\s+(?=[A-Z])")
"""After a word that is no abbreviation ("St. Agnes", "No. 9")."""


@cache
def load_sentences() -> dict[str, list[str]]:
    """Kind -> texts of ``SENTENCES``."""
    kinds: dict[str, list[str]] = {}
    for line in SENTENCES.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            kinds[line.removeprefix("# ")] = texts = []
        else:
            texts.append(line)
    return kinds


def load_peoples_texts(shared_data: Path) -> list[str]:
    """Load the texts by people, each once."""
    texts: dict[str, None] = {}
    for name, fields in PEOPLES_TEXTS.items():
        written = (shared_data / "data" / name).read_text(encoding="utf-8")
        lines = written.splitlines() if name.endswith("jsonl") else []
        for row in map(json.loads, lines) if lines else json.loads(written):
            texts |= dict.fromkeys(_list_texts(row, fields))
    return list(texts)


def _list_texts(row: dict[str, str | list[str]], fields: tuple[str, ...]) -> Iterator[str]:
    for field in fields:
        value = row[field]
        if field == "honest":
            yield " ".join(value)
        else:
            yield from [value] if isinstance(value, str) else value


def split_sentences(text: str) -> list[str]:
    return SENTENCE_END.split(text)


def draw(texts: list[str], most: int) -> list[str]:
    """Draw some of the texts, always the same ones."""
    return random.Random(1).sample(texts, min(most, len(texts)))


def between_sentences(mark: str) -> Callable[[str], str]:
    return lambda text: mark.join(split_sentences(text))


def around_sentences(before: str, after: str = "") -> Callable[[str], str]:
    return lambda text: "\n".join(f"{before}{each}{after}" for each in split_sentences(text))


def around_words(before: str, after: str) -> Callable[[str], str]:
    """Mark every third longer word."""
    return lambda text: re.sub(
        r"(\b[a-z]{4,}\b)((?:[^a-z]+[a-z]+){2})", rf"{before}\1{after}\2", text
    )


def within_words(mark: str) -> Callable[[str], str]:
    """Put a mark into each long word, after its third letter."""
    return lambda text: re.sub(r"\b([a-z]{3})([a-z]{3,})\b", rf"\1{mark}\2", text)


def with_curly_quotes(text: str) -> str:
    text = re.sub(r'"(?=\w)', "\u201c", text).replace('"', "\u201d")
    return text.replace("'", "\u2019")


def as_numeric_entities(text: str) -> str:
    return re.sub(r"[^ -~]|'", lambda found: f"&#{ord(found[0])};", text)


FORMS: dict[str, Callable[[str], str]] = {
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "composed": lambda text: unicodedata.normalize("NFC", text),
    "paragraphs in <p>": around_sentences("<p>", "</p>"),
    "<p> in one line": lambda text: around_sentences("<p>", "</p>")(text).replace("\n", ""),
    "<br>": between_sentences("<br>"),
    "<br/>": between_sentences("<br />\n"),
    "<b>": around_words("<b>", "</b>"),
    "<div>": lambda text: f'<div class="text"><span style="color: red">{text}</span></div>',
    "HTML list": lambda text: f"<ul>{between_sentences('</li><li>')(text)}</ul>",
    "named entities": lambda text: html.escape(text, quote=True),
    "numeric entities": as_numeric_entities,
    "&nbsp;": lambda text: re.sub(r" (?=\w+ )", "&nbsp;", text),
    "no-break blanks": lambda text: text.replace(" ", "\u00a0"),
    "zero-width blanks between words": lambda text: text.replace(" ", " \u200b"),
    "zero-width blanks within words": within_words("\u200b"),
    "soft hyphens": within_words("\u00ad"),
    "byte-order mark": lambda text: "\ufeff" + text,
    "curly quotes": with_curly_quotes,
    "bullets": around_sentences("- "),
    "stars": around_sentences("* "),
    "round bullets": around_sentences("\u2022 "),
    "numbered": lambda text: "\n".join(
        f"{number}. {each}" for number, each in enumerate(split_sentences(text), start=1)
    ),
    "bold words": around_words("**", "**"),
    "italic sentences": around_sentences("*", "*"),
    "heading": lambda text: f"# Description\n\n{text}",
    "quoted lines": around_sentences("> "),
    "lines": between_sentences("\n"),
    "paragraphs": between_sentences("\n\n"),
    "lines of Windows": between_sentences("\r\n"),
    "in quotes": lambda text: text if '"' in text else f'"{text}"',
    "wrapped": lambda text: WRAPPED_BEFORE_CAPITAL.sub(" ", textwrap.fill(text, 60)),
    "doubled blanks": lambda text: text.replace(" ", "  "),
    "end of a turn": lambda text: f"{text}<|im_end|>\n<|endoftext|>",
    "turn": lambda text: f"<|im_start|>assistant\n{text}<|im_end|>\n",
    "end of a sequence": lambda text: f"{text}</s>",
    "thoughts": lambda text: f"<think>\nA dog.\n</think>\n\n{text}",
}  # fmt: skip
"""Layouts, spellings and residue of programs around the same words."""
