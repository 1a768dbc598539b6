"""Intervals of means over items and raters, which are both samples."""

import numpy as np
import pytest
from scipy.special import stdtr

from posh_reward.study.crossed import CrossedDesign
from posh_reward.study.packets.study_plan import Opinions
from posh_reward.tables.statistics import Floats, Ints


def test_an_item_counts_once_and_a_tie_counts_as_zero() -> None:
    # Item 0 has one answer, 2; item 1 has 1 and 0, mean 0.5; one tie: (2 + 0.5 + 0) / 3.
    design = CrossedDesign([0, 1, 1], [0, 0, 1], ties=1)
    assert design.test([2, 1, 0]).interval.mean == pytest.approx(2.5 / 3)
    assert (design.items, design.raters) == (2, 2)


def test_one_raters_interval_is_students() -> None:
    # 0 1 2 3: mean 1.5, s^2 = 5 / 3, standard error 0.6455, t(3) = 3.182: 1.5 +- 2.054.
    interval = CrossedDesign(range(4), [0] * 4).test([0, 1, 2, 3], largest=9).interval
    assert (interval.low, interval.high) == pytest.approx((-0.554, 3.554), abs=0.001)


def test_raters_of_their_own_items_are_compared_by_students_test_of_their_means() -> None:
    # Means of three raters: 0, 1, 2; s^2 = 1, standard error 0.5774, t(2) = 4.303: 1 +- 2.484.
    test = CrossedDesign(range(6), [0, 0, 1, 1, 2, 2]).test([-1, 1, 0, 2, 1, 3], largest=9)
    assert (test.interval.low, test.interval.high) == pytest.approx((-1.484, 3.484), abs=0.001)
    assert test.p == pytest.approx(2 * float(stdtr(2, -(3**0.5))), abs=1e-9)


def test_raters_who_all_see_all_add_to_the_interval_over_items() -> None:
    # Items 0 and 2 by raters who differ by nothing: items alone. By raters 1 apart, both count.
    items, raters = [0, 0, 1, 1, 2, 2], [0, 1] * 3
    alike = CrossedDesign(items, raters).test([0, 0, 1, 1, 2, 2], largest=9).interval
    assert alike.high - 1 == pytest.approx(4.303 / 3**0.5, abs=0.001)
    apart = CrossedDesign(items, raters).test([0, 1, 1, 2, 2, 3], largest=99).interval
    # Raters: means 1 and 2, s^2 / 2 = 0.25, t(1) = 12.706. Items: s^2 / 3 = 1/3, of which two
    # answers of variance 0.5 make 0.5 / 2 / 3; 0.25 is left, t(2) = 4.303. Equal shares, power
    # 1.5: t ** 1.5 is the mean of 45.29 and 8.926: t = 9.024, times the root of 0.25 + 0.25.
    assert apart.high - 1.5 == pytest.approx(9.024 * 0.5**0.5, abs=0.001)


def simulated(design: CrossedDesign, items: Ints, raters: Ints, lean: float) -> Floats:
    """(2000, answers) of equally good models, by raters who lean."""
    rng = np.random.default_rng(0)
    opinions = Opinions(0.3, lean=lean)
    latent = 0.3**0.5 * rng.standard_normal((2000, design.items))[:, items]
    latent += lean * rng.standard_normal((2000, design.raters))[:, raters]
    latent += (0.7 - lean**2) ** 0.5 * rng.standard_normal((2000, len(items)))
    return opinions.choose_answers(latent)


@pytest.mark.parametrize("lean", [0.0, 0.3])
@pytest.mark.parametrize("count", [3, 7])
def test_intervals_hold_for_other_raters_too(count: int, lean: float) -> None:
    items = np.repeat(np.arange(60), 2)
    raters = (np.arange(120) + np.arange(120) // 14) % count
    design = CrossedDesign(items.tolist(), raters.tolist())
    values = simulated(design, items, raters, lean)
    means, variances = design.estimate(values)
    covered = (np.abs(means) <= design.half_width(variances)).mean()
    assert 0.93 <= covered <= 0.97
    if lean:  # over items alone, for these raters
        alone = CrossedDesign(items.tolist(), [0] * 120)
        means, variances = alone.estimate(values)
        assert (np.abs(means) <= alone.half_width(variances)).mean() < 0.9


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_intervals_hold_where_few_raters_do_most_of_the_work(count: int) -> None:
    # One rater answers everything, each other one 60 % of what the one before did.
    sizes = [max(10, round(60 * 0.6**rater)) for rater in range(count)]
    rng = np.random.default_rng(1)
    items = np.concatenate([rng.permutation(60)[:size] for size in sizes])
    raters = np.repeat(np.arange(count), sizes)
    design = CrossedDesign(items.tolist(), raters.tolist())
    means, variances = design.estimate(simulated(design, items, raters, 0.3))
    assert 0.93 <= (np.abs(means) <= design.half_width(variances)).mean() <= 0.975
