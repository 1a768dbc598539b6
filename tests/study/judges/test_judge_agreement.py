"""Figures of agreement, on answers few enough to work out by hand."""

from math import nan

import numpy as np
import pytest

from posh_reward.study.judges.judge_report import (
    advantages,
    alike_pairs,
    below_unseen,
    group_agreement,
    pair_agreement,
    quadratic_kappa,
    question_agreement,
)
from posh_reward.study.statistics import Estimate


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_kappa_counts_one_answer_four_labels_off() -> None:
    # Observed: one of weight 16. By chance: (2 x 1 + 2 x 3) / 4 answers of weight 16, which is 32.
    assert quadratic_kappa(array(1, 1, 5, 5), array(1, 1, 5, 1)) == pytest.approx(0.5)


def test_grades_on_both_sides_of_2_disagree_about_presence() -> None:
    grades = np.array([[1.9, 2.1], [1.0, 1.5], [5.0, 4.0], [2.0, 3.0]])
    found = question_agreement(grades, ["a", "b", "c", "d"], resamples=0)
    assert found.present.value == 0.75
    assert found.difference.value == pytest.approx((0.2 + 0.5 + 1 + 1) / 4)
    assert found.bias.value == pytest.approx((0.2 + 0.5 - 1 + 1) / 4)
    assert found.count == 4


def test_a_judge_that_is_always_a_tenth_higher_has_bias_and_no_spread() -> None:
    first = array(0.3, 0.5, 0.9)
    found = pair_agreement(np.stack([first, first + 0.1], axis=1), list("abc"), resamples=0)
    assert found.bias.value == pytest.approx(0.1)
    assert found.spread.value == pytest.approx(0, abs=1e-12)
    assert found.rank.value == pytest.approx(1)


def test_advantages_are_those_of_trl() -> None:
    # Of 0 and 1: mean 1/2, standard deviation of a sample 1/sqrt(2).
    assert advantages(array(0, 1)[None]) == pytest.approx([-0.707, 0.707], abs=1e-3)
    assert advantages(np.array([[0, 1], [1, 0]])) == pytest.approx([0, 0])
    assert advantages(array(0.4, 0.4)[None]) == pytest.approx([0, 0])


def test_siblings_in_the_same_order_by_hand() -> None:
    # Pairs: (0, 1) alike, (0, 2) opposite, (1, 2) opposite.
    assert alike_pairs(array(1, 2, 3), array(2, 3, 1)) == (1, 3)
    # A tie of one side alone counts half, one of both is no pair.
    assert alike_pairs(array(1, 2), array(1, 1)) == (0.5, 1)
    assert alike_pairs(array(1, 1), array(1, 1)) == (0, 0)


def test_what_grpo_sees_of_two_groups_by_hand() -> None:
    first = array(0.2, 0.4, 0.6, 0.1, 0.2)
    other = array(0.2, 0.4, 0.6, 0.2, 0.1)
    found = group_agreement(np.stack([first, other], axis=1)[None], list("aaabb"), resamples=0)
    assert found is not None
    assert (found.groups, found.completions) == (2, 5)
    assert found.alike.value == 3 / 4
    assert found.flips.value == 2 / 5
    assert found.cosine.value == pytest.approx(1 / 3, abs=1e-3)  # (2 - 1) / 3


def test_a_text_without_a_score_is_left_out_of_its_group() -> None:
    scores = np.array([[0.2, 0.2], [0.4, 0.4], [nan, 0.1], [0.5, 0.5]])
    found = group_agreement(scores[None], ["a", "a", "a", "b"])
    assert found is not None
    assert (found.groups, found.completions) == (1, 2)
    assert found.compared == 1 / 3, "of the three pairs of siblings"
    assert group_agreement(scores[None], list("abcd")) is None


def test_many_siblings_do_not_stand_for_references_that_nobody_saw() -> None:
    # If a tenth of all references were ordered by a coin, 35 would hide it in one of forty studies.
    sure = Estimate(1.0, 1.0, 1.0, nan)
    assert below_unseen(sure, 34).low < 0.95 < below_unseen(sure, 35).low
    texts = np.tile(np.linspace(0.2, 0.9, 40), 6)
    found = group_agreement(
        np.stack([texts, texts], axis=1)[None], [str(i // 40) for i in range(240)]
    )
    assert found is not None
    assert found.alike.low == pytest.approx((1 + 6 / 9.8415) / 2, abs=1e-4)
    assert below_unseen(Estimate(0.3, 0.25, 0.35, nan), 50).low == 0.25, "never raised"
