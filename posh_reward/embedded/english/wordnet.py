"""WordNet's words, senses and links, and detection of English text by its words.

``research/build_lexicon.py`` compiles the compact table beside this module from WordNet 3.0 (its
licence is in this folder). The table is loaded on first use, in about 0.1 s.
"""

from __future__ import annotations

import sys
import zipfile
from array import array
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from posh_reward.types import WORD_CACHE_SIZE
from posh_reward.words import find_words

FREQUENCY_EXPONENT = 0.15
"""Exponent of a sense's frequency: a sense used a tenth as often as the top one weighs 0.7."""

INFLECTED_ENDINGS = (
    ("ies", "y"), ("ves", "f"), ("ves", "fe"), ("men", "man"), ("ches", "ch"), ("shes", "sh"),
    ("ses", "s"), ("xes", "x"), ("zes", "z"), ("es", "e"), ("es", ""), ("s", ""),
    ("ied", "y"), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""),
    ("ier", "y"), ("iest", "y"), ("er", "e"), ("er", ""), ("est", "e"), ("est", ""),
)  # fmt: skip
"""Regular inflections and their dictionary endings (after WordNet's morphy)."""

COMPARATIVE_ENDINGS = ("er", "est")
ADJECTIVE_FILES = (0, 44)  # WordNet's files for adjectives that form clusters of similar ones
DOUBLED_CONSONANTS = ("bb", "dd", "gg", "ll", "mm", "nn", "pp", "rr", "tt")


@dataclass(frozen=True)
class Rows:
    """Packed lists of numbers: row ``i`` is ``values[starts[i]:starts[i + 1]]``."""

    starts: array[int]
    values: array[int]

    def __getitem__(self, row: int) -> array[int]:
        return self.values[self.starts[row] : self.starts[row + 1]]


@dataclass(frozen=True)
class WordNet:
    """Words (lemmas) and synsets by number, with the links between them."""

    words: dict[str, int]
    names: list[str]
    exceptions: dict[str, tuple[str, ...]]  # irregular form -> lemmas
    information: bytes  # per synset, from 0 (covers everything) to 255 (nothing below it)
    file: bytes  # per synset, its lexicographer file (5 animal, 6 artifact, 18 person ...)
    counts: array[int]
    sense_rows: Rows
    parents: Rows
    near: Rows
    opposite: Rows
    gloss: Rows  # per synset, the words of its definition

    def senses(self, lemma: str) -> tuple[tuple[int, float], ...]:
        """(synset, weight) of each sense; the most frequent has weight 1."""
        number = self.words.get(lemma)
        if number is None:
            return ()
        start = self.sense_rows.starts[number]
        synsets = self.sense_rows[number]
        # Senses without tagged uses count less, the later the dictionary lists them.
        uses = [self.counts[start + i] + 1 / (i + 1) for i in range(len(synsets))]
        top = max(uses)
        weights = [(count / top) ** FREQUENCY_EXPONENT for count in uses]
        return tuple(zip(synsets, weights, strict=True))

    def uses(self, lemma: str) -> int | None:
        """Uses of a lemma in WordNet's tagged texts, in any sense; None if unknown."""
        number = self.words.get(lemma)
        if number is None:
            return None
        start = self.sense_rows.starts[number]
        return sum(self.counts[start : self.sense_rows.starts[number + 1]])

    def lemmas(self, form: str) -> tuple[str, ...]:
        """Dictionary forms of a lower-case word, likeliest first: ``geese`` -> ``goose``."""
        forms = find_lemmas(form, self.words, self.exceptions)
        if not form.endswith(COMPARATIVE_ENDINGS) or forms[:1] != (form,):
            return forms
        # Only adjectives have comparatives: a ladder is not "more lad".
        return tuple(lemma for lemma in forms if lemma == form or self._is_adjective(lemma))

    def _is_adjective(self, lemma: str) -> bool:
        return any(self.file[synset] in ADJECTIVE_FILES for synset, _ in self.senses(lemma))


def find_lemmas(
    form: str, words: Container[str], exceptions: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Find the dictionary forms of a lower-case word among ``words``, likeliest first."""
    forms = [form] if form in words else []
    forms += exceptions.get(form, ())
    for ending, instead in INFLECTED_ENDINGS:
        if form.endswith(ending) and len(form) > len(ending) + 1:
            stem = form[: -len(ending)]
            base = stem + instead
            if base in words:
                forms.append(base)
            if not instead and stem[-2:] in DOUBLED_CONSONANTS and stem[:-1] in words:
                forms.append(stem[:-1])
    return tuple(dict.fromkeys(forms))


def _little_endian(code: str, data: bytes) -> array[int]:
    values = array(code, data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


@lru_cache(maxsize=1)
def load_wordnet() -> WordNet:
    """The table, loaded once per process."""
    table = files("posh_reward.embedded.english") / "wordnet.zip"
    with table.open("rb") as stream, zipfile.ZipFile(stream) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}

    def read_rows(name: str) -> Rows:
        starts, values = members[f"{name}.starts.I"], members[f"{name}.I"]
        return Rows(_little_endian("I", starts), _little_endian("I", values))

    names = members["words.txt"].decode().split("\n")
    exceptions: dict[str, tuple[str, ...]] = {}
    for line in members["exceptions.txt"].decode().split("\n"):
        form, lemma = line.split(" ")
        exceptions[form] = (*exceptions.get(form, ()), lemma)
    return WordNet(
        words={name: i for i, name in enumerate(names)},
        names=names,
        exceptions=exceptions,
        information=members["information.B"],
        file=members["file.B"],
        counts=_little_endian("H", members["counts.H"]),
        sense_rows=read_rows("senses"),
        parents=read_rows("parents"),
        near=read_rows("near"),
        opposite=read_rows("opposite"),
        gloss=read_rows("gloss"),
    )


COMMON_WORDS = frozenset(
    "a against although am among amongst an and anyone anything as at be because beside by ca "
    "cannot could do during else everyone everything for from go he her hers herself him himself "
    "how i if in into is it itself me my myself no noone nor of on onto or our ours ourselves per "
    "re she should since so something than that the their them themselves thereupon these they "
    "this those thru to toward towards unless until up upon us via we what when whenever where "
    "whereafter whereas whereby wherein whereupon whether which whither whoever whom whose with "
    "without would you your yours yourself yourselves".split()
)
"""spaCy's stop words that WordNet lacks or that are shorter than ``MIN_LETTERS_OF_WORD``. Listed
here because importing spaCy takes a second."""
MIN_LETTERS_OF_WORD = 3  # to look a word up: WordNet lists most pairs of letters
MIN_KNOWN_SHARE = 1 / 3
"""Share of known words below which a text is gibberish. A sentence that quotes a Latin inscription
has 0.4, random letters at most 0.15."""
MIN_ENGLISH_SHARE = 1 / 2
"""Share of known words below which a text is in another language. This finds 28 of 30 sentences in
seven languages, and none of 9,432 descriptions and captions by people."""


@lru_cache(maxsize=4096)
def is_english(text: str) -> bool:
    """Return True if at least ``MIN_ENGLISH_SHARE`` of the words are in the dictionary."""
    return known_share(text) >= MIN_ENGLISH_SHARE


def known_share(text: str, also: frozenset[str] = frozenset()) -> float:
    """Share of words in the dictionary or in ``also``; 1 for a text without words."""
    words = find_words(text)
    if not words:
        return 1.0
    return sum(word in also or _is_word(word) for word in words) / len(words)


@lru_cache(maxsize=WORD_CACHE_SIZE)
def _is_word(word: str) -> bool:
    if word in COMMON_WORDS:
        return True
    return len(word) >= MIN_LETTERS_OF_WORD and bool(load_wordnet().lemmas(word))
