"""Similarity of two words, 0 to 1, and whether they exclude each other.

1 is the same word; synonyms have about 0.9, a kind and its genus 0.84 (a sixth less per further
step), a word and its definition's words 0.4, sisters under one genus 0.3. The index is asymmetric:
"dog" says all of "animal", but "animal" only part of "dog", namely the genus's share of the kind's
information. Numbers and colours have their own rules: ``three`` and ``five`` have 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files

from posh_reward.embedded.english.meaning import (
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
from posh_reward.embedded.english.wordnet import wordnet
from posh_reward.types import WORD_CACHE_SIZE

LEXICON = files("posh_reward.embedded.english")
SYNONYM = 0.95  # similarity of words of one synset
KIN = 0.8  # similarity of words of one group in embedded/english/kin.txt: toddler, baby
SAME_COLOURS = 0.9  # similarity of words for the same basic colours: crimson, scarlet
NEAR_COLOURS = 0.7  # similarity of words that share a basic colour: teal, green
ALIKE = 0.5  # similarity from which words do not exclude each other
USUAL_SENSE = 0.55  # weight above which a sense excludes its opposites

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
    """Colour word -> the basic colours it can denote, from ``colours.txt``."""
    return {word: frozenset(basic) for word, *basic in _read_table("colours.txt")}


@lru_cache(maxsize=1)
def _kin_table() -> dict[Term, set[int]]:
    groups_of: dict[Term, set[int]] = {}
    for group, (pos, *words) in enumerate(_read_table("kin.txt")):
        for word in words:
            groups_of.setdefault((word, pos), set()).add(group)
    return groups_of


def _read_table(name: str) -> list[list[str]]:
    """Words of each line but comments."""
    text = (LEXICON / name).read_text(encoding="utf-8")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def kin_groups(term: Term) -> frozenset[int]:
    """Groups of ``kin.txt`` that a term belongs to, in any of its dictionary forms."""
    table, forms = _kin_table(), (term[0], *dictionary_forms(term[0]))
    return frozenset(group for form in forms for group in table.get((form, term[1]), ()))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def number(word: str) -> int | None:
    """Value of a number word or of digits: ``"twelve"`` -> 12, ``"both"`` -> 2."""
    if word.isdecimal():
        return int(word[:9])
    return UNITS.index(word) if word in UNITS else OTHER_NUMBERS.get(word)


SIDES = frozenset(("left", "right"))


def is_settled(term: Term) -> bool:
    """Return True for a count, a colour or a side: they have few paraphrases, all known."""
    word = term[0]
    return number(word) is not None or word in colours() or word in SIDES


def is_stuff(term: Term) -> bool:
    """Return True for a material or a colour."""
    return term[0] in colours() or is_material(term)


Key = int | str
"""A trait that two words may share: a synset in a role, a form, a word of a definition."""

SPELLING = 0.95  # similarity of a word and a slip of the pen: basket, baskte
SLIP_LENGTH = 4  # minimum letters of a word whose slips are recognised


@lru_cache(maxsize=WORD_CACHE_SIZE)
def without_a_letter(word: str) -> tuple[str, ...]:
    """A word, and the word without each of its letters; empty if it is short.

    Two words of which one is a slip of the other share one of these: ``basket`` and ``baskte``
    share "baske"; ``basket`` and ``bascket`` "basket".
    """
    if len(word) < SLIP_LENGTH or not word.isalpha():
        return ()
    return tuple(dict.fromkeys((word, *(word[:i] + word[i + 1 :] for i in range(len(word))))))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def is_known(word: str) -> bool:
    """Return True if a word is in the dictionary, so that it is no slip of another."""
    return bool(wordnet().lemmas(word))


OWN, GENUS, NARROW = range(3)  # roles of a synset; a key is 3 x synset + role


@lru_cache(maxsize=WORD_CACHE_SIZE)
def traits(term: Term) -> tuple[tuple[Key, float], ...]:
    """Keys under which an index stores a term, each with its strength."""
    own, genus, _, narrow = meaning(term)
    forms = dictionary_forms(term[0])
    return (
        *((3 * synset + OWN, strength) for synset, strength in own.items()),
        *((3 * synset + GENUS, strength) for synset, strength in genus.items()),
        *((3 * synset + NARROW, strength) for synset, strength in narrow.items()),
        *((f"kin {group}", 1.0) for group in kin_groups(term)),
        *((f"in definition {word}", strength) for word, strength in defining(term).items()),
        *((f"form {form}", 1.0) for form in forms),
        (f"first form {forms[0]}", 1.0),
        *((f"{is_known(term[0])} {part}", 1.0) for part in without_a_letter(term[0])),
    )


@lru_cache(maxsize=WORD_CACHE_SIZE)
def probes(term: Term) -> tuple[tuple[Key, float], ...]:
    """Keys to look similar terms up by; similarity is the largest probe x trait of a shared key."""
    # In this order: terms with the same senses; kinds of the term ("dog" says all of "animal"); its
    # genera ("animal" says only part of "dog"); sisters under a narrow genus; words that describers
    # use interchangeably; words of definitions, in both directions; the same form; slips.
    own, _, vague, narrow = meaning(term)
    forms = dictionary_forms(term[0])
    return (
        *((3 * synset + OWN, SYNONYM * strength) for synset, strength in own.items()),
        *((3 * synset + GENUS, strength) for synset, strength in own.items()),
        *((3 * synset + OWN, strength) for synset, strength in vague.items()),
        *((3 * synset + NARROW, SISTERS * strength) for synset, strength in narrow.items()),
        *((f"kin {group}", KIN) for group in kin_groups(term)),
        *((f"in definition {form}", 1.0) for form in forms),
        *((f"form {word}", strength) for word, strength in defining(term).items()),
        (f"first form {forms[0]}", 1.0),
        *((f"{not is_known(term[0])} {part}", SPELLING) for part in without_a_letter(term[0])),
    )


class TermIndex:
    """The terms of one text by meaning, to find similar ones without comparing all.

    Complete once made and never changed, so an interrupted call leaves no partial index behind.
    """

    def __init__(self, terms: Iterable[Term]) -> None:
        self._by_key: dict[Key, list[tuple[Term, float]]] = {}
        self._by_number: dict[int, list[Term]] = {}
        self._colours: list[Term] = []
        for term in dict.fromkeys(terms):
            if (value := number(term[0])) is not None:
                self._by_number.setdefault(value, []).append(term)
            if term[0] in colours():
                self._colours.append(term)
            for key, strength in traits(term):
                self._by_key.setdefault(key, []).append((term, strength))

    def like(self, term: Term) -> dict[Term, float]:
        """Similar terms of the text -> how much of ``term`` they say, 0 to 1."""
        alike: dict[Term, float] = {}
        for key, factor in probes(term):
            for other, strength in self._by_key.get(key, ()):
                if factor * strength > alike.get(other, LEAST):
                    alike[other] = factor * strength
        if (value := number(term[0])) is not None:
            # Numbers are equal or not similar at all. Listing unequal ones would be quadratic in
            # texts full of numbers.
            alike = {other: v for other, v in alike.items() if number(other[0]) is None}
            alike |= dict.fromkeys(self._by_number.get(value, ()), 1.0)
        if term[0] in colours():
            alike |= {other: colour_likeness(term[0], other[0]) for other in self._colours}
        return {other: alike[other] for other in sorted(alike) if alike[other]}


def colour_likeness(a: str, b: str) -> float:
    """Similarity of two colour words by the basic colours that they can denote."""
    if a == b:
        return 1.0
    hues, others = colours()[a], colours()[b]
    return SAME_COLOURS if hues == others else NEAR_COLOURS if hues & others else 0.0


@lru_cache(maxsize=WORD_CACHE_SIZE)
def likeness(a: Term, b: Term) -> float:
    """Similarity of two terms, 0 to 1; symmetric, so a genus counts in full."""
    return max(TermIndex((b,)).like(a).get(b, 0.0), TermIndex((a,)).like(b).get(a, 0.0))


def conflict(a: Term, b: Term) -> bool:
    """Return True if terms exclude each other: counts, colours, materials, or opposites."""
    # Similarity last, since it costs most, and few pairs of words can exclude each other at all.
    return _are_rivals(a, b) and likeness(a, b) < ALIKE


def _are_rivals(a: Term, b: Term) -> bool:
    if number(a[0]) is not None and number(b[0]) is not None:
        return True
    if a[0] in colours() and b[0] in colours():
        return True
    if is_material(a) and is_material(b):
        return True
    against = opposites(a)
    return bool(against) and any(
        weight > USUAL_SENSE and s in against for s, weight in senses(b).items()
    )
