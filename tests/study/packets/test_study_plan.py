"""How many pairs and raters a difference takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from posh_reward.errors import InputError
from posh_reward.study.agreement.reliability import krippendorff_alpha
from posh_reward.study.packets.rater_model import Opinions, opinions_with
from posh_reward.study.packets.study_plan import (
    PAPER,
    pairs_needed,
    plan_table,
    plans,
    power,
    smallest_difference,
)


@pytest.mark.parametrize("alpha", [*PAPER.values(), 0.0, 0.8])
def test_simulated_raters_agree_as_far_as_they_should(alpha: float) -> None:
    opinions = opinions_with(alpha)
    rng = np.random.default_rng(0)
    shared = opinions.shared**0.5 * rng.standard_normal((6000, 1))
    own = (1 - opinions.shared) ** 0.5 * rng.standard_normal((6000, 3))
    answers = opinions.choices(shared + own)
    assert krippendorff_alpha(answers.tolist()) == pytest.approx(alpha, abs=0.03)


def test_choices_have_the_shares_and_the_mean_that_were_asked_for() -> None:
    opinions = Opinions(shared=0.3, equal=0.2, much=0.3)
    rng = np.random.default_rng(1)
    drawn = rng.standard_normal(200_000)
    answers = opinions.choices(drawn)
    assert (answers == 0).mean() == pytest.approx(0.2, abs=0.01)
    assert (abs(answers) == 2).mean() == pytest.approx(0.3, abs=0.01)
    moved = opinions.choices(drawn + opinions.shift(0.4))
    assert moved.mean() == pytest.approx(0.4, abs=0.01)
    assert [opinions.choice(value) for value in drawn[:50]] == answers[:50].tolist()


def test_power_is_the_size_of_the_test_without_a_difference() -> None:
    found = power(opinions_with(0.3), 1e-9, 60, 1, studies=8000)
    assert found == pytest.approx(0.025, abs=0.01)  # the right side of 0 only


def test_power_grows_with_pairs_raters_and_size() -> None:
    opinions = opinions_with(0.235)
    base = power(opinions, 0.3, 40, 1)
    assert base < power(opinions, 0.3, 80, 1)
    assert base < power(opinions, 0.3, 40, 3)
    assert base < power(opinions, 0.5, 40, 1)
    assert power(opinions, 0.3, 40, 1) == base, "equal seeds, equal figures"


def test_pairs_needed_and_the_smallest_difference_fit_each_other() -> None:
    opinions = opinions_with(0.464)
    needed = pairs_needed(opinions, 0.4, 2, 0.8)
    assert needed is not None
    assert power(opinions, 0.4, needed, 2) >= 0.8
    smallest = smallest_difference(opinions, needed, 2, 0.8)
    assert smallest == pytest.approx(0.4, abs=0.03)
    assert pairs_needed(opinions, 0.02, 1, 0.8) is None
    assert smallest_difference(opinions, 2, 1, 0.999999) is None


def test_a_plan_is_a_table() -> None:
    found = plans(0.5, 40, (1,), alphas={"mistakes": 0.235})
    text = plan_table(found, 0.5, 40, 0.8)
    assert "mistakes    0.235" in text
    assert "chance of 80%" in text


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (partial(plans, 0), "not above 0"),
        (partial(plans, 2), "below 2"),
        (partial(plans, 0.3, 1), "two pairs"),
        (partial(plans, 0.3, raters=(0,)), "a rater for each"),
        (partial(plans, 0.3, wanted=1), "between 0 and 1"),
        (partial(plans, 0.3, alphas={"x": 1.0}), "from 0 to below 1"),
        (partial(plans, 0.3, equal=0.8), "together below 1"),
    ],
)
def test_arguments_out_of_range_are_named(plan: Callable[[], object], why: str) -> None:
    with pytest.raises(InputError, match=why):
        plan()


def test_single_answers_follow_the_cuts() -> None:
    opinions = opinions_with(0.3)
    rng = random.Random(0)
    drawn = [opinions.choice(rng.gauss(0, 1)) for _ in range(3000)]
    assert abs(sum(drawn) / len(drawn)) < 0.1
