"""Figure 9 of the rubric's paper, from its tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from research.rubric_figure.__main__ import (
    COLUMNS,
    HUMAN,
    PAPERS,
    accuracy,
    read_published,
    read_scores,
    tables,
    unlike,
)

SCORES = read_scores()  # which checks every sum


def test_every_rater_judged_the_25_items() -> None:
    assert list(SCORES) == ["Phi", "Hermes", "Mixtral", "Llama-2", HUMAN]
    assert {len(points) for rater in SCORES.values() for points in rater.values()} == {25}


@pytest.mark.parametrize("model", ["Phi", "Hermes", "Mixtral"])
def test_figure_9_follows_to_the_last_digit(model: str) -> None:
    found = accuracy(SCORES, model, PAPERS)
    assert {name: round(found[name], 1) for name in COLUMNS} == read_published()[model]


def test_llama_2_does_not_follow_in_three_columns() -> None:
    """M4 by far: its 98.1 is the figure of Hermes and of Mixtral."""
    assert unlike(SCORES) == [
        "Llama-2 M3: 84.7, printed 84.6",
        "Llama-2 M4: 94.2, printed 98.1",
        "Llama-2 Total: 61.7, printed 61.6",
    ]


def test_the_page_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "research/results/rubric.md"
    assert tables(SCORES) in page.read_text(encoding="utf-8")
