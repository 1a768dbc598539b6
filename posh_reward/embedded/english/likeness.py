"""Similarity of two words, 0 to 1, and whether they exclude each other.

1 is the same word; synonyms have about 0.9, a kind and its genus 0.84 (a sixth less per further
step), a word and its definition's words 0.4, sisters under one genus 0.3. The index is asymmetric:
"dog" says all of "animal", but "animal" only part of "dog", namely the genus's share of the kind's
information. Numbers and colours have their own rules: ``three`` and ``five`` have 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.resources import files
from itertools import product

from posh_reward.embedded.english.meaning import (
    MIN_STRENGTH,
    SISTER_FACTOR,
    Term,
    dictionary_forms,
    find_definition_words,
    find_meaning,
    find_opposites,
    find_senses,
    is_material,
)
from posh_reward.embedded.english.wordnet import load_wordnet
from posh_reward.types import WORD_CACHE_SIZE

LEXICON = files("posh_reward.embedded.english")
SYNONYM_SIMILARITY = 0.95  # of words of one synset
KIN_SIMILARITY = 0.8  # of words of one group in embedded/english/kin.txt: toddler, baby
SAME_COLOURS_SIMILARITY = 0.9  # of words for the same basic colours: crimson, scarlet
NEAR_COLOURS_SIMILARITY = 0.7  # of words that share a basic colour: teal, green
MIN_COMPATIBLE_SIMILARITY = 0.5  # from which on words do not exclude each other
MIN_EXCLUDING_WEIGHT = 0.55  # of a sense that excludes its opposites

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
def load_colours() -> dict[str, frozenset[str]]:
    """Colour word -> the basic colours it can denote, from ``colours.txt``."""
    return {word: frozenset(basic) for word, *basic in _read_table("colours.txt")}


@lru_cache(maxsize=1)
def _kin_table() -> dict[Term, set[int]]:
    table: dict[Term, set[int]] = {}
    for group, (pos, *words) in enumerate(_read_table("kin.txt")):
        for word in words:
            table.setdefault((word, pos), set()).add(group)
    return table


def _read_table(name: str) -> list[list[str]]:
    """Read the words of each line but comments."""
    text = (LEXICON / name).read_text(encoding="utf-8")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def find_kin_groups(term: Term) -> frozenset[int]:
    """Find the groups of ``kin.txt`` that a term belongs to, in any of its dictionary forms."""
    groups: set[int] = set()
    for form in (term[0], *dictionary_forms(term[0])):
        groups |= _kin_table().get((form, term[1]), set())
    return frozenset(groups)


@lru_cache(maxsize=WORD_CACHE_SIZE)
def parse_number(word: str) -> int | None:
    """Value of a number word or of digits: ``"twelve"`` -> 12, ``"both"`` -> 2."""
    if word.isdecimal():
        return int(word[:9])
    if word in UNITS:
        return UNITS.index(word)
    return OTHER_NUMBERS.get(word)


SIDES = frozenset(("left", "right"))


def is_settled(term: Term) -> bool:
    """Return True for a count, a colour or a side: they have few paraphrases, all known."""
    word = term[0]
    return parse_number(word) is not None or word in load_colours() or word in SIDES


def is_stuff(term: Term) -> bool:
    """Return True for a material or a colour."""
    return term[0] in load_colours() or is_material(term)


TraitKey = int | str
"""A trait that two words may share: a synset in a role, a form, a word of a definition."""

SLIP_SIMILARITY = 0.95  # of a word and a slip of the pen: basket, baskte
MIN_SLIP_LETTERS = 4  # of a word whose slips are recognised


@lru_cache(maxsize=WORD_CACHE_SIZE)
def without_a_letter(word: str) -> tuple[str, ...]:
    """List a word, and the word without each of its letters; none if it is short.

    Two words of which one is a slip of the other share one of these: ``basket`` and ``baskte``
    share "baske"; ``basket`` and ``bascket`` "basket".
    """
    if len(word) < MIN_SLIP_LETTERS or not word.isalpha():
        return ()
    parts = [word[:i] + word[i + 1 :] for i in range(len(word))]
    return tuple(dict.fromkeys((word, *parts)))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def is_known(word: str) -> bool:
    """Return True if a word is in the dictionary; only other words may be slips."""
    return bool(load_wordnet().lemmas(word))


OWN, GENUS, NARROW = range(3)  # roles of a synset; a key is 3 x synset + role


@lru_cache(maxsize=WORD_CACHE_SIZE)
def index_keys(term: Term) -> tuple[tuple[TraitKey, float], ...]:
    """List the keys under which an index stores a term, each with its strength."""
    own, genus, _, narrow = find_meaning(term)
    forms = dictionary_forms(term[0])
    return (
        *_synset_keys(own, OWN),
        *_synset_keys(genus, GENUS),
        *_synset_keys(narrow, NARROW),
        *_text_keys("kin", find_kin_groups(term)),
        *_word_keys("in definition", find_definition_words(term)),
        *_text_keys("form", forms),
        (f"first form {forms[0]}", 1.0),
        *_text_keys(is_known(term[0]), without_a_letter(term[0])),
    )


@lru_cache(maxsize=WORD_CACHE_SIZE)
def query_keys(term: Term) -> tuple[tuple[TraitKey, float], ...]:
    """List the keys to look similar terms up by, each with a factor.

    The similarity of two terms is the largest product, over all keys that they share, of this
    factor and of the strength with which the other term is stored.
    """
    # In this order: terms with the same senses; kinds of the term ("dog" says all of "animal"); its
    # genera ("animal" says only part of "dog"); sisters under a narrow genus; words that describers
    # use interchangeably; words of definitions, in both directions; the same form; slips.
    own, _, vague, narrow = find_meaning(term)
    forms = dictionary_forms(term[0])
    return (
        *_synset_keys(own, OWN, SYNONYM_SIMILARITY),
        *_synset_keys(own, GENUS),
        *_synset_keys(vague, OWN),
        *_synset_keys(narrow, NARROW, SISTER_FACTOR),
        *_text_keys("kin", find_kin_groups(term), KIN_SIMILARITY),
        *_text_keys("in definition", forms),
        *_word_keys("form", find_definition_words(term)),
        (f"first form {forms[0]}", 1.0),
        *_text_keys(not is_known(term[0]), without_a_letter(term[0]), SLIP_SIMILARITY),
    )


def _synset_keys(
    strengths: dict[int, float], role: int, factor: float = 1.0
) -> Iterator[tuple[TraitKey, float]]:
    return ((3 * synset + role, factor * strength) for synset, strength in strengths.items())


def _word_keys(prefix: str, strengths: dict[str, float]) -> Iterator[tuple[TraitKey, float]]:
    return ((f"{prefix} {word}", strength) for word, strength in strengths.items())


def _text_keys(
    prefix: object, values: Iterable[object], factor: float = 1.0
) -> Iterator[tuple[TraitKey, float]]:
    return ((f"{prefix} {value}", factor) for value in values)


class TermIndex:
    """The terms of one text by meaning, to find similar ones without comparing all.

    Complete once made and never changed, so an interrupted call leaves no partial index behind.
    """

    def __init__(self, terms: Iterable[Term]) -> None:
        self._by_key: dict[TraitKey, list[tuple[Term, float]]] = {}
        self._by_number: dict[int, list[Term]] = {}
        self._colours: list[Term] = []
        for term in dict.fromkeys(terms):
            if (value := parse_number(term[0])) is not None:
                self._by_number.setdefault(value, []).append(term)
            if term[0] in load_colours():
                self._colours.append(term)
            for key, strength in index_keys(term):
                self._by_key.setdefault(key, []).append((term, strength))

    def find_similar(self, term: Term) -> dict[Term, float]:
        """Similar terms of the text -> how much of ``term`` they say, 0 to 1."""
        alike: dict[Term, float] = {}
        for key, factor in query_keys(term):
            for other, strength in self._by_key.get(key, ()):
                if factor * strength > alike.get(other, MIN_STRENGTH):
                    alike[other] = factor * strength
        if (value := parse_number(term[0])) is not None:
            # Numbers are equal or not similar at all. Listing unequal ones would be quadratic in
            # texts full of numbers.
            numbers = [other for other in alike if parse_number(other[0]) is not None]
            for other in numbers:
                del alike[other]
            alike |= dict.fromkeys(self._by_number.get(value, ()), 1.0)
        if term[0] in load_colours():
            for other in self._colours:
                if not (is_material(term) and is_material(other)):  # pewter is no silver
                    alike[other] = colour_likeness(term[0], other[0])
        return {o: alike[o] for o in sorted(alike) if alike[o] and are_of_one_sort(term, o)}


def are_of_one_sort(a: Term, b: Term) -> bool:
    """Return False for a preposition and another word: what is under a cloud is not low."""
    return a[0] == b[0] or (a[1] == "x") == (b[1] == "x")


def colour_likeness(a: str, b: str) -> float:
    """Similarity of two colour words by the basic colours that they can denote."""
    if a == b:
        return 1.0
    hues, others = load_colours()[a], load_colours()[b]
    if hues == others:
        return SAME_COLOURS_SIMILARITY
    return 0.0 if hues.isdisjoint(others) else NEAR_COLOURS_SIMILARITY


NEIGHBOURING_COLOURS = frozenset(
    frozenset(pair.split("-"))
    for pair in (
        "red-orange orange-yellow blue-purple purple-pink pink-red red-purple pink-orange "
        "brown-red brown-orange brown-yellow brown-grey grey-white grey-black grey-blue grey-green "
        "white-yellow white-pink"
    ).split()
)
"""Basic colours that two people may give one surface: an orange cone, a red one."""


def are_neighbours(a: str, b: str) -> bool:
    """Return True if two words name colours that shade into each other."""
    colours = load_colours()
    return any(
        frozenset(pair) in NEIGHBOURING_COLOURS
        for pair in product(colours.get(a, ()), colours.get(b, ()))
    )


@lru_cache(maxsize=WORD_CACHE_SIZE)
def likeness(a: Term, b: Term) -> float:
    """Similarity of two terms, 0 to 1; symmetric, so a genus counts in full."""
    forwards = TermIndex((b,)).find_similar(a).get(b, 0.0)
    backwards = TermIndex((a,)).find_similar(b).get(a, 0.0)
    return max(forwards, backwards)


def conflict(a: Term, b: Term) -> bool:
    """Return True if terms exclude each other: counts, colours, materials, or opposites."""
    # Similarity last, since it costs most, and few pairs of words can exclude each other at all.
    return _are_rivals(a, b) and likeness(a, b) < MIN_COMPATIBLE_SIMILARITY


def _are_rivals(a: Term, b: Term) -> bool:
    if parse_number(a[0]) is not None and parse_number(b[0]) is not None:
        return True
    if a[0] in load_colours() and b[0] in load_colours():
        return True
    if is_material(a) and is_material(b):
        return True
    against = find_opposites(a)
    if not against:
        return False
    usual = [synset for synset, weight in find_senses(b).items() if weight > MIN_EXCLUDING_WEIGHT]
    return not against.isdisjoint(usual)
