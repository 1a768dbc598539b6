"""What raters are compared by: alpha, relaxed F1, the sign test, the paired bootstrap."""

from functools import partial
from math import isnan

import numpy as np
import pytest

from posh_reward.study.agreement.rater_agreement import (
    Matches,
    count_ratings,
    span_matches,
)
from posh_reward.study.statistics import Floats, Ints, bootstrap

_: float | None = None
# Krippendorff's own example ("Computing Krippendorff's alpha-reliability", 2011, section C):
# four observers, twelve units.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
    [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
]
UNITS = list(zip(*OBSERVERS, strict=True))


def test_alpha_by_hand() -> None:
    # Coincidences: o(1,1) = 2, o(1,2) = o(2,1) = 1; totals 3 and 1. Observed 2 / 4, expected
    # 2 * 3 * 1 / (4 * 3): alpha = 1 - .5 / .5.
    assert count_ratings([[1, 1], [1, 2]]).alpha() == pytest.approx(0)
    assert count_ratings([[1, 1], [2, 2]]).alpha() == pytest.approx(1)


def test_alpha_of_krippendorffs_example() -> None:
    assert count_ratings(UNITS).alpha() == pytest.approx(0.815, abs=5e-4)


def test_alpha_needs_two_ratings_that_vary() -> None:
    assert isnan(count_ratings([]).alpha())
    assert isnan(count_ratings([[1, None], [2]]).alpha())
    assert isnan(count_ratings([[3, 3], [3, 3]]).alpha())


TEXT = "A small red dog sleeps under a table."
SMALL_RED_DOG, DOG, RED_DOG_SLEEPS, TABLE = (2, 15), (12, 15), (8, 22), (31, 36)


def test_spans_match_by_tokens() -> None:
    assert span_matches(TEXT, [SMALL_RED_DOG], [DOG]) == Matches(1, 1, 1, 1)
    # "dog" is a third of the first, all of the second.
    assert span_matches(TEXT, [SMALL_RED_DOG], [DOG], 0.5) == Matches(0, 1, 1, 1)
    # Two of three tokens shared, both ways.
    assert span_matches(TEXT, [SMALL_RED_DOG], [RED_DOG_SLEEPS], 0.5) == Matches(1, 1, 1, 1)
    assert span_matches(TEXT, [DOG, TABLE], [SMALL_RED_DOG]) == Matches(1, 2, 1, 1)


def test_relaxed_f1_over_texts() -> None:
    together = span_matches(TEXT, [DOG, TABLE], [SMALL_RED_DOG]) + span_matches(TEXT, [], [TABLE])
    assert (together.precision, together.recall, together.f1) == (0.5, 0.5, 0.5)
    assert span_matches(TEXT, [DOG], [TABLE]).f1 == 0
    assert span_matches(TEXT, [DOG], []).f1 == 0
    assert isnan(span_matches(TEXT, [], []).f1)
    assert span_matches(TEXT, [(1, 2)], []) == Matches()  # a blank has no token


def mean_of(values: Floats, rows: Ints) -> list[float]:
    return [float(values[rows].mean())]


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(100):
        values = rng.normal(0, 1, 60)
        [mean] = bootstrap(partial(mean_of, values), range(60), resamples=200)
        covered += mean.low <= 0 <= mean.high
    assert 88 <= covered <= 99  # 95 expected
