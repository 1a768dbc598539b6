"""CapArena's ratings of models."""

import numpy as np
import pytest

from posh_reward.study.agreement.preferences import NONE, elo_ratings


def test_elo_by_hand() -> None:
    first, second = np.array([0, 1]), np.array([1, 0])
    outcome = np.array([1.0, 0.0])
    # The first battle moves 4 * (1 - 1/2); in the second 998 meets 1002 and they tie.
    expected = 1 / (1 + 10 ** ((1002 - 998) / 400))
    found = elo_ratings(first, second, outcome, np.array([[0, 1], [0, NONE]]), 2)
    gain = 4 * (0.5 - expected)
    assert found[0] == pytest.approx([1002 - gain, 998 + gain])
    assert found[1] == pytest.approx([1002, 998])
