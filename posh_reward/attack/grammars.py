"""Ways to write without seeing the image: each joins random units of a vocabulary to a text.

The vocabulary, words by part of speech, comes from references of other images than those the finds
are scored on, as a policy would learn it in training.
"""

from __future__ import annotations

import random
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from posh_reward.lexicon.meaning import MOST_STEPS, USUAL, senses
from posh_reward.lexicon.wordnet import wordnet
from posh_reward.types import Description

Units = tuple[str, ...]
"""Genome of a text, which the search mutates."""

COMMON = 150
"""Number of words used of each part of speech: the most common."""
OPENING = "The image shows a scene. A figure stands in the foreground."
"""Stock sentences, true of most paintings in a museum."""
PHRASES = (
    "in the foreground", "in the background", "to the left", "to the right", "in the center",
    "near the top", "at the bottom", "beneath the sky", "behind the figure", "against a dark wall",
)  # fmt: skip
ABSTRACT = (
    "a person", "people", "something", "a thing", "an object", "a figure", "a color", "a shape",
    "a part", "clothing", "a garment", "an item", "an animal", "a structure", "a body", "a place",
    "a container", "furniture", "a plant", "a surface", "light", "a covering", "an area", "a line",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WordStock:
    """Words by part of speech, the most common first."""

    nouns: Sequence[str]
    adjectives: Sequence[str]
    verbs: Sequence[str]
    genera: Sequence[str] = ("thing",)
    """Hypernyms of the nouns: vague, so true of many images."""

    @property
    def words(self) -> Sequence[str]:
        """All words, without genera."""
        return [*self.nouns, *self.adjectives, *self.verbs]

    @classmethod
    def of(cls, descriptions: Iterable[Description]) -> WordStock:
        """Collect the lower-case words of three or more letters."""
        counts: dict[str, Counter[str]] = {"NOUN": Counter(), "ADJ": Counter(), "VERB": Counter()}
        for description in descriptions:
            for token in description.tokens:
                word = token.text.lower()
                if token.pos in counts and word.isalpha() and len(word) > 2:
                    counts[token.pos][word] += 1
        # Ties in alphabetical order, so that a seed always gives the same search.
        commonest = {
            pos: [word for word, _ in sorted(of.items(), key=lambda item: (-item[1], item[0]))]
            for pos, of in counts.items()
        }
        stock = cls(*(commonest[pos][:COMMON] or ["thing"] for pos in ("NOUN", "ADJ", "VERB")))
        return replace(stock, genera=_genera(stock.nouns) or ["thing"])


def _genera(nouns: Sequence[str]) -> list[str]:
    """List the hypernyms of the usual senses of nouns, the most common first."""
    net = wordnet()
    names = {
        synset: name.replace("_", " ")
        for name in sorted(net.names, key=lambda name: net.uses(name) or 0)
        for synset, weight in net.senses(name)
        if weight > USUAL
    }
    counts: Counter[str] = Counter()
    for noun in nouns:
        level = [synset for synset, weight in senses((noun, "n")).items() if weight > USUAL]
        for _ in range(MOST_STEPS):
            level = list(dict.fromkeys(up for low in level for up in net.parents[low]))
            counts.update(names[synset] for synset in level if synset in names)
    return [name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))][
        :COMMON
    ]


@dataclass(frozen=True, slots=True)
class Grammar:
    """A way to write a text from units."""

    unit: Callable[[random.Random, WordStock], str]
    join: Callable[[Units], str]
    start: int = 24
    """Approximate number of units of a first text."""


def _sentence(rng: random.Random, stock: WordStock) -> str:
    noun, other = rng.choice(stock.nouns), rng.choice(stock.nouns)
    adjective, second = rng.choice(stock.adjectives), rng.choice(stock.adjectives)
    return rng.choice(
        (
            f"A {adjective} {noun} is {rng.choice(PHRASES)}.",
            f"There is a {adjective} {noun} with a {second} {other}.",
            f"A {noun} {rng.choice(stock.verbs)} a {adjective} {other}.",
            f"The {noun} is {adjective} and {second}.",
            f"A {adjective} {noun} and a {other} are {rng.choice(PHRASES)}.",
        )
    )


def _vague(rng: random.Random, stock: WordStock) -> str:
    some = (*ABSTRACT, *(f"a {genus}" for genus in stock.genera))
    thing, other, third = (rng.choice(some) for _ in range(3))
    return rng.choice(
        (
            f"There is {thing} with {other}.",
            f"There is {thing} {rng.choice(PHRASES)}.",
            f"There is {thing} beside {other} and {third}.",
            f"There is {rng.choice(stock.adjectives)} {thing.removeprefix('a ')}.",
            f"There is {thing} that has {other} of a {rng.choice(stock.adjectives)} color.",
            f"There is {thing} {rng.choice(('on', 'in', 'near', 'behind', 'of'))} {other}.",
        )
    )


def _pronoun(rng: random.Random, stock: WordStock) -> str:
    who = rng.choice(("He is", "She is", "It is", "They are"))
    some = rng.sample(list(stock.adjectives), min(3, len(stock.adjectives)))
    return f"{who} {', '.join(some)}."


def _hyphens(rng: random.Random, stock: WordStock) -> str:
    return "-".join(rng.choice(stock.words) for _ in range(3))


def _words(rng: random.Random, stock: WordStock) -> str:
    return rng.choice(stock.words)


GRAMMARS: dict[str, Grammar] = {
    "possessive chain": Grammar(_words, lambda units: OPENING + " " + "'s ".join(units) + ".", 80),
    "hyphens": Grammar(_hyphens, lambda units: f"{OPENING} It is {' '.join(units)}."),
    "bullets": Grammar(_words, lambda units: "\n".join(f"- {unit}" for unit in units), 50),
    "keywords": Grammar(_words, lambda units: f"{', '.join(units)}.", 60),
    "quotes": Grammar(_words, lambda units: " ".join(f'"{unit}"' for unit in units), 50),
    "there is": Grammar(
        lambda rng, stock: f"There is a {rng.choice(stock.adjectives)} {rng.choice(stock.nouns)}.",
        lambda units: " ".join(units),
    ),
    "sentences": Grammar(_sentence, lambda units: " ".join(units), 12),
    "adjectives": Grammar(
        lambda rng, stock: rng.choice(stock.adjectives),
        lambda units: f"{OPENING} They are {', '.join(units)}.",
    ),
    "pronouns": Grammar(_pronoun, lambda units: f"A man and a woman. {' '.join(units)}", 8),
    "verbs": Grammar(
        lambda rng, stock: f"We {rng.choice(stock.verbs)}.",
        lambda units: f"{OPENING} {' '.join(units)}",
        15,
    ),
    "abstract": Grammar(
        lambda rng, stock: rng.choice((*ABSTRACT, f"something {rng.choice(stock.adjectives)}")),
        lambda units: f"There are {', '.join(units)}.",
        20,
    ),
    "hypernyms": Grammar(
        lambda rng, stock: rng.choice(stock.genera),
        lambda units: f"There are {', '.join(units)}.",
        30,
    ),
    "vague sentences": Grammar(_vague, lambda units: " ".join(units), 12),
}
"""Each is a trick that once earned a high reward; ``sentences`` is honest guessing."""


def mutant(units: Units, grammar: Grammar, rng: random.Random, stock: WordStock) -> Units:
    """Change, add, drop, move or repeat units, one to four times."""
    new = list(units)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(new)) if new else 0
        action = rng.choice(("change", "change", "add", "drop", "move", "repeat"))
        if action == "add" or not new:
            new.insert(at, grammar.unit(rng, stock))
        elif action == "change":
            new[at] = grammar.unit(rng, stock)
        elif action == "drop" and len(new) > 1:
            del new[at]
        elif action == "repeat":
            new.insert(rng.randrange(len(new) + 1), new[at])
        else:
            new.insert(rng.randrange(len(new)), new.pop(at))
    return tuple(new)


def addition(text: str, units: Units, grammar: Grammar, taboo: frozenset[str]) -> str:
    """Append the units that share no stem with ``taboo``, joined by the grammar."""
    units = tuple(unit for unit in units if not taboo.intersection(stems(unit)))
    return f"{text} {grammar.join(units).removeprefix(OPENING).strip()}" if units else text


def stems(text: str) -> set[str]:
    """Return the first four letters of each word of three or more: "wools", "woolen" -> "wool"."""
    words = "".join(c if c.isalpha() else " " for c in text.lower()).split()
    return {word[:4] for word in words if len(word) > 2}


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


def characters(rng: random.Random, count: int) -> list[str]:
    """Draw characters that may join words or be invisible: up to 20 of each Unicode category."""
    by_category: dict[str, list[str]] = {}
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        category = unicodedata.category(character)
        if category[0] in "CMPSZ" and category != "Cs":
            by_category.setdefault(category, []).append(character)
    share = max(1, min(20, count // len(by_category)))
    return [
        character
        for _, some in sorted(by_category.items())
        for character in rng.sample(some, min(share, len(some)))
    ]
