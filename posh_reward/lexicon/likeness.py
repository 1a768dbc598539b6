"""How alike two words are, and whether one rules out the other.

``likeness`` runs from 0 (nothing in common) to 1 (the same word): synonyms about 0.9, a kind and
its genus 0.84 falling by a sixth a step, words of one definition 0.4, sisters under one genus
0.3. Numbers and colours have their own rules: ``three`` and ``five`` are as unlike as can be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from importlib.resources import files
from threading import Lock

from posh_reward.lexicon.meaning import (
    LEAST,
    SISTERS,
    Meaning,
    Term,
    defining,
    dictionary_forms,
    is_material,
    meaning,
    opposites,
    senses,
)

LEXICON = files("posh_reward.lexicon")
SYNONYM = 0.95
KIN = 0.8
"""Two words of one group in ``lexicon/kin.txt``: toddler, baby."""
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
    text = (LEXICON / "colours.txt").read_text(encoding="utf-8")
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {word: frozenset(basic) for word, *basic in lines}


@lru_cache(maxsize=1)
def _kin_groups() -> dict[Term, frozenset[int]]:
    text = (LEXICON / "kin.txt").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    found: dict[Term, set[int]] = {}
    for group, (pos, *words) in enumerate(lines):
        for word in words:
            found.setdefault((word, pos), set()).add(group)
    return {term: frozenset(groups) for term, groups in found.items()}


@lru_cache(maxsize=50_000)
def kin_groups(term: Term) -> frozenset[int]:
    """Groups of ``lexicon/kin.txt`` that a term belongs to, in any of its dictionary forms."""
    known = _kin_groups()
    forms = dict.fromkeys((term[0], *dictionary_forms(term[0])))
    return frozenset(group for form in forms for group in known.get((form, term[1]), ()))


@lru_cache(maxsize=10_000)
def number(word: str) -> int | None:
    """Value of a number word or of digits: ``"twelve"`` -> 12, ``"both"`` -> 2."""
    if word.isdecimal():
        return int(word[:9])
    return UNITS.index(word) if word in UNITS else OTHER_NUMBERS.get(word)


SIDES = frozenset(("left", "right"))


def is_settled(term: Term) -> bool:
    """Whether there are few ways to say it, all known: a count, a colour, a side."""
    word = term[0]
    return number(word) is not None or word in colours() or word in SIDES


def is_stuff(term: Term) -> bool:
    """Whether it says what something is made of, or its colour."""
    return term[0] in colours() or is_material(term)


class Vocabulary:
    """Terms by meaning, so that those like a given one are found without trying each.

    It only grows, and what was found for a term is kept: later only newer terms are searched.
    Sets of terms are bits of one integer: many small lists would keep the garbage collector
    busy for longer than the search takes.
    """

    def __init__(self, terms: Iterable[Term] = ()) -> None:
        self.terms: dict[Term, int] = {}
        """Term -> its number."""
        self._listed: list[Term] = []
        self._meanings: list[Meaning] = []
        self._definitions: list[dict[str, float]] = []
        self._by_own: dict[int, int] = {}
        self._by_genus: dict[int, int] = {}
        self._by_narrow: dict[int, int] = {}
        self._by_form: dict[str, int] = {}
        self._by_kin: dict[int, int] = {}
        self._by_definition: dict[str, int] = {}
        self._numbers: list[Term] = []
        self._colours: list[Term] = []
        self._alike: dict[Term, tuple[int, dict[Term, float]]] = {}
        """Term -> (number of the first term not yet tried, those like it)."""
        self.add(terms)

    def add(self, terms: Iterable[Term]) -> None:
        """Takes in the terms that it does not have."""
        for term in terms:
            if term in self.terms:
                continue
            bit = 1 << len(self.terms)
            self.terms[term] = len(self.terms)
            self._listed.append(term)
            self._meanings.append(meaning(term))
            self._definitions.append(defining(term))
            own, genus, narrow = self._meanings[-1]
            _mark(self._by_own, own, bit)
            _mark(self._by_genus, genus, bit)
            _mark(self._by_narrow, narrow, bit)
            _mark(self._by_kin, kin_groups(term), bit)
            _mark(self._by_form, dictionary_forms(term[0]), bit)
            _mark(self._by_definition, self._definitions[-1], bit)
            if number(term[0]) is not None:
                self._numbers.append(term)
            if term[0] in colours():
                self._colours.append(term)

    def like(self, term: Term) -> dict[Term, float]:
        """Terms of the vocabulary that are at all like a term -> how alike."""
        start, found = self._alike.get(term, (0, {}))
        if start < len(self._listed):
            fresh: dict[int, float] = {}
            for index, value in self._kin(term, start):
                if value > fresh.get(index, LEAST):
                    fresh[index] = value
            found.update((self._listed[i], value) for i, value in fresh.items())
            self._settle(term, found)
            self._alike[term] = len(self._listed), found
        return found

    def _kin(self, term: Term, start: int) -> Iterator[tuple[int, float]]:
        own, genus, narrow = meaning(term)
        theirs = self._meanings
        for synset in own.keys() & self._by_own.keys():
            for i in _bits(self._by_own[synset], start):
                yield i, SYNONYM * own[synset] * theirs[i].own[synset]
        for synset in own.keys() & self._by_genus.keys():
            for i in _bits(self._by_genus[synset], start):
                yield i, own[synset] * theirs[i].genus[synset]
        for synset in genus.keys() & self._by_own.keys():
            for i in _bits(self._by_own[synset], start):
                yield i, genus[synset] * theirs[i].own[synset]
        for synset in narrow.keys() & self._by_narrow.keys():
            for i in _bits(self._by_narrow[synset], start):
                yield i, SISTERS * narrow[synset] * theirs[i].narrow[synset]
        for group in kin_groups(term):
            for i in _bits(self._by_kin.get(group, 0), start):
                yield i, KIN
        words = defining(term)
        for word in words.keys() & self._by_form.keys():
            for i in _bits(self._by_form[word], start):
                yield i, words[word]
        forms = dictionary_forms(term[0])
        for form in forms:
            for i in _bits(self._by_definition.get(form, 0), start):
                yield i, self._definitions[i][form]
        for i in _bits(self._by_form.get(forms[0], 0), start):
            if dictionary_forms(self._listed[i][0])[0] == forms[0]:
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


def _bits(mask: int, start: int) -> Iterator[int]:
    """Positions of the ones from ``start`` on: 0b101 -> 0, 2."""
    mask >>= start
    while mask:
        low = mask & -mask
        yield start + low.bit_length() - 1
        mask ^= low


_LOCK = Lock()
_KNOWN = [Vocabulary()]
"""The words of all texts so far: likenesses of words are the same in every text."""
MOST_KNOWN = 20_000
"""Terms after which it starts anew."""


def likenesses(terms: Iterable[Term], others: Collection[Term]) -> dict[Term, dict[Term, float]]:
    """Term -> those of ``others`` that are at all like it -> how alike."""
    with _LOCK:
        if len(_KNOWN[0].terms) > MOST_KNOWN:
            _KNOWN[0] = Vocabulary()
        known = _KNOWN[0]
        known.add(others)
        wanted = set(others)
        found = {}
        for term in terms:
            alike = known.like(term)
            found[term] = {other: alike[other] for other in sorted(wanted & alike.keys())}
        return found


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
