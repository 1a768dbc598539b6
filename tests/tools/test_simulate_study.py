"""A whole study with simulated raters recovers what they were made to prefer."""

from pathlib import Path

import pytest

from posh_reward.study.packets.make import make_packet
from posh_reward.study.packets.rater_answers import collect_answers
from posh_reward.study.packets.results import compute_results
from posh_reward.study.packets.study_plan import fit_opinions
from tests.study.packets.studies import items
from tools.simulate_study import Crowd, answer_file, main


@pytest.mark.slow
def test_the_tool_runs_from_scenes_to_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("PIL")
    assert main([str(tmp_path / "study"), "--pairs", "40"]) == 0
    assert capsys.readouterr().out.count("inside") == 3
    assert (tmp_path / "study" / "result.html").stat().st_size > 5000


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say(tmp_path: Path) -> None:
    from posh_reward.study.packets.draw import Design

    true = {"mistakes": -0.243, "omissions": 0.432, "overall": 0.135}
    inside = 0
    for seed in range(60):
        key = make_packet(items(40), Design(seed), None, {}).key
        crowd = Crowd(true, fit_opinions(0.235), {}, seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        for name in key.raters:
            (folder / name).write_bytes(answer_file(key, name, crowd))
        [comparison] = compute_results(collect_answers(folder.iterdir(), key), key).comparisons
        inside += sum(
            each.mean.low <= true[each.axis] <= each.mean.high for each in comparison.axes
        )
    assert 160 <= inside <= 178  # of 180; 171 expected
