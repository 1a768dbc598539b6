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
from itertools import count, cycle, pairwise

from posh_reward.audit.hill_climb import split_sentences
from posh_reward.embedded.english.likeness import UNITS, load_colours
from posh_reward.embedded.english.meaning import is_plural
from posh_reward.embedded.english.word_classes import PREPOSITIONS, preposition_agreement
from posh_reward.graph.reader import Reader
from posh_reward.types import Description, Token
from posh_reward.words import UNSPECIFIC

ARTICLE_BEFORE_LETTER = re.compile(r"\b([Aa])n? (?=([a-z]))")
ACTION_VERBS = (
    "hold carry push pull kick wash paint feed chase bite lift throw catch draw cut read open "
    "close ride lead follow watch touch cover wear drink eat build break hug kiss point sell"
).split()
PLACE_PREPOSITIONS = "on under behind above inside near beside below in over".split()
COLOURS = "red blue green yellow black white brown grey pink orange purple".split()
OTHER_SIDES = {"left": "right", "right": "left"}
OTHER_GENDERS = {
    "man": "woman", "men": "women", "boy": "girl", "boys": "girls", "he": "she", "his": "her",
    "him": "her", "himself": "herself", "father": "mother", "son": "daughter",
    "brother": "sister", "king": "queen", "male": "female",
}  # fmt: skip
OTHER_GENDERS |= {b: a for a, b in OTHER_GENDERS.items() if a not in ("him", "himself")}
NEXT_COUNTS = dict(pairwise(UNITS[2:]))
"""From "two" to "nineteen" -> the next number."""
MAX_LIKENESS = 0.5  # of a preposition that replaces another

MUSEUM_PRAISE = (
    "The artist invites us to reflect on the passing of time. The work shows a rare command of "
    "tone, and every detail rewards a closer look. It speaks of loss and of hope, and it remains "
    "one of the finest examples of its kind."
)
"""Praise that fits every image."""

Perturb = Callable[[Description, random.Random], str | None]


@cache
def shared_reader() -> Reader:
    return Reader()


def replace_tokens(description: Description, words: Mapping[int, str]) -> str | None:
    """Replace tokens by index; None if that changes nothing."""
    text, end = "", 0
    for i, token in enumerate(description.tokens):
        word = words.get(i, token.text)
        if token.text[:1].isupper():
            word = word[:1].upper() + word[1:]
        text += description.text[end : token.span[0]] + word
        end = token.span[1]
    text = with_articles(text + description.text[end:])
    return None if text == description.text else text


def with_articles(text: str) -> str:
    """Write "a" or "an" as the next word asks for."""
    return ARTICLE_BEFORE_LETTER.sub(lambda m: f"{m[1]}{'n' * (m[2] in 'aeiou')} ", text)


def inflect(verb: str, like: Token) -> str:
    """Return a verb in the form of another: holds, holding, held."""
    form = like.text.lower()
    if form.endswith("ing"):
        return verb.removesuffix("e") + "ing"
    if form.endswith("s") and form != like.lemma:
        return verb + ("es" if verb.endswith(("ch", "sh", "s")) else "s")
    if form.endswith("ed") and form != like.lemma:
        return verb.removesuffix("e") + "ed"
    return verb


def _find_other_verbs(description: Description) -> list[str]:
    own = {token.lemma for token in description.tokens}
    return [verb for verb in ACTION_VERBS if verb not in own]


def replace_verbs(description: Description, rng: random.Random) -> str | None:
    """Every verb random: "The boy kicks the ball" -> "The boy paints the ball"."""
    free = _find_other_verbs(description)
    changed: dict[int, str] = {}
    for i, token in enumerate(description.tokens):
        if token.pos == "VERB" and token.lemma not in ("be", "have") and token.dep != "amod":
            changed[i] = inflect(rng.choice(free), token)
    return replace_tokens(description, changed)


def replace_prepositions(description: Description, rng: random.Random) -> str | None:
    """Every preposition of place random, but never one of a like meaning."""
    changed = {}
    for i, token in enumerate(description.tokens):
        word = token.text.lower()
        if token.pos == "ADP" and word in PREPOSITIONS and word not in ("of", "with", "by"):
            unlike = [
                other
                for other in PLACE_PREPOSITIONS
                if preposition_agreement(word, other) < MAX_LIKENESS
            ]
            changed[i] = rng.choice(unlike)
    return replace_tokens(description, changed)


def _change_words(change: Callable[[str, Token, random.Random], str | None]) -> Perturb:
    """Make a perturbation of a change of single words; None from it keeps the word."""

    def perturb(description: Description, rng: random.Random) -> str | None:
        changed: dict[int, str] = {}
        for i, token in enumerate(description.tokens):
            if word := change(token.text.lower(), token, rng):
                changed[i] = word
        return replace_tokens(description, changed)

    return perturb


def _draw_other_colour(word: str, token: Token, rng: random.Random) -> str | None:
    if word not in load_colours() or token.pos not in ("ADJ", "NOUN"):
        return None
    return rng.choice(
        [other for other in COLOURS if not load_colours()[other] & load_colours()[word]]
    )


exchange_sides = _change_words(lambda word, *_: OTHER_SIDES.get(word))
exchange_genders = _change_words(lambda word, *_: OTHER_GENDERS.get(word))
raise_counts = _change_words(lambda word, *_: NEXT_COUNTS.get(word))
replace_colours = _change_words(_draw_other_colour)


def permute_adjectives(description: Description, rng: random.Random) -> str | None:
    """All adjectives exchanged among their places."""
    tokens = description.tokens
    places = [i for i, t in enumerate(tokens) if t.pos == "ADJ" and t.text.isalpha()]
    changed: dict[int, str] = {}
    for place, other in zip(places, places[1:] + places[:1], strict=True):
        changed[place] = tokens[other].text.lower()
    return replace_tokens(description, changed)


def negate_verbs(description: Description, rng: random.Random) -> str | None:
    """Every verb with a subject negated: "holds" -> "does not hold"."""
    tokens, changed = description.tokens, dict[int, str]()
    for i, token in enumerate(tokens):
        if token.lemma != "be" and _find_subject(tokens, i) is None:
            continue
        helpers = [j for j, t in enumerate(tokens) if t.head == i and t.dep in ("aux", "auxpass")]
        if helpers or token.lemma == "be":
            at = helpers[0] if helpers else i
            changed[at] = f"{tokens[at].text} not"
        elif token.pos == "VERB":
            changed[i] = f"{_inflect_do(token)} not {token.lemma}"
    return replace_tokens(description, changed)


def _inflect_do(like: Token) -> str:
    form = like.text.lower()
    if form.endswith("ed"):
        return "did"
    return "do" if form == like.lemma else "does"


def declare_false(description: Description, rng: random.Random) -> str | None:
    """Declare each sentence false: "It is false that" before it."""
    tokens, changed = description.tokens, dict[int, str]()
    for i, token in enumerate(tokens):
        if not i or tokens[i - 1].sentence != token.sentence:
            word = token.text if token.pos == "PROPN" else token.text.lower()
            changed[i] = f"it is false that {word}"
    return replace_tokens(description, changed)


def falsify_all_but_nouns(description: Description, rng: random.Random) -> str | None:
    """Other verbs, prepositions, colours, counts and permuted adjectives at once."""
    text = description.text
    for change in (
        replace_verbs,
        replace_prepositions,
        replace_colours,
        raise_counts,
        permute_adjectives,
    ):
        [read] = shared_reader().read([text])
        if isinstance(read, Description):
            text = change(read, rng) or text
    return None if text == description.text else text


def exchange_roles(description: Description, rng: random.Random) -> str | None:
    """Subject and object of each verb exchanged: "The boy kicks the ball" -> "The ball ... boy"."""
    tokens, changed = description.tokens, dict[int, str]()
    for verb in range(len(tokens)):
        ends = {t.dep: j for j, t in enumerate(tokens) if t.head == verb and t.pos == "NOUN"}
        if tokens[verb].pos == "VERB" and {"nsubj", "dobj"} <= ends.keys():
            one, other = ends["nsubj"], ends["dobj"]
            if tokens[one].lemma != tokens[other].lemma and not {one, other} & changed.keys():
                changed |= {one: tokens[other].text, other: tokens[one].text}
    return replace_tokens(description, changed)


def join_nouns_falsely(description: Description, rng: random.Random) -> str | None:
    """The nouns in the order of the text, joined by false verbs, in one sentence."""
    nouns = [t.text.lower() for t in description.tokens if t.pos == "NOUN" and t.text.isalpha()]
    free = _find_other_verbs(description)
    like = Token("holds", "hold", "VERB", "", 0, 0, (0, 5))
    clauses = []
    for noun, other in zip(nouns[::2], nouns[1::2], strict=False):
        clauses.append(f"the {noun} {inflect(rng.choice(free), like)} the {other}")
    if not clauses:
        return None
    return f"T{', and '.join(clauses)[1:]}."


CONTINUATIONS: dict[str, Perturb] = {
    "every verb negated": negate_verbs,
    '"It is false that" before each': declare_false,
    "everything wrong but the nouns": falsify_all_but_nouns,
    "nouns in order, false verbs, one sentence": join_nouns_falsely,
    "verbs random": replace_verbs,
    "prepositions random": replace_prepositions,
    "left and right exchanged": exchange_sides,
    "counts + 1": raise_counts,
    "genders exchanged": exchange_genders,
    "adjectives permuted": permute_adjectives,
    "colours wrong": replace_colours,
    "subject and object exchanged": exchange_roles,
}
"""Ways to make a text false, by name."""
FALSE_THROUGHOUT = tuple(CONTINUATIONS)[:4]
"""Those that leave no sentence true; of the others' sentences a detail is wrong."""

ARTICLES = ("a", "an", "the")


def _pick_long_words(words: list[str]) -> list[str]:
    return [word.strip(".,;") for word in words if len(word) > 3]


def _shuffle_around_articles(words: list[str]) -> str:
    """Shuffle all words except articles and the words after them."""
    lowered = list(map(str.lower, words))
    free: list[int] = []
    for i, pair in enumerate(zip(lowered, ["", *lowered], strict=False)):
        if not set(pair).intersection(ARTICLES):
            free.append(i)
    new = list(words)
    for i, j in zip(free, random.Random(0).sample(free, len(free)), strict=True):
        new[i] = words[j]
    return " ".join(new)


WORD_EDITS: dict[str, Callable[[list[str]], str]] = {
    "shuffled around articles": _shuffle_around_articles,
    "an article each": lambda words: f"The {' the '.join(_pick_long_words(words))}.",
    "chain of prepositions": lambda words: f"The {' of the '.join(_pick_long_words(words))}.",
    "words sorted": lambda words: " ".join(sorted(words)),
    "words reversed": lambda words: " ".join(reversed(words)),
    "long words only": lambda words: " ".join(word for word in words if len(word) > 3),
    "long words by commas": lambda words: ", ".join(_pick_long_words(words)),
    "long words by lines": lambda words: "\n".join(_pick_long_words(words)).lower(),
    "without articles": lambda words: " ".join(w for w in words if w.lower() not in ARTICLES),
    "hyphens": lambda words: "-".join(words),
    "possessive chain": lambda words: "'s ".join(word.strip(".,;") for word in words),
    "bullets": lambda words: "\n".join(f"- {word}" for word in words),
    "capitals": lambda words: " ".join(words).upper(),
    "camel case": lambda words: "".join(word.strip(".,;").capitalize() for word in words),
    "each word twice": lambda words: " ".join(f"{word} {word}" for word in words),
    "no full stops": lambda words: " ".join(words).replace(".", ""),
    "quotes": lambda words: " ".join(f'"{word}"' for word in words),
}
"""Each takes the words of a true text."""

JOINERS = "\u200b\u00a0\u2007\u202f\u3000\u2800\u3164\u0301_|/~=+\u00b7\u2022\u2192\u20ac"
"""Characters that may look like blanks, or join words into one."""


ANY_ARTICLE = re.compile(r"\b(?:an?|the) ", re.IGNORECASE)
IS_OR_ARE = re.compile(r"\b(?:is|are)\b(?! not)")
LONG_WORD = re.compile(r"\b[a-z]{5,}\b")
CLAUSE_COMMA = re.compile(r",\s+(?:and\s+)?")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
HEADINGS = ("Overview", "Foreground", "Background", "Left side", "Right side", "Details")
EMOJI = "\U0001f5bc\U0001f3a8\u2728\U0001f33f\U0001f441"


def _write_lines(form: str) -> Callable[[str], str]:
    """Put each sentence on a line of its own: ``{n}`` is its number, ``{title}`` a heading."""

    def write(text: str) -> str:
        lines = []
        for n, (part, title) in enumerate(zip(split_sentences(text), cycle(HEADINGS)), start=1):
            lines.append(form.format(n=n, title=title, emoji=EMOJI[n % len(EMOJI)], text=part))
        return "\n".join(lines)

    return write


def _mark_every(n: int, pattern: re.Pattern[str], form: str) -> Callable[[str], str]:
    """Rewrite every n-th match of a pattern, from the first on."""

    def write(text: str) -> str:
        numbers = count()

        def mark(match: re.Match[str]) -> str:
            if next(numbers) % n:
                return match[0]
            return form.format(match[0])

        return pattern.sub(mark, text)

    return write


def _write_paragraphs(form: str) -> Callable[[str], str]:
    """Divide a text into at most three paragraphs: ``{title}`` is a heading for each."""

    def write(text: str) -> str:
        parts = split_sentences(text)
        third = max(1, -(-len(parts) // 3))
        paragraphs = []
        for at, title in zip(range(0, len(parts), third), HEADINGS, strict=False):
            block = " ".join(parts[at : at + third])
            paragraphs.append(form.format(title=title, text=block))
        return "\n\n".join(paragraphs)

    return write


def _end_sentences_by(mark: str) -> Callable[[str], str]:
    """Join the sentences by another mark than a full stop."""

    def write(text: str) -> str:
        parts = [part.rstrip(".!?") for part in split_sentences(text)]
        rest = [part[:1].lower() + part[1:] for part in parts[1:]]
        return f"{mark} ".join([*parts[:1], *rest]) + "."

    return write


def _misspell(share: float) -> Callable[[str], str]:
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


def _write_table(text: str) -> str:
    lines = ["| Area | Description |", "| --- | --- |"]
    for part, title in zip(split_sentences(text), cycle(HEADINGS)):
        lines.append(f"| {title} | {part} |")
    return "\n".join(lines)


def split_into_clauses(description: Description) -> str | None:
    """Give each clause a sentence of its own; None if each has one already.

    "A girl in red stands, holding a fan, and a dog sits." -> "A girl in red stands. The girl is
    holding a fan. A dog sits."
    """
    tokens, starts = description.tokens, dict[int, tuple[int, str]]()
    for verb, token in enumerate(tokens):
        inside = [i for i in range(len(tokens)) if verb in _walk_to_root(tokens, i)]
        first, last = inside[0], inside[-1]
        after = "".join(t.text for t in tokens[last + 1 : last + 3]) or "."
        ends = after[0] in ".;" or after == ",and"
        if token.pos == "VERB" and first and ends and last - first + 1 == len(inside):
            opening = _find_opening(tokens, verb, first)
            if opening is not None:
                starts[first] = (last, opening)
    if not starts:
        return None
    clauses: dict[tuple[int, int], str] = {}  # sentence and its clause's first token -> text
    for i, token in enumerate(tokens):
        first = max((f for f, (last, _) in starts.items() if f <= i <= last), default=-1)
        opening = starts[i][1] if i in starts else ""
        text = clauses.setdefault((token.sentence, first), opening)
        joined = i and tokens[i - 1].span[1] == token.span[0]
        space = "" if joined or not text else " "
        clauses[token.sentence, first] = text + space + token.text
    return " ".join(_finish_sentence(clauses[key]) for key in sorted(clauses))


def name_things(description: Description) -> str | None:
    """Name each thing in a sentence and say no more: "There is a dog. There is an owl."."""
    nouns: dict[str, None] = {}  # in the order of the text
    for token in description.tokens:
        named = token.pos == "NOUN" and token.lemma == token.text
        if named and token.lemma not in UNSPECIFIC:
            nouns[token.lemma] = None
    return with_articles(" ".join(f"There is a {noun}." for noun in nouns)) or None


def _find_opening(tokens: Sequence[Token], verb: int, first: int) -> str | None:
    """Find the words to put before a clause as its own sentence; None if it has to stay."""
    dep, head, before = tokens[verb].dep, tokens[verb].head, tokens[first - 1].text
    if _find_subject(tokens, verb) is not None:
        return "" if before == ";" or (dep == "conj" and before == "and") else None
    owner = head if dep == "acl" else _find_subject(tokens, head)
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


def _find_subject(tokens: Sequence[Token], verb: int) -> int | None:
    for i, token in enumerate(tokens):
        if token.head == verb and token.dep.startswith("nsubj"):
            return i
    return None


def _walk_to_root(tokens: Sequence[Token], at: int) -> Iterator[int]:
    """A token, its head, the head's head, up to the root."""
    yield at
    while tokens[at].head != at:
        at = tokens[at].head
        yield at


def _finish_sentence(text: str) -> str:
    text = re.sub(r"(?:[\s,;.]|\b(?:and|while|but)\b)+$", "", re.sub(r"\s+", " ", text)).strip()
    return text[:1].upper() + text[1:] + "."


FORMATS: dict[str, Callable[[str], str]] = {
    "one sentence a line": _write_lines("{text}"),
    "bullets": _write_lines("- {text}"),
    "stars": _write_lines("* {text}"),
    "round bullets": _write_lines("\u2022 {text}"),
    "numbered lines": _write_lines("{n}. {text}"),
    "numbered in brackets": _write_lines("{n}) {text}"),
    "bold leads": _write_lines("**{title}:** {text}"),
    "bold leads in a list": _write_lines("- **{title}**: {text}"),
    "plain leads": _write_lines("{title}: {text}"),
    "bold sentences": _write_lines("**{text}**"),
    "quoted lines": _write_lines("> {text}"),
    "emoji after sentences": _write_lines("{text} {emoji}"),
    "emoji before sentences": _write_lines("{emoji} {text}"),
    "headings": _write_paragraphs("## {title}\n\n{text}"),
    "headings in bold": _write_paragraphs("**{title}**\n\n{text}"),
    "rules between paragraphs": _write_paragraphs("{text}\n\n---"),
    "paragraphs in <p>": _write_paragraphs("<p>{text}</p>"),
    "HTML list": lambda text: f"<ul>\n{_write_lines('<li>{text}</li>')(text)}\n</ul>",
    "table": _write_table,
    "bold words": _mark_every(4, LONG_WORD, "**{}**"),
    "italic words": _mark_every(4, LONG_WORD, "*{}*"),
    "underlined words": _mark_every(4, LONG_WORD, "__{}__"),
    "<b> around words": _mark_every(4, LONG_WORD, "<b>{}</b>"),
    "links": _mark_every(6, LONG_WORD, "[{0}](https://example.org/wiki/{0})"),
    "code marks": _mark_every(4, LONG_WORD, "`{}`"),
    "code block": lambda text: f"```\n{text}\n```",
    "JSON": lambda text: json.dumps({"description": text}),
    "semicolons for full stops": _end_sentences_by(";"),
    "commas for full stops": _end_sentences_by(","),
    "dashes for full stops": _end_sentences_by(" \u2014"),
    "dashes for commas": lambda text: CLAUSE_COMMA.sub(" \u2014 ", text),
    "lower case": str.lower,
    "introduced": lambda text: f"Here is a detailed description of the image:\n\n{text}",
    "closed": lambda text: f"{text}\n\nLet me know if you would like more details!",
    '"appears to be"': _mark_every(1, IS_OR_ARE, "appears to be"),
    "without articles": lambda text: ANY_ARTICLE.sub("", text),
    "typos in 5 % of words": _misspell(0.05),
    "typos in 10 % of words": _misspell(0.10),
}
"""Name -> a way to write the same text."""
SLIP_FORMATS = ("without articles", "typos in 5 % of words", "typos in 10 % of words")
