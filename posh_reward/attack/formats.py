"""Other layouts and spellings of an honest text, none of which should cost it its reward.

Each is a way in which vision-language models write: Markdown, HTML, lists, links, hedges, and the
slips of people. None adds a claim about the image or takes one away.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice

from posh_reward.attack.climb import sentences
from posh_reward.lexicon.meaning import is_plural
from posh_reward.types import Description, Token

ARTICLE = re.compile(r"\b(?:an?|the) ", re.IGNORECASE)
IS = re.compile(r"\b(?:is|are)\b(?! not)")
LONG = re.compile(r"\b[a-z]{5,}\b")
CLAUSE = re.compile(r",\s+(?:and\s+)?")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
HEADINGS = ("Overview", "Foreground", "Background", "Left side", "Right side", "Details")
EMOJI = "\U0001f5bc\U0001f3a8\u2728\U0001f33f\U0001f441"


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


def simple_sentences(description: Description) -> str | None:
    """Give each clause a sentence of its own; None if each has one already.

    "A girl in red stands, holding a fan, and a dog sits." -> "A girl in red stands. The girl is
    holding a fan. A dog sits."
    """
    tokens, starts = description.tokens, dict[int, tuple[int, str]]()
    for verb, token in enumerate(tokens):
        inside = [i for i in range(len(tokens)) if verb in _path(tokens, i)]
        first, last = inside[0], inside[-1]
        after = "".join(t.text for t in tokens[last + 1 : last + 3]) or "."
        ends = after[0] in ".;" or after == ",and"
        if token.pos == "VERB" and first and ends and last - first + 1 == len(inside):
            opening = _opening(tokens, verb, first)
            if opening is not None:
                starts[first] = (last, opening)
    if not starts:
        return None
    clauses: dict[tuple[int, int], str] = {}  # sentence and its clause's first token -> text
    for i, token in enumerate(tokens):
        first = max((f for f, (last, _) in starts.items() if f <= i <= last), default=-1)
        text = clauses.setdefault((token.sentence, first), starts[i][1] if i in starts else "")
        joined = i and tokens[i - 1].span[1] == token.span[0]
        clauses[token.sentence, first] = text + ("" if joined or not text else " ") + token.text
    return " ".join(_sentence(clauses[key]) for key in sorted(clauses))


def _opening(tokens: Sequence[Token], verb: int, first: int) -> str | None:
    """Return the words to put before a clause as its own sentence; None if it has to stay."""
    dep, head, before = tokens[verb].dep, tokens[verb].head, tokens[first - 1].text
    if _subject(tokens, verb) is not None:
        return "" if before == ";" or (dep == "conj" and before == "and") else None
    owner = head if dep == "acl" else _subject(tokens, head)
    if owner is None or tokens[owner].pos != "NOUN" or first != verb:
        return None
    # Another subject in between may be the true one; "a man and a woman" are two.
    nearer = any(t.dep.startswith("nsubj") for t in tokens[owner + 1 : verb])
    if nearer or any(t.head == owner and t.dep == "conj" for t in tokens):
        return None
    if dep == "conj" and before == "and":
        return f"The {tokens[owner].text}"
    if dep in ("advcl", "acl") and before == "," and tokens[verb].text.endswith("ing"):
        plural = is_plural((tokens[owner].text.lower(), "n"))
        return f"The {tokens[owner].text} {'are' if plural else 'is'}"
    return None


def _subject(tokens: Sequence[Token], verb: int) -> int | None:
    subjects = (i for i, t in enumerate(tokens) if t.head == verb and t.dep.startswith("nsubj"))
    return next(subjects, None)


def _path(tokens: Sequence[Token], at: int) -> Iterator[int]:
    """A token, its head, the head's head, up to the root."""
    yield at
    while tokens[at].head != at:
        at = tokens[at].head
        yield at


def _sentence(text: str) -> str:
    text = re.sub(r"(?:[\s,;.]|\b(?:and|while|but)\b)+$", "", re.sub(r"\s+", " ", text)).strip()
    return text[:1].upper() + text[1:] + "."


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
    "lower case": str.lower,
    "introduced": lambda text: f"Here is a detailed description of the image:\n\n{text}",
    "closed": lambda text: f"{text}\n\nLet me know if you would like more details!",
    '"appears to be"': _every(1, IS, "appears to be"),
    "without articles": lambda text: ARTICLE.sub("", text),
    "typos in 5 % of words": _mistyped(0.05),
    "typos in 10 % of words": _mistyped(0.10),
}
"""Name -> a way to write the same text."""
SLIPS = ("without articles", "typos in 5 % of words", "typos in 10 % of words")
