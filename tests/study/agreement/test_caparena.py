"""CapArena's ratings, verdicts and leaderboard, held against its own procedure."""

from __future__ import annotations

import numpy as np
import pytest

from posh_reward.study.agreement.agreement_report import AgreementSettings
from posh_reward.study.agreement.caparena import (
    NONE,
    auto_scores,
    caparena_report,
    elo_ratings,
    median_ratings,
    read_arena,
)
from tests.study.agreement.judgment_rows import Row, caparena_rows

QUIET = AgreementSettings(resamples=0, quiet=True, columns=["m"])


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


def rows_with_verdicts() -> list[Row]:
    """Verdicts in the file's words; people say first, second, tie, first."""
    rows = caparena_rows(4)
    winners = [rows[0]["source1"], rows[1]["source2"], "equal", rows[3]["source1"]]
    verdicts = ["Caption 1 is better.", "Caption 1 is better", "Tie", "Both are good"]
    return [
        {**row, "winner": winner, "judge": verdict, "m1": 2, "m2": 1}
        for row, winner, verdict in zip(rows, winners, verdicts, strict=True)
    ]


def test_a_judges_verdicts_are_compared_as_they_stand() -> None:
    report = caparena_report(read_arena(rows_with_verdicts(), "file"), QUIET)
    verdicts = report.lines[1]
    assert verdicts.name == "judge's verdicts"
    cell = verdicts.cells["overall desc acc"]
    assert cell.estimate.value == pytest.approx(2 / 3)
    assert cell.rows == 3
    assert verdicts.failures == {"the judge gave no verdict": 1}


def test_the_score_of_caparena_auto_by_hand() -> None:
    """New beats G twice, loses to it once, and to C once: (2 - 1) / 2 and -1 / 2, mean 0."""
    rows = [
        {**row, "source1": one, "source2": two, "winner": winner, "ref_model": opponent}
        for row, one, two, winner, opponent in zip(
            caparena_rows(4),
            ["New", "G", "New", "C"],
            ["G", "New", "G", "New"],
            ["New", "New", "G", "C"],
            ["G", "G", "G", "C"],
            strict=True,
        )
    ]
    arena = read_arena(rows, "file")
    assert auto_scores(arena, arena.outcome) == {"New": 0.0}
    assert auto_scores(arena, np.array([1.0, -1.0, 1.0, -1.0])) == {"New": (1.5 + 0.5) / 2}
