"""Correlations, ties and accuracy of pairs; Elo from battles."""

from __future__ import annotations

from math import inf, isnan

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr

from posh_reward.errors import InputError
from posh_reward.study.agreement.compare import Judgments, compare
from posh_reward.study.agreement.correlation import (
    TauVariant,
    kendall,
    kendall_p,
    pearson,
    spearman,
    spearman_p,
)
from posh_reward.study.agreement.metric_scores import ScoreColumn, column_scores
from posh_reward.study.agreement.preferences import (
    PairColumns,
    accuracy,
    label_score,
    predicted_outcomes,
    preference_figures,
    read_preferences,
    score_differences,
    tie_threshold,
)


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
    authors = score_differences(column, "overall", "authors")
    assert predicted_outcomes(authors, people).tolist() == [1, 1, 1, -1]
    assert accuracy(authors, people) == 3 / 4
    strict = score_differences(column, "overall", "strict")
    assert predicted_outcomes(strict, people).tolist() == [0, 0, 1, -1]
    assert accuracy(strict, people) == 1 / 4


def test_equal_scores_below_the_threshold_are_ties_by_either_procedure() -> None:
    column = of_scores((3, 3), (2, 2), (4, 3))
    people = np.array([0.0, 0.0, 1.0])
    for procedure in ("authors", "strict"):
        differences = score_differences(column, "overall", procedure)
        assert predicted_outcomes(differences, people).tolist() == [0, 0, 1]
        assert kendall(differences, people) == pytest.approx(1)


@pytest.mark.parametrize("integers", [True, False])
def test_accuracy_is_the_authors_programs(integers: bool) -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        scores = rng.integers(1, 6, (40, 2)) if integers else rng.normal(0, 1, (40, 2))
        people = rng.integers(-2, 3, 40).astype(float)
        apart = scores[:, 0] - scores[:, 1]
        threshold = sorted(abs(apart))[int(sum(people == 0))]
        wins = [1 if d >= threshold else -1 if d <= -threshold else 0 for d in apart]
        ours = score_differences(of_scores(*map(tuple, scores)), "overall", "authors")
        assert accuracy(ours, people) == pytest.approx(np.mean(wins == np.sign(people)))


def test_where_the_first_text_is_always_better_equal_scores_are_never_right() -> None:
    rows = [{"a": "x", "b": "y", "r": "z", "m1": 1, "m2": 1}] * 3
    columns = PairColumns("a", "b", "r", labels={})
    preferences = read_preferences(rows, columns, "rows", procedure="authors")
    column = column_scores("m", preferences.texts)
    differences = preferences.judgments.scores(column, "overall")
    assert accuracy(differences, preferences.people["overall"]) == 0


@pytest.mark.parametrize(
    ("label", "score"),
    [("1_much_better", 2), ("#1 Slightly Better", 1), ("Equal", 0), ("2_slightly_better", -1),
     ("2 much better", -2), (-2, -2), ("1.0", 1), (0, 0)],
)  # fmt: skip
def test_labels(label: object, score: float) -> None:
    assert label_score(label) == score


@pytest.mark.parametrize("label", ["better", "3_much_better", 3, None, "", float("nan"), [1]])
def test_an_unknown_label_is_refused_with_the_known_ones(label: object) -> None:
    with pytest.raises(InputError, match="is unknown: use one of 1_much_better, 1_slightly_better"):
        label_score(label)


def test_equal_differences_at_the_threshold_are_wins_and_zeros_are_ties() -> None:
    assert predicted_outcomes(np.array([0.2, 0.2, -0.2]), np.array([0.0, 1.0, 1.0])).tolist() == [
        1, 1, -1,
    ]  # fmt: skip
    # One gold tie, two zeros: the threshold is 0, and still neither has a winner.
    assert predicted_outcomes(np.array([0.0, 0.0, 0.2]), np.array([0.0, 1.0, 1.0])).tolist() == [
        0, 0, 1,
    ]  # fmt: skip
    assert accuracy(np.array([0.1, -0.2]), np.array([0.0, 0.0])) == 1
    assert isnan(accuracy(np.array([]), np.array([])))


def test_a_metric_that_knows_the_truth_finds_every_tie() -> None:
    rng = np.random.default_rng(0)
    quality = rng.normal(0, 1, (500, 2))
    difference = quality[:, 0] - quality[:, 1]
    people = np.sign(difference) * (np.abs(difference) > 0.4)
    assert accuracy(difference, people) == 1
    assert accuracy(-difference, people) == pytest.approx(np.mean(people == 0))
    noisy = difference + rng.normal(0, 1, 500)
    assert 0.4 < accuracy(noisy, people) < 0.9


def test_an_accuracy_of_one_or_nought_has_an_interval() -> None:
    """Ten images of which a metric gets all right, and another all wrong."""
    people = np.array([1.0, -1.0] * 5)
    columns = [
        ScoreColumn(name, {"overall": np.stack([sign * people, 0 * people], axis=1).ravel()})
        for name, sign in (("right", 1), ("wrong", -1))
    ]
    judgments = Judgments("pairs", {"overall": people}, range(10), score_differences)
    right, wrong = compare(judgments, columns, preference_figures(["overall"])[:1])
    ends = [(it.cells["overall acc"].estimate.low, it.cells["overall acc"].estimate.high)
            for it in (right, wrong)]  # fmt: skip
    assert ends == [(0.025**0.1, 1), (0, 1 - 0.025**0.1)]


def test_correlations_with_ties_are_scipys() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(0, 1, 80).round(1)
    people = rng.integers(-2, 3, 80).astype(float)
    assert spearman(scores, people) == pytest.approx(spearmanr(scores, people).statistic)
    assert spearman_p(scores, people) == pytest.approx(spearmanr(scores, people).pvalue)
    assert kendall(scores, people) == pytest.approx(kendalltau(scores, people).statistic)
    assert kendall_p(scores, people) == pytest.approx(kendalltau(scores, people).pvalue)
    tau_c = kendalltau(scores, people, variant="c").statistic
    assert kendall(scores, people, "c") == pytest.approx(tau_c)


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
    for measure in (spearman, kendall, pearson, spearman_p, kendall_p):
        assert isnan(measure(flat, rising))
        assert isnan(measure(rising, flat))
        assert isnan(measure(rising[:1], rising[:1]))
