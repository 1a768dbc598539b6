"""Correlations, ties and accuracy of pairs; Elo from battles."""

from functools import partial
from math import inf, isnan
from typing import get_args

import numpy as np
import pytest
from scipy.stats import kendalltau

from posh_reward.study.agreement.metric_scores import ScoreColumn
from posh_reward.study.agreement.preferences import (
    NO_BATTLE,
    elo_ratings,
    outcome_accuracy,
    predicted_outcomes,
    score_differences,
    tie_threshold,
)
from posh_reward.study.agreement.rater_agreement import Matches, count_ratings, span_matches
from posh_reward.tables import statistics


def test_the_tie_threshold_by_hand() -> None:
    differences = np.array([0.5, -0.1, 0.3, -0.4, 0.2])
    assert tie_threshold(differences, 0) == 0.1
    assert tie_threshold(differences, 2) == 0.3
    assert tie_threshold(differences, 5) == inf
    # Two gold ties: .1 and .2 are ties; right at the first, second and fourth pair.
    people = np.array([2.0, 0.0, -1.0, -1.0, 0.0])
    assert predicted_outcomes(differences, people).tolist() == [1, 0, 1, -1, 0]
    assert outcome_accuracy(differences, people) == pytest.approx(4 / 5)


def of_scores(*pairs: tuple[float, float]) -> ScoreColumn:
    return ScoreColumn("m", {"overall": np.array(pairs, dtype=float).ravel()})


def test_the_authors_program_gives_equal_scores_to_the_first_text() -> None:
    """Scores from 1 to 5 of four pairs, of which people call one a tie.

    |differences| are 0, 0, 1, 2: the threshold is the second of them, 0. From 0 on a difference is
    a win, so both pairs with equal scores go to the first text. People: first, first, tie, second.
    """
    column = of_scores((3, 3), (2, 2), (4, 3), (1, 3))
    people = np.array([1.0, 2.0, 0.0, -1.0])
    authors = score_differences(column, "overall", authors=True)
    assert predicted_outcomes(authors, people).tolist() == [1, 1, 1, -1]
    assert outcome_accuracy(authors, people) == 3 / 4
    strict = score_differences(column, "overall")
    assert predicted_outcomes(strict, people).tolist() == [0, 0, 1, -1]
    assert outcome_accuracy(strict, people) == 1 / 4


@pytest.mark.parametrize("integers", [True, False])
def test_accuracy_is_the_authors_programs(integers: bool) -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        scores = rng.integers(1, 6, (40, 2)) if integers else rng.normal(0, 1, (40, 2))
        people = rng.integers(-2, 3, 40).astype(float)
        apart = scores[:, 0] - scores[:, 1]
        threshold = sorted(abs(apart))[int(sum(people == 0))]
        wins = [1 if d >= threshold else -1 if d <= -threshold else 0 for d in apart]
        ours = score_differences(of_scores(*map(tuple, scores)), "overall", authors=True)
        assert outcome_accuracy(ours, people) == pytest.approx(np.mean(wins == np.sign(people)))


@pytest.mark.parametrize("variant", get_args(statistics.TauVariant))
@pytest.mark.parametrize("numbers", [2, 4, 100])
def test_the_fast_tau_is_scipys(numbers: int, variant: statistics.TauVariant) -> None:
    rng = np.random.default_rng(numbers)
    people = rng.integers(0, numbers, 150).astype(float)
    for scores in (rng.normal(0, 1, 150), rng.integers(0, 7, 150).astype(float), people * -2):
        known = kendalltau(scores, people, variant=variant).statistic
        assert statistics.kendall(scores, people, variant) == pytest.approx(known, abs=1e-12)


def test_correlations_need_variation() -> None:
    flat, rising = np.ones(3), np.arange(3.0)
    for measure in (
        statistics.spearman,
        statistics.kendall,
        statistics.pearson,
        partial(statistics.compute_p_value, kendalltau),
    ):
        assert isnan(measure(flat, rising))
        assert isnan(measure(rising, flat))
        assert isnan(measure(rising[:1], rising[:1]))


def test_elo_by_hand() -> None:
    first, second = np.array([0, 1]), np.array([1, 0])
    outcome = np.array([1.0, 0.0])
    # The first battle moves 4 * (1 - 1/2); in the second 998 meets 1002 and they tie.
    expected = 1 / (1 + 10 ** ((1002 - 998) / 400))
    found = elo_ratings(first, second, outcome, np.array([[0, 1], [0, NO_BATTLE]]), 2)
    gain = 4 * (0.5 - expected)
    assert found[0] == pytest.approx([1002 - gain, 998 + gain])
    assert found[1] == pytest.approx([1002, 998])


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


def mean_of(values: statistics.Floats, rows: statistics.Ints) -> list[float]:
    return [float(values[rows].mean())]


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(100):
        values = rng.normal(0, 1, 60)
        [mean] = statistics.bootstrap(partial(mean_of, values), range(60), resamples=200)
        covered += mean.low <= 0 <= mean.high
    assert 88 <= covered <= 99  # 95 expected
