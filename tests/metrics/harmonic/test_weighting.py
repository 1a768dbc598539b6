"""How much each criterion counts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward.metrics.harmonic_eval import harmonic_weights, mean_and_sigma, weighted_mean

SIGMAS = st.lists(st.floats(0, 2), min_size=1, max_size=5)
GAMMAS = st.floats(0, 1)


def test_mean_and_sigma_of_a_distribution() -> None:
    assert mean_and_sigma([0, 0, 0, 0, 1]) == (5, 0)
    assert mean_and_sigma([0.5, 0, 0, 0, 0.5]) == (3, 2)
    assert mean_and_sigma([0, 0, 0.25, 0.5, 0.25]) == pytest.approx((4, 0.5**0.5))
    assert mean_and_sigma([0, 0, 0, 0, 0.9995]) == (5, 0), "which rounding makes of 1"


def test_the_papers_three_strategies() -> None:
    sigmas = [0.5, 1.0, 2.0]
    assert harmonic_weights(sigmas, 1) == [1 / 3] * 3
    assert harmonic_weights(sigmas, 0.5) == pytest.approx([16 / 21, 4 / 21, 1 / 21])
    assert harmonic_weights(sigmas, 0) == [1, 0, 0]
    assert harmonic_weights(sigmas, 0.01) == pytest.approx([1, 0, 0])


def test_the_default_lies_between_equal_weights_and_inverse_variances() -> None:
    parts = [sigma ** (-2 / 3) for sigma in (0.5, 1.0, 2.0)]  # by hand: -2 (1 - .75) / .75
    expected = [part / sum(parts) for part in parts]
    assert harmonic_weights([0.5, 1.0, 2.0], 0.75) == pytest.approx(expected)


@pytest.mark.parametrize("gamma", [5e-324, 1e-300, 1e-9])
def test_a_gamma_near_0_selects_the_surest(gamma: float) -> None:
    assert harmonic_weights([0.3, 0.2, 0.2], gamma) == [0, 0.5, 0.5]


@given(SIGMAS, GAMMAS)
def test_weights_are_shares_whatever_the_sigmas(sigmas: list[float], gamma: float) -> None:
    weights = harmonic_weights(sigmas, gamma)
    assert sum(weights) == pytest.approx(1)
    assert all(0 <= weight <= 1 for weight in weights)


@given(SIGMAS, GAMMAS)
def test_a_surer_criterion_never_counts_less(sigmas: list[float], gamma: float) -> None:
    weights = harmonic_weights(sigmas, gamma)
    ordered = [weight for _, weight in sorted(zip(sigmas, weights, strict=True))]
    for more, less in pairwise(ordered):
        assert more >= less - 1e-12


@given(st.lists(st.tuples(st.floats(1, 5), st.floats(0, 2)), min_size=1, max_size=5), GAMMAS)
def test_the_overall_score_lies_among_the_criteria(
    judged: list[tuple[float, float]], gamma: float
) -> None:
    means = [mean for mean, _ in judged]
    overall = weighted_mean(means, harmonic_weights([sigma for _, sigma in judged], gamma))
    assert min(means) <= overall <= max(means)
