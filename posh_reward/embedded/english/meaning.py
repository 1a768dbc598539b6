"""Meanings of words as WordNet synsets with strengths: senses, neighbours and genera.

A *term* is a word with a coarse part of speech, e.g. ``("women", "n")``. Because parsers make
mistakes, senses of another part of speech are not excluded but weigh less.
"""

from __future__ import annotations

from functools import lru_cache
from math import log
from typing import NamedTuple

from posh_reward.embedded.english.wordnet import ADJECTIVES, wordnet
from posh_reward.types import WORD_CACHE_SIZE

Term = tuple[str, str]
"""Lower-case word and coarse part of speech: n(oun), v(erb), a(djective or adverb), x."""

LEAST = 0.3  # minimum strength or similarity; anything lower counts as none
NEIGHBOUR = 0.87  # strength of a similar adjective, derived word (rain, rainy) or grouped verb
STEP = 0.84  # factor per step from a word to its genus
MOST_STEPS = 4  # steps up from a word to its genera
SISTERS = 0.42  # factor on the paths to the nearest common genus: a bucket is hardly a basket
GENUS_INFORMATION = 40  # minimum information, of 255, of a useful genus; physical object has less
SISTER_INFORMATION = 110  # minimum information of a genus whose kinds are similar at all
DEFINED = 0.4  # similarity of a word to one whose definition contains it
USUAL = 0.6  # minimum weight of a sense for its definition to count
OTHER_POS = 0.75  # factor for a sense of another part of speech than the term's
LATER_FORM = 0.95  # factor for a less likely dictionary form: leaves as a form of leave
COMMON = 0.75  # weight of a sense nearly as frequent as the most frequent one
MOSTLY = 0.9  # a word is rarely a noun if its likeliest noun sense weighs less
CONCRETE_FILES = (5, 6, 13, 17, 18, 20, 27)
"""WordNet's files for animals, artifacts, food, objects, persons, plants, substances.

Not body parts: they go without saying and occur in idioms (she lowers her eyes).
"""
OFTEN = 1000  # uses at which a word is as common as possible
UNKNOWN = 0.8  # rarity of a word that the dictionary lacks: often a name or a typo
MATERIALS = tuple("material substance fabric cloth rock stone metal alloy glass ceramic".split())
"""Words whose usual senses are the genera of all materials."""
MATERIAL_FILES = (6, 17, 27)  # WordNet's files for artifacts, natural objects and substances
MATERIAL_STRENGTH = 0.45  # minimum strength of a material among a term's senses and genera


class Meaning(NamedTuple):
    """A term's synsets in four roles; each maps synset -> strength, 0 to 1."""

    own: dict[int, float]  # senses of the term, and synsets near them
    genus: dict[int, float]  # genera of the senses
    vague: dict[int, float]  # the same genera, times their share of the term's information
    narrow: dict[int, float]  # genera whose kinds are similar: near and informative ones


COARSE = {
    pos: kind
    for kind, tags in {"n": "NOUN PROPN PRON", "v": "VERB AUX", "a": "ADJ ADV NUM"}.items()
    for pos in tags.split()
}


def coarse_pos(pos: str) -> str:
    """Universal part of speech -> n, v, a or x."""
    return COARSE.get(pos, "x")


def synset_pos(file: int) -> str:
    """Part of speech of a lexicographer file."""
    return "n" if 3 <= file <= 28 else "v" if 29 <= file <= 43 else "a"


@lru_cache(maxsize=WORD_CACHE_SIZE)
def dictionary_forms(word: str) -> tuple[str, ...]:
    """Lemmas of a word, likeliest first, or the word itself if the dictionary lacks it."""
    return wordnet().lemmas(word) or (word,)


def is_plural(term: Term) -> bool:
    """Return True if a noun is inflected: ``women``."""
    return term[1] == "n" and dictionary_forms(term[0])[0] != term[0]


@lru_cache(maxsize=WORD_CACHE_SIZE)
def senses(term: Term) -> dict[int, float]:
    """Synset -> weight, 0 to 1, over all dictionary forms of a term."""
    net = wordnet()
    word, pos = term
    weights: dict[int, float] = {}
    for rank, lemma in enumerate(dictionary_forms(word)):
        of_lemma = net.senses(lemma)
        top = max((w for s, w in of_lemma if synset_pos(net.file[s]) == pos), default=0.0)
        for synset, weight in of_lemma:
            if top:
                fits = synset_pos(net.file[synset]) == pos
                weight = weight / top if fits else weight * OTHER_POS
            weight *= LATER_FORM if rank else 1.0
            weights[synset] = max(weights.get(synset, 0.0), weight)
    return weights


def meaning(term: Term) -> Meaning:
    """Combine all senses of a term."""
    net = wordnet()
    own: dict[int, float] = {}
    genus: dict[int, float] = {}
    vague: dict[int, float] = {}
    for synset, weight in senses(term).items():
        _add(own, synset, weight)
        for near in net.near[synset]:
            _add(own, near, weight * NEIGHBOUR)
        level, strength = [synset], weight
        for _ in range(MOST_STEPS):
            strength *= STEP
            above = {up for low in level for up in net.parents[low]}
            # Stop below genera that nearly all things share ("object"): they say nothing.
            informative = [up for up in sorted(above) if net.information[up] >= GENUS_INFORMATION]
            level = [up for up in informative if _add(genus, up, strength)]
            for up in level:
                _add(vague, up, strength * net.information[up] / net.information[synset])
    narrow = {
        synset: strength
        for synset, strength in genus.items()
        if strength >= LEAST / SISTERS and net.information[synset] >= SISTER_INFORMATION
    }
    return Meaning(own, genus, vague, narrow)


def _add(strengths: dict[int, float], synset: int, strength: float) -> bool:
    """Keep the higher strength; return True if it is the new one."""
    stronger = strength > max(strengths.get(synset, 0.0), LEAST)
    if stronger:
        strengths[synset] = strength
    return stronger


@lru_cache(maxsize=WORD_CACHE_SIZE)
def rarity(word: str) -> float:
    """Rarity of a word in WordNet's tagged texts, from 0 (a thousand uses) to 1 (none)."""
    uses = wordnet().uses(dictionary_forms(word)[0])
    if uses is None:
        return UNKNOWN
    return 1 - min(1.0, log(1 + uses) / log(1 + OFTEN))


def defining(term: Term) -> dict[str, float]:
    """Lemmas in the definitions of a term's usual senses -> strength: ``leafless`` -> leaf."""
    net = wordnet()
    strengths: dict[str, float] = {}
    for synset, weight in senses(term).items():
        if weight > USUAL:
            for word in net.gloss[synset]:
                name = net.names[word]
                strengths[name] = max(strengths.get(name, 0.0), weight * DEFINED)
    return strengths


@lru_cache(maxsize=WORD_CACHE_SIZE)
def opposites(term: Term) -> frozenset[int]:
    """Synsets that exclude a term: its antonyms, and adjectives similar to them."""
    net = wordnet()
    synsets: set[int] = set()
    for synset, weight in senses(term).items():
        if weight < USUAL or (synset_pos(net.file[synset]) == "n") != (term[1] == "n"):
            continue
        similar = [near for near in net.near[synset] if net.file[near] in ADJECTIVES]
        for opposite in [o for head in [synset, *similar] for o in net.opposite[head]]:
            synsets.add(opposite)
            synsets.update(n for n in net.near[opposite] if net.file[n] in ADJECTIVES)
    return frozenset(synsets)


@lru_cache(maxsize=WORD_CACHE_SIZE)
def is_concrete(term: Term) -> bool:
    """Return True if a noun usually names something visible: a ladder; not a way, a stoop."""
    net = wordnet()
    usual = {s: w for form in dictionary_forms(term[0]) for s, w in net.senses(form)}
    nouns = {s: w for s, w in usual.items() if synset_pos(net.file[s]) == "n"}
    top = max(nouns.values(), default=0.0)
    if top < MOSTLY * max(usual.values(), default=1.0):
        return False
    return any(w >= COMMON * top and net.file[s] in CONCRETE_FILES for s, w in nouns.items())


@lru_cache(maxsize=1)
def _material_synsets() -> frozenset[int]:
    net = wordnet()
    return frozenset(
        synset
        for word in MATERIALS
        for synset, weight in net.senses(word)
        if weight > COMMON and net.file[synset] in MATERIAL_FILES
    )


@lru_cache(maxsize=WORD_CACHE_SIZE)
def is_material(term: Term) -> bool:
    """Return True if a term usually names a material: ``oak``, ``leather``, ``wooden``."""
    own, genus, *_ = meaning(term)
    return any(
        max(own.get(s, 0.0), genus.get(s, 0.0)) > MATERIAL_STRENGTH for s in _material_synsets()
    )
