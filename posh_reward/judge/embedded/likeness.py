"""How alike two words are, and whether one rules out the other.

``likeness`` runs from 0 (nothing in common) to 1 (the same word): synonyms about 0.9, a kind and
its genus 0.84 falling by a sixth a step, words of one definition 0.4, sisters under one genus
0.3. Numbers and colours have their own rules: ``three`` and ``five`` are as unlike as can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.resources import files

from posh_reward.judge.embedded.meaning import (
    LEAST,
    SISTERS,
    Term,
    defining,
    dictionary_forms,
    is_material,
    meaning,
    opposites,
    senses,
)

SYNONYM = 0.95
SAME_COLOURS = 0.9
"""Two words for the same basic colours: crimson, scarlet."""
NEAR_COLOURS = 0.7
"""Colours that can pass for one another: teal, green."""
ALIKE = 0.5
"""From here on two words do not exclude each other."""
USUAL_SENSE = 0.55

UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
).split()
OTHER_NUMBERS = {
    "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80,
    "ninety": 90, "hundred": 100, "thousand": 1000, "dozen": 12, "single": 1, "lone": 1,
    "sole": 1, "solitary": 1, "pair": 2, "couple": 2, "both": 2, "twin": 2, "trio": 3,
    "quartet": 4, "quintet": 5, "no": 0,
}  # fmt: skip


@lru_cache(maxsize=1)
def colours() -> dict[str, frozenset[str]]:
    """Colour word -> the basic colours it can pass for, from ``lexicon/colours.txt``."""
    text = (files("posh_reward.judge.embedded") / "lexicon" / "colours.txt").read_text(
        encoding="utf-8"
    )
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {word: frozenset(basic) for word, *basic in lines}


@lru_cache(maxsize=10_000)
def number(word: str) -> int | None:
    """Value of a number word or of digits: ``"twelve"`` -> 12, ``"both"`` -> 2."""
    if word.isdecimal():
        return int(word[:9])
    return UNITS.index(word) if word in UNITS else OTHER_NUMBERS.get(word)


class Vocabulary:
    """Terms by meaning, so that those like a given one are found without trying each.

    Sets of terms are bits of one integer: many small lists would keep the garbage collector
    busy for longer than the search takes.
    """

    def __init__(self, terms: Iterable[Term]) -> None:
        self.terms = list(terms)
        self._meanings = [meaning(term) for term in self.terms]
        self._definitions = [defining(term) for term in self.terms]
        self._by_own: dict[int, int] = {}
        self._by_genus: dict[int, int] = {}
        self._by_narrow: dict[int, int] = {}
        self._by_form: dict[str, int] = {}
        self._by_definition: dict[str, int] = {}
        for index, term in enumerate(self.terms):
            bit = 1 << index
            own, genus, narrow = self._meanings[index]
            _mark(self._by_own, own, bit)
            _mark(self._by_genus, genus, bit)
            _mark(self._by_narrow, narrow, bit)
            _mark(self._by_form, dictionary_forms(term[0]), bit)
            _mark(self._by_definition, self._definitions[index], bit)
        self._numbers = [term for term in self.terms if number(term[0]) is not None]
        self._colours = [term for term in self.terms if term[0] in colours()]

    def like(self, term: Term) -> dict[Term, float]:
        """Terms of the vocabulary that are at all like a term -> how alike."""
        values = [0.0] * len(self.terms)
        for index, value in self._kin(term):
            if value > values[index]:
                values[index] = value
        found = {self.terms[i]: value for i, value in enumerate(values) if value > LEAST}
        self._settle(term, found)
        return found

    def _kin(self, term: Term) -> Iterator[tuple[int, float]]:
        own, genus, narrow = meaning(term)
        theirs = self._meanings
        for synset in own.keys() & self._by_own.keys():
            for i in _bits(self._by_own[synset]):
                yield i, SYNONYM * own[synset] * theirs[i].own[synset]
        for synset in own.keys() & self._by_genus.keys():
            for i in _bits(self._by_genus[synset]):
                yield i, own[synset] * theirs[i].genus[synset]
        for synset in genus.keys() & self._by_own.keys():
            for i in _bits(self._by_own[synset]):
                yield i, genus[synset] * theirs[i].own[synset]
        for synset in narrow.keys() & self._by_narrow.keys():
            for i in _bits(self._by_narrow[synset]):
                yield i, SISTERS * narrow[synset] * theirs[i].narrow[synset]
        words = defining(term)
        for word in words.keys() & self._by_form.keys():
            for i in _bits(self._by_form[word]):
                yield i, words[word]
        forms = dictionary_forms(term[0])
        for form in forms:
            for i in _bits(self._by_definition.get(form, 0)):
                yield i, self._definitions[i][form]
        for i in _bits(self._by_form.get(forms[0], 0)):
            if dictionary_forms(self.terms[i][0])[0] == forms[0]:
                yield i, 1.0

    def _settle(self, term: Term, found: dict[Term, float]) -> None:
        """Numbers and colours are alike by their own rules."""
        value, hues = number(term[0]), colours().get(term[0])
        if value is not None:
            for other in self._numbers:
                found[other] = float(number(other[0]) == value)
        if hues is not None:
            for other in self._colours:
                theirs = colours()[other[0]]
                shared = SAME_COLOURS if theirs == hues else NEAR_COLOURS
                found[other] = 1.0 if other[0] == term[0] else shared if hues & theirs else 0.0


def _mark(sets: dict[int, int] | dict[str, int], keys: Iterable[int | str], bit: int) -> None:
    table: dict[int | str, int] = sets  # type: ignore[assignment]
    for key in keys:
        table[key] = table.get(key, 0) | bit


def _bits(mask: int) -> Iterator[int]:
    """Positions of the ones: 0b101 -> 0, 2."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@lru_cache(maxsize=50_000)
def likeness(a: Term, b: Term) -> float:
    """How alike two terms are, from 0 to 1; symmetric."""
    return Vocabulary((b,)).like(a).get(b, 0.0)


@lru_cache(maxsize=100_000)
def conflict(a: Term, b: Term) -> bool:
    """Whether one thing cannot be both: two counts, two colours, two stuffs, or opposites."""
    if likeness(a, b) >= ALIKE:
        return False
    if number(a[0]) is not None and number(b[0]) is not None:
        return True
    if a[0] in colours() and b[0] in colours():
        return True
    if is_material(a) and is_material(b):
        return True
    against = opposites(a)
    return any(weight > USUAL_SENSE and s in against for s, weight in senses(b).items())
