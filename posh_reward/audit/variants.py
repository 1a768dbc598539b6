"""Variants of true texts: false ones, by kind, and honest ones in other forms.

``CONTINUATIONS`` take a parsed text and return it with one kind of word made wrong, or None if it
has no such word. ``FORMATS`` are layouts and spellings in which vision-language models and people
write: none adds a claim about the image or takes one away. Equal seeds give equal texts.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import cycle, islice

from posh_reward.audit.hill_climb import sentences
from posh_reward.embedded.english.likeness import UNITS, colours
from posh_reward.embedded.english.meaning import is_plural
from posh_reward.embedded.english.word_classes import PREPOSITIONS, agreement
from posh_reward.graph.reader import Reader
from posh_reward.types import Description, Token
from posh_reward.words import UNSPECIFIC

ARTICLE = re.compile(r"\b([Aa])n? (?=([a-z]))")
VERBS = (
    "hold carry push pull kick wash paint feed chase bite lift throw catch draw cut read open "
    "close ride lead follow watch touch cover wear drink eat build break hug kiss point sell"
).split()
PLACES = "on under behind above inside near beside below in over".split()
COLOURS = "red blue green yellow black white brown grey pink orange purple".split()
EXCHANGED = {
    "left": "right", "man": "woman", "men": "women", "boy": "girl", "boys": "girls", "he": "she",
    "his": "her", "him": "her", "himself": "herself", "father": "mother", "son": "daughter",
    "brother": "sister", "king": "queen", "male": "female",
}  # fmt: skip
EXCHANGED |= {b: a for a, b in EXCHANGED.items() if a not in ("him", "himself")}
SIDES = ("left", "right")

MUSEUM = (
    "The artist invites us to reflect on the passing of time. The work shows a rare command of "
    "tone, and every detail rewards a closer look. It speaks of loss and of hope, and it remains "
    "one of the finest examples of its kind."
)
"""Praise that fits every image."""

Perturb = Callable[[Description, random.Random], str | None]


@cache
def reader() -> Reader:
    return Reader()


def rewritten(description: Description, words: Mapping[int, str]) -> str | None:
    """Replace tokens by index; None if that changes nothing."""
    text, end = "", 0
    for i, token in enumerate(description.tokens):
        word = words.get(i, token.text)
        text += description.text[end : token.span[0]]
        text += word[:1].upper() + word[1:] if token.text[:1].isupper() else word
        end = token.span[1]
    text = with_articles(text + description.text[end:])
    return None if text == description.text else text


def with_articles(text: str) -> str:
    """Write "a" or "an" as the next word asks for."""
    return ARTICLE.sub(lambda m: f"{m[1]}{'n' * (m[2] in 'aeiou')} ", text)


def inflected(verb: str, like: Token) -> str:
    """Return a verb in the form of another: holds, holding, held."""
    form = like.text.lower()
    if form.endswith("ing"):
        return (verb[:-1] if verb.endswith("e") else verb) + "ing"
    if form.endswith("s") and form != like.lemma:
        return verb + ("es" if verb.endswith(("ch", "sh", "s")) else "s")
    if form.endswith("ed") and form != like.lemma:
        return verb + ("d" if verb.endswith("e") else "ed")
    return verb


def other_verbs(description: Description, rng: random.Random) -> str | None:
    """Every verb random: "The boy kicks the ball" -> "The boy paints the ball"."""
    own = {token.lemma for token in description.tokens}
    free = [verb for verb in VERBS if verb not in own]
    changed = {
        i: inflected(rng.choice(free), token)
        for i, token in enumerate(description.tokens)
        if token.pos == "VERB" and token.lemma not in ("be", "have") and token.dep != "amod"
    }
    return rewritten(description, changed)


def other_prepositions(description: Description, rng: random.Random) -> str | None:
    """Every preposition of place random, but never one of a like meaning."""
    changed = {}
    for i, token in enumerate(description.tokens):
        word = token.text.lower()
        if token.pos == "ADP" and word in PREPOSITIONS and word not in ("of", "with", "by"):
            changed[i] = rng.choice([p for p in PLACES if agreement(word, p) < 0.5])
    return rewritten(description, changed)


def _mapped(change: Callable[[str, Token, random.Random], str | None]) -> Perturb:
    def perturb(description: Description, rng: random.Random) -> str | None:
        changed = {
            i: change(token.text.lower(), token, rng) for i, token in enumerate(description.tokens)
        }
        return rewritten(description, {i: word for i, word in changed.items() if word})

    return perturb


def _other_colour(word: str, token: Token, rng: random.Random) -> str | None:
    if word not in colours() or token.pos not in ("ADJ", "NOUN"):
        return None
    return rng.choice([c for c in COLOURS if not colours()[c] & colours()[word]])


sides_exchanged = _mapped(lambda word, *_: EXCHANGED[word] if word in SIDES else None)
genders_exchanged = _mapped(lambda word, *_: None if word in SIDES else EXCHANGED.get(word))
counts_up = _mapped(lambda word, *_: UNITS[UNITS.index(word) + 1] if word in UNITS[2:-1] else None)
other_colours = _mapped(_other_colour)


def adjectives_permuted(description: Description, rng: random.Random) -> str | None:
    """All adjectives exchanged among their places."""
    places = [i for i, t in enumerate(description.tokens) if t.pos == "ADJ" and t.text.isalpha()]
    moved = places[1:] + places[:1]
    return rewritten(
        description,
        {a: description.tokens[b].text.lower() for a, b in zip(places, moved, strict=True)},
    )


def verbs_negated(description: Description, rng: random.Random) -> str | None:
    """Every verb with a subject negated: "holds" -> "does not hold"."""
    tokens, changed = description.tokens, {}
    for i, token in enumerate(tokens):
        subject = [t for t in tokens if t.dep.startswith("nsubj") and t.head == i]
        if not subject and token.lemma != "be":
            continue
        helpers = [j for j, t in enumerate(tokens) if t.head == i and t.dep in ("aux", "auxpass")]
        if helpers or token.lemma == "be":
            at = helpers[0] if helpers else i
            changed[at] = f"{tokens[at].text} not"
        elif token.pos == "VERB":
            past = token.text.lower().endswith("ed")
            do = "did" if past else "does" if token.text.lower() != token.lemma else "do"
            changed[i] = f"{do} not {token.lemma}"
    return rewritten(description, changed)


def declared_false(description: Description, rng: random.Random) -> str | None:
    """Declare each sentence false: "It is false that" before it."""
    tokens, changed = description.tokens, dict[int, str]()
    for i, token in enumerate(tokens):
        if not i or tokens[i - 1].sentence != token.sentence:
            word = token.text if token.pos == "PROPN" else token.text.lower()
            changed[i] = f"it is false that {word}"
    return rewritten(description, changed)


def all_but_nouns(description: Description, rng: random.Random) -> str | None:
    """Other verbs, prepositions, colours, counts and permuted adjectives at once."""
    text = description.text
    for change in (other_verbs, other_prepositions, other_colours, counts_up, adjectives_permuted):
        [read] = reader().read([text])
        if isinstance(read, Description):
            text = change(read, rng) or text
    return None if text == description.text else text


def roles_exchanged(description: Description, rng: random.Random) -> str | None:
    """Subject and object of each verb exchanged: "The boy kicks the ball" -> "The ball ... boy"."""
    tokens, changed = description.tokens, dict[int, str]()
    for verb in range(len(tokens)):
        ends = {t.dep: j for j, t in enumerate(tokens) if t.head == verb and t.pos == "NOUN"}
        if tokens[verb].pos == "VERB" and {"nsubj", "dobj"} <= ends.keys():
            one, other = ends["nsubj"], ends["dobj"]
            if tokens[one].lemma != tokens[other].lemma and not {one, other} & changed.keys():
                changed |= {one: tokens[other].text, other: tokens[one].text}
    return rewritten(description, changed)


def nouns_in_false_frames(description: Description, rng: random.Random) -> str | None:
    """The nouns in the order of the text, joined by false verbs, in one sentence."""
    nouns = [t.text.lower() for t in description.tokens if t.pos == "NOUN" and t.text.isalpha()]
    own = {token.lemma for token in description.tokens}
    free = [verb for verb in VERBS if verb not in own]
    like = Token("holds", "hold", "VERB", "", 0, 0, (0, 5))
    clauses = [
        f"the {a} {inflected(rng.choice(free), like)} the {b}"
        for a, b in zip(nouns[::2], nouns[1::2], strict=False)
    ]
    return f"T{', and '.join(clauses)[1:]}." if clauses else None


CONTINUATIONS: dict[str, Perturb] = {
    "every verb negated": verbs_negated,
    '"It is false that" before each': declared_false,
    "everything wrong but the nouns": all_but_nouns,
    "nouns in order, false verbs, one sentence": nouns_in_false_frames,
    "verbs random": other_verbs,
    "prepositions random": other_prepositions,
    "left and right exchanged": sides_exchanged,
    "counts + 1": counts_up,
    "genders exchanged": genders_exchanged,
    "adjectives permuted": adjectives_permuted,
    "colours wrong": other_colours,
    "subject and object exchanged": roles_exchanged,
}
"""Ways to make a text false, by name."""
FALSE_THROUGHOUT = tuple(CONTINUATIONS)[:4]
"""Those that leave no sentence true; of the others' sentences a detail is wrong."""

ARTICLES = ("a", "an", "the")


def _long(words: list[str]) -> list[str]:
    return [word.strip(".,;") for word in words if len(word) > 3]


def _around_articles(words: list[str]) -> str:
    """Shuffle all words except articles and the words after them."""
    new = list(words)
    previous = ["", *(word.lower() for word in words)]
    free = [i for i, word in enumerate(words)
            if not {word.lower(), previous[i]}.intersection(ARTICLES)]  # fmt: skip
    for i, j in zip(free, random.Random(0).sample(free, len(free)), strict=True):
        new[i] = words[j]
    return " ".join(new)


EDITS: dict[str, Callable[[list[str]], str]] = {
    "shuffled around articles": _around_articles,
    "an article each": lambda words: f"The {' the '.join(_long(words))}.",
    "chain of prepositions": lambda words: f"The {' of the '.join(_long(words))}.",
    "words sorted": lambda words: " ".join(sorted(words)),
    "words reversed": lambda words: " ".join(reversed(words)),
    "long words only": lambda words: " ".join(word for word in words if len(word) > 3),
    "long words by commas": lambda words: ", ".join(_long(words)),
    "long words by lines": lambda words: "\n".join(_long(words)).lower(),
    "without articles": lambda words: " ".join(w for w in words if w.lower() not in ARTICLES),
    "hyphens": lambda words: "-".join(words),
    "possessive chain": lambda words: "'s ".join(word.strip(".,;") for word in words),
    "bullets": lambda words: "\n".join(f"- {word}" for word in words),
    "capitals": lambda words: " ".join(words).upper(),
    "camel case": lambda words: "".join(word.strip(".,;").capitalize() for word in words),
    "each word twice": lambda words: " ".join(word for word in words for _ in range(2)),
    "no full stops": lambda words: " ".join(words).replace(".", ""),
    "quotes": lambda words: " ".join(f'"{word}"' for word in words),
}
"""Each takes the words of a true text."""

JOINERS = "\u200b\u00a0\u2007\u202f\u3000\u2800\u3164\u0301_|/~=+\u00b7\u2022\u2192\u20ac"
"""Characters that may look like blanks, or join words into one."""


ANY_ARTICLE = re.compile(r"\b(?:an?|the) ", re.IGNORECASE)
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


def things_named(description: Description) -> str | None:
    """Name each thing in a sentence and say no more: "There is a dog. There is an owl."."""
    nouns = dict.fromkeys(
        token.lemma for token in description.tokens
        if token.pos == "NOUN" and token.lemma == token.text and token.lemma not in UNSPECIFIC
    )  # fmt: skip
    return with_articles(" ".join(f"There is a {noun}." for noun in nouns)) or None


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
    "without articles": lambda text: ANY_ARTICLE.sub("", text),
    "typos in 5 % of words": _mistyped(0.05),
    "typos in 10 % of words": _mistyped(0.10),
}
"""Name -> a way to write the same text."""
SLIPS = ("without articles", "typos in 5 % of words", "typos in 10 % of words")
