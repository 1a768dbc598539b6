"""Words: dictionary forms, likeness, conflicts, persons, prepositions."""

from __future__ import annotations

from types import ModuleType

import pytest

from posh_reward.embedded.english import likeness as likeness_module
from posh_reward.embedded.english import meaning as meaning_module
from posh_reward.embedded.english import word_classes as function_words
from posh_reward.embedded.english import wordnet
from posh_reward.embedded.english.likeness import TermIndex, conflict, likeness, parse_number
from posh_reward.embedded.english.meaning import dictionary_forms
from posh_reward.embedded.english.word_classes import converse, genders, preposition_agreement
from posh_reward.types import WORD_CACHE_SIZE


@pytest.mark.parametrize(
    ("form", "lemma"),
    [("women", "woman"), ("geese", "goose"), ("slimmer", "slim"), ("boxes", "box"),
     ("panelled", "panel"), ("left", "left"), ("zzyzx", "zzyzx")],
)  # fmt: skip
def test_dictionary_forms(form: str, lemma: str) -> None:
    assert dictionary_forms(form)[0] == lemma


@pytest.mark.parametrize(
    ("a", "b", "least", "most"),
    [
        ("women/n", "woman/n", 1, 1), ("infant/n", "baby/n", 0.9, 0.99),
        ("hound/n", "dog/n", 0.8, 0.9), ("dog/n", "hound/n", 0.8, 0.9),
        ("rainy/a", "rain/n", 0.6, 0.95), ("tear/v", "rip/v", 0.8, 0.99),
        ("bucket/n", "angel/n", 0, 0), ("toddler/n", "babies/n", 0.75, 0.9),
        ("bay/n", "shore/n", 0.75, 0.9), ("leaps/v", "jumping/v", 0.75, 1),
        ("toddler/n", "dog/n", 0, 0.4), ("five/a", "5/a", 1, 1), ("pair/n", "two/a", 1, 1),
        ("five/a", "six/a", 0, 0), ("scarlet/a", "crimson/a", 0.85, 0.95),
        ("teal/a", "green/a", 0.5, 0.8), ("teal/a", "red/a", 0, 0),
    ],
)  # fmt: skip
def test_likeness(a: str, b: str, least: float, most: float) -> None:
    x, y = ((w, p) for w, p in (a.split("/"), b.split("/")))
    assert least <= likeness(x, y) <= most
    assert likeness(x, y) == likeness(y, x)


def test_an_index_finds_what_pairs_would_find() -> None:
    words = "woman girl shawl scarf red crimson three five run walk dog donkey".split()
    terms = [(word, pos) for word in words for pos in "nva"]
    index = TermIndex(terms)
    for a in terms:
        for b in terms:
            both_ways = index.find_similar(a).get(b, 0.0), index.find_similar(b).get(a, 0.0)
            assert likeness(a, b) == max(both_ways)


@pytest.mark.parametrize(
    ("kind", "genus"), [("dog", "animal"), ("man", "person"), ("sofa", "furniture")]
)
def test_a_genus_says_only_part_of_its_kind(kind: str, genus: str) -> None:
    one, other = (kind, "n"), (genus, "n")
    said_by_the_kind = TermIndex([one]).find_similar(other)[one]
    assert said_by_the_kind == likeness(one, other)
    assert TermIndex([other]).find_similar(one)[other] < 0.8 * said_by_the_kind


@pytest.mark.parametrize("module", [likeness_module, meaning_module, function_words, wordnet])
def test_caches_of_words_are_bounded(module: ModuleType) -> None:
    cached = [each for each in vars(module).values() if hasattr(each, "cache_parameters")]
    assert cached
    assert all(each.cache_parameters()["maxsize"] <= WORD_CACHE_SIZE for each in cached)


@pytest.mark.parametrize(
    ("a", "b", "excluded"),
    [
        ("left/a", "right/a", True), ("open/a", "closed/a", True), ("three/a", "five/a", True),
        ("white/a", "green/a", True), ("oak/n", "stone/n", True), ("leather/n", "canvas/n", True),
        ("white/a", "wooden/a", False), ("big/a", "large/a", False), ("old/a", "red/a", False),
    ],
)  # fmt: skip
def test_conflict(a: str, b: str, excluded: bool) -> None:
    x, y = ((w, p) for w, p in (a.split("/"), b.split("/")))
    assert conflict(x, y) is conflict(y, x) is excluded


def test_numbers() -> None:
    words = ("twelve", "12", "dozen", "both", "many")
    assert list(map(parse_number, words)) == [12, 12, 12, 2, None]


@pytest.mark.parametrize(
    ("word", "who"), [("fisherman", "m"), ("girl", "f"), ("dancer", "fm"), ("boat", ""),
                      ("she", "f"), ("it", "")]
)  # fmt: skip
def test_persons(word: str, who: str) -> None:
    assert "".join(sorted(genders((word, "n")))) == who


def test_prepositions() -> None:
    assert (
        preposition_agreement("beneath", "under")
        > preposition_agreement("beneath", "of")
        > preposition_agreement("above", "under")
    )
    assert converse("above", "under") > 0.8
    assert converse("above", "over") == 0
    assert converse("beside", "near") > 0.8
