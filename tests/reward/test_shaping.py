from __future__ import annotations

import pytest

from posh_reward.errors import ConfigError
from posh_reward.reward.shaping import WORST, Shaping, shape
from posh_reward.types import Element, Scores

ELEMENT = Element("precision", "entity", "x", 3.0, ((0, 1),), "x")


def scores(precision: float | None, recall: float | None, words: int = 10) -> Scores:
    text = " ".join(["word"] * words)
    reference = " ".join(["word"] * 10)
    return Scores(precision, recall, None, "s", (ELEMENT,), generation=text, reference=reference)


def test_f1_is_the_default() -> None:
    assert shape(scores(0.5, 1.0), Shaping()) == pytest.approx(2 / 3)


def test_weights_move_the_balance() -> None:
    towards_precision = Shaping(precision_weight=3)
    assert shape(scores(0.9, 0.5), towards_precision) > shape(scores(0.9, 0.5), Shaping())  # type: ignore[operator]
    weighted = Shaping("weighted", precision_weight=3, recall_weight=1)
    assert shape(scores(0.8, 0.4), weighted) == pytest.approx(0.7)


def test_a_failure_has_no_reward() -> None:
    assert shape(scores(None, 0.4), Shaping()) is None


def test_saying_nothing_is_worst() -> None:
    silent = Scores(1.0, 0.2, 1 / 3, "s", (), generation="", reference="A dog.")
    assert shape(silent, Shaping()) == WORST


def test_below_the_mistake_floor_the_reward_falls() -> None:
    floor = Shaping(mistake_floor=0.6)
    assert shape(scores(0.6, 0.6), floor) == pytest.approx(0.6)
    assert shape(scores(0.4, 0.6), floor) < shape(scores(0.4, 0.6), Shaping())  # type: ignore[operator]
    assert shape(scores(0.2, 0.6), floor) == pytest.approx(WORST)


def test_words_beyond_the_limit_cost() -> None:
    limit = Shaping(length_limit=2.0)
    assert shape(scores(0.5, 0.5, words=20), limit) == pytest.approx(0.5)
    assert shape(scores(0.5, 0.5, words=30), limit) == pytest.approx(0.35)
    assert shape(scores(0.5, 0.5, words=40), limit) == pytest.approx(WORST)


@pytest.mark.parametrize(
    "wrong",
    [
        {"objective": "recall"},
        {"precision_weight": -1},
        {"precision_weight": 0, "recall_weight": 0},
        {"mistake_floor": 0.1},
        {"length_limit": 0},
    ],
)
def test_impossible_shapings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Shaping(**wrong)  # type: ignore[arg-type]
