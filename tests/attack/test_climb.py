"""The search finds what a reward pays, goes on where it was, and keeps its texts blind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posh_reward.attack.climb import Climb, Target, attack, half
from posh_reward.attack.grammars import GRAMMARS, WordStock, addition, stems

STOCK = WordStock(["dog", "cat", "house"], ["red", "old", "green"], ["runs", "sits"])
ROWS = [{"reference": "A green dog sits. It is old."}, {"reference": "A cat runs. It is red."}]


def pays_for_red(completions: list[str], **_: Any) -> list[float]:
    """A reward that anyone can game: a tenth for each "red"."""
    return [text.count("red") / 10 for text in completions]


def target(*functions: Any) -> Target:
    return Target(functions or (pays_for_red,), ROWS)


def test_a_text_is_paid_the_mean_of_all_functions_for_every_row() -> None:
    def nothing(completions: list[str], **_: Any) -> list[float | None]:
        return [None if "cat" in text else 0.0 for text in completions]

    both = target(pays_for_red, nothing)
    [[one, other], [bare, _]] = both.pay([["red red", "cat"], ["", ""]])
    assert one == pytest.approx(0.1)  # (0.2 + 0) / 2
    assert other != other, "NaN: one of the functions could not judge"
    assert bare == 0


def test_the_search_climbs_to_what_pays() -> None:
    finds = list(Climb(target(), "keywords", False, STOCK).finds(400))
    values = [find.value for find in finds]
    assert values == sorted(values)
    assert values[-1] > values[0] + 1, "ten more times red"
    assert [find.calls for find in finds] == list(range(8, 401, 8))


def test_an_addition_says_nothing_of_what_its_row_says() -> None:
    taboo = frozenset(stems("A green dog sits."))
    text = addition("A green dog.", ("red", "dog", "greenish", "cat"), GRAMMARS["keywords"], taboo)
    assert text == "A green dog. red, cat."
    assert half("One. Two. Three.") == "One."


def test_a_search_that_was_broken_off_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    names = ["adjectives", "pronouns"]
    finds = attack(target(), STOCK, whole, grammars=names, budget=80)
    attack(target(), STOCK, parts, grammars=names[:1], budget=40)
    with parts.open("a") as file:
        file.write('{"grammar": "adjec')  # killed while writing
    steps: list[int] = []
    resumed = attack(target(), STOCK, parts, grammars=names, budget=80, progress=steps.append)
    assert resumed == finds
    assert sum(steps) == 2 * 2 * 80, "what the first run tried is counted, too"
    assert sorted(parts.read_text().splitlines()) == sorted(whole.read_text().splitlines())
    other = attack(target(), STOCK, tmp_path / "other.jsonl", grammars=names, budget=80, seed=1)
    assert [replace(a, units=()) for a in other] != [replace(a, units=()) for a in finds]
