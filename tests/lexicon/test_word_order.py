"""Texts by people are in order; their words shuffled, sorted or listed are not."""

from __future__ import annotations

import random

import pytest

from posh_reward.lexicon.word_order import ALLOWANCE, BOUND, EXPECTED, disorder, tag_of, tags_of

TEXT = (
    "A girl sits on a coil of rope in the left foreground and guts a herring with a short knife; "
    "a striped cat waits at her bare feet. To our right, two porters carry a long wicker basket. "
    "The porter in front, who wears a yellow neckerchief, looks back over his shoulder at the one "
    "behind."
)


def test_a_cumulative_sum_by_hand() -> None:
    """Each "the the" falls 3.5 bits behind, of which 24 are free: (3.5 n - 24) / n for n pairs."""
    assert BOUND + EXPECTED == 3.5
    assert disorder("the " * 50) == pytest.approx((3.5 * 51 - ALLOWANCE) / 51, abs=0.15)
    assert disorder("the " * 6) == 0


def test_tags_are_function_words_or_parts_of_speech() -> None:
    assert tags_of("The dog's tail.  It wags!") == "^ the n 's n ^ it nvs ^".split()
    assert [tag_of(word) for word in ("herring", "red", "quickly", "42", "xqz")] == [
        "ning", "aed", "rly", "#", "?",
    ]  # fmt: skip


def test_people_write_in_order() -> None:
    assert disorder(TEXT) == disorder(TEXT.upper()) == disorder("") == 0


def test_tables_are_read_cell_by_cell() -> None:
    assert disorder("| Sky | pale blue with pink clouds |\n| Sea | green waves with crests |") == 0
    words = TEXT.replace(";", "").split()
    assert disorder(" | ".join(random.Random(0).sample(words, len(words)))) > 0.15


def test_headings_are_sentences_of_their_own() -> None:
    """As models write: a reward of .867 for an honest text was .549 under such headings."""
    lines = TEXT.replace(";", ".").split(". ")
    assert disorder("\n\n".join(f"**Foreground:** {line}." for line in lines)) == 0
    words = TEXT.split()
    pairs = zip(words[::2], words[1::2], strict=False)
    assert disorder("\n".join(f"**{a}:** {b}" for a, b in pairs)) > 0.15


@pytest.mark.parametrize(
    "edit",
    [
        lambda words: random.Random(0).sample(words, len(words)),
        sorted,
        lambda words: [f"the {word}" for word in words if len(word) > 3],
        lambda words: [f"{word.strip('.,;')}," for word in words if len(word) > 3],
    ],
)  # fmt: skip
def test_the_same_words_without_their_order_are_noticed(edit: object) -> None:
    assert callable(edit)
    disordered = " ".join(edit(TEXT.split()))
    assert disorder(disordered) > 0.15
    assert disorder(f"{TEXT} {disordered}") > 0.05, "also behind a text in order"
