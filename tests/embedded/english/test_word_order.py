"""Texts by people are in order; their words shuffled, sorted or listed are not."""

from __future__ import annotations

import json
import random
import re

import pytest

from posh_reward.embedded.english.word_order import (
    ALLOWED_BITS_OF_LAG,
    EXPECTED_BITS_PER_WORD,
    MAX_BITS_PER_PAIR,
    disorder,
)

TEXT = (
    "A girl sits on a coil of rope in the left foreground and guts a herring with a short knife; "
    "a striped cat waits at her bare feet. To our right, two porters carry a long wicker basket. "
    "The porter in front, who wears a yellow neckerchief, looks back over his shoulder at the one "
    "behind."
)


def test_a_cumulative_sum_by_hand() -> None:
    """Each "the the" falls 3.5 bits behind, of which 24 are free: (3.5 n - 24) / n for n pairs."""
    assert MAX_BITS_PER_PAIR + EXPECTED_BITS_PER_WORD == 3.5
    assert disorder("the " * 50) == pytest.approx((3.5 * 51 - ALLOWED_BITS_OF_LAG) / 51, abs=0.15)
    assert disorder("the " * 6) == 0


def test_people_write_in_order() -> None:
    assert disorder(TEXT) == disorder(TEXT.upper()) == disorder("") == 0


def test_a_dash_is_a_comma() -> None:
    words = re.findall(r"\w+", TEXT)
    for dash in (" \u2014 ", "\u2014", " -- ", " - "):
        assert disorder(dash.join(words[::3])) == disorder(", ".join(words[::3])) > 0


def test_headings_are_sentences_of_their_own() -> None:
    """As models write: a reward of .867 for an honest text was .549 under such headings."""
    lines = TEXT.replace(";", ".").split(". ")
    assert disorder("\n\n".join(f"**Foreground:** {line}." for line in lines)) == 0
    words = TEXT.split()
    pairs = zip(words[::2], words[1::2], strict=False)
    assert disorder("\n".join(f"**{a}:** {b}" for a, b in pairs)) > 0.15


def _in_lines(words: list[str], count: int) -> list[str]:
    return [" ".join(words[i : i + count]) for i in range(0, len(words), count)]


def test_lines_may_break_within_a_sentence() -> None:
    """Wrapped to 20 characters, an honest text of .87 had earned .50; verse and JSON lost, too."""
    words = TEXT.replace(";", ",").split()
    verse = _in_lines(words, 4)
    assert disorder("\n".join(verse)) == 0
    assert disorder("\n".join(line.capitalize() for line in verse)) == 0
    assert disorder(TEXT.replace(", ", ",\n").replace("; ", ";\n")) == 0
    parts = {f"part {number}": line for number, line in enumerate(verse)}
    assert disorder(json.dumps(dict.fromkeys(parts, TEXT), indent=1)) == 0
    shuffled = random.Random(0).sample(words, len(words))
    for count in (1, 2, 4):
        assert disorder("\n".join(_in_lines(shuffled, count)).lower()) > 0.15


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
