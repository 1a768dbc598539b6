"""Rankings of three models or more, with figures that can be worked out by hand."""

from math import log
from pathlib import Path

import pytest

from posh_reward.study.packets.rater_answers import collect
from posh_reward.study.packets.results import StudyResults, _strengths, results
from posh_reward.study.packets.results_page import results_page, summary
from posh_reward.study.packets.study_records import AXES
from tests.study.packets.studies import items, packet, saved

pytest.importorskip("choix")
MODELS = ("a", "b", "c")


def test_three_wins_of_four_are_odds_of_three() -> None:
    # Half a win more for each: odds 30.5 to 10.5, log of that apart, about the mean.
    games = [(0, 1, 1.0, str(n), "r") for n in range(30)]
    games += [(0, 1, 0.0, str(n), "r") for n in range(10)]
    strong, weak = _strengths(games, 2)
    assert strong - weak == pytest.approx(log(30.5 / 10.5))
    assert strong + weak == pytest.approx(0)


def study(folder: Path, beats: set[tuple[str, str]]) -> StudyResults:
    """Twelve items, six raters who all prefer the first of each of the pairs."""
    made = packet(found=items(12, MODELS), coarse=6)
    for name, rater in made.key.raters.items():
        answers = [
            {"task": task.id, "seconds": 60, "comment": "",
             **dict.fromkeys(AXES, 1 if task.models in beats else -1)}
            for task in rater.tasks
        ]  # fmt: skip
        (folder / name).write_bytes(saved(made.key, name, answers))
    return results(collect(folder.iterdir(), made.key), made.key)


def test_models_are_ranked_with_intervals(tmp_path: Path) -> None:
    found = study(tmp_path, {("c", "a"), ("c", "b"), ("a", "b")})
    assert len(found.comparisons) == 3
    assert [each.axis for each in found.rankings] == ["mistakes", "omissions", "overall"]
    for ranking in found.rankings:
        assert [each.model for each in ranking.models] == ["c", "a", "b"]
        best, middle, _ = ranking.models
        assert best.strength.low < best.strength.mean < best.strength.high
        assert best.chance > 0.9
        assert middle.chance == pytest.approx(0.5, abs=0.01)
    assert "ranking, overall" in summary(found)
    html = results_page(found)
    assert html.count("<h3>better overall</h3>") == 1
    assert "This page makes 9 statements" in html
