"""The search finds what a reward pays, goes on where it was, and keeps its texts blind."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from posh_reward.audit.hill_climb import (
    GRAMMARS,
    HillClimb,
    append_units,
    find_stems,
    take_first_half,
)
from posh_reward.audit.reward_cache import JOURNAL_LINE_START, Reward, RewardCache
from posh_reward.errors import BusyError
from posh_reward.tables.tables import Journal

WORDS = {"word": ["dog", "cat", "house", "red", "old", "green"], "adjective": ["red", "old"]}
ROWS = [{"reference": "A green dog sits. It is old."}, {"reference": "A cat runs. It is red."}]


def pays_for_red(completions: list[str], **_: Any) -> list[float]:
    """A reward that anyone can game: a tenth for each "red"."""
    return [text.count("red") / 10 for text in completions]


def test_a_text_is_paid_the_mean_of_all_functions_for_every_row() -> None:
    def nothing(completions: list[str], **_: Any) -> list[float | None]:
        return [None if "cat" in text else 0.0 for text in completions]

    reward = Reward([pays_for_red, nothing])
    one, other = reward.score(ROWS, ["red red", "cat"])
    assert one == pytest.approx(0.1)  # (0.2 + 0) / 2
    assert other != other, "NaN: one of the functions could not judge"


def test_the_search_climbs_to_what_pays(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "paid.jsonl", JOURNAL_LINE_START)) as journal:
        cache = RewardCache(Reward([pays_for_red]), ROWS, journal)
        climb = HillClimb("keywords", False, WORDS)
        first, best = (climb.best(cache, [0, 1], budget).count("red") for budget in (8, 400))
    assert best > first + 10, "ten more times red"


def test_an_addition_says_nothing_of_what_its_row_says() -> None:
    taboo = frozenset(find_stems("A green dog sits."))
    text = append_units(
        "A green dog.", ("red", "dog", "greenish", "cat"), GRAMMARS["keywords"], taboo
    )
    assert text == "A green dog. red, cat."
    assert take_first_half("One. Two. Three.") == "One."


def test_a_search_that_was_broken_off_pays_for_nothing_twice(tmp_path: Path) -> None:
    paid: list[str] = []

    def counted(completions: list[str], **_: Any) -> list[float]:
        paid.extend(completions)
        return pays_for_red(completions)

    def search(path: Path, budget: int) -> tuple[str, ...]:
        with closing(Journal(path, JOURNAL_LINE_START)) as journal:
            cache = RewardCache(Reward([counted]), ROWS, journal)
            return HillClimb("adjectives", True, WORDS).best(cache, [0, 1], budget)

    whole = search(tmp_path / "whole.jsonl", 80)
    once, parts = len(paid), tmp_path / "parts.jsonl"
    search(parts, 40)
    with parts.open("a") as file:
        file.write('{"row": 0, "te')  # killed while writing
    assert search(parts, 80) == whole
    assert len(paid) == 2 * once
    with closing(Journal(parts, JOURNAL_LINE_START)), pytest.raises(BusyError):
        search(parts, 80)
