"""Pairs and raters that a difference takes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from posh_reward.errors import InputError
from posh_reward.study.agreement.rater_agreement import count_ratings
from posh_reward.study.packets import study_plan


@pytest.mark.parametrize("alpha", [*study_plan.PAPER_ALPHAS.values(), 0.0, 0.8])
def test_simulated_raters_agree_as_far_as_they_should(alpha: float) -> None:
    opinions = study_plan.fit_opinions(alpha)
    rng = np.random.default_rng(0)
    shared = opinions.shared**0.5 * rng.standard_normal((6000, 1))
    own = (1 - opinions.shared) ** 0.5 * rng.standard_normal((6000, 3))
    answers = opinions.choose_answers(shared + own)
    assert count_ratings(answers.tolist()).alpha() == pytest.approx(alpha, abs=0.03)


def settings(**changes: Any) -> study_plan.PlanSettings:
    """One statement about these raters."""
    return study_plan.PlanSettings(**{"team": 6, "lean": 0.0, "statements": 1, **changes})


@pytest.mark.parametrize("lean", [0.0, 0.3])
def test_power_is_the_size_of_the_test_without_a_difference(lean: float) -> None:
    opinions = study_plan.fit_opinions(0.3, lean=lean)
    plan = settings(difference=1e-9, pairs=60, team=12, lean=lean)
    share = study_plan.simulate_power(opinions, plan, 1, studies=4000)
    assert 0.008 <= share <= 0.033  # 0.025: the right side of 0 only


def test_power_grows_with_pairs_raters_and_size() -> None:
    opinions = study_plan.fit_opinions(0.235)
    base = study_plan.simulate_power(opinions, settings(), 1)
    assert base < study_plan.simulate_power(opinions, settings(pairs=80), 1)
    assert base < study_plan.simulate_power(opinions, settings(), 3)
    assert base < study_plan.simulate_power(opinions, settings(difference=0.5), 1)
    assert base > study_plan.simulate_power(opinions, settings(statements=9), 1)
    leaning = study_plan.fit_opinions(0.235, lean=0.3)
    assert base > study_plan.simulate_power(leaning, settings(team=3, lean=0.3), 1)
    assert study_plan.simulate_power(opinions, settings(), 1) == base, "equal seeds, equal figures"
    five = settings(pairs=5)
    assert study_plan.simulate_power(opinions, five, 1) == 0, "five pairs settle nothing"


def test_the_pairs_needed_have_the_power() -> None:
    opinions = study_plan.fit_opinions(0.464)
    needed = study_plan.find_pairs_needed(opinions, settings(difference=0.4), 2)
    assert needed is not None
    enough = settings(difference=0.4, pairs=needed)
    fewer = settings(difference=0.4, pairs=needed * 9 // 10)
    assert study_plan.simulate_power(opinions, enough, 2) >= 0.8
    assert study_plan.simulate_power(opinions, fewer, 2) < 0.8
    assert study_plan.find_pairs_needed(opinions, settings(difference=0.02), 1) is None


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (partial(settings, difference=0), "use a value above 0"),
        (partial(settings, difference=2), "below 2"),
        (partial(settings, pairs=1), "two pairs"),
        (partial(study_plan.plan_axes, settings(), (0,)), "raters per pair are 0: use 1 to 6"),
        (partial(study_plan.plan_axes, settings(), (7,)), "raters per pair are 7: use 1 to 6"),
        (partial(study_plan.plan_axes, settings(), alphas={"x": 1.0}), "from 0 to below 1"),
        (partial(study_plan.Opinions, 0.5, lean=0.8), "have one from 0 to 0.71"),
    ],
)
def test_settings_out_of_range_are_named(plan: Callable[[], object], why: str) -> None:
    with pytest.raises(InputError, match=why):
        plan()


def test_time_is_reading_aloud_and_a_minute_to_judge() -> None:
    assert study_plan.estimate_comparison(study_plan.PAPER_WORDS) == 5  # as the paper reports
    assert study_plan.estimate_comparison(300) == 3
    short = settings(difference=1.5, words=300)
    [plan] = study_plan.plan_axes(short, [1], {"given": 0.4})
    assert plan.needed is not None
    assert plan.hours == pytest.approx(plan.needed * 3 / 60 / 6)
    with pytest.raises(InputError, match="words is 0"):
        settings(words=0)
