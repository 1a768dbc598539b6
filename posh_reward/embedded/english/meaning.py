"""Meanings of words as WordNet synsets with strengths: senses, neighbours and genera.

A *term* is a word with a coarse part of speech, e.g. ``("women", "n")``. Because parsers make
mistakes, senses of another part of speech are not excluded but weigh less.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from math import log
from typing import NamedTuple

from posh_reward.embedded.english.wordnet import ADJECTIVE_FILES, load_wordnet
from posh_reward.types import WORD_CACHE_SIZE

Term = tuple[str, str]
"""Lower-case word and coarse part of speech: n(oun), v(erb), a(djective or adverb), x."""

MIN_STRENGTH = 0.3  # or similarity; anything lower counts as none
NEIGHBOUR_STRENGTH = 0.87  # of a similar adjective, derived word (rain, rainy) or grouped verb
STRENGTH_PER_STEP = 0.84  # factor per step from a word to its genus
MAX_STEPS_TO_GENUS = 4  # up from a word to its genera
SISTER_FACTOR = 0.42  # on the paths to the nearest common genus: a bucket is hardly a basket
MIN_GENUS_INFORMATION = 40  # of 255, of a useful genus; physical object has less
MIN_SISTER_INFORMATION = 110  # of a genus whose kinds are similar at all
DEFINITION_SIMILARITY = 0.4  # of a word to one whose definition contains it
MIN_USUAL_WEIGHT = 0.6  # of a sense for its definition to count
OTHER_POS_FACTOR = 0.75  # for a sense of another part of speech than the term's
LATER_FORM_FACTOR = 0.95  # for a less likely dictionary form: leaves as a form of leave
MIN_COMMON_WEIGHT = 0.75  # of a sense nearly as frequent as the most frequent one
MIN_NOUN_SHARE = 0.9  # a word is rarely a noun if its likeliest noun sense weighs less
CONCRETE_FILES = (5, 6, 13, 17, 18, 20, 27)
"""WordNet's files for animals, artifacts, food, objects, persons, plants, substances.

Not body parts: they go without saying and occur in idioms (she lowers her eyes).
"""
USES_OF_COMMON_WORD = 1000  # uses at which a word is as common as possible
UNKNOWN_WORD_RARITY = 0.8  # of a word that the dictionary lacks: often a name or a typo
MATERIALS = tuple("material substance fabric cloth rock stone metal alloy glass ceramic".split())
"""Words whose usual senses are the genera of all materials."""
MATERIAL_FILES = (6, 17, 27)  # WordNet's files for artifacts, natural objects and substances
MIN_MATERIAL_STRENGTH = 0.45  # of a material among a term's senses and genera


class Meaning(NamedTuple):
    """A term's synsets in four roles; each maps synset -> strength, 0 to 1."""

    own: dict[int, float]  # senses of the term, and synsets near them
    genus: dict[int, float]  # genera of the senses
    vague: dict[int, float]  # the same genera, times their share of the term's information
    narrow: dict[int, float]  # genera whose kinds are similar: near and informative ones


COARSE_POS = {
    "NOUN": "n", "PROPN": "n", "PRON": "n", "VERB": "v", "AUX": "v", "ADJ": "a", "ADV": "a",
    "NUM": "a",
}  # fmt: skip


def coarse_pos(pos: str) -> str:
    """Universal part of speech -> n, v, a or x."""
    return COARSE_POS.get(pos, "x")


def synset_pos(file: int) -> str:
    """Part of speech of a lexicographer file."""
    if 3 <= file <= 28:
        return "n"
    return "v" if 29 <= file <= 43 else "a"


@lru_cache(maxsize=WORD_CACHE_SIZE)
def dictionary_forms(word: str) -> tuple[str, ...]:
    """Lemmas of a word, likeliest first, or the word itself if the dictionary lacks it."""
    return load_wordnet().lemmas(word) or (word,)


def is_plural(term: Term) -> bool:
    """Return True if a noun is inflected: ``women``."""
    return term[1] == "n" and dictionary_forms(term[0])[0] != term[0]


@lru_cache(maxsize=WORD_CACHE_SIZE)
def find_senses(term: Term) -> dict[int, float]:
    """Synset -> weight, 0 to 1, over all dictionary forms of a term."""
    net = load_wordnet()
    word, pos = term
    weights: dict[int, float] = {}
    for rank, lemma in enumerate(dictionary_forms(word)):
        of_lemma = net.senses(lemma)
        top = max((w for s, w in of_lemma if synset_pos(net.file[s]) == pos), default=0.0)
        for synset, weight in of_lemma:
            if top and synset_pos(net.file[synset]) == pos:
                weight /= top
            elif top:
                weight *= OTHER_POS_FACTOR
            if rank:
                weight *= LATER_FORM_FACTOR
            weights[synset] = max(weights.get(synset, 0.0), weight)
    return weights


def find_meaning(term: Term) -> Meaning:
    """Combine all senses of a term."""
    net = load_wordnet()
    own: dict[int, float] = {}
    genus: dict[int, float] = {}
    vague: dict[int, float] = {}
    for synset, weight in find_senses(term).items():
        _keep_stronger(own, synset, weight)
        for near in net.near[synset]:
            _keep_stronger(own, near, weight * NEIGHBOUR_STRENGTH)
        level, strength = [synset], weight
        for _ in range(MAX_STEPS_TO_GENUS):
            strength *= STRENGTH_PER_STEP
            above = set(chain.from_iterable(net.parents[low] for low in level))
            # Stop below genera that nearly all nouns share ("object"): they say nothing.
            level = []
            for up in sorted(above):
                information = net.information[up]
                if information < MIN_GENUS_INFORMATION or not _keep_stronger(genus, up, strength):
                    continue
                level.append(up)
                _keep_stronger(vague, up, strength * information / net.information[synset])
    narrow = {}
    for synset, strength in genus.items():
        is_near = strength >= MIN_STRENGTH / SISTER_FACTOR
        if is_near and net.information[synset] >= MIN_SISTER_INFORMATION:
            narrow[synset] = strength
    return Meaning(own, genus, vague, narrow)


def _keep_stronger(strengths: dict[int, float], synset: int, strength: float) -> bool:
    """Keep the higher strength; return True if it is the new one."""
    stronger = strength > max(strengths.get(synset, 0.0), MIN_STRENGTH)
    if stronger:
        strengths[synset] = strength
    return stronger


@lru_cache(maxsize=WORD_CACHE_SIZE)
def rarity(word: str) -> float:
    """Rarity of a word in WordNet's tagged texts, from 0 (a thousand uses) to 1 (none)."""
    uses = load_wordnet().uses(dictionary_forms(word)[0])
    if uses is None:
        return UNKNOWN_WORD_RARITY
    return 1 - min(1.0, log(1 + uses) / log(1 + USES_OF_COMMON_WORD))


def find_definition_words(term: Term) -> dict[str, float]:
    """Lemma in a definition of one of a term's usual senses -> strength: ``leafless`` -> leaf."""
    net = load_wordnet()
    strengths: dict[str, float] = {}
    for synset, weight in find_senses(term).items():
        if weight > MIN_USUAL_WEIGHT:
            for word in net.gloss[synset]:
                name = net.names[word]
                strengths[name] = max(strengths.get(name, 0.0), weight * DEFINITION_SIMILARITY)
    return strengths


@lru_cache(maxsize=WORD_CACHE_SIZE)
def find_opposites(term: Term) -> frozenset[int]:
    """Find synsets that exclude a term: its antonyms, and adjectives similar to them."""
    net = load_wordnet()
    synsets: set[int] = set()
    for synset, weight in find_senses(term).items():
        if weight < MIN_USUAL_WEIGHT or (synset_pos(net.file[synset]) == "n") != (term[1] == "n"):
            continue
        for head in (synset, *_similar_adjectives(synset)):
            for opposite in net.opposite[head]:
                synsets.add(opposite)
                synsets.update(_similar_adjectives(opposite))
    return frozenset(synsets)


def _similar_adjectives(synset: int) -> list[int]:
    net = load_wordnet()
    return [near for near in net.near[synset] if net.file[near] in ADJECTIVE_FILES]


@lru_cache(maxsize=WORD_CACHE_SIZE)
def is_concrete(term: Term) -> bool:
    """Return True if a noun usually names something visible: a ladder; not a way, a stoop."""
    net = load_wordnet()
    weights = dict(chain.from_iterable(map(net.senses, dictionary_forms(term[0]))))
    nouns = [synset for synset in weights if synset_pos(net.file[synset]) == "n"]
    top = max((weights[synset] for synset in nouns), default=0.0)
    if top < MIN_NOUN_SHARE * max(weights.values(), default=1.0):
        return False
    common = [synset for synset in nouns if weights[synset] >= MIN_COMMON_WEIGHT * top]
    return any(net.file[synset] in CONCRETE_FILES for synset in common)


@lru_cache(maxsize=1)
def _material_synsets() -> frozenset[int]:
    net = load_wordnet()
    synsets: set[int] = set()
    for synset, weight in chain.from_iterable(map(net.senses, MATERIALS)):
        if weight > MIN_COMMON_WEIGHT and net.file[synset] in MATERIAL_FILES:
            synsets.add(synset)
    return frozenset(synsets)


@lru_cache(maxsize=WORD_CACHE_SIZE)
def is_material(term: Term) -> bool:
    """Return True if a term usually names a material: ``oak``, ``leather``, ``wooden``."""
    own, genus, *_ = find_meaning(term)
    return any(
        max(own.get(s, 0.0), genus.get(s, 0.0)) > MIN_MATERIAL_STRENGTH for s in _material_synsets()
    )
