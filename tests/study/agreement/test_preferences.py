"""Correlations, ties and accuracy of pairs; Elo from battles."""

from functools import partial
from math import inf, isnan

import numpy as np
import pytest
from scipy.stats import kendalltau

from posh_reward.study.agreement.metric_scores import ScoreColumn
from posh_reward.study.agreement.preferences import (
    NONE,
    accuracy,
    elo_ratings,
    predicted_outcomes,
    score_differences,
    tie_threshold,
)
from posh_reward.study.statistics import TauVariant, correlation_p, kendall, pearson, spearman


def test_the_tie_threshold_by_hand() -> None:
    differences = np.array([0.5, -0.1, 0.3, -0.4, 0.2])
    assert tie_threshold(differences, 0) == 0.1
    assert tie_threshold(differences, 2) == 0.3
    assert tie_threshold(differences, 5) == inf
    # Two gold ties: .1 and .2 are ties; right at the first, second and fourth pair.
    people = np.array([2.0, 0.0, -1.0, -1.0, 0.0])
    assert predicted_outcomes(differences, people).tolist() == [1, 0, 1, -1, 0]
    assert accuracy(differences, people) == pytest.approx(4 / 5)


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
    assert accuracy(authors, people) == 3 / 4
    strict = score_differences(column, "overall")
    assert predicted_outcomes(strict, people).tolist() == [0, 0, 1, -1]
    assert accuracy(strict, people) == 1 / 4


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
        assert accuracy(ours, people) == pytest.approx(np.mean(wins == np.sign(people)))


VARIANTS: tuple[TauVariant, ...] = ("b", "c")


@pytest.mark.parametrize("numbers", [2, 4, 100])
def test_the_fast_tau_is_scipys(numbers: int) -> None:
    rng = np.random.default_rng(numbers)
    people = rng.integers(0, numbers, 150).astype(float)
    for scores in (rng.normal(0, 1, 150), rng.integers(0, 7, 150).astype(float), people * -2):
        for variant in VARIANTS:
            known = kendalltau(scores, people, variant=variant).statistic
            assert kendall(scores, people, variant) == pytest.approx(known, abs=1e-12)


def test_tau_b_by_hand() -> None:
    # Pairs: (1,2) tied in scores, (1,3) and (2,3) concordant. 2 / sqrt((3 - 1) * 3).
    scores, people = np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])
    assert kendall(scores, people) == pytest.approx(2 / 6**0.5)


def test_correlations_need_variation() -> None:
    flat, rising = np.ones(3), np.arange(3.0)
    for measure in (spearman, kendall, pearson, partial(correlation_p, kendalltau)):
        assert isnan(measure(flat, rising))
        assert isnan(measure(rising, flat))
        assert isnan(measure(rising[:1], rising[:1]))


def test_elo_by_hand() -> None:
    first, second = np.array([0, 1]), np.array([1, 0])
    outcome = np.array([1.0, 0.0])
    # The first battle moves 4 * (1 - 1/2); in the second 998 meets 1002 and they tie.
    expected = 1 / (1 + 10 ** ((1002 - 998) / 400))
    found = elo_ratings(first, second, outcome, np.array([[0, 1], [0, NONE]]), 2)
    gain = 4 * (0.5 - expected)
    assert found[0] == pytest.approx([1002 - gain, 998 + gain])
    assert found[1] == pytest.approx([1002, 998])
