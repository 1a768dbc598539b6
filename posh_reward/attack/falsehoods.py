"""False texts from true ones, by kind: what a reward has to recognise.

Each function takes a parsed text and returns it with one kind of word made wrong, or None if it has
no such word. Equal seeds give equal texts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from functools import cache

from posh_reward.graph.reader import Reader
from posh_reward.lexicon.function_words import PREPOSITIONS, agreement
from posh_reward.lexicon.likeness import UNITS, colours
from posh_reward.types import Description, Token

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
    """Return the parser of texts, loaded once."""
    return Reader()


def rewritten(description: Description, words: Mapping[int, str]) -> str | None:
    """Replace tokens by index; None if that changes nothing."""
    text, end = "", 0
    for i, token in enumerate(description.tokens):
        word = words.get(i, token.text)
        text += description.text[end : token.span[0]]
        text += word[:1].upper() + word[1:] if token.text[:1].isupper() else word
        end = token.span[1]
    text = ARTICLE.sub(lambda m: f"{m[1]}{'n' * (m[2] in 'aeiou')} ", text + description.text[end:])
    return None if text == description.text else text


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
