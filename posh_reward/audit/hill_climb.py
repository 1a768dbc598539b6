"""Hill climbing to texts that earn much without the image, one search for each way to write.

A *grammar* joins random units of a vocabulary to a text. The vocabulary, words by part of speech,
comes from the true texts of other rows than those that the finds are scored on, as a policy would
learn it in training. A climb starts from random units. Each round scores mutants of the best text
so far, and the best of them replaces it if its reward is higher.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import NamedTuple

from posh_reward.audit.reward_cache import RewardCache
from posh_reward.types import Description

MUTANTS_PER_ROUND = 8
"""Mutants per round, scored in one call of the reward."""
MAX_BLIND_WORDS = 160
"""Of a text written without the image: about the length of a description."""
MAX_ADDED_WORDS = 60
TEMPLATE_FIELD = re.compile(r"\{(\w+)\}")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")

Units = tuple[str, ...]
"""Units of a text, its genome, which the search mutates."""

WORDS_PER_PART_OF_SPEECH = 150
"""Number of words used of each part of speech: the most common."""
STOCK_OPENING = "The image shows a scene. A figure stands in the foreground."
"""Stock sentences, true of most paintings in a museum."""
PLACE_PHRASES = (
    "in the foreground", "in the background", "to the left", "to the right", "in the center",
    "near the top", "at the bottom", "beneath the sky", "behind the figure", "against a dark wall",
)  # fmt: skip
VAGUE_PHRASES = (
    "a person", "people", "something", "a thing", "an object", "a figure", "a color", "a shape",
    "a part", "clothing", "a garment", "an item", "an animal", "a structure", "a body", "a place",
    "a container", "furniture", "a plant", "a surface", "light", "a covering", "an area", "a line",
)  # fmt: skip


Words = Mapping[str, Sequence[str]]
"""Name of a field in ``Grammar.units`` -> words to draw from."""


def collect_vocabulary(descriptions: Iterable[Description]) -> Words:
    """Collect the most common words of three or more letters, by part of speech."""
    names = {"NOUN": "noun", "ADJ": "adjective", "VERB": "verb"}
    counts: dict[str, Counter[str]] = {name: Counter() for name in names.values()}
    for description in descriptions:
        for token in description.tokens:
            word = token.text.lower()
            if token.pos in names and word.isalpha() and len(word) > 2:
                counts[names[token.pos]][word] += 1
    # Ties in alphabetical order, so that the search is always the same.
    words: dict[str, Sequence[str]] = {}
    for name, counter in counts.items():
        common = sorted(counter.items(), key=lambda each: (-each[1], each[0]))
        words[name] = [word for word, _ in common[:WORDS_PER_PART_OF_SPEECH]] or ["thing"]
    every = list(chain.from_iterable(words.values()))
    return {**words, "word": every, "vague": VAGUE_PHRASES, "place": PLACE_PHRASES}


class Grammar(NamedTuple):
    """A way to write a text from units."""

    units: Sequence[str]
    """Templates of a unit, such as "There is a {adjective} {noun}."."""
    joint: str = " "
    frame: str = "{}"
    start: int = 24
    """Approximate number of units of a first text."""

    def draw_unit(self, rng: random.Random, words: Words) -> str:
        return TEMPLATE_FIELD.sub(lambda field: rng.choice(words[field[1]]), rng.choice(self.units))

    def join(self, units: Units) -> str:
        return self.frame.replace("{}", self.joint.join(units))


GRAMMARS = {
    "possessive chain": Grammar(["{word}"], "'s ", f"{STOCK_OPENING} {{}}.", 80),
    "hyphens": Grammar(["{word}-{word}-{word}"], " ", f"{STOCK_OPENING} It is {{}}."),
    "bullets": Grammar(["{word}"], "\n- ", "- {}", 50),
    "keywords": Grammar(["{word}"], ", ", "{}.", 60),
    "quotes": Grammar(["{word}"], '" "', '"{}"', 50),
    "there is": Grammar(["There is a {adjective} {noun}."]),
    "adjectives": Grammar(["{adjective}"], ", ", f"{STOCK_OPENING} They are {{}}."),
    "pronouns": Grammar(
        [f"{who} {{adjective}}, {{adjective}}, {{adjective}}."
         for who in ("He is", "She is", "It is", "They are")],
        " ", "A man and a woman. {}", 8,
    ),
    "verbs": Grammar(["We {verb}."], " ", f"{STOCK_OPENING} {{}}", 15),
    "abstract": Grammar(["{vague}", "something {adjective}"], ", ", "There are {}.", 20),
    "sentences": Grammar(
        [
            "A {adjective} {noun} is {place}.",
            "There is a {adjective} {noun} with a {adjective} {noun}.",
            "A {noun} {verb} a {adjective} {noun}.",
            "The {noun} is {adjective} and {adjective}.",
            "A {adjective} {noun} and a {noun} are {place}.",
        ],
        start=12,
    ),
    "vague sentences": Grammar(
        [
            "There is {vague} with {vague}.",
            "There is {vague} {place}.",
            "There is {vague} beside {vague} and {vague}.",
            "There is {vague} that has {vague} of a {adjective} color.",
            "There is {vague} near {vague}.",
        ],
        start=12,
    ),
}  # fmt: skip
"""Each is a trick that once earned a high reward; ``sentences`` is honest guessing."""


def append_units(text: str, units: Units, grammar: Grammar, taboo: frozenset[str]) -> str:
    """Append the units that share no stem with ``taboo``, joined by the grammar."""
    units = tuple(unit for unit in units if not taboo.intersection(find_stems(unit)))
    if not units:
        return text
    return f"{text} {grammar.join(units).removeprefix(STOCK_OPENING).strip()}"


def find_stems(text: str) -> set[str]:
    """Return the first four letters of each word of three or more: "wools", "woolen" -> "wool"."""
    return {word[:4] for word in re.findall(r"[^\W\d_]{3,}", text.lower())}


def split_sentences(text: str) -> list[str]:
    """Split a text after sentence punctuation."""
    return SENTENCE_END.split(text.strip())


def take_first_half(text: str) -> str:
    """Return the first half of the sentences: true but incomplete."""
    parts = split_sentences(text)
    return " ".join(parts[: max(1, len(parts) // 2)])


@dataclass(frozen=True, slots=True)
class HillClimb:
    """Hill climbing in one grammar, for texts alone or (``behind``) added to half of the true text.

    Additions are valued by their gain per ten words. All draws depend on the grammar and the round
    alone, so an interrupted climb comes to the same end from the rewards in the cache.
    """

    grammar: str
    behind: bool
    words: Words

    def text(self, units: Units, truth: str) -> str:
        """Turn a genome into the text for a row; additions skip words of the row's true text."""
        grammar = GRAMMARS[self.grammar]
        if not self.behind:
            return grammar.join(units)
        return append_units(take_first_half(truth), units, grammar, frozenset(find_stems(truth)))

    def best(
        self,
        cache: RewardCache,
        rows: Sequence[int],
        budget: int,
        progress: Callable[[int], object] = lambda tried: None,
    ) -> Units:
        """Return the best genome on the rows, after trying at most ``budget`` genomes.

        Mutants race row by row: they drop out unless their mean so far exceeds the best's on the
        same rows, so several rows cost little more than one. Each round begins with another row,
        so that no row dominates.
        """
        best = self._shorten(self._draw_genome(self._make_rng(0, 0)))
        best_values = dict.fromkeys(rows, -math.inf)
        for number in range(budget // MUTANTS_PER_ROUND):
            racing: dict[Units, dict[int, float]] = {}
            for index in range(MUTANTS_PER_ROUND):
                rng = self._make_rng(number, index)
                genome = self._mutate(best, rng) if number else self._draw_genome(rng)
                racing[self._shorten(genome)] = {}
            for step in range(len(rows)):
                row = rows[(number + step) % len(rows)]
                values = self._value_genomes(cache, row, racing)
                for genome, value in zip(list(racing), values, strict=True):
                    own = racing[genome]
                    own[row] = value
                    if not fmean(own.values()) > fmean(best_values[each] for each in own):
                        del racing[genome]  # also if its mean is NaN
            if racing:
                best, best_values = max(racing.items(), key=lambda each: fmean(each[1].values()))
            progress(MUTANTS_PER_ROUND)
        return best

    def _value_genomes(self, cache: RewardCache, row: int, genomes: Iterable[Units]) -> list[float]:
        """Reward of each genome on a row, or its gain per ten words; NaN without a reward."""
        truth = cache.truths[row]
        texts = [self.text(units, truth) for units in genomes]
        if not self.behind:
            return cache.score([(row, text) for text in texts])
        start = take_first_half(truth)
        before, *rewards = cache.score([(row, text) for text in (start, *texts)])
        values = []
        for text, reward in zip(texts, rewards, strict=True):
            added = max(10, len(text.split()) - len(start.split()))
            values.append((reward - before) * 10 / added)
        return values

    def _draw_genome(self, rng: random.Random) -> Units:
        grammar = GRAMMARS[self.grammar]
        size = max(2, round(grammar.start * rng.uniform(0.3, 1.5)))
        return tuple(grammar.draw_unit(rng, self.words) for _ in range(size))

    def _mutate(self, units: Units, rng: random.Random) -> Units:
        """Change, add, drop, move or repeat units, one to four times."""
        grammar, new = GRAMMARS[self.grammar], list(units)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(new)) if new else 0
            action = rng.choice(("change", "change", "add", "drop", "move", "repeat"))
            if action == "add" or not new:
                new.insert(at, grammar.draw_unit(rng, self.words))
            elif action == "change":
                new[at] = grammar.draw_unit(rng, self.words)
            elif action == "drop" and len(new) > 1:
                del new[at]
            elif action == "repeat":
                new.insert(rng.randrange(len(new) + 1), new[at])
            else:
                new.insert(rng.randrange(len(new)), new.pop(at))
        return tuple(new)

    def _shorten(self, units: Units) -> Units:
        grammar = GRAMMARS[self.grammar]
        longest = MAX_ADDED_WORDS if self.behind else MAX_BLIND_WORDS
        while len(units) > 1 and len(grammar.join(units).replace("-", " ").split()) > longest:
            units = units[:-1]
        return units

    def _make_rng(self, number: int, index: int) -> random.Random:
        return random.Random(f"{self.grammar} {self.behind} {number} {index}")
