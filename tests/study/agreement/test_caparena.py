"""CapArena's ratings of models."""

from __future__ import annotations

import numpy as np
import pytest

from posh_reward.study.agreement.caparena import NONE, elo_ratings, median_ratings


def test_elo_by_hand() -> None:
    first, second = np.array([0, 1]), np.array([1, 0])
    outcome = np.array([1.0, 0.0])
    # The first battle moves 4 * (1 - 1/2); in the second 998 meets 1002 and they tie.
    expected = 1 / (1 + 10 ** ((1002 - 998) / 400))
    found = elo_ratings(first, second, outcome, np.array([[0, 1], [0, NONE]]), 2)
    gain = 4 * (0.5 - expected)
    assert found[0] == pytest.approx([1002 - gain, 998 + gain])
    assert found[1] == pytest.approx([1002, 998])


def test_elo_recovers_a_known_order() -> None:
    rng = np.random.default_rng(5)
    strength = np.array([400.0, 0.0, 800.0, 200.0, 600.0])
    first, second = rng.integers(0, 5, 4000), rng.integers(0, 5, 4000)
    apart = first != second
    first, second = first[apart], second[apart]
    wins = rng.random(len(first)) < 1 / (1 + 10 ** ((strength[second] - strength[first]) / 400))
    found = median_ratings(first, second, np.where(wins, 1.0, -1.0), 5)
    assert np.argsort(found).tolist() == np.argsort(strength).tolist()
    assert found.mean() == pytest.approx(1000, abs=1)
    assert 600 < np.ptp(found) < 1000
