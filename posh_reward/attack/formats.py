"""Other layouts and spellings of an honest text, none of which should cost it its reward.

Each is a way in which vision-language models write: Markdown, HTML, lists, links, hedges, and the
slips of people. None adds a claim about the image or takes one away.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from itertools import cycle, islice

from posh_reward.attack.climb import SENTENCE

ARTICLE = re.compile(r"\b(?:an?|the) ", re.IGNORECASE)
IS = re.compile(r"\b(?:is|are)\b(?! not)")
LONG = re.compile(r"\b[a-z]{5,}\b")
CLAUSE = re.compile(r",\s+(?:and\s+)?")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
HEADINGS = ("Overview", "Foreground", "Background", "Left side", "Right side", "Details")
EMOJI = "\U0001f5bc\U0001f3a8\u2728\U0001f33f\U0001f441"


def sentences(text: str) -> list[str]:
    """Split a text at the ends of its sentences."""
    return [each for each in SENTENCE.split(text.strip()) if each]


def _lines(form: str) -> Callable[[str], str]:
    """Put each sentence on a line of its own: ``{n}`` is its number, ``{title}`` a heading."""

    def write(text: str) -> str:
        parts = sentences(text)
        titles = islice(cycle(HEADINGS), len(parts))
        return "\n".join(
            form.format(n=n, title=title, emoji=EMOJI[n % len(EMOJI)], text=part)
            for n, (part, title) in enumerate(zip(parts, titles, strict=True), start=1)
        )

    return write


def _every(n: int, pattern: re.Pattern[str], form: str) -> Callable[[str], str]:
    """Rewrite every n-th match of a pattern."""

    def write(text: str) -> str:
        matches = iter(range(text.count("") + 1))
        return pattern.sub(
            lambda match: form.format(match[0]) if next(matches) % n == 0 else match[0], text
        )

    return write


def _paragraphs(form: str) -> Callable[[str], str]:
    def write(text: str) -> str:
        parts = sentences(text)
        third = max(1, -(-len(parts) // 3))
        blocks = [" ".join(parts[at : at + third]) for at in range(0, len(parts), third)]
        return "\n\n".join(
            form.format(title=title, text=block)
            for block, title in zip(blocks, HEADINGS, strict=False)
        )

    return write


def _ended_by(mark: str) -> Callable[[str], str]:
    """Join the sentences by another mark than a full stop."""

    def write(text: str) -> str:
        parts = [part.rstrip(".!?") for part in sentences(text)]
        rest = [part[:1].lower() + part[1:] for part in parts[1:]]
        return f"{mark} ".join([*parts[:1], *rest]) + "."

    return write


def _clauses(text: str) -> str:
    parts = [part.rstrip(".") for part in CLAUSE.split(text.replace(". ", "., "))]
    return ". ".join(part[:1].upper() + part[1:] for part in parts if part) + "."


def _mistyped(share: float) -> Callable[[str], str]:
    """Change one letter of this share of the words of four letters or more."""

    def write(text: str) -> str:
        rng = random.Random(text)

        def slip(match: re.Match[str]) -> str:
            word = match[0]
            if rng.random() >= share:
                return word
            at = rng.randrange(1, len(word) - 1)
            swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
            dropped = word[:at] + word[at + 1 :]
            doubled = word[:at] + word[at] + word[at:]
            other = word[:at] + rng.choice(LETTERS) + word[at + 1 :]
            return rng.choice((swapped, dropped, doubled, other))

        return re.sub(r"\b[A-Za-z]{4,}\b", slip, text)

    return write


def _table(text: str) -> str:
    rows = [f"| {title} | {part} |" for part, title in zip(sentences(text), cycle(HEADINGS))]
    return "\n".join(["| Area | Description |", "| --- | --- |", *rows])


def _wrapped(text: str) -> str:
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) > 60:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def _without_articles(text: str) -> str:
    return ARTICLE.sub("", text)


FORMATS: dict[str, Callable[[str], str]] = {
    "one sentence a line": _lines("{text}"),
    "bullets": _lines("- {text}"),
    "stars": _lines("* {text}"),
    "round bullets": _lines("\u2022 {text}"),
    "numbered lines": _lines("{n}. {text}"),
    "numbered in brackets": _lines("{n}) {text}"),
    "bold leads": _lines("**{title}:** {text}"),
    "bold leads in a list": _lines("- **{title}**: {text}"),
    "plain leads": _lines("{title}: {text}"),
    "bold sentences": _lines("**{text}**"),
    "quoted lines": _lines("> {text}"),
    "emoji after sentences": _lines("{text} {emoji}"),
    "emoji before sentences": _lines("{emoji} {text}"),
    "headings": _paragraphs("## {title}\n\n{text}"),
    "headings in bold": _paragraphs("**{title}**\n\n{text}"),
    "rules between paragraphs": _paragraphs("{text}\n\n---"),
    "paragraphs in <p>": _paragraphs("<p>{text}</p>"),
    "HTML list": lambda text: f"<ul>\n{_lines('<li>{text}</li>')(text)}\n</ul>",
    "table": _table,
    "bold words": _every(4, LONG, "**{}**"),
    "italic words": _every(4, LONG, "*{}*"),
    "underlined words": _every(4, LONG, "__{}__"),
    "<b> around words": _every(4, LONG, "<b>{}</b>"),
    "links": _every(6, LONG, "[{0}](https://example.org/wiki/{0})"),
    "code marks": _every(4, LONG, "`{}`"),
    "code block": lambda text: f"```\n{text}\n```",
    "JSON": lambda text: json.dumps({"description": text}),
    "semicolons for full stops": _ended_by(";"),
    "commas for full stops": _ended_by(","),
    "dashes for full stops": _ended_by(" \u2014"),
    "dashes for commas": lambda text: CLAUSE.sub(" \u2014 ", text),
    "split at commas": _clauses,
    "wrapped lines": _wrapped,
    "lower case": str.lower,
    "introduced": lambda text: f"Here is a detailed description of the image:\n\n{text}",
    "closed": lambda text: f"{text}\n\nLet me know if you would like more details!",
    '"appears to be"': _every(1, IS, "appears to be"),
    "without articles": _without_articles,
    "typos in 5 % of words": _mistyped(0.05),
    "typos in 10 % of words": _mistyped(0.10),
}
"""Name -> a way to write the same text."""
