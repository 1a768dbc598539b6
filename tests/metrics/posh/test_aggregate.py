import pytest

from posh_reward import ConfigError
from posh_reward.metrics.posh.aggregate import Weights, harmonic_mean, mean_score
from posh_reward.types import Element, Kind


def element(grade: float | None, kind: Kind = "entity") -> Element:
    return Element("precision", kind, "x", grade, ((0, 1),), "x")


def test_a_score_is_the_mean_grade_over_five() -> None:
    assert mean_score([element(5), element(3), element(1)]) == pytest.approx(0.6)


def test_nothing_to_find_is_nothing_missing() -> None:
    assert mean_score([]) == 1.0


def test_one_failure_makes_the_mean_unknown() -> None:
    assert mean_score([element(5), element(None)]) is None
    assert harmonic_mean(None, 0.5) is None


def test_weights_count_kinds_differently() -> None:
    elements = [element(5), element(1, "relation")]
    assert mean_score(elements, Weights(relation=3)) == pytest.approx((5 + 3) / 4 / 5)


def test_weights_that_count_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="all 0: set one above 0"):
        Weights(entity=0, attribute=0, relation=0)


def test_f1_is_the_harmonic_mean() -> None:
    assert harmonic_mean(0.5, 1.0) == pytest.approx(2 / 3)
