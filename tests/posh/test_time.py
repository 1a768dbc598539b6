"""Twice the text takes about twice the time, whatever a policy repeats up to the length limit."""

from __future__ import annotations

import time

import pytest

from posh_reward import PoSh
from posh_reward.embedded.english.run_ons import recast_clauses
from posh_reward.graph.reader import MAX_CHARACTERS
from posh_reward.reward.texts import repeated_share, says_nothing
from tests.graph.hostile_texts import repeat

UNITS = ("a. ", "a, ", "the ", "dog and ", "\n- ", "- dog\n", '"', "7", "\u72d7", "red ",
         "He sat. ", "a b ", "don't ")  # fmt: skip
SLOW_UNITS = ("(", "\U0001f415", "of the dog ", "it ", "dog. ", "x1 ", "\U0001f415 ")
MAX_TIME_RATIO = 2.6
"""Most of the time for twice the text; a quadratic part that dominates makes it 4."""
REFERENCE = "A brown dog sleeps under a table. " * 6


@pytest.mark.slow
@pytest.mark.parametrize("unit", [*UNITS, *SLOW_UNITS])
def test_twice_the_text_takes_twice_the_time(unit: str) -> None:
    seconds(unit, 1000)
    ratios: list[float] = []
    while not ratios or (min(ratios) > MAX_TIME_RATIO and len(ratios) < 4):
        half = seconds(unit, MAX_CHARACTERS // 2)
        ratios.append((seconds(unit, MAX_CHARACTERS) - 0.1) / half)
    assert min(ratios) < MAX_TIME_RATIO, ratios


def seconds(unit: str, length: int) -> float:
    """Processor time to score a repeated text and to test it for worth; nothing is remembered."""
    posh, text = PoSh(), repeat(unit)(length)
    posh.score(["A dog."], ["A red dog."])
    begun = time.process_time()
    posh.score([text], [REFERENCE])
    says_nothing(text, REFERENCE)
    repeated_share(text)
    recast_clauses(text)
    return time.process_time() - begun
