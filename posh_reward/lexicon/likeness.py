"""Likeness of two words, 0 to 1, and whether one rules out the other.

1 is the same word; synonyms about 0.9, a genus and its kind 0.84 falling by a sixth a step, words
of one definition 0.4, sisters under one genus 0.3. A dog is an animal, but "an animal" says only
part of "a dog": looked for, a kind is found in its genus only by the genus's share of its
information. Numbers and colours have their own rules:
``three`` and ``five`` are as unlike as can be.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files

from posh_reward.lexicon.meaning import (
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
from posh_reward.types import CACHED

LEXICON = files("posh_reward.lexicon")
SYNONYM = 0.95  # two words of one synset
KIN = 0.8  # two words of one group in lexicon/kin.txt: toddler, baby
SAME_COLOURS = 0.9  # two words for the same basic colours: crimson, scarlet
NEAR_COLOURS = 0.7  # colours that can pass for one another: teal, green
ALIKE = 0.5  # from here on two words do not exclude each other
USUAL_SENSE = 0.55  # weight of a sense from which on its opposite rules a word out

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
    groups_of: dict[Term, set[int]] = {}
    for group, (pos, *words) in enumerate(lines):
        for word in words:
            groups_of.setdefault((word, pos), set()).add(group)
    return {term: frozenset(groups) for term, groups in groups_of.items()}


@lru_cache(maxsize=CACHED)
def kin_groups(term: Term) -> frozenset[int]:
    """Groups of ``lexicon/kin.txt`` that a term belongs to, in any of its dictionary forms."""
    groups_of = _kin_groups()
    forms = dict.fromkeys((term[0], *dictionary_forms(term[0])))
    return frozenset(group for form in forms for group in groups_of.get((form, term[1]), ()))


@lru_cache(maxsize=CACHED)
def number(word: str) -> int | None:
    """Value of a number word or of digits: ``"twelve"`` -> 12, ``"both"`` -> 2."""
    if word.isdecimal():
        return int(word[:9])
    return UNITS.index(word) if word in UNITS else OTHER_NUMBERS.get(word)


SIDES = frozenset(("left", "right"))


def is_settled(term: Term) -> bool:
    """True if there are few ways to say it, all known: a count, a colour, a side."""
    word = term[0]
    return number(word) is not None or word in colours() or word in SIDES


def is_stuff(term: Term) -> bool:
    """True if it says what something is made of, or its colour."""
    return term[0] in colours() or is_material(term)


Key = int | str
"""A property that two words may share: a synset in a role, a form, a word of a definition."""

OWN, GENUS, NARROW = range(3)  # roles of a synset; a key is 3 x synset + role


@lru_cache(maxsize=CACHED)
def traits(term: Term) -> tuple[tuple[Key, float], ...]:
    """Keys under which an index holds a term, each with its strength."""
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
    )


@lru_cache(maxsize=CACHED)
def probes(term: Term) -> tuple[tuple[Key, float], ...]:
    """Keys to look a term's kin up by; likeness is the largest probe x trait over shared keys."""
    # In this order: its own senses; what it is a genus of ("dog" says all of "animal"); its own
    # genera ("animal" says only part of "dog"); sisters under a narrow genus; words that describers
    # interchange; definitions, from either side; the same form.
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
    )


class TermIndex:
    """The terms of one text by meaning, to find those like a given one without trying each.

    Complete once made and never changed: what interrupts a call leaves no half of one behind, and
    it is forgotten with its text.
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
        """Terms of the text that are at all like a term -> how much of it they say."""
        alike: dict[Term, float] = {}
        for key, factor in probes(term):
            for other, strength in self._by_key.get(key, ()):
                if factor * strength > alike.get(other, LEAST):
                    alike[other] = factor * strength
        if (value := number(term[0])) is not None:
            # Two numbers are equal or nothing alike; listing the unequal ones would keep each
            # running number of a text against each of another.
            alike = {other: v for other, v in alike.items() if number(other[0]) is None}
            alike |= dict.fromkeys(self._by_number.get(value, ()), 1.0)
        if term[0] in colours():
            alike |= {other: colour_likeness(term[0], other[0]) for other in self._colours}
        return {other: alike[other] for other in sorted(alike) if alike[other]}


def colour_likeness(a: str, b: str) -> float:
    """Likeness of two colour words by the basic colours that they can pass for."""
    if a == b:
        return 1.0
    hues, others = colours()[a], colours()[b]
    return SAME_COLOURS if hues == others else NEAR_COLOURS if hues & others else 0.0


@lru_cache(maxsize=CACHED)
def likeness(a: Term, b: Term) -> float:
    """Likeness of two terms, from 0 to 1; symmetric: the vaguer one counts in full."""
    return max(TermIndex((b,)).like(a).get(b, 0.0), TermIndex((a,)).like(b).get(a, 0.0))


@lru_cache(maxsize=CACHED)
def conflict(a: Term, b: Term) -> bool:
    """True if one thing cannot be both: two counts, two colours, two stuffs, or opposites."""
    # Likeness last, since it costs most: few pairs of words could rule each other out at all.
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
